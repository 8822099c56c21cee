"""Boundaries of micro-batches in the metadata of a committed offset, for replays.

Kafka stores a text of at most 4 KiB with each committed offset, and writes it in the same transaction. The text has
the boundaries of all micro-batches since an offset with a snapshot. It stores the number of offsets and of places in
the topic of labels from each boundary to the next. Equal successive steps are written once with a count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from typing import NamedTuple

from stream_osr.errors import ConnectorError
from stream_osr.printable_text import brief

VERSION = "1"
"""Version of the format, at the beginning of the text."""

MOST_CHARACTERS = 4000
"""Most characters of the text. Brokers allow 4096 (``offset.metadata.max.bytes``)."""


class LaterReleaseError(ConnectorError):
    """An offset that a later release committed. A fresh start would discard its content."""


class Boundary(NamedTuple):
    """End of a micro-batch: the offset after its last record, and the place in the topic of labels."""

    offset: int
    labels: int = 0


class FailedEnd(Boundary):
    """End of a micro-batch whose records are dead letters for lack of memory. A replay does not retry it."""


class BoundarySteps(NamedTuple):
    """Equal steps: offsets and labels of each, their number, and whether the micro-batches failed."""

    offsets: int
    labels: int
    times: int
    failed: bool = False


class History(NamedTuple):
    """Boundaries of micro-batches since a base, in increasing order of offset or labels.

    Attributes
    ----------
    base
        First boundary.
    fresh
        Whether the stream starts at the base, so that a new recognizer replaces a snapshot.
    steps
        Steps from the base on.

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
        """Append a micro-batch."""
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
        """Yield all boundaries, the base first."""
        offset, labels = self.base
        yield self.base
        for step in self.steps:
            for _ in range(step.times):
                offset, labels = offset + step.offsets, labels + step.labels
                yield (FailedEnd if step.failed else Boundary)(offset, labels)

    def after(self, boundary: Boundary) -> Iterator[Boundary]:
        """Return the boundaries after a boundary."""
        return (each for each in self.boundaries() if each > boundary)

    def since(self, boundary: Boundary) -> History:
        """Drop all boundaries before a boundary. An unknown boundary has no effect."""
        if boundary == self.base or boundary not in self.boundaries():
            return self
        return reduce(History.to, self.after(boundary), History(boundary, fresh=False))

    def until(self, boundary: Boundary) -> History:
        """Drop all boundaries after a boundary."""
        before = (each for each in self.after(self.base) if each <= boundary)
        return reduce(History.to, before, History(self.base, self.fresh))


class Progress(NamedTuple):
    """Parsed metadata of a committed offset.

    Attributes
    ----------
    model
        Identity of the model.
    lineage
        Identity of the sequence of micro-batches. A stream that starts again has a new one.
    history
        Boundaries of micro-batches. The last one is the committed offset.

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
        """Return the text, which should have at most ``MOST_CHARACTERS``."""
        base, fresh, steps = self.history
        coded = ",".join(
            f"{offsets}{f'+{labels}' if labels else ''}{f'*{times}' if times > 1 else ''}{'!' if failed else ''}"
            for offsets, labels, times, failed in steps
        )
        return f"{VERSION} {self.model} {self.lineage} {base.offset}+{base.labels}{'f' if fresh else ''} {coded}"

    @classmethod
    def parse(cls, text: str) -> Progress:
        """Parse the result of :meth:`text`.

        Raises
        ------
        ConnectorError
            If the text is invalid.
        LaterReleaseError
            If a later release wrote it.
        """
        version = text.partition(" ")[0]
        if version.isdecimal() and version != VERSION:
            raise LaterReleaseError(
                f"the committed offset carries {brief(text)}, which a later release of stream-osr wrote: use "
                "that release, or another group"
            )
        found = _FORM.fullmatch(text)
        if found is None:
            raise ConnectorError(
                f"the committed offset carries {brief(text)}, which stream-osr did not write: use another group"
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
