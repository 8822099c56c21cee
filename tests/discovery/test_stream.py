"""A stream in which classes appear, vanish and return: its events and its summary; memory is bounded."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from stream_osr import Decision, Event, NewClassesChanged, OpenSetRecognizer, SubclassEmerged, SubclassForgotten
from stream_osr.discovery.lifecycle import estimate_new_classes
from tests.blobs import KNOWN, NEW, drained, fitted, fitted_once, instances, members, play

APPEARS, LENGTH = 300, 1500


@pytest.fixture(scope="module")
def watched() -> tuple[OpenSetRecognizer, list[Decision], list[Event]]:
    """Two known classes; a third is there from position 300 on."""
    model, rng = fitted(batch_size=32), np.random.default_rng(8)
    known = list(KNOWN.values())
    for seq, x in enumerate([*instances(APPEARS, rng, known), *instances(LENGTH - APPEARS, rng, [*known, NEW])]):
        model.learn_one(x, t=float(seq), key=f"k{seq}")
    model.flush()
    return model, *drained(model)


def test_the_new_class_emerges_soon_and_nothing_before(watched):
    _, decisions, events = watched
    emerged = [event for event in events if isinstance(event, SubclassEmerged)]
    near = [e for e in emerged if math.dist([*e.explanation.mean.values()], NEW) < 2]
    first = near[0].first_seen
    assert APPEARS <= first.seq < APPEARS + 32
    assert near[0].seq < APPEARS + 64
    assert (first.key, first.t) == (f"k{first.seq}", float(first.seq))
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
    for batch in range(LENGTH // 32 + 1):
        now = [event for event in events if event.batch == batch]
        alive |= {e.subclass_id for e in now if isinstance(e, SubclassEmerged)}
        alive -= {e.subclass_id for e in now if isinstance(e, SubclassForgotten)}
        expected = estimate_new_classes(len(alive), len(trained.known.ids), len(trained.labels))
        changed = [(e.before, e.delta, set(e.subclasses)) for e in now if isinstance(e, NewClassesChanged)]
        assert changed == ([(delta, expected, alive)] if expected != delta else [])
        delta = expected
    assert model.summary().delta == delta >= 1
    assert {key for key, _, announced in model.summary().emerging if announced} == alive


def test_summary_agrees_with_a_recount(watched):
    model, decisions, _ = watched
    summary = model.summary()
    unknown = sum(d.label == "unknown" for d in decisions)
    assert summary.stream_size == LENGTH == len(decisions)
    assert summary.unknown_share == pytest.approx(unknown / LENGTH)
    assert summary.known_share == pytest.approx(1 - unknown / LENGTH)
    assert [(group.name, group.size) for group in summary.known] == [("left", 40), ("right", 40)]
    for group in summary.known:
        shares = [share for _, share in group.subclasses]
        assert sum(shares) == pytest.approx(1)
        assert shares == sorted(shares, reverse=True)
    sizes = [size for _, size, _ in summary.emerging]
    assert sizes == sorted(sizes, reverse=True)
    assert min(sizes) >= 1
    seated = {key: len(inside) for key, inside in members(model.value.stream).items()}
    assert {key: size for key, size, _ in summary.emerging} == seated  # none is beyond the horizon
    emerged = sum(announced for _, _, announced in summary.emerging)
    text = str(summary)
    assert "left" in text
    assert f"{LENGTH} instances of the stream decided, {emerged} new subclass" in text
    assert f"{100 * summary.unknown_share:.2f} %" in text
    found = model.new_classes()
    assert summary.new_classes == (found.number, found.low, found.high)
    assert found.low <= found.number <= found.high
    assert f"estimated number of new classes: {found.estimate} (the paper's Delta: {summary.delta})" in text


def test_summary_of_a_stream_that_has_not_begun():
    summary = fitted_once().summary()
    assert (summary.stream_size, summary.known_share, summary.unknown_share) == (0, 0.0, 0.0)
    assert (summary.emerging, summary.delta, str(summary.new_classes)) == ((), 0, "0")
    assert "0 instances of the stream decided, 0 new subclasses emerged" in str(summary)


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_stream():
    """A new class every 250 instances, far from the others, beside the known ones."""
    model = fitted(batch_size=256, max_subclasses=8, max_dormant=16, label_horizon=1000)
    rng = np.random.default_rng(12)
    spiral = [(20 + 2.0 * n) * np.array([np.cos(2.4 * n), np.sin(2.4 * n)]) for n in range(82)]
    rows = [x for new in spiral for x in instances(250, rng, [*KNOWN.values(), new])][:20_480]
    sizes, n_events = [], 0
    for begin in range(0, 20_480, 256):
        play(model, [(x, None) for x in rows[begin : begin + 256]], begin)
        decisions, events = drained(model)
        assert len(decisions) == 256
        n_events += len(events)
        sizes.append(len(pickle.dumps(model)))
    assert n_events > 100
    assert max(sizes[40:]) < 1.2 * max(sizes[10:40])
    assert len(model.value.stream.life.subclasses) < 60
    assert model.value.stream.state.seen == 20_480
