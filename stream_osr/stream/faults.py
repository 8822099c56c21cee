"""Data faults: failing columns count as missing, and repeated rows get the decision of their first copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.decision import Decision
from stream_osr.discovery import data_quality, repeated_rows
from stream_osr.discovery.event_base import Event, Moment
from stream_osr.discovery.events import ColumnFailed, RowsRepeated
from stream_osr.instances.kinds import Name
from stream_osr.stream.announcements import about
from stream_osr.stream.odd_columns import ForeignColumns
from stream_osr.stream.state import Copy, DataFaults, ForeignValue, Stream
from stream_osr.training.trained import TrainedModel


class BatchFaults(NamedTuple):
    """Faults in the raw rows of a batch.

    Attributes
    ----------
    values
        The rows with implausible values set to missing, shape (b, p).
    columns
        State of the columns after the batch.
    begun
        Column faults that begin.
    rows
        Fingerprints of the rows, shape (b,). Empty if the rule for repeated rows does not apply.
    repeats
        Position of each repeated row, and its first copy: a position in the batch, or a copy from an earlier batch.
    foreign
        Foreign values after the batch (:mod:`stream_osr.stream.odd_columns`).
    odd
        Mask of the foreign values that count as missing, shape (b, p).
    """

    values: np.ndarray
    columns: data_quality.ColumnStates
    begun: Sequence[data_quality.Fault]
    rows: np.ndarray
    repeats: dict[int, int | Copy]
    foreign: tuple[ForeignValue, ...] = ()
    odd: np.ndarray = np.zeros((0, 0), bool)


def notice(trained: TrainedModel, stream: Stream, values: np.ndarray) -> BatchFaults:
    """Check the raw rows of a batch, NaN = missing, shape (b, p), b >= 1.

    All values of a repeated row are set to missing.
    """
    usual = trained.usual
    assert usual is not None
    before = DataFaults(data_quality.start_columns(values.shape[1])) if stream.faults is None else stream.faults
    columns, hidden, begun = data_quality.follow_columns(usual, before.columns, values, stream.state.seen)
    rows, repeats = np.zeros(0, np.int64), dict[int, int | Copy]()
    if usual.rows.once:
        rows = repeated_rows.fingerprints(values)
        repeats = _repeats(usual.rows.once, before, rows, len(stream.labels))
        hidden[list(repeats)] = True
    if hidden.any():
        values = np.where(hidden, np.nan, values)
    foreign, odd, codes = ForeignColumns(trained, stream).follow(values)
    if odd.any():
        values = np.where(odd, np.nan, values)
    return BatchFaults(values, columns, [*begun, *codes], rows, repeats, foreign, odd)


def _repeats(once: int, before: DataFaults, rows: np.ndarray, n_classes: int) -> dict[int, int | Copy]:
    together = np.concatenate([before.rows, rows])
    if len(_repeated(together)) < once - 1:
        return {}
    copies = np.array(repeated_rows.copies_of(together)[len(before.rows) :])
    many = set(rows[copies >= once].tolist())
    first: dict[int, int | Copy] = {each.row: each for each in before.copies if len(each.raw) == n_classes + 1}
    out: dict[int, int | Copy] = {}
    for at, row in enumerate(rows.tolist()):
        if row not in first:
            first[row] = at
        elif row in many:
            out[at] = first[row]
    return out


def _repeated(rows: np.ndarray) -> np.ndarray:
    """List each fingerprint once for each copy after its first one."""
    ordered = np.sort(rows)
    return np.asarray(ordered[1:][ordered[1:] == ordered[:-1]])


def believable(stream: Stream, values: np.ndarray) -> np.ndarray:
    """Set the values of failing columns in raw rows, shape (n, p), to missing."""
    if stream.faults is None or not stream.faults.columns.hidden.any():
        return values
    return np.where(data_quality.hidden_of(stream.faults.columns, values), np.nan, values)


def faulty_columns(trained: TrainedModel, stream: Stream) -> tuple[Name, ...]:
    """Return the names of the columns that fail now."""
    if stream.faults is None:
        return ()
    failing = (stream.faults.columns.kind > 0) & (stream.faults.columns.kind != data_quality.CHANGED)
    failing[[each.column for each in stream.faults.foreign if each.reported]] = True
    return tuple(trained.names[at] for at in np.flatnonzero(failing))


def error_codes(trained: TrainedModel, stream: Stream) -> dict[Name, tuple[float, ...]]:
    """Return the error codes of the latest instances, by column."""
    out: dict[Name, tuple[float, ...]] = {}
    for each in () if stream.faults is None else stream.faults.foreign:
        if each.reported:
            name = trained.names[each.column]
            out[name] = (*out.get(name, ()), each.value)
    return out


def changed_columns(trained: TrainedModel, stream: Stream) -> dict[Name, tuple[float, float]]:
    """Return the constant and the latest value of each column that was constant in training and has changed."""
    if stream.faults is None or trained.usual is None:
        return {}
    constant, last = trained.usual.constant, stream.faults.columns.last
    found = np.flatnonzero(stream.faults.columns.kind == data_quality.CHANGED).tolist()
    return {trained.names[at]: (float(constant[at]), float(last[at])) for at in found}


def as_first(noticed: BatchFaults, raw: np.ndarray) -> np.ndarray:
    """Give repeated rows the probabilities of their first copies, before the shift of the odds, shape (b, J + 1).

    A class that labels of this batch have opened gets 0. Unknown stays last.
    """
    out = raw.copy()
    for at, first in noticed.repeats.items():
        its = first.raw if isinstance(first, Copy) else raw[first]
        out[at] = np.insert(its, -1, [0.0] * (raw.shape[1] - len(its)))
    return out


def with_reasons(trained: TrainedModel, noticed: BatchFaults, decisions: list[Decision]) -> list[Decision]:
    """Name the odd columns, and give repeated rows the reasons of their first copies."""
    out = decisions.copy()
    for at in np.flatnonzero(noticed.odd.any(axis=1)).tolist():
        odd = tuple(trained.names[c] for c in np.flatnonzero(noticed.odd[at]))
        out[at] = out[at]._replace(odd_columns=odd)
    for at, first in noticed.repeats.items():
        its = first.decision if isinstance(first, Copy) else out[first]
        names = ("subclass_id", "nearest_class", "distance", "density_rank", "odd_columns")
        out[at] = out[at]._replace(**{name: getattr(its, name) for name in names})
    return out


def settle_faults(
    trained: TrainedModel,
    before: Stream,
    after: Stream,
    noticed: BatchFaults,
    raw: np.ndarray,
    decisions: list[Decision],
) -> tuple[Stream, list[Event]]:
    """Record the state of columns and rows after a batch, and report new faults.

    Parameters
    ----------
    trained, before, after
        The model, and the stream before and after the batch.
    noticed
        Faults in the batch.
    raw, decisions
        Probabilities before the shift of the odds, shape (b, J + 1), and decisions of the batch.
    """
    usual, summaries = trained.usual, about(trained, after.state)
    assert usual is not None
    events: list[Event] = []
    for fault in noticed.begun:
        facts, at = fault._asdict(), fault.column
        low, high = (float(end[at]) for end in (usual.low, usual.high))
        if not np.isnan(usual.constant[at]):
            low = high = float(usual.constant[at])
        facts |= {"column": trained.names[at], "low": low, "high": high}
        events.append(ColumnFailed(**facts, longest=int(usual.longest[at]), **summaries))
    if not usual.rows.once:
        return after._replace(faults=DataFaults(noticed.columns, foreign=noticed.foreign)), events
    earlier = DataFaults(noticed.columns) if before.faults is None else before.faults
    together = np.concatenate([earlier.rows, noticed.rows])
    rows, copies = together[-repeated_rows.WINDOW :], {each.row: each for each in earlier.copies}
    for row in sorted(set(_repeated(together).tolist())):
        came, known = np.flatnonzero(noticed.rows == row), row in copies and len(copies[row].raw) == raw.shape[1]
        if len(came) and not known:
            copies[row] = Copy(row, raw[came[0]], decisions[came[0]])
    for row in {int(noticed.rows[at]) for at in noticed.repeats}:
        size = int((together == row).sum())
        if size >= usual.rows.reported_from and not copies[row].repeats:
            copies[row] = copies[row]._replace(repeats=True)
            first = copies[row].decision
            moment = Moment(first.seq, first.t, first.key)
            events.append(RowsRepeated(first=moment, size=size, usual=usual.rows.most, **summaries))
    kept = tuple(copy for copy in copies.values() if copy.row in rows)
    return after._replace(faults=DataFaults(noticed.columns, rows, kept, noticed.foreign)), events
