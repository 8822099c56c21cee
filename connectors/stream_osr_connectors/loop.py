"""A recognizer between a source and its sinks, with checkpoints that resume exactly once."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

from stream_osr import OpenSetRecognizer
from stream_osr.archive import check_content, read_archive, write_archive
from stream_osr.archive.rules import anything, fields, many, mapping, maybe, text, whole
from stream_osr.errors import (
    ConnectorError,
    InvalidInstance,
    InvalidLabel,
    NotTrained,
    PersistenceError,
    RefusedState,
)
from stream_osr.unlike import check_features

from .base import BadRecord, CheckedSink, Position, Record, Sink, Source
from .locking import sole_writer
from .values import written

logger = logging.getLogger("stream_osr")


class Sinks(NamedTuple):
    """Where decisions, events and unusable records go.

    Attributes
    ----------
    decisions
        Takes :meth:`stream_osr.Decision.as_dict` of every decision.
    events
        Takes :meth:`stream_osr.Event.as_dict` of every event; ``None``: they are counted only.
    errors
        Takes ``row``, ``reason`` and ``raw`` of every record that is set aside; ``None``: they are counted only.
    """

    decisions: Sink
    events: Sink | None = None
    errors: Sink | None = None

    def flush(self) -> None:
        """Make durable what all of them were given."""
        for sink in self:
            if sink is not None:
                sink.flush()


class Checkpoint(NamedTuple):
    """Everything that a run needs to go on as if it had not been interrupted.

    Attributes
    ----------
    model
        The recognizer, its unfinished micro-batch included.
    source
        Position of the source after the last record that the model has seen.
    sinks
        Positions of the sinks (in the order of :class:`Sinks`), flushed; ``None`` where there is none.
    totals
        Records ``read``, ``decided``, ``labelled``, ``set_aside``, and ``events``, so far.
    """

    model: OpenSetRecognizer
    source: Position | None
    sinks: tuple[Position | None, ...]
    totals: Counter[str]


def save_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint, whole or not at all."""
    state = {"model": checkpoint.model.as_state(), "totals": dict(checkpoint.totals)}
    write_archive(path, "checkpoint", {**checkpoint._asdict(), **state})


_PLACE = maybe(mapping(text(), anything))
_CONTENT = fields(model=anything, source=_PLACE, sinks=many(_PLACE, "3"), totals=mapping(text(), whole(0)))


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint.

    Raises
    ------
    PersistenceError
        If there is none, or it cannot be used.
    """
    content = read_archive(path, "checkpoint")
    check_content(content, _CONTENT, f"the checkpoint {path}")
    model = OpenSetRecognizer.from_state(content["model"], f"the checkpoint {path}")
    return Checkpoint(model, content["source"], content["sinks"], Counter(content["totals"]))


def load_model(path: str | os.PathLike[str]) -> OpenSetRecognizer:
    """Read a saved model, or the model in a checkpoint.

    Raises
    ------
    PersistenceError
        If the file is neither.
    """
    try:
        return OpenSetRecognizer.load(path)
    except PersistenceError as error:
        if "holds a checkpoint" not in str(error):
            raise
        return load_checkpoint(path).model


def go_on(checkpoint: Checkpoint, source: Source, sinks: Sinks) -> None:
    """Put source and sinks where the checkpoint left them: what was written after it is taken back.

    Nothing is taken back before the source and every sink that can tell (`CheckedSink`) have agreed.

    Raises
    ------
    ConnectorError
        If one of them cannot go on from there, is not the one of the checkpoint, or a sink is there now that was not
        then.
    """
    for name, sink, position in zip(Sinks._fields, sinks, checkpoint.sinks, strict=True):
        if (sink is None) != (position is None):
            was, now = ("not given", "given") if position is None else ("given", "not given")
            raise ConnectorError(
                f"{name} was {was} when the checkpoint was written and is {now} here; resume as it was"
            )
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
) -> Counter[str]:
    """Feed the source to the recognizer, in constant memory, until it ends or ``stop`` says so.

    Delivery: with a checkpoint, exactly once across crashes and interruptions for sinks that can be truncated (the
    run is resumed through :func:`go_on`). A record that the source cannot decode, or the recognizer cannot use, or
    that is unlike those of training (:func:`stream_osr.unlike.check_features`) is set aside with its reason, and the
    stream goes on. The recognizer counts it (``counters["refused"]``, ``signals.data_quality``).

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

    Returns
    -------
    Counts of records ``read``, ``decided``, ``labelled``, ``set_aside``, and of ``events``.

    Raises
    ------
    ConnectorError
        If the source cannot be read on, a sink does not take a record, or another run writes the checkpoint.
    PersistenceError
        If the checkpoint cannot be written. One on the way that could not be read again (`RefusedState`) is left out
        with a line in the log and counted (``checkpoints_refused``): the one before stays. The last one raises.

    Examples
    --------
    >>> from stream_osr_connectors import MemorySink, MemorySource
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
    totals = Counter() if totals is None else totals
    position: Position | None = None
    unsaved = 0

    def save() -> None:
        if checkpoint is not None and position is not None:
            sinks.flush()
            places = tuple(None if sink is None else sink.position() for sink in sinks)
            save_checkpoint(checkpoint, Checkpoint(model, position, places, totals))

    with nullcontext() if checkpoint is None else sole_writer(checkpoint):
        for record in source:
            totals["read"] += 1
            position = record.position
            unsaved += 1
            take(model, record, sinks.errors, totals, complain)
            _publish(model, sinks, totals)
            progress(totals["read"])
            if unsaved >= checkpoint_every:
                try:
                    save()
                except RefusedState as error:
                    totals["checkpoints_refused"] += 1
                    logger.error("%s", error)
                unsaved = 0
            if stop():
                break
        else:
            model.flush()
            _publish(model, sinks, totals)
        save()
        sinks.flush()
    return totals


def take(
    model: OpenSetRecognizer,
    record: Record | BadRecord,
    errors: Sink | None,
    totals: Counter[str],
    complain: Callable[[int, str], None],
) -> None:
    """Hand one record, the latest of ``totals["read"]``, to the model, or set it aside."""
    bad = model.counters["bad_rows"]
    if isinstance(record, BadRecord):
        row, reason, raw = record.row, record.reason, record.raw
    else:
        try:
            _check(model, record)
            model.learn_one(record.features, record.label, t=record.time, key=record.key)
        except (InvalidInstance, InvalidLabel) as error:
            row, reason = row_of(record, totals["read"]), str(error)
            raw = written(record.features if record.key is None else (record.key, record.features))
        else:
            if record.label is not None:
                totals["labelled"] += 1
            return
    totals["set_aside"] += 1
    model.count_refused(counted=model.counters["bad_rows"] - bad)
    complain(row, reason)
    if errors is not None:
        errors.write({"row": row, "reason": reason, "raw": raw})


def row_of(record: Record, number: int) -> int:
    """Row of a record in its file, or else its number."""
    row = (record.position or {}).get("row", number)
    return row if isinstance(row, int) else number


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
