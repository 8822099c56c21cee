"""What goes on beside the known, each kind counted apart; and whether the known classes hold."""

from __future__ import annotations

from typing import NamedTuple

from stream_osr.trust.recall import ExpectedRecall


class Signals(NamedTuple):
    """Six counts since the stream began, none of them part of another, and the recall to be expected now.

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
    recall_drops
        Times that the recall of the known classes fell below what training promised: ``RecallDropped`` events.
    rate_jumps
        Times that much more of the stream than usual was called unknown: ``UnknownRateJumped`` events.
    expected_recall
        Share of the known instances that get their own label now; ``None``: nothing was decided yet, or the model has
        no references.
    recall_dropped
        It has fallen below the promise, and is not back.

    Examples
    --------
    >>> print(Signals(novelty=2, outliers=17))
    novelty 2, drift 0, outliers 17, data quality 0, recall drops 0, rate jumps 0
    >>> now = ExpectedRecall(0.8, 0.76, 0.84, 0.19)
    >>> print(Signals(2, recall_drops=1, expected_recall=now, recall_dropped=True))  # doctest: +NORMALIZE_WHITESPACE
    novelty 2, drift 0, outliers 0, data quality 0, recall drops 1, rate jumps 0;
    expected recall 0.800 (0.760 to 0.840), 19.0 % called unknown: below what was promised
    """

    novelty: int = 0
    drift: int = 0
    outliers: int = 0
    data_quality: int = 0
    recall_drops: int = 0
    expected_recall: ExpectedRecall | None = None
    recall_dropped: bool = False
    rate_jumps: int = 0

    def __str__(self) -> str:
        counts = ("novelty", "drift", "outliers", "data_quality", "recall_drops", "rate_jumps")
        told = ", ".join(f"{name.replace('_', ' ')} {getattr(self, name)}" for name in counts)
        if self.expected_recall is None:
            return told
        below = ": below what was promised" if self.recall_dropped else ""
        return f"{told}; expected recall {self.expected_recall}{below}"
