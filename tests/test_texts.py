"""The text of results in Python: candidates, the table, and records in a line each; all escaped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stream_osr import CandidateClass, ClassDrifted, Decision, NewClasses, SubclassEmerged, Summary, TrainingReport
from stream_osr.discovery.event_base import Explanation, Moment, Movement
from stream_osr.discovery.new_classes import SHOWN
from stream_osr.discovery.summaries import DiscoveryRow
from stream_osr.parameters import Label

EVIL = "red\x1b[2J\u202e"
ESCAPED = r"red\x1b[2J\u202e"
ABOUT: dict[str, Any] = {"batch": 2, "seq": 191, "model": "5f0c"}

DECISION = Decision(EVIL, None, EVIL, EVIL, 0.75, 0.25, {EVIL: 0.75, "unknown": 0.25}, None, EVIL, 2.25, 0.5, 2, 180)
EMERGED = SubclassEmerged(
    subclass_id=11,
    first_seen=Moment(120, 3.5, EVIL),
    last_seen=Moment(190, None, "b"),
    size=21,
    share=0.125,
    support=9.5,
    trend=120.25,
    exemplars=(EVIL, "b"),
    explanation=Explanation({EVIL: 1.0}, {EVIL: 0.5}, {EVIL: 2.0}, (EVIL,), EVIL, 4, 24.04),
    **ABOUT,
)
DRIFTED = ClassDrifted(
    label=EVIL,
    direction="sparser",
    since=90,
    size=40,
    rank_before=0.5,
    rank_now=0.25,
    movement=Movement({}, {}, {"a": 0.5, EVIL: -3.04, "b": 1.0, "c": 0.1}),
    **ABOUT,
)


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (DECISION, f"{ESCAPED} (0.750), 2.2 standard deviations off {ESCAPED}, key '{ESCAPED}', position 180"),
        (
            EMERGED,
            "SubclassEmerged at 191: subclass_id 11, first_seen 120, last_seen 190, size 21, share 0.125, "
            f"support 9.5, trend 120.2, exemplars ('{ESCAPED}', 'b'), 24.0 standard deviations off {ESCAPED}",
        ),
        (
            DRIFTED,
            f"ClassDrifted at 191: label '{ESCAPED}', direction 'sparser', since 90, size 40, rank_before 0.5, "
            f"rank_now 0.25, moved by standard deviations: '{ESCAPED}' -3.0, 'b' +1.0, 'a' +0.5",
        ),
    ],
    ids=["decision", "emerged", "drifted"],
)
def test_a_record_is_a_line_and_its_repr_has_all(record: Any, text: str) -> None:
    assert str(record) == text
    shown: list[str] = []
    record._repr_pretty_(SimpleNamespace(text=shown.append), False)  # the method that notebooks call
    assert shown == [text]
    names = {kind.__name__: kind for kind in (Decision, SubclassEmerged, ClassDrifted, Moment, Explanation, Movement)}
    assert eval(repr(record), names) == record


def candidate(number: int) -> CandidateClass:
    return CandidateClass((number, 100 + number), 40 - number, 0.125, EVIL, (EVIL, None, 7))


def test_candidates_have_a_line_each() -> None:
    found = NewClasses((candidate(0), CandidateClass((5,), 9, 0.0625, "b", (None,))), 2, 1, 1, 3)
    assert repr(found).splitlines() == [
        "estimated number of new classes: 2 (1 to 3), candidates: 2",
        f"candidates[0]: S0 and S100: 40 instances, 12.5 % of the stream, nearest known class {ESCAPED}, "
        f"as in '{ESCAPED}', 7",
        "candidates[1]: S5: 9 instances, 6.2 % of the stream, nearest known class b",
    ]
    assert str(found) == repr(found)


def test_many_candidates_and_subclasses_are_cut_and_none_is_a_line() -> None:
    lines = repr(NewClasses(tuple(map(candidate, range(SHOWN + 3))), 9, 1)).splitlines()
    assert len(lines) == SHOWN + 2
    assert lines[-1] == "and 3 smaller ones"
    assert "S0, S1 and 8 more: " in str(CandidateClass(tuple(range(10)), 9, 0.5, "b", ()))
    assert repr(NewClasses((), 0, 0)) == "estimated number of new classes: 0, candidates: 0"
    summary = Summary((), 10, 0.5, 0.5, ((11, 5, True),), 1)
    assert repr(summary) == str(summary)
    assert "S11 50.00" in repr(summary)


def test_a_known_class_is_a_line_and_its_subclasses_are_shown_on_request() -> None:
    many = tuple((key, 0.05) for key in range(20))
    known = (DiscoveryRow(EVIL, 40, many), DiscoveryRow("b", 1, ((20, 1.0),)))
    summary = Summary(known, 10, 0.5, 0.5, ((21, 5, True),), 1)
    lines = str(summary).splitlines()
    assert lines[2] == f"{ESCAPED}         40          20  S0 5.00"
    assert lines[3].split() == ["b", "1", "1", "S20", "100.00"]
    assert lines[2:] == [line.partition("  S1 ")[0] for line in summary.text(subclasses=True).splitlines()[2:]]
    assert all(f"S{key} 5.00" in summary.text(subclasses=True) for key in range(20))


def test_the_training_report_has_a_line_for_each_of_the_largest_classes() -> None:
    sizes: dict[Label, int] = {f"k{n}": n for n in range(1, 15)}
    lines = str(TrainingReport(sizes, dict.fromkeys(sizes, 2), 0.9)).splitlines()
    assert lines[0] == "trained on 105 instances of 14 classes, expected recall of known classes in a stream 0.900"
    assert [line for line in lines if line.startswith("class ")] == [
        f"class 'k{n}': {n} instances, 2 subclasses" for n in range(14, 2, -1)
    ]
    assert lines[-1] == "and 2 smaller classes"
