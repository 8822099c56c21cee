"""Ends of steps: by number of records, by time and commands, and in a replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..wire.boundaries import Boundary
from ..wire.messages import Received


class Cut(NamedTuple):
    """The records of a step: their number, and its boundary."""

    size: int
    end: Boundary


def replayed(waiting: Sequence[Received], done: Boundary, end: Boundary) -> Cut | None:
    """Return the step up to an earlier boundary, or ``None`` if records are missing.

    Parameters
    ----------
    waiting
        Records after the last boundary, in order.
    done
        Last boundary.
    end
        Next boundary when it was published.
    """
    if end.offset > done.offset and (not waiting or waiting[-1].offset < end.offset - 1):
        return None
    return Cut(sum(record.offset < end.offset for record in waiting), end)


def ready(
    waiting: Sequence[Received], done: Boundary, *, size: int, due: bool, requested: bool, labels: int
) -> Cut | None:
    """Return the next step, or ``None`` if it is not ready.

    Parameters
    ----------
    waiting
        Records after the last boundary, in order.
    done
        Last boundary.
    size
        Number of records of a full step.
    due
        Whether the first record without a decision has waited for long enough, so that all micro-batches close.
    requested
        Whether there are commands, which apply with a step, even with an empty one.
    labels
        Where the topic of labels ends.

    Examples
    --------
    >>> from collections import namedtuple
    >>> At = namedtuple("At", "offset")
    >>> ready([At(7), At(8), At(10)], Boundary(7), size=2, due=False, requested=False, labels=0)
    Cut(size=2, end=Boundary(offset=9, labels=0, closes=0))
    >>> ready([At(10)], Boundary(9), size=2, due=False, requested=False, labels=0) is None
    True
    >>> ready([At(10)], Boundary(9), size=2, due=True, requested=False, labels=0)
    Cut(size=1, end=Boundary(offset=11, labels=0, closes=1))
    """
    count = len(waiting)
    if count < size and not due and not (requested and not count):
        return None
    count = min(count, size)
    end = Boundary(waiting[count - 1].offset + 1 if count else done.offset, max(done.labels, labels), int(due))
    return Cut(count, end._replace(closes=done.closes + 1) if due and end[:2] == done[:2] else end)
