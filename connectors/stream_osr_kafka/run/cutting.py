"""Where a micro-batch ends: pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..wire.boundaries import Boundary
from ..wire.messages import Received


class Cut(NamedTuple):
    """A micro-batch: how many of the waiting records belong to it, and where it ends."""

    size: int
    end: Boundary


def replayed(waiting: Sequence[Received], done: Boundary, end: Boundary) -> Cut | None:
    """Cut where it was cut before; None: not all of it is there yet.

    Parameters
    ----------
    waiting
        Records after the last micro-batch, in order.
    done
        Where that ended.
    end
        Where the next one ended when it was published.
    """
    if end.offset > done.offset and (not waiting or waiting[-1].offset < end.offset - 1):
        return None
    return Cut(sum(record.offset < end.offset for record in waiting), end)


def ready(
    waiting: Sequence[Received], done: Boundary, *, size: int, due: bool, asked: bool, labels: int
) -> Cut | None:
    """Cut the next one; None: it is not ready.

    Parameters
    ----------
    waiting
        Records after the last micro-batch, in order.
    done
        Where that ended.
    size
        Records of a full one.
    due
        The first record has waited for long enough.
    asked
        Somebody has asked something, which takes effect with a micro-batch, if need be with an empty one.
    labels
        Where the topic of labels ends.

    Examples
    --------
    >>> from collections import namedtuple
    >>> At = namedtuple("At", "offset")
    >>> ready([At(7), At(8), At(10)], Boundary(7), size=2, due=False, asked=False, labels=0)
    Cut(size=2, end=Boundary(offset=9, labels=0))
    >>> ready([At(10)], Boundary(9), size=2, due=False, asked=False, labels=0) is None
    True
    """
    count = len(waiting)
    if count < size and not (due and count) and not (asked and not count):
        return None
    count = min(count, size)
    end = waiting[count - 1].offset + 1 if count else done.offset
    return Cut(count, Boundary(end, max(done.labels, labels)))
