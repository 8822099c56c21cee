"""Fields of every event, its texts and plain values, and the explanations that events contain.

An explanation has the differences between a subclass and the known ones, a movement those of a known class over time.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields
from itertools import islice
from typing import Annotated, Any, NamedTuple

from stream_osr.printable_text import brief, printable
from stream_osr.support import rules

NEW_VALUE = "a new value"
"""Text for a value of a category that training did not have."""


class Explanation(NamedTuple):
    """Differences between a subclass and the known ones.

    Attributes
    ----------
    mean
        Mean of each numeric feature, in the caller's units.
    difference
        Mean of each numeric feature minus that of the nearest known subclass, in the caller's units.
    shift
        The same difference, in standard deviations of the nearest known subclass.
    most_moved
        Numeric features with the largest shifts, the largest first.
    nearest_class
        Label of the nearest known class.
    nearest_subclass
        Id of the nearest known subclass.
    distance
        Mahalanobis distance of the mean from that subclass, in standard deviations of the subclass's predictive.
    values
        For each category, the commonest ``value`` with its ``share``, and the commonest value of the nearest known
        subclass, ``usual``, with ``usual_share``. ``None`` stands for all values that training did not have. The most
        informative category comes first.
    """

    mean: dict[Hashable, rules.AnyNumber]
    difference: dict[Hashable, rules.AnyNumber]
    shift: dict[Hashable, rules.AnyNumber]
    most_moved: tuple[Hashable, ...]
    nearest_class: Annotated[Any, rules.label]
    nearest_subclass: rules.Count
    distance: Annotated[float, rules.any_number(0.0)]
    values: Mapping[Hashable, dict[str, Any]] = {}

    @property
    def category_texts(self) -> tuple[str, ...]:
        """Texts that describe the categories.

        Examples
        --------
        >>> values = {"protocol": {"value": "icmp", "share": 0.98, "usual": "tcp", "usual_share": 0.9}}
        >>> Explanation({}, {}, {}, (), "a", 0, 1.0, values).category_texts
        ('protocol: icmp 98 %, tcp usual',)
        """
        return tuple(category_text(name, its) for name, its in self.values.items())


def category_text(name: Hashable, its: Mapping[str, Any]) -> str:
    """Return the text for one category of an explanation."""
    value, usual = (NEW_VALUE if its[key] is None else str(its[key]) for key in ("value", "usual"))
    return f"{name}: {value} {its['share']:.0%}".replace("%", " %") + f", {usual} usual"


class Movement(NamedTuple):
    """Movement of the mean of a known class, feature by feature.

    Attributes
    ----------
    mean
        Mean of each feature since the change, in the caller's units.
    trained
        Mean in training.
    shift
        Difference, in standard deviations of the class in training.
    """

    mean: dict[Hashable, rules.AnyNumber]
    trained: dict[Hashable, rules.AnyNumber]
    shift: dict[Hashable, rules.AnyNumber]


MOVED = 3
"""Number of features that the text of a drift event names."""
_OF_ALL = ("batch", "seq", "model")
"""Fields of every event."""


class Moment(NamedTuple):
    """Position of an instance in the stream, from 0, with its time and key from the caller."""

    seq: rules.Count
    t: rules.AnyNumber | None
    key: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Fact that an operator may want to know. Each event is emitted once.

    Attributes
    ----------
    batch
        Number of the micro-batch after which the fact was known.
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

    batch: rules.Position
    seq: rules.Position
    model: str

    def __str__(self) -> str:
        facts = [_fact_text(f.name, getattr(self, f.name)) for f in fields(self) if f.name not in _OF_ALL]
        return f"{type(self).__name__} at {self.seq}: {', '.join(facts)}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the short text in a notebook. ``repr`` shows all fields."""
        printer.text(str(self))

    def as_dict(self) -> dict[str, Any]:
        """Return the event as nested dicts of plain values, ``type`` first."""
        out: dict[str, Any] = {"type": type(self).__name__}
        for f in fields(self):
            value = getattr(self, f.name)
            value = as_fields(value) if hasattr(value, "_asdict") else value
            out[f.name] = {k: _texts(v) for k, v in value.items()} if isinstance(value, dict) else value
        return out


def _fact_text(name: str, value: Any) -> str:
    """Return a short text for a field: the position of a moment, or the nearest class of an explanation."""
    if isinstance(value, Explanation):
        return f"{value.distance:.1f} standard deviations off {printable(str(value.nearest_class), 60)}"
    if isinstance(value, Movement):
        moved = sorted(value.shift, key=lambda name: -abs(value.shift[name]))[:MOVED]
        text = ", ".join(f"{brief(name)} {value.shift[name]:+.1f}" for name in moved)
        return f"moved by standard deviations: {text}"
    if isinstance(value, Moment):
        value = value.seq
    return f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {brief(value)}"


def as_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a record, without empty ``values``."""
    return {name: its for name, its in value._asdict().items() if name != "values" or its}


def _texts(value: Any) -> Any:
    """Convert names of features to text, since JSON has no other keys."""
    return {str(k): v for k, v in value.items()} if isinstance(value, dict) else value


def moved_text(offset: Mapping[Hashable, float], shift: Mapping[Hashable, float], since: int) -> str:
    """Describe an offset of all known classes in one line.

    >>> moved_text({"temp": 4.1}, {"temp": 2.3}, 0)
    'the stream differs from training in temp by +4.1 (2.3 standard deviations) in all classes since instance 0'
    >>> moved_text({}, {}, 900)
    'the stream is back at the training place since instance 900'
    """
    if not offset:
        return f"the stream is back at the training place since instance {since}"
    texts = [f"{printable(str(key), 60)} by {by:+.3g} ({shift[key]:.2g}" for key, by in islice(offset.items(), MOVED)]
    first, *others = texts
    columns = ", ".join([f"{first} standard deviations)", *(f"{each})" for each in others)])
    more = f" and {len(offset) - MOVED} more columns" if len(offset) > MOVED else ""
    return f"the stream differs from training in {columns}{more} in all classes since instance {since}"
