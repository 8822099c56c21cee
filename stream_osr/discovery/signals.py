"""What goes on beside the known: four counts, each of one kind of thing."""

from __future__ import annotations

from typing import NamedTuple


class Signals(NamedTuple):
    """Four counts since the stream began; none of them is part of another.

    Attributes
    ----------
    novelty
        Emerging subclasses that were announced: ``SubclassEmerged`` events.
    drift
        Changes of known classes: ``ClassDrifted`` events.
    outliers
        Instances whose emerging subclass left the model without having been announced: they resembled nothing known
        and too little came that resembles them. An instance is counted once its seat has faded, some hundred
        instances after it came.
    data_quality
        Rows with a missing value, or with one that is no finite number, whether they were filled, skipped or refused,
        and all other records that a connector has refused; those of training too.

    Examples
    --------
    >>> print(Signals(novelty=2, outliers=17))
    novelty 2, drift 0, outliers 17, data quality 0
    """

    novelty: int = 0
    drift: int = 0
    outliers: int = 0
    data_quality: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in self._asdict().items())
