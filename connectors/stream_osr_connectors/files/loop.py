"""A recognizer between a source and its sinks, with checkpoints that resume exactly once."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from stream_osr import OpenSetRecognizer
from stream_osr.config import Label
from stream_osr.errors import (
    ConnectorError,
    InvalidInstance,
    InvalidLabel,
    NotTrained,
    RefusedState,
)
from stream_osr.labels import as_known
from stream_osr.unlike import check_features

from ..base import BadRecord, CheckedSink, PatientSource, Position, Record, Sink, Source
from ..commands.command import Command, CommandResult
from ..commands.file_log import CommandLog
from ..commands.runner import CommandRunner
from .aside import counting, raw_of, reason_of, row_of
from .checkpoint import Checkpoint, load_checkpoint, load_model, save_checkpoint, settle
from .locking import sole_writer
from .unfinished import SetAside, Unfinished

__all__ = ["Checkpoint", "Sinks", "go_on", "load_checkpoint", "load_model", "run", "save_checkpoint"]

logger = logging.getLogger("stream_osr")

SHOW_SECONDS = 1.0
"""How often outputs are flushed where the source waits for more: somebody may follow them as they grow."""


class Sinks(NamedTuple):
    """Where decisions, events and unusable records go.

    Attributes
    ----------
    decisions
        Takes :meth:`stream_osr.Decision.as_dict` of every decision.
    events
        Takes :meth:`stream_osr.Event.as_dict` of every event; ``None``: they are counted only.
    errors
        Takes ``row``, ``reason`` and ``raw`` (the line as it came) of every record that is set aside; ``None``: they
        are counted only.
    """

    decisions: Sink
    events: Sink | None = None
    errors: Sink | None = None

    def flush(self) -> None:
        """Make durable what all of them were given."""
        for sink in self:
            if sink is not None:
                sink.flush()


def check_outputs(checkpoint: Checkpoint, paths: Sequence[str | os.PathLike[str] | None]) -> None:
    """Look for the outputs of a checkpoint, in the order of `Sinks`, before opening them would make new ones.

    Raises
    ------
    ConnectorError
        If one is not there that has to go on, or is given now and was not then, or the other way round.
    """
    _check_given(checkpoint, paths)
    for name, path, position in zip(Sinks._fields, paths, checkpoint.sinks, strict=True):
        held = {} if position is None else position
        if path is not None and (held.get("offset") or held.get("parts")) and not Path(path).exists():
            size = f"{held['parts']} parts" if "parts" in held else f"{held['offset']} bytes"
            raise ConnectorError(
                f"{os.fspath(path)} is not there; the checkpoint expects it, with {size} of {name}: give the name "
                "that the run was begun with, put the file back, or begin anew without --resume"
            )


def _check_given(checkpoint: Checkpoint, given: Sequence[object]) -> None:
    for name, each, position in zip(Sinks._fields, given, checkpoint.sinks, strict=True):
        if (each is None) != (position is None):
            was, now = ("not given", "given") if position is None else ("given", "not given")
            raise ConnectorError(
                f"{name} was {was} when the checkpoint was written and is {now} here; resume as it was"
            )


def go_on(checkpoint: Checkpoint, source: Source, sinks: Sinks) -> None:
    """Put source and sinks where the checkpoint left them: what was written after it is taken back.

    Nothing is taken back before the source and every sink that can tell (`CheckedSink`) have agreed.

    Raises
    ------
    ConnectorError
        If one of them cannot go on from there, is not the one of the checkpoint, or a sink is there now that was not
        then.
    """
    _check_given(checkpoint, sinks)
    given = [(sink, position) for sink, position in zip(sinks, checkpoint.sinks, strict=True) if sink is not None]
    for sink, position in given:
        if isinstance(sink, CheckedSink):
            sink.check(position)
    source.seek(checkpoint.source)
    for sink, position in sorted(given, key=lambda pair: isinstance(pair[0], CheckedSink)):
        sink.truncate(position)


def run(
    model: OpenSetRecognizer,
    source: Source,
    sinks: Sinks,
    *,
    totals: Counter[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10_000,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] = lambda read: None,
    complain: Callable[[int, str], None] = lambda row, reason: None,
    position: Position | None = None,
    reading: Mapping[str, Any] | None = None,
    tell: Callable[[int, Command, CommandResult], None] = lambda n, command, result: None,
    reasons: Counter[str] | None = None,
) -> Counter[str]:
    """Feed the source to the recognizer, in constant memory, until it ends or ``stop`` says so.

    Delivery: with a checkpoint, exactly once across crashes and interruptions for sinks that can be truncated (the
    run is resumed through :func:`go_on`). A record that the source cannot decode, or the recognizer cannot use, or
    that is unlike those of training (:func:`stream_osr.unlike.check_features`) is set aside with its reason, and the
    stream goes on; so are the records of a micro-batch that cannot be closed (:mod:`.unfinished`). The recognizer
    counts them (``counters["refused"]``, ``signals.data_quality``).

    What is asked of the checkpoint meanwhile (:mod:`.asking`) is done between two records, also while the source
    waits for more, and the checkpoint is saved at once.

    Parameters
    ----------
    model
        A trained recognizer.
    source
        Where instances come from; labelled ones are evidence for the classes.
    sinks
        Where decisions, events and unusable records go.
    totals
        Counts to go on from.
    checkpoint
        File to write checkpoints to; no other run writes it meanwhile.
    checkpoint_every
        Records between two checkpoints.
    stop
        Asked before each record.
    progress
        Told the number of records read, after each.
    complain
        Told row and reason of each record that is set aside.
    position
        Where the source stands, if it goes on.
    reading
        How the input is read, to be found in the checkpoint.
    tell
        Told of what was asked, and what came of it.
    reasons
        Counts the records that are set aside by the kind of their reason, and goes on from what it has.

    Returns
    -------
    Counts of records ``read``, ``decided``, ``labelled``, ``set_aside``, of ``events``, and of ``cuts`` of a followed
    file.

    Raises
    ------
    ConnectorError
        If the source cannot be read on, a sink does not take a record, or another run writes the checkpoint.
    PersistenceError
        If the checkpoint cannot be written. One on the way that could not be read again (`RefusedState`) is left out
        with a line in the log and counted (``checkpoints_refused``): the one before stays. The last one raises.

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
    >>> sorted(run(model, source, Sinks(out)).items())
    [('decided', 3), ('read', 4), ('set_aside', 1)]
    >>> [record["nearest_class"] for record in out.records[:2]], out.records[2]["label"]
    (['near', 'far'], 'unknown')
    """
    begins, totals = totals is None, Counter() if totals is None else totals
    log = None if checkpoint is None else CommandLog(checkpoint)
    with nullcontext() if checkpoint is None else sole_writer(checkpoint):
        acting = None if log is None else CommandRunner(log, totals, begins=begins)
        reasons = Counter() if reasons is None else reasons
        complain = counting(reasons, complain)
        kept = _Kept(model, sinks, totals, checkpoint, acting, tell, position, reading, reasons)

        def wait() -> None:
            kept.look()
            kept.show(at_once=True)
            if stop():
                raise _Stopped

        patient = source if isinstance(source, PatientSource) and source.while_waiting(wait) else None
        kept.look()
        stopped, unfinished = False, Unfinished(model)
        try:
            for record in source:
                totals["read"] += 1
                kept.read_to(record.position)
                take(model, record, sinks.errors, totals, complain, unfinished)
                _publish(model, sinks, totals)
                progress(totals["read"])
                if isinstance(record, Record) and record.ignored:
                    model.note_ignored(record.ignored)
                if kept.unsaved >= checkpoint_every:
                    kept.try_to_save()
                kept.look()
                if patient is not None:
                    kept.show()
                stopped = stop()
                if stopped:
                    break
        except _Stopped:
            stopped = True
        if cuts := getattr(source, "cuts", 0):
            totals["cuts"] += cuts
        goes_on = stopped and (patient is None or patient.resumes)
        kept.look(last=not goes_on)
        if not goes_on:
            for each in unfinished.flush():
                _set_aside(model, each, sinks.errors, totals, complain)
            _publish(model, sinks, totals)
        kept.save()
        sinks.flush()
    if checkpoint is not None and log is not None and acting is not None and acting.last_look():
        for n, command, result in settle(checkpoint, log) or ():
            tell(n, command, result)
    return totals


class _Stopped(Exception):
    """The run was told to stop while its source waited."""


class _Kept:
    """What a run keeps: its checkpoint, with what is asked of it, and outputs that others follow as they grow."""

    def __init__(
        self,
        model: OpenSetRecognizer,
        sinks: Sinks,
        totals: Counter[str],
        checkpoint: str | os.PathLike[str] | None,
        acting: CommandRunner | None,
        tell: Callable[[int, Command, CommandResult], None],
        position: Position | None,
        reading: Mapping[str, Any] | None,
        reasons: Mapping[str, int],
    ) -> None:
        self._reasons = reasons
        self._model, self._sinks, self._totals = model, sinks, totals
        self._checkpoint, self._acting, self._tell = checkpoint, acting, tell
        self._position, self._reading, self._changed = position, reading, False
        self.unsaved = 0
        self._shown, self._show_at = self._written(), 0.0

    def read_to(self, position: Position | None) -> None:
        """Take note of a record."""
        self._position, self._changed = position, True
        self.unsaved += 1

    def look(self, *, last: bool = False) -> None:
        """Do what was asked and is due, or all of it if no more records come."""
        if self._acting is None or not (self._acting.last_look() if last else self._acting.due()):
            return
        done = self._acting.run(self._model, all=last)
        self._changed = True
        _publish(self._model, self._sinks, self._totals)
        self.try_to_save()
        for n, command, result in done:
            self._tell(n, command, result)

    def save(self) -> None:
        """Write a checkpoint, if anything has changed since the run began."""
        if self._checkpoint is not None and self._changed:
            self._flush()
            places = tuple(None if sink is None else sink.position() for sink in self._sinks)
            now = Checkpoint(self._model, self._position, places, self._totals, self._reading, self._reasons)
            save_checkpoint(self._checkpoint, now)

    def try_to_save(self) -> None:
        """Write a checkpoint, or say why one that could not be read again is left out."""
        try:
            self.save()
        except RefusedState as error:
            self._totals["checkpoints_refused"] += 1
            logger.error("%s", error)
        self.unsaved = 0

    def show(self, *, at_once: bool = False) -> None:
        """Let others see what was written, once a second."""
        now = time.monotonic()
        if (at_once or now >= self._show_at) and self._written() != self._shown:
            self._flush()
            self._show_at = now + SHOW_SECONDS

    def _flush(self) -> None:
        self._sinks.flush()
        self._shown = self._written()

    def _written(self) -> int:
        return self._totals["decided"] + self._totals["events"] + self._totals["set_aside"]


def take(
    model: OpenSetRecognizer,
    record: Record | BadRecord,
    errors: Sink | None,
    totals: Counter[str],
    complain: Callable[[int, str], None],
    unfinished: Unfinished | None = None,
) -> None:
    """Hand one record, the latest of ``totals["read"]``, to the model, or set it aside.

    ``unfinished`` has the records before it, which are set aside if their micro-batch cannot be closed.
    """
    bad = model.counters["bad_rows"]
    if isinstance(record, BadRecord):
        refused = SetAside(record.row, reason_of(record, record.reason), record.raw)
    else:
        try:
            _check(model, record)
            known = record._replace(label=label_in(model, record.label))
            learnt, given_up = (unfinished or Unfinished(model)).learn(known, totals["read"])
        except (InvalidInstance, InvalidLabel) as error:
            refused = SetAside(row_of(record, totals["read"]), reason_of(record, str(error)), raw_of(record))
        else:
            if learnt and record.label is not None:
                totals["labelled"] += 1
            for each in given_up:
                _set_aside(model, each, errors, totals, complain)
            return
    _set_aside(model, refused, errors, totals, complain, counted=model.counters["bad_rows"] - bad)


def _set_aside(
    model: OpenSetRecognizer,
    refused: SetAside,
    errors: Sink | None,
    totals: Counter[str],
    complain: Callable[[int, str], None],
    *,
    counted: int = 0,
) -> None:
    totals["set_aside"] += 1
    model.count_refused(counted=counted)
    complain(refused.row, refused.reason)
    if errors is not None:
        errors.write(refused._asdict())


def label_in(model: OpenSetRecognizer, label: Label | None) -> Any:
    """Return the label that a trained model has for one of a file: labels are compared as they are spelled."""
    return label if label is None or model.value.training is not None else as_known(label, model.value.labels)


def _check(model: OpenSetRecognizer, record: Record) -> None:
    """Refuse an instance without the features of the model, as soon as there is one."""
    try:
        trained = model.trained
    except NotTrained:
        return
    check_features(trained, record.features, record.found)


def _publish(model: OpenSetRecognizer, sinks: Sinks, totals: Counter[str]) -> None:
    for decision in model.drain():
        totals["decided"] += 1
        sinks.decisions.write(decision.as_dict())
    for event in model.drain_events():
        totals["events"] += 1
        if sinks.events is not None:
            sinks.events.write(event.as_dict())
