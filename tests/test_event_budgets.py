"""Floods of events: beyond a budget they are summed up, and the counts include every one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import (
    ActionUndone,
    ClassDrifted,
    Event,
    EventsSummed,
    ModelOptions,
    OpenSetRecognizer,
    RecallDropped,
    SubclassEmerged,
    SubclassForgotten,
    SubclassMerged,
)
from stream_osr.discovery.events import SubclassEvent
from stream_osr.stream import announcements as rules
from stream_osr.stream.announcements import BUDGETS, EventBudget, sum_up, within_budgets
from tests.blobs import around, learn_all

NAMES = [f"f{i}" for i in range(8)]


def event(kind: type[Event], seq: int = 63, **values: Any) -> Event:
    """An event that says nothing but these values."""
    nothing = dict.fromkeys(field.name for field in fields(kind))
    return kind(**{**nothing, **about(seq), **values})


def about(seq: int) -> dict[str, Any]:
    return {"batch": seq // 64, "seq": seq, "model": "m"}


def forgotten(key: int, seq: int = 63) -> Event:
    return event(SubclassForgotten, seq, subclass_id=key)


def emerged(key: int, seq: int = 63) -> Event:
    return event(SubclassEmerged, seq, subclass_id=key)


def kinds(events: Iterable[Event]) -> Counter[str]:
    return Counter(type(event).__name__ for event in events)


def test_a_flood_of_one_kind_does_not_use_the_budget_of_another() -> None:
    flood = [forgotten(key) for key in range(5000)]
    last = [emerged(1), event(ClassDrifted), event(RecallDropped)]
    after, emitted = within_budgets(EventBudget(), [*flood, *last], 64, ())
    assert kinds(emitted)["SubclassForgotten"] == 300
    assert emitted[-3:] == last
    assert after.counts == {"SubclassForgotten": 4700}
    _, again = within_budgets(after, [forgotten(1, 69), emerged(2, 69)], 70, ())
    assert again == [emerged(2, 69)], "the budget of the other kind is spent"


def test_in_the_long_run_so_many_are_emitted_with_each_thousand_instances() -> None:
    budget, emitted = EventBudget(), Counter[str]()
    for seen in range(100, 20_001, 100):
        events = [*map(emerged, range(50)), *map(forgotten, range(50)), *[event(ClassDrifted)] * 50]
        budget, now = within_budgets(budget, events, seen, ())
        emitted += kinds(now)
    for (kind, *_), at_once, rate in BUDGETS:
        name = {"SubclassGrew": "SubclassForgotten"}.get(kind.__name__, kind.__name__)
        assert emitted[name] == pytest.approx(at_once + 20 * rate, abs=rate)
        assert emitted[name] + budget.counts[name] == 10_000
    assert budget.emerged.count(7) > 100


def test_the_merge_of_an_announced_subclass_is_always_emitted() -> None:
    merges = [event(SubclassMerged, subclass_id=key) for key in range(2, 1002)]
    _, emitted = within_budgets(EventBudget(), merges, 64, announced=range(900, 2000))
    assert [event.subclass_id for event in emitted[300:]] == list(range(900, 1002))  # type: ignore[attr-defined]


def test_sums_come_seldom_and_state_their_first_and_last_event() -> None:
    budget, _ = within_budgets(EventBudget(), [forgotten(1)] * 300, 64, ())
    assert sum_up(budget, about(4999)) == (budget, []), "nothing waits"
    for seen in (64, 65):
        budget, emitted = within_budgets(budget, [forgotten(1, seen)] * 7, seen + 1, ())
        assert not emitted
    assert sum_up(budget, about(998)) == (budget, []), "too soon"
    after, (summed,) = sum_up(budget, about(999))
    counts = {"SubclassForgotten": 14}
    assert summed == EventsSummed(counts=counts, since=64, until=65, emerged=(), batch=15, seq=999, model="m")
    assert not after.counts
    after, _ = within_budgets(after, [forgotten(1, 1000)] * 500, 1001, ())
    assert sum_up(after, about(1998))[1] == [], "1000 instances after the last one"
    assert len(sum_up(after, about(1999))[1]) == 1
    assert len(sum_up(after, about(1998), end=True)[1]) == 1
    assert summed.as_dict()["counts"] == counts


def test_every_kind_of_event_is_in_one_budget_or_rare() -> None:
    budgeted = [kind.__name__ for budget in BUDGETS for kind in budget.kinds]
    assert len(budgeted) == len(set(budgeted))
    by_a_person = {"SubclassPromoted", "SubclassMuted", "ActionUndone", ActionUndone.__name__}  # two names
    rare = {"DependenceFound", "FrameMoved", "RecallDropped", "EventsSummed", "UnknownRateJumped"}
    kinds = {kind.__name__ for kind in (*Event.__subclasses__(), *SubclassEvent.__subclasses__())}
    assert kinds - {*budgeted, "SubclassEvent"} <= by_a_person | rare


# A stream

CENTRES = np.random.default_rng(1).normal(0, 20, size=(1200, 8))


@pytest.fixture(scope="module")
def trained() -> Any:
    rng = np.random.default_rng(2)
    instances = [(x, f"c{j}") for j, at in enumerate(CENTRES[:12]) for x in around(at, 40, rng, NAMES)]
    model = learn_all(OpenSetRecognizer(chains=1, seed=3), instances)
    model.freeze()
    return model.trained


def flood(trained: Any, clusters: int, save_to: Path | None = None) -> tuple[OpenSetRecognizer, list[Event]]:
    """Clusters of ten, one after the other, to the end; ``save_to``: saved and loaded in between."""
    model = OpenSetRecognizer.from_trained(trained, chains=1, seed=3, batch_size=64, model=ModelOptions(window=64))
    events: list[Event] = []
    for number in range(clusters):
        for x in around(CENTRES[12 + number], 10, np.random.default_rng(number), NAMES):
            model.learn_one(x)
        if save_to is not None and number % 29 == 7:
            model.save(save_to / "m.osr")
            model = OpenSetRecognizer.load(save_to / "m.osr")
        events += model.drain_events()
    model.flush()
    return model, [*events, *model.drain_events()]


def without_budgets(trained: Any, clusters: int) -> tuple[OpenSetRecognizer, list[Event]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stream_osr.stream.batch.within_budgets", lambda budget, events, *_: (budget, events))
        return flood(trained, clusters)


@pytest.mark.thorough
def test_a_flood_of_clusters_is_emitted_within_the_budgets_and_counted_whole(trained: Any, tmp_path: Path) -> None:
    free, everything = without_budgets(trained, 400)
    model, events = flood(trained, 400)
    summed = [event for event in events if isinstance(event, EventsSummed)]
    counts = sum((Counter(event.counts) for event in summed), Counter[str]())
    assert counts["SubclassEmerged"] > 100, "it is a flood"
    own = [event for event in events if not isinstance(event, EventsSummed)]
    assert kinds(own) + counts == kinds(everything)
    assert model.counters["events_summed"] == counts.total()
    assert model.signals == free.signals
    assert model.signals.novelty == kinds(everything)["SubclassEmerged"]
    assert own == [event for event in everything if event in own]
    silent = {key for event in summed for key in event.emerged}
    assert len(silent) == counts["SubclassEmerged"]
    assert silent <= {key for key, _, announced in model.summary().emerging if announced}
    assert silent & {key for candidate in model.new_classes().candidates for key in candidate.subclasses}
    gaps = np.diff([event.seq for event in summed])
    assert (gaps[:-1] >= rules.SUMMED_EVERY).all()
    assert flood(trained, 400, save_to=tmp_path)[1] == events


def test_an_ordinary_stream_emits_everything_and_sums_up_at_its_end(trained: Any) -> None:
    model, events = flood(trained, 60)
    assert events == without_budgets(trained, 60)[1]
    assert kinds(events)["SubclassEmerged"] > 40
    assert not model.counters["events_summed"]
    stream = model.value.stream
    waiting = stream._replace(event_budget=stream.event_budget._replace(counts={"SubclassGrew": 3}))
    model.value = replace(model.value, stream=waiting)
    model.flush()
    (summed,) = model.drain_events()
    assert isinstance(summed, EventsSummed)
    assert summed.counts == {"SubclassGrew": 3}
    model.flush()
    assert not list(model.drain_events())
