"""A run over files: a recognizer between a source and its sinks, with checkpoints that resume exactly once."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from stream_osr import Keyed, OpenSetRecognizer
from stream_osr.errors import ConnectorError, RefusedState
from stream_osr.stream.recognizer_state import with_ignored

from ..base import BadRecord, CheckedSink, PatientSource, Record, Sink, Source
from ..commands.command import Command, CommandResult
from ..commands.file_log import CommandLog
from ..commands.runner import CommandRunner
from ..engine import check_carries
from .account import Account
from .checkpoint import Checkpoint, save_streams, settle
from .line_source import Rows, RowSource
from .locking import sole_writer
from .streams import KeyedStreams, OneStream, keyed_of

__all__ = ["FileRun", "Sinks", "go_on"]

logger = logging.getLogger("stream_osr")

SHOW_SECONDS = 1.0
"""Seconds between two flushes while the source waits, because readers may follow the outputs."""

LONG_SAVE, LONGEST_SHARE = 1.0, 10.0
"""Seconds above which a save of streams by key is long, and the least interval after it as a multiple of this save.

With many keys a checkpoint stores many recognizers.
"""


class Sinks(NamedTuple):
    """Sinks of decisions, events and records that cannot be used.

    Attributes
    ----------
    decisions
        Gets :meth:`stream_osr.Decision.as_dict` of every decision.
    events
        Gets :meth:`stream_osr.Event.as_dict` of every event. ``None`` means that the run only counts them.
    errors
        Gets ``row``, ``reason`` and ``raw`` (the original line) of every record that is set aside. ``None`` means
        that the run only counts them.
    """

    decisions: Sink
    events: Sink | None = None
    errors: Sink | None = None

    def flush(self) -> None:
        """Flush all sinks."""
        for sink in self:
            if sink is not None:
                sink.flush()


def check_outputs(
    checkpoint: Checkpoint, paths: Sequence[str | os.PathLike[str] | None], change: str | None = None
) -> None:
    """Check that the outputs of a checkpoint exist, in the order of `Sinks`, before opening would create them.

    Parameters
    ----------
    checkpoint, paths
        The checkpoint, and the outputs.
    change
        What differs from the earlier run, such as the model. An output must then end at the checkpoint, because
        readers may know later results, and other results would replace them.

    Raises
    ------
    ConnectorError
        If an output is missing, is given in only one of the two runs, or does not end at the checkpoint.
    """
    _check_given(checkpoint, paths)
    for name, path, position in zip(Sinks._fields, paths, checkpoint.sinks, strict=True):
        held = {} if position is None else position
        if path is not None and (held.get("offset") or held.get("parts")) and not Path(path).exists():
            size = f"{held['parts']} parts" if "parts" in held else f"{held['offset']} bytes"
            raise ConnectorError(
                f"{os.fspath(path)} is missing. The checkpoint expects it, with {size} of {name}. Give the name "
                "from the start of the run, put the file back, or start again without --resume"
            )
        if change is not None and path is not None and _exceeds(Path(path), held):
            raise ConnectorError(
                f"{os.fspath(path)} has {name} after the checkpoint, because the last run was killed, and another "
                f"{change} would change them. Start once as before and stop the run (SIGTERM), and change it then"
            )


def _exceeds(path: Path, position: Mapping[str, Any]) -> bool:
    """Return whether an output goes on after a position."""
    if "parts" in position:
        return len([*path.glob("*.parquet")]) > int(position["parts"])
    return path.is_file() and path.stat().st_size > int(position.get("offset", 0))


def _check_given(checkpoint: Checkpoint, given: Sequence[object]) -> None:
    for name, each, position in zip(Sinks._fields, given, checkpoint.sinks, strict=True):
        if (each is None) != (position is None):
            was, now = ("not given", "given") if position is None else ("given", "not given")
            raise ConnectorError(
                f"{name} was {was} when the checkpoint was written and is {now} here. Use the same options to resume"
            )


def go_on(checkpoint: Checkpoint, source: Source, sinks: Sinks) -> None:
    """Move source and sinks to the positions in the checkpoint. Later output is removed.

    Nothing is removed before the source and every sink with a check (`CheckedSink`) have accepted their positions.

    Raises
    ------
    ConnectorError
        If one of them cannot continue there or is not the one of the checkpoint, or if the checkpoint has no such
        sink.
    """
    _check_given(checkpoint, sinks)
    given = [(sink, position) for sink, position in zip(sinks, checkpoint.sinks, strict=True) if sink is not None]
    for sink, position in given:
        if isinstance(sink, CheckedSink):
            sink.check(position)
    source.seek(checkpoint.source)
    for sink, position in sorted(given, key=lambda pair: isinstance(pair[0], CheckedSink)):
        sink.truncate(position)


@dataclass
class FileRun:
    """A run: a recognizer between a source and its sinks, in constant memory.

    Delivery: with a checkpoint, exactly once across crashes and interruptions for sinks that can be truncated.
    :meth:`go_on` resumes a run. A record is set aside with its reason if the source cannot decode it, if the
    recognizer cannot use it, or if it is unlike the training records
    (:func:`stream_osr.training.schema_check.check_features`). So are the records that make the closing of a
    micro-batch fail (:class:`.engine.RecordStream`). The stream continues. The recognizer counts these records
    (``counters["refused"]``, ``signals.data_quality``).

    The run applies commands to the checkpoint (:mod:`stream_osr_connectors.commands`) between two records, also while
    the source waits for input, and saves the checkpoint at once.

    Parameters
    ----------
    model
        A trained recognizer.
    source
        Source of instances. The model learns labelled ones.
    sinks
        Sinks of decisions, events and records that cannot be used.
    checkpoint
        File for checkpoints, which no other run may use at the same time.
    checkpoint_every
        Records between two checkpoints. With streams by key there are more of them after a checkpoint that takes
        longer than a second, so that saving takes a tenth of the time at most.
    started
        Checkpoint whose positions source and sinks have. See :meth:`go_on`.
    reading
        How the input is read, to store in the checkpoint.
    stop
        Called after each step: a record, or the rows of numbers of a micro-batch. The run ends if it returns true.
    progress
        Called after each step with the number of records read.
    complain
        Called with row and reason of each record that is set aside.
    tell
        Called with number, command and result of each command.
    saved
        Called after each checkpoint. The checkpoint has the present state.
    keyed
        Recognizers by key, to run one for each value of :attr:`stream_osr_connectors.base.Record.by`
        (:func:`.streams.keyed_of`). ``model`` then has their arguments, and counts the records that are set aside.
        Decisions and events have a further field ``by``. ``None`` means one stream.
    contributions
        Number of features whose contributions each decision has, in a field ``contributions``
        (:meth:`stream_osr.OpenSetRecognizer.contributions_many`). ``None``: there is no such field.

    Attributes
    ----------
    totals
        Counts of records ``read``, ``decided``, ``labelled`` and ``set_aside``, of ``events``, and of ``cuts`` of a
        followed file.
    reasons
        Counts of the records that are set aside, by the kind of their reason.

    Examples
    --------
    >>> from stream_osr_connectors.files import MemorySink, MemorySource
    >>> model = OpenSetRecognizer(batch_size=2)
    >>> for i in range(60):
    ...     model.learn_one({"x": i % 7, "y": i % 5}, "near")
    ...     model.learn_one({"x": i % 7 + 50, "y": i % 5}, "far")
    >>> _ = model.freeze()
    >>> out = MemorySink()
    >>> source = MemorySource([{"x": 2, "y": 3}, {"x": "two", "y": 3}, {"x": 52, "y": 1}, {"x": 400, "y": -90}])
    >>> sorted(FileRun(model, source, Sinks(out)).run().items())
    [('decided', 3), ('read', 4), ('set_aside', 1)]
    >>> [record["nearest_class"] for record in out.records[:2]], out.records[2]["label"]
    (['near', 'far'], 'unknown')
    """

    model: OpenSetRecognizer
    source: Source
    sinks: Sinks
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: int = 10_000
    started: Checkpoint | None = None
    reading: Mapping[str, Any] | None = None
    stop: Callable[[], bool] = lambda: False
    progress: Callable[[int], None] = lambda read: None
    complain: Callable[[int, str], None] = lambda row, reason: None
    tell: Callable[[int, Command, CommandResult], None] = lambda n, command, result: None
    saved: Callable[[], None] = lambda: None
    keyed: Keyed | None = None
    contributions: int | None = None

    def __post_init__(self) -> None:
        started = self.started
        if started is not None and (started.keys is None) != (self.keyed is None):
            was, now = ("one stream", "by key") if started.keys is None else ("by key", "one stream")
            raise ConnectorError(f"the run was begun as {was} and continues as {now}. Give the same to resume")
        self.totals: Counter[str] = Counter() if started is None else started.totals
        self.reasons: Counter[str] = Counter() if started is None else Counter(started.reasons)
        self._position = None if started is None else started.source
        self._account = Account(self.model, self.totals, self.sinks.errors, self.complain, self.reasons)
        self._streams = self._streams_of(None if started is None else started.keys, self.contributions)
        self._row_source = self.source if isinstance(self.source, RowSource) else None
        self._runner: CommandRunner | None = None
        self._changed, self._unsaved, self._save_from = False, 0, 0.0
        self._visible, self._show_at = self._written(), 0.0

    @classmethod
    def go_on(
        cls,
        started: Checkpoint,
        source: Source,
        sinks: Sinks,
        successor: OpenSetRecognizer | None = None,
        **options: Any,
    ) -> FileRun:
        """Create a run that resumes from a checkpoint. It moves source and sinks to their positions (:func:`go_on`).

        Parameters
        ----------
        started
            The checkpoint.
        source, sinks
            Source and sinks.
        successor
            New recognizer of another model, which continues the streams. The earlier model closes the unfinished
            micro-batches first, so that each record has one decision. A checkpoint is saved at once.
        options
            Further arguments of the run.

        Raises
        ------
        ConnectorError
            If one of them cannot continue there.
        InvalidParameter
            If the successor cannot continue the streams. Nothing has changed then, except for a class that people
            opened and that cannot be a class of the new model.
        """
        if successor is not None:
            check_carries(successor, started.model)
        go_on(started, source, sinks)
        contributions = options.pop("contributions", None)
        first = contributions if successor is None or not started.model.decision_delay else None
        run = cls(started.model, source, sinks, started=started, contributions=first, **options)
        if successor is not None:
            run.contributions = contributions
            run.change_model(successor)
        return run

    def run(self) -> Counter[str]:
        """Feed the source to the recognizer until it ends or ``stop`` returns true. Return the counts.

        Raises
        ------
        ConnectorError
            If the source cannot be read, a sink does not accept a record, or another run uses the checkpoint.
        PersistenceError
            If the checkpoint cannot be written. A checkpoint during the run that could not be read again
            (`RefusedState`) is skipped, logged and counted (``checkpoints_refused``). The previous one stays. For the
            last checkpoint this error is raised.
        """
        if self.checkpoint is None:
            self._run()
            return self.totals
        log = CommandLog(self.checkpoint)
        with sole_writer(self.checkpoint):
            self._runner = CommandRunner(log, self.totals, begins=self.started is None)
            self._run()
        if self._runner.last_look():
            for each in settle(self.checkpoint, log) or ():
                self.tell(*each)
        return self.totals

    def change_model(self, model: OpenSetRecognizer) -> None:
        """End the streams of the model, and continue them with another one."""
        self._streams.flush(every=True)
        self._publish()
        model.carry_over(self.model)
        if self.keyed is not None:
            keyed = keyed_of(model, self.checkpoint)
            keyed.carry_over(self.keyed)
            self.keyed = keyed
        self.model = self._account.model = model
        self._streams = self._streams_of(None, self.contributions)
        self._publish()
        self._changed = True
        self._save()

    def _streams_of(self, saved: Mapping[str, Any] | None, contributions: int | None) -> OneStream | KeyedStreams:
        if self.keyed is None:
            return OneStream(self._account, contributions)
        return KeyedStreams(self.keyed, self._account, saved, contributions)

    def _run(self) -> None:
        source = self.source
        patient = source if isinstance(source, PatientSource) and source.while_waiting(self._wait) else None
        if patient is not None and not getattr(source, "prompt", False):
            self._row_source = None  # it would wait until the rows are complete
        self._apply_commands()
        try:
            stopped = self._read(flushes=patient is not None)
        except _Stopped:
            stopped = True
        if cuts := getattr(source, "cuts", 0):
            self.totals["cuts"] += cuts
        goes_on = stopped and (patient is None or patient.resumes)
        self._apply_commands(last=not goes_on)
        if not goes_on:
            self._streams.flush()
            self._publish()
        self._save()
        self.sinks.flush()

    def _read(self, *, flushes: bool) -> bool:
        """Read the records. Return whether the run was stopped."""
        while (record := self._take_rows() or self._take_one()) is not None:
            self._position, self._changed = record.position, True
            self._publish()
            self.progress(self.totals["read"])
            if not isinstance(record, BadRecord) and record.ignored:
                self.model.value = with_ignored(self.model.value, record.ignored)
            if self._unsaved >= self.checkpoint_every and time.monotonic() >= self._save_from:
                self._try_to_save()
            self._apply_commands()
            if flushes:
                self._show()
            if self.stop():
                return True
        return False

    def _take_one(self) -> Record | BadRecord | None:
        record = next(self.source, None)
        if record is not None:
            self._count(1)
        if isinstance(record, BadRecord):
            self._account.refuse(record, record.reason)
        elif record is not None:
            self._streams.take(record)
        return record

    def _take_rows(self) -> Rows | None:
        if not isinstance(self._streams, OneStream) or self._row_source is None:
            return None
        rows = self._streams.take_rows(self._row_source, self.checkpoint_every - self._unsaved)
        if rows is not None:
            self._count(len(rows.lines))
        return rows

    def _count(self, records: int) -> None:
        self.totals["read"] += records
        self._unsaved += records

    def _wait(self) -> None:
        self._apply_commands()
        self._show(at_once=True)
        if self.stop():
            raise _Stopped

    def _apply_commands(self, *, last: bool = False) -> None:
        """Apply the commands that are due, or all of them at the end of the input."""
        if self._runner is None or not (self._runner.last_look() if last else self._runner.due()):
            return
        done = self._runner.run(self._streams.apply, all=last)
        self._changed = True
        self._publish()
        self._try_to_save()
        for each in done:
            self.tell(*each)

    def _publish(self) -> None:
        for decision in self._streams.decisions():
            self.totals["decided"] += 1
            self.sinks.decisions.write(decision)
        for event in self._streams.events():
            self.totals["events"] += 1
            if self.sinks.events is not None:
                self.sinks.events.write(event)

    def _save(self) -> None:
        """Write a checkpoint if anything has changed since the start of the run."""
        if self.checkpoint is not None and self._changed:
            self._flush()
            places = tuple(None if sink is None else sink.position() for sink in self.sinks)
            now = Checkpoint(self.model, self._position, places, self.totals, self.reading, self.reasons)
            save_streams(self.checkpoint, now, self._streams)
            self.saved()

    def _try_to_save(self) -> None:
        """Write a checkpoint, or log why a checkpoint that could not be read again is skipped."""
        began = time.monotonic()
        try:
            self._save()
        except RefusedState as error:
            self.totals["checkpoints_refused"] += 1
            logger.error("%s", error)
        self._unsaved, took = 0, time.monotonic() - began
        self._save_from = began + LONGEST_SHARE * took if self.keyed is not None and took > LONG_SAVE else 0.0

    def _show(self, *, at_once: bool = False) -> None:
        """Flush the outputs for their readers once a second."""
        now = time.monotonic()
        if (at_once or now >= self._show_at) and self._written() != self._visible:
            self._flush()
            self._show_at = now + SHOW_SECONDS

    def _flush(self) -> None:
        self.sinks.flush()
        self._visible = self._written()

    def _written(self) -> int:
        return self.totals["decided"] + self.totals["events"] + self.totals["set_aside"]


class _Stopped(Exception):
    """The run was stopped while its source waited."""
