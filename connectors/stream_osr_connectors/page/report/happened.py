"""Events as the page needs them: each once, with numbers for numbers; and what no drawing speaks of, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from stream_osr.discovery.events import Event, SubclassEvent
from stream_osr.showing import shown
from stream_osr_connectors.page.records import Read, reading, whole

DRAWN = frozenset(
    {
        "EventsSummed", "NewClassesChanged", "RecallDropped", "SubclassDormant", "SubclassEmerged",
        "SubclassForgotten", "SubclassGrew", "SubclassMerged", "SubclassMuted", "SubclassPromoted",
        "SubclassRecurred", "SubclassRefuted", "SubclassSplit",
    }
)  # fmt: skip
"""Events that have a place of their own on the page."""

MOST = 50
"""Rows of the others."""

FACTS = 12
"""Facts told of each."""

_NUMBERS = ("seq", "subclass_id", "new_id", "size", "delta")
_OF_ALL = frozenset({"type", "batch", "seq", "model"})


class Other(NamedTuple):
    """An event of a kind that has no place of its own: its kind, where it was told if it says so, and its facts."""

    kind: str
    seq: int | None
    facts: str


class Happened(NamedTuple):
    """Events.

    Attributes
    ----------
    events
        Each once, in the order of reading; what are numbers is ``int``, and of a kind that this release does not
        know a number that is none is left out.
    others
        Those that have no place of their own on the page, the first ``MOST``.
    more
        How many more of them there are.
    repeated
        How many were told more than once.
    """

    events: tuple[Read, ...]
    others: tuple[Other, ...]
    more: int
    repeated: int


def sort_out(records: Iterable[Mapping[str, Any]]) -> Happened:
    """Read events (as `stream_osr.Event.as_dict` makes them, or a later release does).

    Raises
    ------
    ConnectorError
        If one of them is no event.

    Examples
    --------
    >>> jump = {"type": "RateJumped", "batch": 3, "seq": 127, "model": "ab12", "rate": 0.25, "of": ["a"]}
    >>> happened = sort_out([jump, jump])
    >>> happened.others, happened.repeated
    ((Other(kind='RateJumped', seq=127, facts="rate 0.25, of ['a']"),), 1)
    """
    known = {kind.__name__ for kind in (*Event.__subclasses__(), *SubclassEvent.__subclasses__())}
    seen: set[str] = set()
    events: list[Read] = []
    others: list[Other] = []
    repeated = 0
    for number, record in enumerate(records):
        with reading(record, "event", number):
            kind = record["type"]
            if not isinstance(kind, str):
                raise TypeError(f"type is {shown(kind)}, not text")
            text = repr(sorted(record.items()))
            numbers = _numbers(record, kind) if kind in known else _numbers_that_are_some(record)
        if text in seen:
            repeated += 1
            continue
        seen.add(text)
        rest = {name: value for name, value in record.items() if name not in _NUMBERS}
        events.append(Read({**rest, **numbers}, getattr(record, "place", f"event {number + 1}")))
        if kind not in DRAWN:
            others.append(Other(kind, numbers.get("seq"), _facts(record)))
    return Happened(tuple(events), tuple(others[:MOST]), len(others[MOST:]), repeated)


def _numbers(record: Mapping[str, Any], kind: str) -> dict[str, int]:
    must = {"seq", "delta"} if kind == "NewClassesChanged" else {"seq"}
    return {name: whole(record[name], name) for name in _NUMBERS if name in must or record.get(name) is not None}


def _numbers_that_are_some(record: Mapping[str, Any]) -> dict[str, int]:
    out = {}
    for name in _NUMBERS:
        with suppress(ValueError):
            out[name] = whole(record.get(name), name)
    return out


def _facts(record: Mapping[str, Any]) -> str:
    told = [f"{name} {_fact(value)}" for name, value in record.items() if name not in _OF_ALL]
    return ", ".join(told[:FACTS]) + (f" and {len(told) - FACTS} more" if len(told) > FACTS else "")


def _fact(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else shown(value)
