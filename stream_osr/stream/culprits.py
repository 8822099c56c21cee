"""Search for the instances that make the closing of a micro-batch fail. Files, HTTP and Kafka use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

MOST_TRIES = 64
"""Most attempts to close parts of a micro-batch. One culprit in 10 000 instances takes 14."""


def find_culprits(
    items: Sequence[T], failure: Callable[[Sequence[T]], Exception | None]
) -> list[tuple[int, Exception]] | None:
    """Find the items without which a micro-batch can be closed.

    Bisection finds the shortest prefix that fails, and its last item is a culprit. This repeats with the other items
    until they do not fail. The result is deterministic.

    Parameters
    ----------
    items
        The instances and labels of the micro-batch, in order.
    failure
        Function that closes a micro-batch of some of them, and returns the error, or ``None``.

    Returns
    -------
    Numbers of the culprits, in the order of discovery, and the error of each. ``None`` if the micro-batch fails
    without items, or after too many attempts.

    Examples
    --------
    >>> def failure(some):
    ...     return ValueError("no room for 3 and 7") if {3, 7} & {*some} else None
    >>> find_culprits(range(10), failure)
    [(3, ValueError('no room for 3 and 7')), (7, ValueError('no room for 3 and 7'))]
    """
    if failure([]) is not None:
        return None
    tries, left, culprits = iter(range(MOST_TRIES)), [*range(len(items))], list[tuple[int, Exception]]()

    def of(some: Sequence[int]) -> Exception | None:
        return failure([items[number] for number in some])

    while (error := of(left)) is not None:
        good, bad = 0, len(left)
        while bad - good > 1:
            if next(tries, None) is None:
                return None
            middle = (good + bad) // 2
            half = of(left[:middle])
            if half is None:
                good = middle
            else:
                bad, error = middle, half
        culprits.append((left.pop(bad - 1), error))
    return culprits
