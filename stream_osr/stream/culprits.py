"""Search for the instances that make the closing of a micro-batch fail. Files, HTTP and Kafka use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from traceback import extract_tb
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")

MOST_TRIES, MOST_CHEAP = 128, 512
"""Most closings of parts of a micro-batch, and most cheaper attempts. One culprit in 10 000 instances takes 15."""


Failure: TypeAlias = Callable[[Sequence[T]], Exception | None]
"""Function that closes a micro-batch of some items, and returns the error, or ``None``."""


def find_culprits(
    items: Sequence[T], failure: Failure[T], cheaper: Failure[T] | None = None, reason: str = ""
) -> list[tuple[int, Exception]] | None:
    """Find the items without which a micro-batch can be closed.

    A micro-batch that fails is halved. If the first half does not fail, the second half has the culprit. This repeats
    with each half down to single items. If items fail only together, bisection finds the shortest prefix that fails,
    and its last item is a culprit. Both repeat with the other items until they do not fail. The result is
    deterministic.

    Parameters
    ----------
    items
        The instances and labels of a micro-batch that fails, in order.
    failure
        Closes a micro-batch of some of them.
    cheaper
        Does so with less work. It is used if its errors are those of ``failure``: all items fail for the same reason,
        and each part at the same place in the code.
    reason
        Text of the error of all items.

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
    whole = None if cheaper is None else cheaper(items)
    if cheaper is not None and whole is not None and str(whole) == reason:

        def alike(some: Sequence[T]) -> Exception | None:
            error = cheaper(some)
            if error is not None and place_of(error) != place_of(whole):
                raise _OtherFailureError
            return error

        with suppress(_OtherFailureError):
            return _found(items, alike, MOST_CHEAP)
    return _found(items, failure, MOST_TRIES)


def _found(items: Sequence[T], failure: Failure[T], most: int) -> list[tuple[int, Exception]] | None:
    if failure([]) is not None:
        return None
    search, left, culprits = _Search(items, failure, most), [*range(len(items))], list[tuple[int, Exception]]()
    with suppress(_TooManyTriesError):
        while found := search.halved(left) or search.shortest_prefix(left):
            culprits += found
            left = [number for number in left if number not in dict(found)]
            if search.error(left) is None:
                break
        return culprits
    return None


def place_of(error: Exception) -> tuple[type, str, int | None]:
    """Return the type of an error, and where it was raised."""
    frame = extract_tb(error.__traceback__)[-1]
    return type(error), frame.filename, frame.lineno


class _OtherFailureError(Exception):
    pass


class _TooManyTriesError(Exception):
    pass


class _Search(Generic[T]):
    """Attempts to close parts of a micro-batch."""

    def __init__(self, items: Sequence[T], failure: Failure[T], most: int) -> None:
        self._items, self._failure, self._tries = items, failure, most

    def error(self, some: Sequence[int]) -> Exception | None:
        self._tries -= 1
        if self._tries < 0:
            raise _TooManyTriesError
        return self._failure([self._items[number] for number in some])

    def halved(self, part: Sequence[int], error: Exception | None = None) -> list[tuple[int, Exception]]:
        """Find the items of a part that fail alone. ``error`` is that of the part, if it is known."""
        if len(part) <= 1:
            error = self.error(part) if part and error is None else error
            return [] if error is None else [(part[0], error)]
        first, second = part[: len(part) // 2], part[len(part) // 2 :]
        error = self.error(first)
        found = [] if error is None else self.halved(first, error)
        error = self.error(second) if found else None
        return found if found and error is None else [*found, *self.halved(second, error)]

    def shortest_prefix(self, left: Sequence[int]) -> list[tuple[int, Exception]]:
        """Find the last item of the shortest prefix that fails."""
        good, bad, error = 0, len(left), self.error(left)
        if error is None:
            return []
        while bad - good > 1:
            middle = (good + bad) // 2
            half = self.error(left[:middle])
            if half is None:
                good = middle
            else:
                bad, error = middle, half
        return [(left[bad - 1], error)]
