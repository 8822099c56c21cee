"""What a subclass is like beside the known ones, and where a known class has moved: what events explain."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

NEW_VALUE = "a new value"
"""In words: a value of a category that training did not have."""


class Explanation(NamedTuple):
    """What a subclass is like, beside the known ones.

    Attributes
    ----------
    mean
        Mean of each numeric feature, in the caller's units.
    difference
        Mean of each numeric feature minus that of the nearest known subclass, in the caller's units.
    shift
        The same in standard deviations of that subclass.
    most_moved
        The numeric features with the largest shifts, the largest first.
    nearest_class
        Label of the known class nearest to it.
    nearest_subclass
        Identity of the known subclass nearest to it.
    distance
        Mahalanobis distance of the mean from that subclass, in standard deviations of its predictive.
    values
        Of each category: its commonest ``value``, the ``share`` of that, and the commonest value of the nearest known
        subclass, ``usual``, with ``usual_share``; ``None`` stands for all values that training did not have. The
        category that tells most comes first.
    """

    mean: dict[Hashable, float]
    difference: dict[Hashable, float]
    shift: dict[Hashable, float]
    most_moved: tuple[Hashable, ...]
    nearest_class: Any
    nearest_subclass: int
    distance: float
    values: Mapping[Hashable, dict[str, Any]] = {}

    @property
    def told(self) -> tuple[str, ...]:
        """The categories in words.

        Examples
        --------
        >>> values = {"protocol": {"value": "icmp", "share": 0.98, "usual": "tcp", "usual_share": 0.9}}
        >>> Explanation({}, {}, {}, (), "a", 0, 1.0, values).told
        ('protocol: icmp 98 %, tcp usual',)
        """
        return tuple(told_of_value(name, its) for name, its in self.values.items())


def told_of_value(name: Hashable, its: Mapping[str, Any]) -> str:
    """Say what an explanation has of a category in words."""
    value, usual = (NEW_VALUE if its[key] is None else str(its[key]) for key in ("value", "usual"))
    return f"{name}: {value} {its['share']:.0%}".replace("%", " %") + f", {usual} usual"


class Movement(NamedTuple):
    """How far the mean of a known class has moved, feature by feature.

    Attributes
    ----------
    mean
        Mean of each feature since the change, in the caller's units.
    trained
        Mean in training.
    shift
        Their difference, in standard deviations of the class in training.
    """

    mean: dict[Hashable, float]
    trained: dict[Hashable, float]
    shift: dict[Hashable, float]
