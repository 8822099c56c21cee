"""Final decision about one instance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

from stream_osr.parameters import Label
from stream_osr.printable_text import brief, counted, html_table, printable
from stream_osr.support import rules

SHOWN = 20
"""Number of decisions that a notebook shows."""


class Decision(NamedTuple):
    """Decision about one instance, with its reasons.

    Attributes
    ----------
    key, t
        Key and time from the caller.
    label
        The most probable known class, or the unknown label. With ``min_probability``, it is also the unknown label if
        no known class is that probable.
    probability
        Probability of the label.
    p_unknown
        Probability of being unknown: the mass on emerging subclasses and on a new one. It is averaged over the chains
        and adjusted by the learnt odds.
    probabilities
        Probability of each known class and of unknown. They sum to 1.
    first_label
        Label before the delay. With ``decision_delay`` the final label may differ.
    subclass_id
        Stable id of the emerging subclass of an unknown instance, or ``None`` if it is in no subclass. For a known
        instance, the most responsible subclass of the label's class.
    nearest_class
        Known class with the highest density at the instance, whatever the label.
    distance
        Mahalanobis distance from the nearest subclass of that class, in standard deviations of the subclass's
        predictive distribution.
    density_rank
        Share of that class's training instances that are at most as dense. A value near 0 means that the instance is
        unusual for the class.
    batch
        Number of the micro-batch, from 0.
    seq
        Position in the stream, from 0.
    odd_columns
        Column that alone differs from training: a new category value or an error code. The other columns make a known
        class certain, so the value counts as missing. Usually empty.

    Examples
    --------
    >>> told = {"grass": 0.01, "unknown": 0.99}
    >>> print(Decision("a7", None, "unknown", "unknown", 0.99, 0.99, told, 11, "grass", 24.1, 0.0, 3, 219))
    unknown (0.990) in subclass 11, 24.1 standard deviations off grass, key 'a7', position 219
    """

    key: Any
    t: rules.AnyNumber | None
    label: Label
    first_label: Label
    probability: rules.Share
    p_unknown: rules.Share
    probabilities: dict[Label, rules.Share]
    subclass_id: rules.Count | None
    nearest_class: Label
    distance: Annotated[float, rules.any_number(0.0)]
    density_rank: rules.Share
    batch: rules.Count
    seq: rules.Count
    odd_columns: tuple[Any, ...] = ()

    def __str__(self) -> str:
        sits = "" if self.subclass_id is None else f" in subclass {self.subclass_id}"
        return (
            f"{printable(str(self.label), 60)} ({self.probability:.3f}){sits}, {self.distance:.1f} standard "
            f"deviations off {printable(str(self.nearest_class), 60)}, key {brief(self.key)}, position {self.seq}"
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the short text in a notebook. ``repr`` shows all fields."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return _table([self])

    def as_dict(self) -> dict[str, Any]:
        """Return the decision as a dict of plain values, with labels as text. Empty ``odd_columns`` are left out."""
        out = self._asdict()
        if odd := out.pop("odd_columns"):
            out["odd_columns"] = [str(name) for name in odd]
        out["probabilities"] = {str(label): probability for label, probability in self.probabilities.items()}
        return out


class Decisions(list[Decision]):
    """List of decisions. A notebook shows the first ones as a table."""

    def _repr_html_(self) -> str:
        first = f", the first {SHOWN} of them" if len(self) > SHOWN else ""
        return _table(self[:SHOWN], counted(len(self), "decision") + first)


def _table(decisions: Iterable[Decision], caption: str = "") -> str:
    head = ("key", "position", "label", "probability", "subclass", "nearest class", "distance")
    rows = [
        (brief(it.key), it.seq, it.label, f"{it.probability:.3f}", "" if it.subclass_id is None else it.subclass_id,
         it.nearest_class, f"{it.distance:.1f}")
        for it in decisions
    ]  # fmt: skip
    return html_table(head, rows, caption)


class FailedDecision(NamedTuple):
    """Instance or label of a micro-batch that could not be closed and was given up.

    Attributes
    ----------
    key, t
        Key and time from the caller. A label has only its key.
    x
        Features of the instance as read, ``None`` = missing. ``None``: the entry is a label that waited.
    label
        The label that waited. ``None``: the entry is an instance.
    reason
        Reason why the micro-batch could not be closed.
    """

    key: Any
    t: float | None
    x: dict[Any, float | str | None] | None
    label: Label | None
    reason: str
