"""Ends of micro-batches in the metadata of a committed offset, as a replay needs them.

Kafka keeps a text of at most 4 KiB with each committed offset and writes it in the same transaction. Into it goes
every end of a micro-batch since an offset that a snapshot can be had of, as steps: how many offsets further, and
how many places further in the topic of labels. Equal steps one after the other are written once, with their number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from typing import NamedTuple

from stream_osr.errors import ConnectorError
from stream_osr.printable_text import brief

VERSION = "1"
"""Of the text, which begins with it."""

MOST_CHARACTERS = 4000
"""Of the text; brokers allow 4096 (``offset.metadata.max.bytes``)."""


class LaterReleaseError(ConnectorError):
    """Offset committed by a later release: to begin anew would throw its content away."""


class Boundary(NamedTuple):
    """End of a micro-batch: the offset after its last record, and the place in the topic of labels before it."""

    offset: int
    labels: int = 0


class FailedEnd(Boundary):
    """End of a micro-batch whose records are dead letters, for want of memory: a replay does not try it again."""


class BoundarySteps(NamedTuple):
    """So many ``times`` a step: offsets and labels that each goes further, and whether its micro-batch failed."""

    offsets: int
    labels: int
    times: int
    failed: bool = False


class History(NamedTuple):
    """Ends of micro-batches since some boundary, in order; each is after the one before it, by offset or by labels.

    Attributes
    ----------
    base
        Where it begins.
    fresh
        At the base nothing had been learnt from the stream: a new recognizer stands for a snapshot.
    steps
        From the base on.

    Examples
    --------
    >>> history = History(Boundary(100), fresh=True).to(Boundary(356)).to(Boundary(612)).to(Boundary(630, 2))
    >>> list(history.after(Boundary(356)))
    [Boundary(offset=612, labels=0), Boundary(offset=630, labels=2)]
    >>> history.since(Boundary(612)).steps
    (BoundarySteps(offsets=18, labels=2, times=1, failed=False),)
    """

    base: Boundary
    fresh: bool
    steps: tuple[BoundarySteps, ...] = ()

    def to(self, end: Boundary) -> History:
        """Go one micro-batch further."""
        last = self.last
        step = BoundarySteps(end.offset - last.offset, end.labels - last.labels, 1, isinstance(end, FailedEnd))
        if min(step[:2]) < 0 or end == last:
            raise ValueError(f"a micro-batch cannot end at {end} when the one before it ended at {last}")
        if self.steps and self.steps[-1]._replace(times=1) == step:
            *before, same = self.steps
            return self._replace(steps=(*before, same._replace(times=same.times + 1)))
        return self._replace(steps=(*self.steps, step))

    @property
    def last(self) -> Boundary:
        """Last boundary."""
        offset, labels = self.base
        for step in self.steps:
            offset, labels = offset + step.times * step.offsets, labels + step.times * step.labels
        return Boundary(offset, labels)

    def boundaries(self) -> Iterator[Boundary]:
        """All of them, the base first."""
        offset, labels = self.base
        yield self.base
        for step in self.steps:
            for _ in range(step.times):
                offset, labels = offset + step.offsets, labels + step.labels
                yield (FailedEnd if step.failed else Boundary)(offset, labels)

    def after(self, boundary: Boundary) -> Iterator[Boundary]:
        """Those after a boundary."""
        return (each for each in self.boundaries() if each > boundary)

    def since(self, boundary: Boundary) -> History:
        """Forget what was before a boundary; one that is none of them changes nothing."""
        if boundary == self.base or boundary not in self.boundaries():
            return self
        return reduce(History.to, self.after(boundary), History(boundary, fresh=False))

    def until(self, boundary: Boundary) -> History:
        """Forget what is after a boundary."""
        before = (each for each in self.after(self.base) if each <= boundary)
        return reduce(History.to, before, History(self.base, self.fresh))


class Progress(NamedTuple):
    """Parsed metadata of a committed offset.

    Attributes
    ----------
    model
        Identity of the model that got there.
    lineage
        Identity of the run of micro-batches: a stream that begins anew has another.
    history
        Ends of its micro-batches; the last one is the committed offset.

    Examples
    --------
    >>> history = History(Boundary(0), fresh=True).to(Boundary(256)).to(Boundary(512)).to(Boundary(519, 1))
    >>> Progress("0123abcd", "77aa", history).text()
    '1 0123abcd 77aa 0+0f 256*2,7+1'
    >>> Progress.parse('1 0123abcd 77aa 0+0f 256*2,7+1') == Progress("0123abcd", "77aa", history)
    True
    >>> Progress("0123abcd", "77aa", history.to(FailedEnd(600, 1))).text()
    '1 0123abcd 77aa 0+0f 256*2,7+1,81!'
    """

    model: str
    lineage: str
    history: History

    def text(self) -> str:
        """Write it down; see ``MOST_CHARACTERS``."""
        base, fresh, steps = self.history
        coded = ",".join(
            f"{offsets}{f'+{labels}' if labels else ''}{f'*{times}' if times > 1 else ''}{'!' if failed else ''}"
            for offsets, labels, times, failed in steps
        )
        return f"{VERSION} {self.model} {self.lineage} {base.offset}+{base.labels}{'f' if fresh else ''} {coded}"

    @classmethod
    def parse(cls, text: str) -> Progress:
        """Read what :meth:`text` wrote.

        Raises
        ------
        ConnectorError
            If it is something else.
        LaterReleaseError
            If a later release has written it.
        """
        version = text.partition(" ")[0]
        if version.isdecimal() and version != VERSION:
            raise LaterReleaseError(
                f"the committed offset carries {brief(text)}, which a later release of stream-osr wrote; go on with "
                "that, or with another group"
            )
        found = _FORM.fullmatch(text)
        if found is None:
            raise ConnectorError(
                f"the committed offset carries {brief(text)}, which stream-osr did not write; go on with another "
                "group"
            )
        steps = _STEP.finditer(found["steps"])
        parsed = [
            BoundarySteps(int(s["offsets"]), int(s["labels"] or 0), int(s["times"] or 1), bool(s["failed"]))
            for s in steps
        ]
        base = Boundary(int(found["offset"]), int(found["labels"]))
        history = History(base, bool(found["fresh"]), tuple(parsed))
        return cls(found["model"], found["lineage"], history)


_STEP_FORM = r"(?P<offsets>\d+)(\+(?P<labels>\d+))?(\*(?P<times>\d+))?(?P<failed>!?)"
_STEP = re.compile(_STEP_FORM)
_PLAIN_STEP = re.sub(r"\?P<\w+>", "", _STEP_FORM)
_FORM = re.compile(
    rf"{VERSION} (?P<model>\S+) (?P<lineage>\S+) (?P<offset>\d+)\+(?P<labels>\d+)(?P<fresh>f?) "
    rf"(?P<steps>({_PLAIN_STEP}(,{_PLAIN_STEP})*)?)"
)
