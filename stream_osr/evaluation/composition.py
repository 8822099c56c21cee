"""True composition of a subclass: one class, or a mixture of several."""

from __future__ import annotations

from collections import Counter

MIXED_BELOW = 0.6
"""Share of the largest true class below which a subclass is mixed."""
LEAST_NAMED = 0.01
"""Least share of a true class that is named."""


def main_class(made_of: Counter[str]) -> str | None:
    """Return the true class of a subclass. ``None``: it is a mixture, or empty.

    Examples
    --------
    >>> main_class(Counter({"sky": 90, "window": 10})), main_class(Counter({"foliage": 55, "window": 45}))
    ('sky', None)
    """
    largest, size = max(made_of.items(), key=lambda pair: pair[1], default=(None, 0))
    return largest if size and size >= MIXED_BELOW * made_of.total() else None


def in_words(made_of: Counter[str], most: int = 3) -> str:
    """Describe the composition of a subclass. The text of a mixture begins with *mixed*.

    Parameters
    ----------
    made_of
        True classes, with the number of instances of each.
    most
        Largest number of true classes to name.

    Examples
    --------
    >>> in_words(Counter({"sky": 90, "window": 10})), in_words(Counter({"window": 45, "foliage": 55}))
    ('sky 90 %, window 10 %', 'mixed: foliage 55 %, window 45 %')
    """
    total = made_of.total()
    if not total:
        return ""
    largest = made_of.most_common(most)
    named = [f"{name} {round(100 * n / total)} %" for name, n in largest if n >= LEAST_NAMED * total]
    return ("" if main_class(made_of) is not None else "mixed: ") + ", ".join(named)
