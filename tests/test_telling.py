"""Floods of events: beyond a budget they are summed up, none is lost from the counts, and what matters is told."""

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


def test_one_kind_does_not_drown_another() -> None:
    flood = [forgotten(key) for key in range(5000)]
    last = [emerged(1), event(ClassDrifted), event(RecallDropped)]
    after, told = within_budgets(EventBudget(), [*flood, *last], 64, ())
    assert kinds(told)["SubclassForgotten"] == 300
    assert told[-3:] == last
    assert after.counts == {"SubclassForgotten": 4700}
    _, again = within_budgets(after, [forgotten(1, 69), emerged(2, 69)], 70, ())
    assert again == [emerged(2, 69)], "its budget has nothing to do with the other, which is spent"


def test_in_the_long_run_so_many_with_each_thousand_instances() -> None:
    telling, told = EventBudget(), Counter[str]()
    for seen in range(100, 20_001, 100):
        events = [*map(emerged, range(50)), *map(forgotten, range(50)), *[event(ClassDrifted)] * 50]
        telling, now = within_budgets(telling, events, seen, ())
        told += kinds(now)
    for (kind, *_), at_once, rate in BUDGETS:
        name = {"SubclassGrew": "SubclassForgotten"}.get(kind.__name__, kind.__name__)
        assert told[name] == pytest.approx(at_once + 20 * rate, abs=rate)
        assert told[name] + telling.counts[name] == 10_000
    assert telling.emerged.count(7) > 100


def test_where_a_subclass_went_that_was_announced_is_told_always() -> None:
    merges = [event(SubclassMerged, subclass_id=key) for key in range(2, 1002)]
    _, told = within_budgets(EventBudget(), merges, 64, announced=range(900, 2000))
    assert [event.subclass_id for event in told[300:]] == list(range(900, 1002))  # type: ignore[attr-defined]


def test_sums_come_seldom_and_say_from_where_to_where() -> None:
    budget = 300
    telling, _ = within_budgets(EventBudget(), [forgotten(1)] * budget, 64, ())
    assert sum_up(telling, about(4999)) == (telling, []), "nothing waits"
    telling, told = within_budgets(telling, [forgotten(1, 64)] * 7, 65, ())
    telling, more = within_budgets(telling, [forgotten(1, 65)] * 7, 66, ())
    assert not told
    assert not more
    assert sum_up(telling, about(998)) == (telling, []), "too soon"
    after, (summed,) = sum_up(telling, about(999))
    assert summed == EventsSummed(
        counts={"SubclassForgotten": 14}, since=64, until=65, emerged=(), batch=15, seq=999, model="m"
    )
    assert not after.counts
    after, _ = within_budgets(after, [forgotten(1, 1000)] * 500, 1001, ())
    assert sum_up(after, about(1998))[1] == [], "1000 instances after the last one"
    assert len(sum_up(after, about(1999))[1]) == 1
    assert len(sum_up(after, about(1998), end=True)[1]) == 1
    assert summed.as_dict()["counts"] == {"SubclassForgotten": 14}


def test_every_kind_of_event_is_in_one_budget_or_rare() -> None:
    budgeted = [kind.__name__ for budget in BUDGETS for kind in budget.kinds]
    assert len(budgeted) == len(set(budgeted))
    asked_for = {"SubclassPromoted", "SubclassMuted", "ActionUndone", ActionUndone.__name__}  # as it is on the wire
    rare = {"DependenceFound", "RecallDropped", "EventsSummed"}
    kinds = [*Event.__subclasses__(), *SubclassEvent.__subclasses__()]
    left = {kind.__name__ for kind in kinds} - {*budgeted, "SubclassEvent"}
    assert left - asked_for <= rare | {"UnknownRateJumped"}


# A stream

CENTRES = np.random.default_rng(1).normal(0, 20, size=(1200, 8))


@pytest.fixture(scope="module")
def trained() -> Any:
    rng = np.random.default_rng(2)
    instances = [(x, f"c{j}") for j, at in enumerate(CENTRES[:12]) for x in around(at, 40, rng, NAMES)]
    model = learn_all(OpenSetRecognizer(chains=1, seed=3), instances)
    model.freeze()
    return model.trained


def flood(
    model: OpenSetRecognizer, clusters: range, save_to: Path | None = None
) -> tuple[OpenSetRecognizer, list[Event]]:
    """Clusters of ten, one after the other, to the end; ``save_to``: saved and loaded in between."""
    events: list[Event] = []
    for number in clusters:
        for x in around(CENTRES[12 + number], 10, np.random.default_rng(number), NAMES):
            model.learn_one(x)
        if save_to is not None and number % 29 == 7:
            model.save(save_to / "m.osr")
            model = OpenSetRecognizer.load(save_to / "m.osr")
        events += model.drain_events()
    model.flush()
    return model, [*events, *model.drain_events()]


def streaming(trained: Any) -> OpenSetRecognizer:
    return OpenSetRecognizer.from_trained(trained, chains=1, seed=3, batch_size=64, model=ModelOptions(window=64))


def told_whole(trained: Any, clusters: range) -> tuple[OpenSetRecognizer, list[Event]]:
    """Take a stream to its end without any budget."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stream_osr.stream.batch.within_budgets", lambda telling, events, *_: (telling, events))
        return flood(streaming(trained), clusters)


def test_a_flood_of_clusters_is_told_within_the_budgets_and_counted_whole(trained: Any, tmp_path: Path) -> None:
    free, everything = told_whole(trained, range(500))
    model, events = flood(streaming(trained), range(500))
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
    assert flood(streaming(trained), range(500), save_to=tmp_path)[1] == events


def test_an_ordinary_stream_tells_everything(trained: Any) -> None:
    model, events = flood(streaming(trained), range(60))
    assert events == told_whole(trained, range(60))[1]
    assert kinds(events)["SubclassEmerged"] > 40
    assert not model.counters["events_summed"]


def test_what_waits_to_be_summed_up_is_told_at_the_end(trained: Any) -> None:
    model, _ = flood(streaming(trained), range(60))
    stream = model.value.stream
    waiting = stream._replace(event_budget=stream.event_budget._replace(counts={"SubclassGrew": 3}))
    model.value = replace(model.value, stream=waiting)
    model.flush()
    (summed,) = model.drain_events()
    assert isinstance(summed, EventsSummed)
    assert summed.counts == {"SubclassGrew": 3}
    model.flush()
    assert not list(model.drain_events())
