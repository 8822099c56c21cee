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
from stream_osr.config import Parameters
from stream_osr.model.whitening import whiten
from stream_osr.stream import BufferedInstance, Stream, close_batch, open_stream
from stream_osr.stream.late_labels import Evidence
from stream_osr.stream.recent_instances import as_batches, recall
from tests.blobs import KNOWN, fitted, stream_part
from tests.tiers import examples


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return fitted(100).trained


def scattered(n: int, share: float, seed: int) -> list[tuple[float, float]]:
    """Known instances and, as a share of them, single ones far from everything."""
    rng = np.random.default_rng([seed, 20])
    centres = list(KNOWN.values())
    return [
        tuple(rng.uniform(-400, 400, size=2)) if rng.random() < share else tuple(rng.normal(centres[rng.integers(2)]))
        for _ in range(n)
    ]


class Books:
    """A stream, and an account of its own of who sits where and of what was announced."""

    def __init__(self, trained: TrainedModel, **changes: Any) -> None:
        self.trained = trained
        self.parameters = Parameters(**{"batch_size": 32, "label_horizon": 10**6, "n_jobs": 1, **changes})
        self.stream: Stream = open_stream(trained, self.parameters)
        self.emerged: set[int] = set()
        self.drifts = 0
        self.keys = 0
        self.named_later = 0

    def close(self, rows: list[tuple[float, float]], labels: list[tuple[int, str]] = ()) -> None:
        values = whiten(self.trained.whitening, np.array(rows, float).reshape(-1, 2))
        arrived = [BufferedInstance(row, None, self.keys + i) for i, row in enumerate(values)]
        self.keys += len(rows)
        evidence = [Evidence(label, None, key) for key, label in labels]
        seat = {
            key: at
            for chunk in as_batches(self.stream.recent)
            for key, at in zip(chunk.keys, chunk.subclass[0].tolist(), strict=True)
        }
        there = {-1, *self.stream.state.ids.tolist(), *self.emerged}
        self.named_later += sum(seat.get(key, -1) not in there for key, _ in labels)
        self.stream, batch = close_batch(self.trained, self.stream, arrived, evidence, self.parameters)
        self.emerged |= {event.subclass_id for event in batch.events if isinstance(event, SubclassEmerged)}
        self.drifts += sum(isinstance(event, ClassDrifted) for event in batch.events)

    def check(self) -> None:
        """Every remembered instance sits with a known class, or in a subclass that is there, or was; which?"""
        seats = Counter(
            key for chunk in as_batches(self.stream.recent) for key in chunk.subclass[0].tolist() if key >= 0
        )
        alive = dict(zip(self.stream.state.ids.tolist(), self.stream.state.dishes.size.tolist(), strict=True))
        for key, size in alive.items():
            assert seats[key] == size
        gone = {key: n for key, n in seats.items() if key not in alive}
        outliers = self.named_later + sum(n for key, n in gone.items() if key not in self.emerged)
        assert self.stream.signals._replace(rate_jumps=0) == Signals(len(self.emerged), self.drifts, outliers, 0)


def test_single_instances_become_outliers_once_their_seats_have_faded(trained):
    books = Books(trained)
    alone = [(500.0, 0.0), (-300.0, 900.0), (0.0, -700.0), (-800.0, -100.0)]
    for number, far in enumerate(alone):
        counts = []
        for begin in range(0, 1024, 32):
            known = scattered(32, 0.0, 100 * number + begin)
            books.close([far, *known[1:]] if begin == 0 else known)
            counts.append(books.stream.signals.outliers)
            seat = books.stream.recent.subclass[0, recall(books.stream.recent, 1024 * number)]
            gone = seat not in books.stream.state.ids
            assert gone == (begin >= 864)  # 4.3 half-lives: until then it may gather company
        assert counts[-1] > counts[0]
    books.check()
    assert (
        len(alone) <= books.stream.signals.outliers < len(alone) + 0.02 * 4096
    )  # with some at the edge of the known
    assert books.stream.signals.novelty == 0


def test_a_class_that_emerges_is_no_outlier_even_when_it_is_gone(trained):
    books = Books(trained, max_subclasses=1, max_dormant=1)
    rng = np.random.default_rng(2)
    for centre in ((4.0, 14.0), (-20.0, -30.0), (40.0, -30.0)):
        books.close([tuple(row) for row in rng.normal(centre, size=(32, 2))])
    assert len(books.emerged) == 3
    for number in range(60):
        books.close(scattered(32, 0.0, 3 + number))
    books.check()
    assert len(books.emerged) == 3
    assert len(set(books.stream.life.subclasses) & books.emerged) == 2
    assert books.stream.signals.outliers < 32


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
def test_counts_agree_with_where_everybody_sits(trained, batches, window, half_life):
    books = Books(trained, window=window, half_life=half_life, chains=1)
    for number, (n, share, late) in enumerate(batches):
        labels = [(key, "left" if key % 2 else "right") for key in dict.fromkeys(late) if key < books.keys]
        books.close(scattered(n, share, number), labels)
        if not late:
            books.check()
    for chunk in as_batches(books.stream.recent):  # those that labels took out sit nowhere
        assert all(chunk.subclass[0, at] == -1 for at, key in enumerate(chunk.keys) if key is None)
    books.check()


def test_four_kinds_of_things_are_counted_apart():
    model = fitted(200, batch_size=64, chains=1)
    rng = np.random.default_rng(4)

    def send(rows: np.ndarray) -> None:
        for a, b in rows.tolist():
            model.learn_one({"a": a, "b": b})

    def usual(n: int) -> np.ndarray:
        return rng.normal(np.array([*KNOWN.values()])[rng.integers(2, size=n)])

    send(usual(1024))
    quiet = model.signals
    assert OpenSetRecognizer().signals == Signals()
    assert quiet.expected_recall == model.expected_recall
    assert quiet._replace(outliers=0, expected_recall=None, dependence={}) == Signals()
    for _ in range(3):
        model.learn_one({"a": 0.0, "b": math.nan})
    with pytest.raises(ValueError, match="feature 'b'"):
        model.learn_one({"a": 0.0, "b": math.inf})
    assert model.signals == quiet._replace(data_quality=4)
    send(rng.normal([-6.0, 14.0], size=(61, 2)))
    assert model.signals.novelty >= 1
    assert model.signals.drift == 0
    send(usual(2048) + np.array([0.0, 4.0]))
    assert model.signals.drift == 2
    assert model.signals.data_quality == 4
    events = list(model.drain_events())
    assert model.signals.novelty == sum(isinstance(event, SubclassEmerged) for event in events)
    assert model.signals.drift == sum(isinstance(event, ClassDrifted) for event in events)
    assert {event.label for event in events if isinstance(event, ClassDrifted)} == set(KNOWN)


def test_a_recall_below_the_promise_is_told_once_and_counted_and_seen_until_it_is_back():
    trained = fitted(200, batch_size=64, chains=1).trained
    promising = replace(trained.report, known_recall=1.1, recall_interval=(1.05, 1.15))  # no model does as much
    model = OpenSetRecognizer.from_trained(replace(trained, report=promising), batch_size=64, chains=1)
    for x, _ in stream_part(256, new_share=0.0):
        model.learn_one(x)
    (dropped,) = [event for event in model.drain_events() if isinstance(event, RecallDropped)]
    assert (dropped.promised, dropped.seq) == (1.1, 127), "a batch is scored with 64 references"
    assert (model.signals.recall_drops, model.signals.recall_dropped) == (1, True)
    assert model.signals.expected_recall == model.expected_recall
    assert str(model.signals).endswith(" called unknown: below what was promised")
    assert f"promised 1.100, expected now {model.expected_recall}" in str(model.summary())
