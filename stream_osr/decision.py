"""The final word on one instance."""

from __future__ import annotations

from typing import Any, NamedTuple

from stream_osr.config import Label
from stream_osr.printable_text import brief, printable


class Decision(NamedTuple):
    """Decision about one instance, with its reasons.

    Attributes
    ----------
    key, t
        As the caller gave them.
    label
        The most probable known class, or the unknown label; with ``min_probability`` also the unknown label when
        no known class is as probable as that.
    probability
        Probability of that label.
    p_unknown
        Probability of being unknown: mass on emerging subclasses plus mass on a new one (averaged over the chains,
        and with its odds shifted as learnt).
    probabilities
        Probability of each known class and of unknown; they sum to 1.
    first_label
        The label that was decided at once; with ``decision_delay`` the final one may differ.
    subclass_id
        Of an unknown instance the emerging subclass it sits in (an id that never means anything else), of a
        known one the most responsible subclass of its class; None when an unknown one sits in none.
    nearest_class
        The known class under which it is densest, whatever the label.
    distance
        Mahalanobis distance from the nearest subclass of that class, in standard deviations of its predictive.
    density_rank
        Share of that class's training instances that are no denser: near 0 it is odd for the class.
    batch
        Number of the micro-batch, from 0.
    seq
        Position in the stream, from 0.

    Examples
    --------
    >>> told = {"grass": 0.01, "unknown": 0.99}
    >>> print(Decision("a7", None, "unknown", "unknown", 0.99, 0.99, told, 11, "grass", 24.1, 0.0, 3, 219))
    unknown (0.990) in subclass 11, 24.1 standard deviations off grass; key 'a7', position 219
    """

    key: Any
    t: float | None
    label: Label
    first_label: Label
    probability: float
    p_unknown: float
    probabilities: dict[Label, float]
    subclass_id: int | None
    nearest_class: Label
    distance: float
    density_rank: float
    batch: int
    seq: int

    def __str__(self) -> str:
        sits = "" if self.subclass_id is None else f" in subclass {self.subclass_id}"
        return (
            f"{printable(str(self.label), 60)} ({self.probability:.3f}){sits}, {self.distance:.1f} standard "
            f"deviations off {printable(str(self.nearest_class), 60)}; key {brief(self.key)}, position {self.seq}"
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the text in a notebook; ``repr`` has all of it."""
        printer.text(str(self))

    def as_dict(self) -> dict[str, Any]:
        """Return the decision as a dict of plain values, labels named by text."""
        out = self._asdict()
        out["probabilities"] = dict(zip(map(str, self.probabilities), self.probabilities.values(), strict=True))
        return out


class FailedDecision(NamedTuple):
    """Input of a micro-batch that could not be closed and was given up.

    Attributes
    ----------
    key, t
        As the caller gave them; of a label only its key.
    x
        Features of the instance as they were read, ``None`` = missing; ``None``: it is a label that waited.
    label
        That label; ``None``: it is an instance.
    reason
        Why the micro-batch could not be closed.
    """

    key: Any
    t: float | None
    x: dict[Any, float | str | None] | None
    label: Label | None
    reason: str
