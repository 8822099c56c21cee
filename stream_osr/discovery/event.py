"""What every event is: a frozen record that can be shown in a line and turned into plain values."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from stream_osr.discovery.explanation import Explanation, Movement
from stream_osr.showing import printable, shown

MOVED = 3
"""Features that the text of a drift names."""
_OF_ALL = ("batch", "seq", "model")
"""What every event has."""


class Moment(NamedTuple):
    """A place in the stream: position of an instance, from 0, its time and its key, as the caller gave them."""

    seq: int
    t: float | None
    key: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that an operator may want to know; each fact is told once.

    Attributes
    ----------
    batch
        Number of the micro-batch after which it was known.
    seq
        Position of the last instance of that batch.
    model
        Fingerprint of the trained model.

    Examples
    --------
    >>> from stream_osr import SubclassMerged
    >>> print(SubclassMerged(batch=3, seq=219, model="5f0c", subclass_id=14, into=11, size=40))
    SubclassMerged at 219: subclass_id 14, into 11, size 40
    """

    batch: int
    seq: int
    model: str

    def __str__(self) -> str:
        facts = [_told(f.name, getattr(self, f.name)) for f in fields(self) if f.name not in _OF_ALL]
        return f"{type(self).__name__} at {self.seq}: {', '.join(facts)}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the text in a notebook; ``repr`` has all of it."""
        printer.text(str(self))

    def as_dict(self) -> dict[str, Any]:
        """Return the event as nested dicts of plain values, ``type`` first."""
        out: dict[str, Any] = {"type": type(self).__name__}
        for f in fields(self):
            value = getattr(self, f.name)
            value = as_fields(value) if hasattr(value, "_asdict") else value
            out[f.name] = {k: _texts(v) for k, v in value.items()} if isinstance(value, dict) else value
        return out


def _told(name: str, value: Any) -> str:
    """Write a fact in short: of a moment the position, of an explanation what lies nearest."""
    if isinstance(value, Explanation):
        return f"{value.distance:.1f} standard deviations off {printable(str(value.nearest_class), 60)}"
    if isinstance(value, Movement):
        moved = sorted(value.shift, key=lambda name: -abs(value.shift[name]))[:MOVED]
        told = ", ".join(f"{shown(name)} {value.shift[name]:+.1f}" for name in moved)
        return f"moved by standard deviations: {told}"
    if isinstance(value, Moment):
        value = value.seq
    return f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {shown(value)}"


def as_fields(value: Any) -> dict[str, Any]:
    """Fields of a record, without those of categories where there are none."""
    return {name: its for name, its in value._asdict().items() if name != "values" or its}


def _texts(value: Any) -> Any:
    """Name features by text: JSON has no other keys."""
    return {str(k): v for k, v in value.items()} if isinstance(value, dict) else value
