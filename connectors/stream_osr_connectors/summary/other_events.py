"""Events in words, for those that a page does not show at a subclass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from stream_osr.printable_text import brief

FACTS = 12
"""Most facts of an event."""

_OF_ALL = frozenset({"type", "batch", "seq", "model"})


class OtherEvent(NamedTuple):
    """An event in words: its kind, position (if any) and facts."""

    kind: str
    seq: int | None
    facts: str


def in_words(event: Mapping[str, Any]) -> OtherEvent:
    """Describe an event of any release.

    >>> in_words({"type": "RateJumped", "batch": 3, "seq": 127, "model": "ab12", "rate": 0.25, "of": ["a"]})
    OtherEvent(kind='RateJumped', seq=127, facts="rate 0.25, of ['a']")
    """
    seq = event.get("seq")
    found = [f"{name} {_fact(value)}" for name, value in event.items() if name not in _OF_ALL]
    facts = ", ".join(found[:FACTS]) + (f" and {len(found) - FACTS} more" if len(found) > FACTS else "")
    return OtherEvent(str(event["type"]), seq if type(seq) is int else None, facts)


def _fact(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else brief(value)
