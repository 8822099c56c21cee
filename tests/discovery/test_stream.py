"""A stream in which classes appear, vanish and return: what is told of it, and what stays bounded."""

from __future__ import annotations

import math
import pickle
from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

from stream_osr import Decision, Event, NewClassesChanged, OpenSetRecognizer, SubclassEmerged, SubclassForgotten
from stream_osr.discovery.lifecycle import estimate_new_classes
from tests.blobs import KNOWN, NEW, fitted, instances, members, told

APPEARS, LENGTH = 300, 1500


def of(kind: type[Event], events: list[Event]) -> list:
    return [event for event in events if isinstance(event, kind)]


@pytest.fixture(scope="module")
def watched() -> tuple[OpenSetRecognizer, list[Decision], list[Event]]:
    """Two known classes; a third is there from position 300 on."""
    model, rng = fitted(batch_size=32), np.random.default_rng(8)
    known = list(KNOWN.values())
    stream = [*instances(APPEARS, rng, known), *instances(LENGTH - APPEARS, rng, [*known, NEW])]
    for seq, x in enumerate(stream):
        model.learn_one(x, t=float(seq), key=f"k{seq}")
    model.flush()
    return model, *told(model)


def test_the_new_class_emerges_soon_and_nothing_before(watched):
    _, decisions, events = watched
    emerged = of(SubclassEmerged, events)
    near = [e for e in emerged if math.dist([*e.explanation.mean.values()], NEW) < 2]
    assert APPEARS <= near[0].first_seen.seq < APPEARS + 32
    assert near[0].seq < APPEARS + 64
    assert near[0].first_seen.key == f"k{near[0].first_seen.seq}"
    assert near[0].first_seen.t == float(near[0].first_seen.seq)
    assert len(emerged) - len(near) <= 2
    unknown = [d.seq for d in decisions if d.label == "unknown"]
    # two known classes in two dimensions: a tenth of their instances sits in emerging subclasses
    assert sum(seq < APPEARS for seq in unknown) <= 0.15 * APPEARS
    third = (LENGTH - APPEARS) / 3
    assert 0.95 * third <= sum(seq >= APPEARS for seq in unknown) <= 1.3 * third


def test_estimated_number_of_classes_follows_equation_14(watched):
    model, _, events = watched
    trained = model.trained
    delta, alive = 0, set()
    by_batch: dict[int, list[Event]] = defaultdict(list)
    for event in events:
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
    model, decisions, events = watched
    summary = model.summary()
    labels = Counter(d.label for d in decisions)
    assert summary.stream_size == LENGTH == len(decisions)
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
    emerged = {e.subclass_id for e in of(SubclassEmerged, events)}
    emerged -= {e.subclass_id for e in of(SubclassForgotten, events)}
    assert {key for key, _, announced in summary.emerging if announced} == emerged
    text = str(summary)
    assert "left" in text
    assert f"{LENGTH} instances of the stream decided, {len(emerged)} new subclass" in text
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
    assert "0 instances of the stream decided, 0 new subclasses emerged" in str(summary)


def many_classes(n: int, rng: np.random.Generator) -> Iterator[dict[str, float]]:
    """A new class every 250 instances, far from the others, beside the known ones."""
    for start in range(0, n, 250):
        angle = 2.4 * (start // 250)
        radius = 20 + 2.0 * (start // 250)
        yield from instances(250, rng, [*KNOWN.values(), (radius * np.cos(angle), radius * np.sin(angle))])


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
