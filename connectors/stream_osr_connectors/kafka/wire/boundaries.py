"""Boundaries of micro-batches in the metadata of a committed offset, for replays.

Kafka stores a text of at most 4 KiB with each committed offset, and writes it in the same transaction. The text has
the boundaries of all steps since an offset with a snapshot. It stores the number of offsets and of places in
the topic of labels from each boundary to the next. Equal successive steps are written once with a count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from typing import NamedTuple

from stream_osr.errors import ConnectorError
from stream_osr.printable_text import brief

VERSION = "2"
"""Version of the format, at the beginning of the text. Version 1 has no open boundaries, size and first record."""

READABLE = ("1", VERSION)
"""Versions of the format that can be read."""

MOST_CHARACTERS = 4000
"""Most characters of the text. Brokers allow 4096 (``offset.metadata.max.bytes``)."""


class LaterReleaseError(ConnectorError):
    """An offset that a later release committed. A fresh start would discard its content."""


class Boundary(NamedTuple):
    """End of some records that a step processes together.

    Attributes
    ----------
    offset
        Offset after the last record.
    labels
        Place in the topic of labels.
    closes
        0 if the step closes the full micro-batches only, and the other records wait. Otherwise it closes unfinished
        ones, and the number counts such steps at the same offset and place.
    """

    offset: int
    labels: int = 0
    closes: int = 1


class FailedEnd(Boundary):
    """End of records that are dead letters for lack of memory. A replay does not retry them."""


class BoundarySteps(NamedTuple):
    """Equal steps: offsets and labels of each, their number, whether they failed, and whether they close batches."""

    offsets: int
    labels: int
    times: int
    failed: bool = False
    closes: int = 1


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
    [Boundary(offset=612, labels=0, closes=1), Boundary(offset=630, labels=2, closes=1)]
    >>> history.since(Boundary(612)).steps
    (BoundarySteps(offsets=18, labels=2, times=1, failed=False, closes=1),)
    """

    base: Boundary
    fresh: bool
    steps: tuple[BoundarySteps, ...] = ()

    def to(self, end: Boundary) -> History:
        """Append a micro-batch."""
        last = self.last
        failed = isinstance(end, FailedEnd)
        step = BoundarySteps(end.offset - last.offset, end.labels - last.labels, 1, failed, end.closes)
        if min(step[:2]) < 0 or end <= last:
            raise ValueError(f"a micro-batch cannot end at {end} when the one before it ended at {last}")
        if self.steps and self.steps[-1]._replace(times=1) == step:
            *before, same = self.steps
            return self._replace(steps=(*before, same._replace(times=same.times + 1)))
        return self._replace(steps=(*self.steps, step))

    @property
    def last(self) -> Boundary:
        """Last boundary."""
        offset, labels, closes = self.base
        for step in self.steps:
            offset, labels = offset + step.times * step.offsets, labels + step.times * step.labels
            closes = step.closes
        return Boundary(offset, labels, closes)

    def boundaries(self) -> Iterator[Boundary]:
        """Yield all boundaries, the base first."""
        offset, labels, _ = self.base
        yield self.base
        for step in self.steps:
            for _ in range(step.times):
                offset, labels = offset + step.offsets, labels + step.labels
                yield (FailedEnd if step.failed else Boundary)(offset, labels, step.closes)

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
        Boundaries. The last one is the committed offset.
    size
        Number of instances of a full micro-batch, 0 if every boundary closes.
    first
        Offset of the first record without a final decision, ``None`` if there is none or it is unknown.

    Examples
    --------
    >>> history = History(Boundary(0), fresh=True).to(Boundary(256)).to(Boundary(512)).to(Boundary(519, 1))
    >>> Progress("0123abcd", "77aa", history, 64).text()
    '2 0123abcd 77aa 0+0f 256*2,7+1 64'
    >>> Progress.parse('2 0123abcd 77aa 0+0f 256*2,7+1 64') == Progress("0123abcd", "77aa", history, 64)
    True
    >>> Progress("0123abcd", "77aa", history.to(FailedEnd(600, 1)).to(Boundary(700, 1, 0)), 64, 650).text()
    '2 0123abcd 77aa 0+0f 256*2,7+1,81!,100o 64 650'
    """

    model: str
    lineage: str
    history: History
    size: int = 0
    first: int | None = None

    def text(self) -> str:
        """Return the text, which should have at most ``MOST_CHARACTERS``."""
        base, fresh, steps = self.history
        coded = ",".join(map(_step_text, steps))
        start = f"{base.offset}+{base.labels}{closing_text(base.closes)}{'f' if fresh else ''}"
        first = "" if self.first is None else f" {self.first}"
        return f"{VERSION} {self.model} {self.lineage} {start} {coded} {self.size}{first}"

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
        if version.isdecimal() and version not in READABLE:
            raise LaterReleaseError(
                f"the committed offset carries {brief(text)}, which a later release of stream-osr wrote: use "
                "that release, or another group"
            )
        found = _FORM.fullmatch(text)
        if found is None:
            raise ConnectorError(
                f"the committed offset carries {brief(text)}, which stream-osr did not write: use another group"
            )
        steps = tuple(_parsed_step(step) for step in _STEP.finditer(found["steps"]))
        base = Boundary(int(found["offset"]), int(found["labels"]), closing_of(found["closes"]))
        history = History(base, bool(found["fresh"]), steps)
        first = None if found["first"] is None else int(found["first"])
        return cls(found["model"], found["lineage"], history, int(found["size"] or 0), first)


def _step_text(step: BoundarySteps) -> str:
    labels = f"+{step.labels}" if step.labels else ""
    times = f"*{step.times}" if step.times > 1 else ""
    return f"{step.offsets}{labels}{times}{closing_text(step.closes)}{'!' if step.failed else ''}"


def closing_text(closes: int) -> str:
    """Return the text of the number of a boundary: nothing for 1.

    >>> closing_text(0), closing_text(1), closing_text(2)
    ('o', '', 'c2')
    """
    return ("o", "")[closes] if closes < 2 else f"c{closes}"


def closing_of(text: str) -> int:
    """Return the number of a text of :func:`closing_text`."""
    return int(text[1:]) if text.startswith("c") else int(text != "o")


def _parsed_step(step: re.Match[str]) -> BoundarySteps:
    numbers = int(step["offsets"]), int(step["labels"] or 0), int(step["times"] or 1)
    return BoundarySteps(*numbers, failed=bool(step["failed"]), closes=closing_of(step["closes"]))


_STEP_FORM = r"(?P<offsets>\d+)(\+(?P<labels>\d+))?(\*(?P<times>\d+))?(?P<closes>o|c\d+|)(?P<failed>!?)"
_STEP = re.compile(_STEP_FORM)
_PLAIN_STEP = re.sub(r"\?P<\w+>", "", _STEP_FORM)
_FORM = re.compile(
    rf"[12] (?P<model>\S+) (?P<lineage>\S+) (?P<offset>\d+)\+(?P<labels>\d+)(?P<closes>o|c\d+|)(?P<fresh>f?) "
    rf"(?P<steps>({_PLAIN_STEP}(,{_PLAIN_STEP})*)?)( (?P<size>\d+)( (?P<first>\d+))?)?"
)
