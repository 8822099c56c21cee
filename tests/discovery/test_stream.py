"""A stream in which classes appear, vanish and return: what is told of it, and what stays bounded."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from stream_osr import (
    Decision,
    Event,
    NewClassesChanged,
    OpenSetRecognizer,
    SubclassEmerged,
    SubclassForgotten,
    SubclassGrew,
)
from stream_osr.printable_text import counted
from tests.blobs import KNOWN, NEW, check_stream, fitted, members
from tests.doors.discovery import estimate_new_classes
from tests.doors.stream import as_batches

APPEARS, LENGTH = 300, 1500


class Told:
    """What a model has told so far."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.events: list[Event] = []

    def listen(self, model: OpenSetRecognizer) -> None:
        self.decisions += model.drain()
        self.events += model.drain_events()

    def of(self, kind: type[Event]) -> list:
        return [event for event in self.events if isinstance(event, kind)]


def instances(n: int, rng: np.random.Generator, centres: list[tuple[float, float]]) -> Iterator[dict[str, float]]:
    for _ in range(n):
        a, b = rng.normal(centres[rng.integers(len(centres))])
        yield {"a": a, "b": b}


@pytest.fixture(scope="module")
def watched() -> tuple[OpenSetRecognizer, Told]:
    """Two known classes; a third is there from position 300 on."""
    model, told, rng = fitted(batch_size=32), Told(), np.random.default_rng(8)
    known = list(KNOWN.values())
    for part in (instances(APPEARS, rng, known), instances(LENGTH - APPEARS, rng, [*known, NEW])):
        for x in part:
            seq = len(told.decisions) + model.pending
            model.learn_one(x, t=float(seq), key=f"k{seq}")
            told.listen(model)
    model.flush()
    told.listen(model)
    return model, told


def test_the_new_class_emerges_soon_and_nothing_before(watched):
    _, told = watched
    emerged = told.of(SubclassEmerged)
    near = [
        e for e in emerged if abs(e.explanation.mean["b"] - NEW[1]) < 2 and abs(e.explanation.mean["a"] - NEW[0]) < 2
    ]
    assert near
    assert APPEARS <= near[0].first_seen.seq < APPEARS + 32
    assert near[0].seq < APPEARS + 64
    assert near[0].first_seen.key == f"k{near[0].first_seen.seq}"
    assert near[0].first_seen.t == float(near[0].first_seen.seq)
    assert len(emerged) - len(near) <= 2
    unknown = [d.seq for d in told.decisions if d.label == "unknown"]
    # two known classes in two dimensions: a tenth of their instances sits in emerging subclasses
    assert sum(seq < APPEARS for seq in unknown) <= 0.15 * APPEARS
    third = (LENGTH - APPEARS) / 3
    assert 0.95 * third <= sum(seq >= APPEARS for seq in unknown) <= 1.3 * third


def test_each_subclass_emerges_once_and_ids_are_never_used_again(watched):
    model, told = watched
    ids = [event.subclass_id for event in told.of(SubclassEmerged)]
    assert len(ids) == len(set(ids))
    known = {key for group in model.summary().known for key, _ in group.subclasses}
    assert not known & set(ids)
    assert not known & {d.subclass_id for d in told.decisions if d.label == "unknown"}
    gone = {event.subclass_id: event.seq for event in told.of(SubclassForgotten)}
    assert all(d.seq <= gone[d.subclass_id] for d in told.decisions if d.subclass_id in gone)
    assert all(event.seq <= gone[event.subclass_id] for event in told.of(SubclassGrew) if event.subclass_id in gone)


def test_growth_is_told_at_doublings_only(watched):
    _, told = watched
    sizes: dict[int, list[int]] = defaultdict(list)
    for event in told.events:
        if isinstance(event, SubclassEmerged | SubclassGrew):
            sizes[event.subclass_id].append(event.size)
            assert event.share == event.size / (event.seq + 1)
            assert 0 < event.support <= event.size
    assert max(map(len, sizes.values())) >= 3
    for row in sizes.values():
        assert row[0] >= 8
        assert all(later >= 2 * earlier for earlier, later in pairwise(row))
    final = {key: size for key, size, _ in watched[0].summary().emerging}
    assert all(final[key] < 2 * row[-1] for key, row in sizes.items() if key in final)  # none was missed


def test_estimated_number_of_classes_follows_equation_14(watched):
    model, told = watched
    trained = model.trained
    delta, alive = 0, set()
    by_batch: dict[int, list[Event]] = defaultdict(list)
    for event in told.events:
        by_batch[event.batch].append(event)
    for batch in range(LENGTH // 32 + 1):
        changed = [e for e in by_batch[batch] if isinstance(e, NewClassesChanged)]
        alive |= {e.subclass_id for e in by_batch[batch] if isinstance(e, SubclassEmerged)}
        alive -= {e.subclass_id for e in by_batch[batch] if isinstance(e, SubclassForgotten)}
        expected = estimate_new_classes(len(alive), len(trained.known.ids), len(trained.labels))
        assert [(e.before, e.delta, set(e.subclasses)) for e in changed] == (
            [(delta, expected, alive)] if expected != delta else []
        )
        delta = expected
    assert delta >= 1
    assert model.summary().delta == delta


def test_summary_agrees_with_a_recount(watched):
    model, told = watched
    summary = model.summary()
    labels = Counter(d.label for d in told.decisions)
    assert summary.stream_size == LENGTH == len(told.decisions)
    assert summary.unknown_share == pytest.approx(labels["unknown"] / LENGTH)
    assert summary.known_share == pytest.approx(1 - labels["unknown"] / LENGTH)
    assert [(group.name, group.size) for group in summary.known] == [("left", 40), ("right", 40)]
    for group in summary.known:
        assert sum(share for _, share in group.subclasses) == pytest.approx(1)
        assert [share for _, share in group.subclasses] == sorted((s for _, s in group.subclasses), reverse=True)
    sizes = [size for _, size, _ in summary.emerging]
    assert sizes == sorted(sizes, reverse=True)
    assert min(sizes) >= 1
    seated = {key: len(inside) for key, inside in members(model.value.stream).items()}
    assert {key: size for key, size, _ in summary.emerging} == seated  # none is beyond the horizon
    emerged = {e.subclass_id for e in told.of(SubclassEmerged)} - {e.subclass_id for e in told.of(SubclassForgotten)}
    assert {key for key, _, announced in summary.emerging if announced} == emerged
    text = str(summary)
    assert "left" in text
    assert (
        f"{LENGTH} instances of the stream decided; {counted(len(emerged), 'new subclass', 'new subclasses')} emerged"
        in text
    )
    assert f"{100 * summary.unknown_share:.2f} %" in text
    found = model.new_classes()
    assert summary.new_classes == (found.number, found.low, found.high)
    assert found.low <= found.number <= found.high
    assert f"estimated number of new classes: {found.estimate} (the paper's Delta: {summary.delta})" in text


def test_summary_of_a_stream_that_has_not_begun():
    model = fitted()
    summary = model.summary()
    assert (summary.stream_size, summary.known_share, summary.unknown_share) == (0, 0.0, 0.0)
    assert (summary.emerging, summary.delta, str(summary.new_classes)) == ((), 0, "0")
    assert "0 instances of the stream decided; 0 new subclasses emerged" in str(summary)


def test_a_class_that_returns_is_recognised_under_its_old_id():
    model, told, rng = fitted(batch_size=32), Told(), np.random.default_rng(9)
    known = list(KNOWN.values())
    for x in instances(300, rng, [*known, NEW]):
        model.learn_one(x)
    model.flush()
    home = max((size, key) for key, size, announced in model.summary().emerging if announced)[1]
    for x in instances(3000, rng, known):
        model.learn_one(x)
    model.flush()
    told.listen(model)
    start = len(told.decisions)
    for x in instances(300, rng, [*known, NEW]):
        model.learn_one(x)
    model.flush()
    told.listen(model)
    returned = [d.subclass_id for d in told.decisions[start:] if d.label == "unknown" and d.distance > 8]
    assert len(returned) > 60
    assert returned.count(home) > 0.9 * len(returned)
    assert [e.subclass_id for e in told.of(SubclassEmerged)].count(home) == 1
    assert home not in {e.subclass_id for e in told.of(SubclassForgotten)}


def many_classes(n: int, rng: np.random.Generator) -> Iterator[dict[str, float]]:
    """A new class every 250 instances, far from the others, beside the known ones."""
    for start in range(0, n, 250):
        angle = 2.4 * (start // 250)
        radius = 20 + 2.0 * (start // 250)
        yield from instances(250, rng, [*KNOWN.values(), (radius * np.cos(angle), radius * np.sin(angle))])


def test_no_more_subclasses_are_kept_than_allowed():
    model, told = fitted(batch_size=32, max_subclasses=3, max_dormant=4, half_life=50, window=64), Told()
    forgotten: set[int] = set()
    for i, x in enumerate(many_classes(5000, np.random.default_rng(10))):
        model.learn_one(x)
        if not model.pending:
            told.listen(model)
            check_stream(model.value.stream)
            franchise, count = model.value.stream.state.franchise, len(model.value.stream.labels)
            assert ((franchise.held[count:] > 0) & (franchise.menu[count:] == 0)).sum() <= 3
            aside = set(model.value.stream.chains[0].dormant.ids.tolist())
            assert len(aside) <= 4
            on_the_menu = (franchise.menu[count:] > 0) | (franchise.held[count:] > 0)
            assert on_the_menu.all(), f"after {i}: a slot that could be used again with old statistics in it"
            forgotten = {e.subclass_id for e in told.of(SubclassForgotten)}
            alive = set(model.value.stream.state.ids.tolist()) | aside
            assert not forgotten & alive
            assert set(model.value.stream.life.subclasses) <= alive
    assert len(told.of(SubclassEmerged)) >= 18
    assert len(forgotten) >= 10
    assert len(told.of(SubclassForgotten)) == len(forgotten)
    assert sum(announced for _, _, announced in model.summary().emerging) <= 9  # others are still served


def test_statistics_of_a_subclass_are_of_its_own_instances():
    # a slot that is used again must have been emptied
    model = fitted(batch_size=32, max_subclasses=1, half_life=20, window=32)
    for x in many_classes(4000, np.random.default_rng(11)):
        model.learn_one(x)
        if not model.pending:
            stream = model.value.stream
            sums = defaultdict(lambda: np.zeros(2))
            count = Counter()
            for chunk in as_batches(stream.recent):
                for row, key in zip(chunk.rows, chunk.subclass[0].tolist(), strict=True):
                    sums[key] += row
                    count[key] += 1
            for slot, key in enumerate(stream.state.ids.tolist()):
                assert stream.state.dishes.size[slot] == count[key]
                np.testing.assert_allclose(stream.state.dishes.matrix[slot, -1, :-1], sums[key], atol=1e-6)


def test_memory_does_not_grow_with_the_stream():
    model = fitted(batch_size=256, max_subclasses=8, max_dormant=16, label_horizon=1000)
    sizes, events = [], 0
    for i, x in enumerate(many_classes(20_480, np.random.default_rng(12)), start=1):
        model.learn_one(x, t=float(i), key=i)
        if i % 256 == 0:
            assert sum(1 for _ in model.drain()) == 256
            events += sum(1 for _ in model.drain_events())
            sizes.append(len(pickle.dumps(model)))
    assert events > 100
    assert max(sizes[40:]) < 1.2 * max(sizes[10:40])
    assert len(model.value.stream.life.subclasses) < 60
    assert model.value.stream.state.seen == 20_480
