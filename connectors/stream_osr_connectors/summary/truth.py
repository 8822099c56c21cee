"""Decisions against true labels: counts, true classes of subclasses, and accuracy."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from stream_osr.evaluation.calibration import auroc, expected_calibration_error, reliability_curve
from stream_osr_connectors.summary.class_summary import empty_row


class Truth:
    """Counts of decisions with a true label.

    Attributes
    ----------
    counts
        Number of decisions for each true label, whether its class was new, and decided label.
    made_of
        True labels of the unknown instances in each subclass.
    p_unknown, new
        Probability of unknown, and whether the true class was new, of each decision.
    row, new_row
        Decisions with a true label, and those of new classes, in each bin of the timeline.

    Examples
    --------
    >>> truth = Truth()
    >>> truth.take("sky", "unknown", new=True, right=True, subclass=11, p_unknown=0.9, bin=0)
    >>> truth.unknown_found, truth.made_of
    (1.0, {11: Counter({'sky': 1})})
    """

    def __init__(self) -> None:
        self.counts = Counter[tuple[str, bool, str]]()
        self.made_of: dict[int, Counter[str]] = {}
        self.p_unknown, self.new = array("d"), array("b")
        self.row, self.new_row = empty_row(), empty_row()
        self._right: Counter[bool] = Counter()

    def take(
        self, truth: str, label: str, *, new: bool, right: bool, subclass: int | None, p_unknown: float, bin: int
    ) -> None:
        """Count a decision. ``subclass`` is that of an unknown instance."""
        self.counts[truth, new, label] += 1
        self._right[new] += right
        if subclass is not None:
            self.made_of.setdefault(subclass, Counter()).update([truth])
        self.p_unknown.append(p_unknown)
        self.new.append(new)
        self.row[bin] += 1
        self.new_row[bin] += new

    @property
    def known_right(self) -> float:
        """Share of the instances of known classes with the right label."""
        return self._share(new=False)

    @property
    def unknown_found(self) -> float:
        """Share of the instances of new classes that were called unknown."""
        return self._share(new=True)

    def _share(self, *, new: bool) -> float:
        n = self.new.count(1) if new else self.new.count(0)
        return self._right[new] / n if n else math.nan

    def held_by(self, subclasses: Iterable[int]) -> Counter[str]:
        """Count the true labels of the unknown instances in these subclasses."""
        return sum((self.made_of.get(key, Counter()) for key in subclasses), Counter[str]())


def accuracy(truth: Truth, known: Sequence[str], unknown: str) -> dict[str, Any] | None:
    """Return the accuracy for a page, or ``None`` without true labels.

    Parameters
    ----------
    truth
        The counts.
    known, unknown
        Labels of the known classes, and the unknown label.
    """
    if not truth.new:
        return None
    p, new = np.array(truth.p_unknown), np.array(truth.new, bool)
    columns = [unknown, *known]
    kinds = {(label, is_new) for label, is_new, _ in truth.counts}
    rows = [
        {"label": label, "new": is_new, "counts": [truth.counts[label, is_new, column] for column in columns]}
        for label, is_new in sorted(kinds, key=lambda kind: (kind[1], kind[0]))
    ]
    curve = reliability_curve(p, new)
    return {
        "n": len(p),
        "known_right": truth.known_right,
        "unknown_found": truth.unknown_found,
        "auroc": auroc(p, new),
        "calibration_error": expected_calibration_error(p, new),
        "columns": columns,
        "rows": rows,
        "calibration": [
            {"n": int(n), "predicted": float(at), "observed": float(share)}
            for n, at, share in zip(curve.size, curve.predicted, curve.observed, strict=True)
        ],
    }
