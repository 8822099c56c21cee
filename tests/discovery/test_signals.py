"""Novelty, drift, outliers, data quality, recall: each counted apart, and the recall to be expected."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_osr import ClassDrifted, OpenSetRecognizer, RecallDropped, Signals, SubclassEmerged, TrainedModel
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.parameters import Parameters
from stream_osr.stream import BufferedInstance, Stream, close_batch, open_stream
from stream_osr.stream.late_labels import Evidence
from stream_osr.stream.recent_instances import as_batches, recall
from tests.blobs import KNOWN, fitted_once, play, stream_part
from tests.tiers import examples


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return fitted_once(100).trained


def scattered(n: int, share: float, seed: int) -> list[tuple[float, float]]:
    """Known instances and, as a share of them, single ones far from everything."""
    rng = np.random.default_rng([seed, 20])
    centres = list(KNOWN.values())
    return [
        tuple(rng.uniform(-400, 400, size=2)) if rng.random() < share else tuple(rng.normal(centres[rng.integers(2)]))
        for _ in range(n)
    ]


class WatchedStream:
    """A stream, with separate counts of subclasses that emerged, drifted classes and outliers."""

    def __init__(self, trained: TrainedModel, **changes: Any) -> None:
        self.trained = trained
        self.parameters = Parameters(**{"batch_size": 32, "label_horizon": 10**6, "n_jobs": 1, **changes})
        self.stream: Stream = open_stream(trained, self.parameters)
        self.emerged: set[int] = set()
        self.drifts = self.keys = self.named_later = 0

    def close(self, rows: list[tuple[float, float]], labels: list[tuple[int, str]] = ()) -> None:
        values = whiten(self.trained.whitening, np.array(rows, float).reshape(-1, 2))
        arrived = [BufferedInstance(row, None, self.keys + i) for i, row in enumerate(values)]
        self.keys += len(rows)
        evidence = [Evidence(label, None, key) for key, label in labels]
        seats = {
            key: at
            for chunk in as_batches(self.stream.recent)
            for key, at in zip(chunk.keys, chunk.subclass[0].tolist(), strict=True)
        }
        there = {-1, *self.stream.state.ids.tolist(), *self.emerged}
        self.named_later += sum(seats.get(key, -1) not in there for key, _ in labels)
        self.stream, batch = close_batch(self.trained, self.stream, arrived, evidence, self.parameters)
        self.emerged |= {event.subclass_id for event in batch.events if isinstance(event, SubclassEmerged)}
        self.drifts += sum(isinstance(event, ClassDrifted) for event in batch.events)

    def check(self) -> None:
        """Compare the sizes of subclasses and the signals with a count of all remembered instances."""
        seats = Counter(
            key for chunk in as_batches(self.stream.recent) for key in chunk.subclass[0].tolist() if key >= 0
        )
        alive = dict(zip(self.stream.state.ids.tolist(), self.stream.state.dishes.size.tolist(), strict=True))
        assert {key: seats[key] for key in alive} == alive
        outliers = self.named_later + sum(n for key, n in seats.items() if key not in {*alive, *self.emerged})
        assert self.stream.signals._replace(rate_jumps=0) == Signals(len(self.emerged), self.drifts, outliers, 0)


def test_single_instances_become_outliers_once_their_seats_have_faded(trained):
    watched = WatchedStream(trained)
    alone = [(500.0, 0.0), (-300.0, 900.0), (0.0, -700.0), (-800.0, -100.0)]
    for number, far in enumerate(alone):
        before = None
        for begin in range(0, 1024, 32):
            known = scattered(32, 0.0, 100 * number + begin)
            watched.close([far, *known[1:]] if begin == 0 else known)
            before = watched.stream.signals.outliers if before is None else before
            seat = watched.stream.recent.subclass[0, recall(watched.stream.recent, 1024 * number)]
            gone = seat not in watched.stream.state.ids
            assert gone == (begin >= 864)  # 4.3 half-lives: until then it may gather company
        assert watched.stream.signals.outliers > before
    watched.check()
    # with some at the edge of the known
    assert len(alone) <= watched.stream.signals.outliers < len(alone) + 0.02 * 4096
    assert watched.stream.signals.novelty == 0


def test_a_class_that_emerges_is_no_outlier_even_when_it_is_gone(trained):
    watched = WatchedStream(trained, max_subclasses=1, max_dormant=1)
    rng = np.random.default_rng(2)
    for centre in ((4.0, 14.0), (-20.0, -30.0), (40.0, -30.0)):
        watched.close([tuple(row) for row in rng.normal(centre, size=(32, 2))])
    assert len(watched.emerged) == 3
    for number in range(60):
        watched.close(scattered(32, 0.0, 3 + number))
    watched.check()
    assert len(watched.emerged) == 3
    assert len(set(watched.stream.life.subclasses) & watched.emerged) == 2
    assert watched.stream.signals.outliers < 32


@examples(10)
@example(batches=[(200, 0.02, [])], window=0, half_life=20.0)  # seats fade within one batch
@given(
    st.lists(
        st.tuples(st.integers(1, 200), st.sampled_from([0.0, 0.05, 0.5]), st.lists(st.integers(0, 600), max_size=6)),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([0, 40, 256]),
    st.sampled_from([20.0, 200.0]),
)
def test_signals_agree_with_a_count_of_all_seats(trained, batches, window, half_life):
    watched = WatchedStream(trained, window=window, half_life=half_life, chains=1)
    for number, (n, share, late) in enumerate(batches):
        labels = [(key, "left" if key % 2 else "right") for key in dict.fromkeys(late) if key < watched.keys]
        watched.close(scattered(n, share, number), labels)
        if not late:
            watched.check()
    for chunk in as_batches(watched.stream.recent):  # labelled instances have no seat
        assert all(chunk.subclass[0, at] == -1 for at, key in enumerate(chunk.keys) if key is None)
    watched.check()


def test_novelty_drift_outliers_and_data_quality_are_counted_apart():
    model = fitted_once(200, batch_size=64, chains=1)
    rng = np.random.default_rng(4)

    def send(rows: np.ndarray) -> Signals:
        for a, b in rows.tolist():
            model.learn_one({"a": a, "b": b})
        return model.signals

    def usual(n: int) -> np.ndarray:
        return rng.normal(np.array([*KNOWN.values()])[rng.integers(2, size=n)])

    quiet = send(usual(1024))
    assert OpenSetRecognizer().signals == Signals()
    assert quiet.expected_recall == model.expected_recall
    assert quiet._replace(outliers=0, expected_recall=None, dependence={}) == Signals()
    send(np.array([[0.0, math.nan]] * 3))
    with pytest.raises(ValueError, match="feature 'b'"):
        model.learn_one({"a": 0.0, "b": math.inf})
    assert model.signals == quiet._replace(data_quality=4)
    new = send(rng.normal([-6.0, 14.0], size=(61, 2)))
    assert new.novelty >= 1
    assert new.drift == 0
    rows = usual(2048)
    rows[rows[:, 0] < 10.0] += [0.0, 4.0]  # of one class: a move of all classes is FrameMoved
    moved = send(rows)
    assert (moved.drift, moved.data_quality) == (1, 4)
    events = list(model.drain_events())
    assert moved.novelty == sum(isinstance(event, SubclassEmerged) for event in events)
    assert [event.label for event in events if isinstance(event, ClassDrifted)] == ["left"]


def test_a_recall_below_the_promise_is_announced_once_counted_and_shown():
    trained = fitted_once(200, batch_size=64, chains=1).trained
    promising = replace(trained.report, known_recall=1.1, recall_interval=(1.05, 1.15))  # no model does as much
    model = OpenSetRecognizer.from_trained(replace(trained, report=promising), batch_size=64, chains=1)
    play(model, stream_part(256, new_share=0.0))
    (dropped,) = [event for event in model.drain_events() if isinstance(event, RecallDropped)]
    assert (dropped.promised, dropped.seq) == (1.1, 127), "a batch is scored with 64 references"
    assert (model.signals.recall_drops, model.signals.recall_dropped) == (1, True)
    assert model.signals.expected_recall == model.expected_recall
    assert str(model.signals).endswith(" called unknown: below what was promised")
    assert f"promised 1.100, expected now {model.expected_recall}" in str(model.summary())
