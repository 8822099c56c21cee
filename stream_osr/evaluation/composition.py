"""True composition of a subclass: one class, or a mixture of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

MIXED_BELOW = 0.6
"""Share of the largest true class below which a subclass is mixed."""
LEAST_NAMED = 0.01
"""Least share of a true class that is named."""

Composition: TypeAlias = Sequence[tuple[str, int]] | Mapping[str, int]
"""True classes, with the number of instances of each."""


def main_class(made_of: Composition) -> str | None:
    """Return the true class of a subclass. ``None``: it is a mixture, or empty.

    Examples
    --------
    >>> main_class({"sky": 90, "window": 10}), main_class({"foliage": 55, "window": 45})
    ('sky', None)
    """
    ordered = _ordered(made_of)
    total = sum(size for _, size in ordered)
    return ordered[0][0] if total and ordered[0][1] >= MIXED_BELOW * total else None


def in_words(made_of: Composition, most: int = 3) -> str:
    """Describe the composition of a subclass. The text of a mixture begins with *mixed*.

    Parameters
    ----------
    made_of
        True classes, with the number of instances of each.
    most
        Largest number of true classes to name.

    Examples
    --------
    >>> in_words({"sky": 90, "window": 10}), in_words([("window", 45), ("foliage", 55)]), in_words({})
    ('sky 90 %, window 10 %', 'mixed: foliage 55 %, window 45 %', '')
    """
    ordered = _ordered(made_of)
    total = sum(size for _, size in ordered)
    if not total:
        return ""
    named = [f"{name} {round(100 * n / total)} %" for name, n in ordered[:most] if n >= LEAST_NAMED * total]
    return ("" if main_class(ordered) is not None else "mixed: ") + ", ".join(named)


def _ordered(made_of: Composition) -> list[tuple[str, int]]:
    pairs = made_of.items() if isinstance(made_of, Mapping) else made_of
    return sorted(pairs, key=lambda pair: -pair[1])
