"""Decisions by key in Spark Structured Streaming (extra ``spark``).

:func:`decide` adds one stateful operator to a streaming data frame. Each key has a recognizer over one trained model.
Spark stores the state of the recognizer, restores it after a crash, and moves it between executors.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas

from stream_osr import Decision, Event, OpenSetRecognizer
from stream_osr.errors import InvalidParameter, PersistenceError
from stream_osr.printable_text import typed
from stream_osr.training.trained import TrainedModel

from .base import Record
from .engine import RecordStream
from .files.checkpoint import load_model
from .files.json_lines import as_text
from .values import DecodeError, seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SCHEMA = (
    "time double, label string, first_label string, probability double, p_unknown double, "
    "probabilities map<string,double>, subclass_id bigint, nearest_class string, distance double, "
    "density_rank double, batch bigint, seq bigint, event string, content string, reason string"
)
_TYPES = dict(column.split(" ") for column in _SCHEMA.split(", "))
COLUMNS = ("kind", "key", "order", *_TYPES)
"""Columns of the output."""
_DECISION = [name for name in _TYPES if name in Decision._fields]
_LABELS = ("label", "first_label", "nearest_class")

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_TIMES = ("timestamp", "timestamp_ntz")
_NUMBERS = (*_WHOLE, "float", "double", "decimal")
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_Row: TypeAlias = tuple[int, Mapping[str, Any]]
"""Order and values of a row."""

_STATE = "state binary, latest bigint, head bigint, due bigint"
_NO_TIMER = -1


def decide(
    stream: DataFrame,
    model: str | os.PathLike[str],
    *,
    key: str,
    order: str,
    time: str | None = None,
    **arguments: Any,
) -> DataFrame:
    """Decide each row of a streaming data frame with the recognizer of the key.

    The decisions and events of a key are bit for bit those of an :class:`OpenSetRecognizer` that gets the accepted
    rows of the key in their order. Rows that cannot be used are in the output, with the reason.

    Parameters
    ----------
    stream
        Rows with a column for each feature of the model. Other columns are ignored.
    model
        File from ``model.save`` of a trained recognizer, or a checkpoint. The driver and each Python worker read it
        once, so the path must lead to the same file on every machine.
    key
        Column of the key: text or a whole number.
    order
        Column with the place of a row among those of the key: a whole number or a timestamp. Each value occurs once
        in a key. It is the key of the decision.
    time
        Column of the event time: a timestamp, a number of seconds or text.
    arguments
        Arguments of :class:`OpenSetRecognizer` for new keys. ``max_wait`` is in seconds. It also sets a timer of
        processing time for keys without further rows.

    Returns
    -------
    Data frame with the columns :data:`COLUMNS`. ``kind`` is ``decision``, ``event`` or ``rejected``. Columns that do
    not belong to a kind are null.

    Raises
    ------
    InvalidParameter
        If a column is missing or has a type that cannot be used, if an argument cannot be used, or if the session
        does not store states in RocksDB.
    PersistenceError
        If the file of the model cannot be read.
    NotTrained
        If the model has not been trained.

    Examples
    --------
    >>> stream = spark.readStream.schema(schema).json("in")  # doctest: +SKIP
    >>> out = decide(stream, "pumps.osr", key="pump", order="n", time="at", max_wait=60)  # doctest: +SKIP
    >>> out.where("kind = 'decision'").select("key", "order", "label")  # doctest: +SKIP
    DataFrame[key: string, order: bigint, label: string]
    """
    if stream.sparkSession.conf.get(_PROVIDER, "").rpartition(".")[2] != _ROCKSDB.rpartition(".")[2]:
        raise InvalidParameter(
            f"{_PROVIDER} is {stream.sparkSession.conf.get(_PROVIDER, None)!r}: expected RocksDB. "
            f"Set it with spark.conf.set({_PROVIDER!r}, {_ROCKSDB!r})"
        )
    path = str(Path(model).resolve())
    trained = load_model(path).trained
    types = {field.name: field.dataType.simpleString().partition("(")[0] for field in stream.schema.fields}
    _check(types, "key", key, ("string", *_WHOLE))
    columns = [f"{_quoted(key)} as key", f"cast({_order(types, order)} as string) as `order`"]
    columns.append(f"{'cast(null as double)' if time is None else _time(types, time)} as time")
    for number, name in enumerate(trained.names):
        columns.append(f"{_feature(types, str(name), name in trained.features.kinds.values)} as f{number}")
    processor = KeyProcessor(path, trained.fingerprint, arguments, timed=time is not None)
    schema = {"kind": "string", "key": types[key], "order": "bigint", **_TYPES}
    return (
        stream.selectExpr(*columns)
        .groupBy("key")
        .transformWithStateInPandas(
            statefulProcessor=processor,
            outputStructType=", ".join(f"`{name}` {type}" for name, type in schema.items()),
            outputMode="Append",
            timeMode="None" if processor.wait is None else "ProcessingTime",
        )
    )


class KeyProcessor:
    """Stateful processor of :func:`decide` with the methods of pyspark's ``StatefulProcessor``.

    Use it in tests with ``pyspark.sql.streaming.TwsTester``, which needs no Java. Its input has the columns
    ``order``, ``time``, and ``f0``, ``f1``, ... for the features in the order of the model.

    Parameters
    ----------
    path
        File of the model.
    fingerprint
        Fingerprint of the model. A worker that finds another model at the path fails.
    arguments
        Arguments of :class:`OpenSetRecognizer`.
    timed
        Whether each row needs a time.

    Raises
    ------
    InvalidParameter
        If an argument cannot be used.
    PersistenceError
        If the file cannot be read, or contains another model.
    """

    def __init__(self, path: str, fingerprint: str, arguments: Mapping[str, Any], *, timed: bool) -> None:
        self.path, self.fingerprint, self.arguments, self.timed = path, fingerprint, dict(arguments), timed
        longest = self._new().value.parameters.max_wait
        self.wait = None if longest is None else max(1, math.ceil(1000 * longest))

    def init(self, handle: Any) -> None:
        """Declare the state of a key."""
        self._handle = handle
        self._state = handle.getValueState("recognizer", _STATE)

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:
        """Decide the rows of a key in one Spark micro-batch, sorted by their order.

        Parameters
        ----------
        key
            Tuple with the key.
        rows
            Data frames with the rows.
        timerValues
            Processing time of the micro-batch.

        Yields
        ------
        One data frame with the decisions, events and rejected rows, if there are any.
        """
        out: list[dict[str, Any]] = []
        readable = []
        for values in (row for frame in rows for row in _rows_of(frame)):
            try:
                readable.append((self._order_of(key[0], values), values))
            except DecodeError as error:
                out.append(self._rejected(values, str(error)))
        if not readable:
            return (yield from _frame(key[0], out))
        readable.sort(key=lambda each: (each[0], repr(each[1])))
        stored = self._state.get()
        stream, latest = self._restored(key, stored), None if stored is None else stored[1]
        before = latest
        for order, values in readable:
            try:
                if latest is not None and order <= latest:
                    raise DecodeError(
                        f"column 'order' is {order}: expected more than {latest}, the order of the latest row of "
                        "the key. The row is late or repeated. Sort the input, or number the rows once"
                    )
                record = Record(self._features(values), order, self._time_of(values))
                latest = order if stream.take((order, values), record) else latest
            except DecodeError as error:
                out.append(self._rejected(values, str(error), order))
            out += self._refused(stream)
        if latest != before:
            due = self._timer(stream.model, stored, timerValues.getCurrentProcessingTimeInMs())
            out += _results(stream.model)
            self._state.update((stream.model.state_bytes(), latest, *due))
        yield from _frame(key[0], out)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        """Close the micro-batch of a key that has waited for ``max_wait``.

        Parameters
        ----------
        key
            Tuple with the key.
        timerValues
            Processing time of the micro-batch.
        expiredTimerInfo
            Time for which the timer was set.

        Yields
        ------
        One data frame with the decisions and events, if there are any.
        """
        stored = self._state.get()
        if stored is None or stored[3] != expiredTimerInfo.getExpiryTimeInMs():
            return
        stream = self._restored(key, stored)
        stream.close()
        out = [*self._refused(stream), *_results(stream.model)]
        self._state.update((stream.model.state_bytes(), stored[1], _NO_TIMER, _NO_TIMER))
        yield from _frame(key[0], out)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Do nothing. A key starts from the trained model."""

    def close(self) -> None:
        """Do nothing. The worker process shares the model with later tasks."""

    def _new(self) -> OpenSetRecognizer:
        return OpenSetRecognizer.from_trained(_trained(self.path, self.fingerprint), **self.arguments)

    def _restored(self, key: Any, stored: Sequence[Any] | None) -> RecordStream[_Row]:
        if stored is None:
            return RecordStream(self._new())
        trained, about = _trained(self.path, self.fingerprint), f"the state of key {key[0]!r}"
        return RecordStream(OpenSetRecognizer.from_state_bytes(trained, bytes(stored[0]), about))

    def _refused(self, stream: RecordStream[_Row]) -> list[dict[str, Any]]:
        """Return the rows that a stream has refused."""
        out = []
        for item, (_, error, failed) in stream.refused:
            if item is not None:
                out.append(self._rejected(item[1], str(error), item[0]))
            elif failed is not None:  # of an earlier Spark micro-batch
                kept = {"order": failed.key, "time": failed.t, "features": failed.x}
                row = {"kind": "rejected", "order": failed.key, "reason": str(error), "content": as_text(kept)}
                out.append(row)
        stream.refused.clear()
        return out

    def _timer(self, model: OpenSetRecognizer, stored: Sequence[Any] | None, now: int) -> tuple[int, int]:
        """Set the timer of the micro-batch that waits now. Return the order of the first row and the timer."""
        if self.wait is None:
            return _NO_TIMER, _NO_TIMER
        head, due = (_NO_TIMER, _NO_TIMER) if stored is None else (stored[2], stored[3])
        buffer = model.value.buffer
        if buffer and due != _NO_TIMER and head == buffer[0].key:
            return head, due
        if due != _NO_TIMER:
            self._handle.deleteTimer(due)
        if not buffer:
            return _NO_TIMER, _NO_TIMER
        self._handle.registerTimer(now + self.wait)
        return buffer[0].key, now + self.wait

    def _features(self, values: Mapping[str, Any]) -> dict[Any, Any]:
        names = _trained(self.path, self.fingerprint).names
        return {name: values[f"f{number}"] for number, name in enumerate(names)}

    def _order_of(self, key: object, values: Mapping[str, Any]) -> int:
        if _missing(key):
            raise DecodeError("the column of the key is null: expected text or a whole number. Fill it in the input")
        order = values["order"]
        if _missing(order):
            raise DecodeError(
                "column 'order' is null: expected a whole number or a timestamp. Fill it in the input, "
                "and check its type in the schema"
            )
        return int(order)

    def _time_of(self, values: Mapping[str, Any]) -> float | None:
        if not self.timed:
            return None
        if _missing(values["time"]):
            raise DecodeError("column 'time' is null: expected a time. Fill it in the input, or leave out time=")
        try:
            return seconds(values["time"])
        except DecodeError as error:
            raise DecodeError(f"column 'time' {error}") from None

    def _rejected(self, values: Mapping[str, Any], reason: str, order: int | None = None) -> dict[str, Any]:
        row = {str(name): None if _missing(value) else value for name, value in self._features(values).items()}
        kept = {name: None if _missing(values[name]) else values[name] for name in ("order", "time")}
        return {"kind": "rejected", "order": order, "reason": reason, "content": as_text({**kept, "features": row})}


@lru_cache(maxsize=8)
def _trained(path: str, fingerprint: str) -> TrainedModel:
    """Load a model once in a process."""
    trained = load_model(path).trained
    if trained.fingerprint != fingerprint:
        raise PersistenceError(
            f"{path} contains the model {trained.fingerprint}: expected {fingerprint}, with which the query started. "
            "Restore the file, or start a query with another checkpoint"
        )
    return trained


def _rows_of(frame: Any) -> Iterator[dict[str, Any]]:
    names = list(frame.columns)
    for values in zip(*(frame[name].tolist() for name in names), strict=True):
        yield dict(zip(names, values, strict=True))


def _missing(value: object) -> bool:
    return value is None or value is pandas.NA or value is pandas.NaT or value != value


def _results(model: OpenSetRecognizer) -> list[dict[str, Any]]:
    """Drain the decisions and events of a recognizer."""
    return [*map(_decision_row, model.drain()), *map(_event_row, model.drain_events())]


def _decision_row(decision: Decision) -> dict[str, Any]:
    fields = decision.as_dict()
    out = {name: fields[name] for name in _DECISION}
    return {**out, **{name: str(fields[name]) for name in _LABELS}, "kind": "decision",
            "order": decision.key, "time": decision.t}  # fmt: skip


def _event_row(event: Event) -> dict[str, Any]:
    content = event.as_dict()
    return {"kind": "event", "batch": event.batch, "seq": event.seq, "event": content["type"],
            "content": as_text(content)}  # fmt: skip


def _frame(key: Any, rows: list[dict[str, Any]]) -> Iterator[Any]:
    if rows:
        lines = [[{"key": key, **row}.get(name) for name in COLUMNS] for row in rows]
        yield pandas.DataFrame(lines, columns=list(COLUMNS), dtype=object)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _check(types: Mapping[str, str], role: str, name: str, expected: Sequence[str]) -> str:
    """Return the type of a column."""
    found = types.get(name)
    if found is None:
        listed = ", ".join(map(repr, types))
        raise InvalidParameter(f"{role} names column {typed(name)}, which the stream lacks: it has {listed}")
    if found not in expected:
        raise InvalidParameter(f"{role} is column {name!r} of type {found}: expected {', '.join(expected)}. Cast it")
    return found


def _order(types: Mapping[str, str], name: str) -> str:
    found = _check(types, "order", name, (*_WHOLE, *_TIMES))
    return f"unix_micros(cast({_quoted(name)} as timestamp))" if found in _TIMES else _quoted(name)


def _time(types: Mapping[str, str], name: str) -> str:
    found = _check(types, "time", name, (*_NUMBERS, *_TIMES, "string"))
    if found in _TIMES:
        return f"unix_micros(cast({_quoted(name)} as timestamp)) / 1e6"
    return _quoted(name) if found == "string" else f"cast({_quoted(name)} as double)"


def _feature(types: Mapping[str, str], name: str, category: bool) -> str:
    """Return the expression of a feature. Its values do not depend on other rows, as those of pandas integers do."""
    found = _check(types, "a feature of the model", name, (*_NUMBERS, "string", "boolean"))
    if found in _WHOLE:
        return f"cast({_quoted(name)} as {'string' if category else 'double'})"
    return _quoted(name) if found in ("string", "boolean") else f"cast({_quoted(name)} as double)"
