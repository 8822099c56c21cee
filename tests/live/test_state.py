"""The summary: what it counts, that it stays bounded, and that what is none changes nothing."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest

from stream_osr_connectors.page.live.checkpoint_view import model_view
from stream_osr_connectors.summary.class_summary import MOST_BINS
from stream_osr_connectors.summary.state import MOST_NAMELESS, MOST_SUBCLASSES, RECENT, State
from stream_osr_connectors.summary.view_model import MOST_CARDS, MOST_KNOWN, MOST_ROWS, view_model
from tests.blobs import fitted_once, moved_model

STREAM = {"name": "s", "source": "s", "kind": "file", "running": False, "behind": None}


def decision(seq: int, label: str = "unknown", subclass: int | None = 7, **more: Any) -> dict[str, Any]:
    p = {"red": 0.5, "blue": 0.2, "unknown": 0.3}
    return {"seq": seq, "t": float(seq), "key": f"k{seq}", "label": label, "subclass_id": subclass,
            "probabilities": p, **more}  # fmt: skip


def event(kind: str, seq: int, subclass: int = 7, **more: Any) -> dict[str, Any]:
    moment = {"seq": 2, "t": 2.0, "key": "k2"}
    why = {"mean": {"a": 5.0, "b": 1.0}, "difference": {"a": 4.0, "b": 0.5}, "shift": {"a": 8.0, "b": 1.0},
           "most_moved": ["a"], "nearest_class": "red", "distance": 8.1}  # fmt: skip
    return {"type": kind, "seq": seq, "batch": 0, "subclass_id": subclass, "size": 9, "first_seen": moment,
            "last_seen": moment, "explanation": why, **more}  # fmt: skip


@pytest.fixture
def state() -> State:
    return State([""], events=True)


def decide(state: State, some: Iterable[dict[str, Any]]) -> None:
    for one in some:
        state.decision(0, one["seq"], one["seq"], one)


def shown(state: State) -> dict[str, Any]:
    page = view_model(state, STREAM, {}, {}, [])
    json.dumps(page)
    return page


def test_an_event_waits_for_the_decisions_before_it(state: State) -> None:
    state.event(0, event("SubclassEmerged", 4))
    decide(state, map(decision, range(4)))
    assert shown(state)["inbox"] == []
    state.decision(0, 4, 4, decision(4))
    (card,) = shown(state)["inbox"]
    assert (card["id"], card["size"], card["since"], card["growth"]) == ("7", 9, 2, [1] * 5)
    assert card["differs"] == [{"feature": "a", "here": 5.0, "there": 1.0, "deviations": 8.0}]


def test_dependence_is_seen_by_an_event_and_by_the_model(state: State) -> None:
    assert shown(state)["dependent"] is False
    state.event(0, {"type": "DependenceFound", "seq": 0})
    state.caught_up()
    assert shown(state)["dependent"] is True
    assert view_model(state, STREAM, {"dependent": False}, {}, [])["dependent"] is False, "the model knows better"


def test_a_moved_frame_is_seen_until_it_is_back_and_as_the_model_has_it(state: State) -> None:
    assert shown(state)["frame"] == model_view(fitted_once(chains=1))["frame"] == ""
    moved = {"type": "FrameMoved", "seq": 0, "columns": ["temp"], "since": 0, "share": 0.9}
    line = (
        "the stream differs from training in temp by +4.1 (2.3 standard deviations) in all classes since instance 0"
    )
    for offset, expected in (({"temp": 4.1}, line), ({}, "")):
        state.event(0, {**moved, "offset": offset, "shift": dict.fromkeys(offset, 2.3)})
        state.caught_up()
        assert shown(state)["frame"] == expected
    state.event(0, {**moved, "offset": {"temp": "x"}, "shift": {}})
    state.caught_up()
    assert "1 line is no event" in shown(state)["notes"][0]
    assert view_model(state, STREAM, model_view(moved_model()), {}, [])["frame"].startswith("the stream differs")


def test_what_is_said_of_a_subclass_is_seen(state: State) -> None:
    decide(state, map(decision, range(3)))

    def after(*events: dict[str, Any]) -> tuple[str, str | None]:
        for each in events:
            state.event(0, each)
        (card,) = shown(state)["inbox"]
        return card["status"], card["label"]

    assert after(event("SubclassEmerged", 2)) == ("emerging", None)
    assert after(event("SubclassDormant", 2)) == ("dormant", None)
    assert after(event("SubclassRecurred", 2)) == ("recurred", None)
    assert after(event("SubclassPromoted", 2, label="fox")) == ("named", "fox")
    undone = {"type": "NamingUndone", "seq": 2, "action": "promotion", "subclass_ids": [7], "label": "fox"}
    assert after(undone) == ("emerging", None)
    assert after(event("SubclassMuted", 2)) == ("muted", None)
    state.event(0, {"type": "SubclassForgotten", "seq": 2, "subclass_id": 7, "last_seen": {}})
    assert shown(state)["inbox"] == []


def test_events_in_a_sum_count_as_signals(state: State) -> None:
    state.event(0, event("SubclassEmerged", 2))
    counts = {"SubclassEmerged": 3, "ClassDrifted": 2, "SubclassGrew": 9, "EventOfALaterRelease": 1}
    state.event(0, {"type": "EventsSummed", "seq": 2, "since": 0, "until": 2, "emerged": [8], "counts": counts})
    state.caught_up()
    assert (shown(state)["signals"]["novelty"], shown(state)["signals"]["drift"]) == (4, 2)
    assert [each.key for each in state.every_subclass()] == [7, 8]


def test_what_has_merged_goes_on_as_one(state: State) -> None:
    decide(state, (decision(seq, subclass=7 + seq % 2) for seq in range(20)))
    for key in (7, 8):
        state.event(0, event("SubclassEmerged", 3, key))
    state.event(0, {"type": "SubclassMerged", "seq": 19, "subclass_id": 8, "into": 7, "size": 20})
    state.decision(0, 20, 20, decision(20, subclass=8))
    (card,) = shown(state)["inbox"]
    assert (card["id"], card["size"], sum(card["growth"])) == ("7", 21, 21)


@pytest.mark.thorough
def test_a_long_stream_of_ever_new_subclasses_and_classes_stays_bounded(state: State) -> None:
    tracemalloc.start()
    try:
        sizes = []
        for part in range(3):
            for i in range(12_000):
                seq = 12_000 * part + i
                unknown = i % 2 == 0
                label = "unknown" if unknown else f"class {seq % 5000}"
                state.decision(0, seq, seq, decision(seq, label, seq if unknown else None))
                if i % 4 == 0:
                    state.event(0, event("SubclassEmerged", seq, seq))
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[2] < 1.15 * sizes[1], sizes
    assert sum(1 for _ in state.every_subclass()) <= MOST_SUBCLASSES
    assert len(state.tracks[0].nameless) <= MOST_NAMELESS
    page = shown(state)
    assert (len(page["inbox"]), len(page["known"])) == (MOST_CARDS, MOST_KNOWN)
    line = page["timeline"]
    assert len(line["edges"]) <= MOST_BINS + 1
    assert len(line["classes"]) == len(line["subclasses"]) == MOST_ROWS + 1
    assert line["edges"][-1] == state.decided == 36_000
    assert len(json.dumps(page)) < 2_000_000
    assert any("not shown" in note for note in page["notes"])


def test_rates_are_those_of_the_stream_and_of_its_end(state: State) -> None:
    decide(state, (decision(n, "unknown" if n >= 2 * RECENT + 500 else "red", None) for n in range(3 * RECENT)))
    page = shown(state)
    assert page["unknown"] == {"n": 500, "rate": round(500 / 3000, 6), "recent_rate": 0.5}
    assert page["timeline"]["unknown"][-1] == 1.0


def test_a_broken_decision_is_counted_and_changes_nothing(state: State) -> None:
    state.decision(0, 0, 0, decision(0))
    before = shown(state) | {"notes": []}
    wrong = ({"probabilities": {}}, {"probabilities": None}, {"probabilities": 3}, {"subclass_id": "seven"},
             {"seq": "three"}, {"seq": True})  # fmt: skip
    for n, broken in enumerate(({}, {"label": "red"}, *({**decision(3), **field} for field in wrong)), start=1):
        state.decision(0, 1, 1, broken)
        after = shown(state)
        assert (state.unusable["decision"], len(after["notes"])) == (n, 1), broken
        assert after | {"notes": []} == before, broken


def test_a_broken_event_is_skipped(state: State) -> None:
    state.decision(0, 0, 0, decision(0))
    wrong = ({"size": "many"}, {"explanation": 7}, {"first_seen": None, "type": "SubclassGrew"})
    for broken in (
        *({}, {"type": 3}, {"type": "SubclassEmerged"}, {"type": "SubclassMerged", "subclass_id": -1}),
        {"type": "NamingUndone", "subclass_ids": 3},
        *({**event("SubclassEmerged", 0), **field} for field in wrong),
    ):
        state.event(0, broken)
    state.event(0, event("SubclassEmerged", 0, 9))
    assert "9" in [card["id"] for card in shown(state)["inbox"]]


def test_names_of_others_are_cut_and_stay_text(state: State) -> None:
    name = "<img src=x onerror=alert(1)>" * 1000
    p = {name: 0.5, "unknown": 0.5}
    state.decision(0, 0, 0, decision(0, name, None, probabilities=p))
    (row,) = shown(state)["known"]
    assert row["label"].startswith("<img src=x")
    assert len(row["label"]) <= 400


def test_a_class_of_whole_numbers_is_named_by_one(state: State) -> None:
    state.decision(0, 0, 0, decision(0, label=3, subclass=None, probabilities={"3": 0.9, "-1": 0.1}))
    assert (state.meant("3"), state.meant("12"), state.meant("fox")) == (3, 12, "fox")
    text = State([""], events=True)
    text.decision(0, 0, 0, decision(0, "red", None))
    assert text.meant("12") == "12"
