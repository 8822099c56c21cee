"""Reading the files of a report. The content of a file determines its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stream_osr.archive.files import MAGIC
from stream_osr.errors import ConnectorError, PersistenceError
from stream_osr.instances.embedding import flat
from stream_osr.keyed import KeySummary
from stream_osr.printable_text import brief, counted
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr_connectors.files import BadRecord, CsvSource, FolderSource, Format, open_source
from stream_osr_connectors.files.checkpoint import Checkpoint, load_checkpoint, load_model, model_of, wrong_stream
from stream_osr_connectors.files.streams import keyed_of
from stream_osr_connectors.summary.input_records import ReadRecord, read_records


class ReportFiles(NamedTuple):
    """Content of the given files.

    Attributes
    ----------
    model
        The model, or the model of a checkpoint.
    decisions
        Decisions, read lazily, or ``None`` without such a file.
    events
        Events.
    notes
        Sentences about skipped input. The list is complete when all input is read.
    checkpoint
        Path of the model if it is the checkpoint of a run.
    keys
        Streams by key of a checkpoint, if no stream was chosen. There is nothing else then.
    """

    model: OpenSetRecognizer | None
    decisions: Iterator[dict[str, Any]] | None
    events: list[dict[str, Any]]
    notes: list[str]
    checkpoint: Path | None = None
    keys: Sequence[KeySummary] | None = None


def read_files(paths: Sequence[Path], stream: str | None = None) -> ReportFiles:
    """Open any of a model or checkpoint, a file of decisions and a file of events, in any order.

    Parameters
    ----------
    paths
        The files.
    stream
        Key of the stream to read from files of a run with a recognizer for each key (`stream-osr run --by`). Without
        one, only the keys of the checkpoint are read.

    Raises
    ------
    ConnectorError, PersistenceError
        If a file cannot be read, is of no known kind, or two files are of the same kind.
    """
    found: dict[str, Any] = {}
    checkpoint: Path | None = None
    notes: list[str] = []
    for path in paths:
        kind, content = _open(path, notes)
        if kind == "a model" and stream is None and isinstance(content, Checkpoint) and content.keys is not None:
            return ReportFiles(None, None, [], [], path, keyed_of(content.model, path, content.keys).summary())
        if isinstance(content, Iterator):
            content = _of_stream(content, stream, path)
        if kind == "nothing":
            continue
        if kind in found:
            raise ConnectorError(f"{path} contains {kind}, and so does another file. Give one of each kind")
        found[kind] = content
        if kind == "a model" and not isinstance(content, OpenSetRecognizer):
            found[kind], checkpoint = model_of(content, path, stream), path
    return ReportFiles(found.get("a model"), found.get("decisions"), list(found.get("events", ())), notes, checkpoint)


def _of_stream(records: Iterator[ReadRecord], stream: str | None, path: Path) -> Iterator[ReadRecord]:
    """Yield the records of a stream without its key."""
    for record in records:
        by = record.pop("by", None)
        if (by is None) != (stream is None):
            raise wrong_stream(path, stream)
        if by == stream:
            yield record


def _open(path: Path, notes: list[str]) -> tuple[str, Any]:
    try:
        archive = False
        if not path.is_dir():
            with path.open("rb") as file:
                archive = file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise ConnectorError(f"cannot read {path}: {error.strerror}. Check the path") from None
    if archive:
        try:
            return "a model", load_checkpoint(path)
        except PersistenceError:
            return "a model", load_model(path)
    records = read_records(path, notes)
    first = next(records, None)
    if first is None:
        return "nothing", None  # a run without events leaves an empty file
    records = _after(first, records)
    if "p_unknown" in first:
        return "decisions", records
    if "type" in first:
        return "events", records
    raise ConnectorError(
        f"{path} is no model, and its first line is neither a decision nor an event. Give a saved model, "
        "a checkpoint, or what `stream-osr run` wrote"
    )


def _after(first: ReadRecord, rest: Iterator[ReadRecord]) -> Iterator[ReadRecord]:
    yield first  # a generator, which whoever stops early can close
    yield from rest


def read_instances(
    path: Path, notes: list[str], key: str | None = None, format: Format | None = None
) -> Iterator[tuple[str | int | None, Mapping[str, Any]]]:
    """Read keys and features from any columns. The notes count records that cannot be read.

    Raises
    ------
    ConnectorError
        If the file cannot be read, or the column is missing.
    """
    bad = 0
    with open_source(path, format=format, key=key) as source:
        if isinstance(source, CsvSource | FolderSource):
            source.categorical = frozenset(source.feature_columns)  # text, as it stands there
            source.seek(None)
        for record in source:
            if isinstance(record, BadRecord):
                bad += 1
                yield None if key is None else "", {}
            else:
                yield (None if key is None else record.key or ""), flat(record.features)
    if bad:
        whose = "its instance is" if bad == 1 else "their instances are"
        notes.append(f"{path}: {bad:,} record{'s' * (bad != 1)} cannot be read, and {whose} shown without values")


class TrueLabels(NamedTuple):
    """True labels.

    Attributes
    ----------
    of
        A function that returns the true label or ``None``, given the key of a decision and its number.
    rows
        Number of rows if labels match decisions in order, ``None`` if labels match by key.
    name
        Name of the file.
    key
        One of the keys, if any.
    """

    of: Callable[[Any, int], str | None]
    rows: int | None
    name: str
    key: str | int | None = None

    def beside(self, decisions: Iterator[dict[str, Any]], notes: list[str]) -> Iterator[dict[str, Any]]:
        """Yield decisions, and fail if their number differs from the number of rows.

        The notes receive a sentence if some decisions have no label.
        """
        number = labelled = 0
        key: Any = None
        for number, decision in enumerate(decisions, start=1):
            yield decision
            key = decision.get("key") if number == 1 else key
            labelled += self.of(decision.get("key"), number - 1) is not None
        if number and not labelled:
            keys = "" if self.rows is not None else f" (keys there {brief(self.key)}, here {brief(key)})"
            notes.append(f"none of the {counted(number, 'decision')} has a label in {self.name}{keys}")
        elif labelled < number and self.rows is None:
            notes.append(f"{labelled} of {counted(number, 'decision')} have a label in {self.name}")
        if self.rows is not None and number != self.rows:
            raise ConnectorError(
                f"found {counted(number, 'decision')} and {counted(self.rows, 'row')} of true labels. "
                "Add --key COLUMN to match labels and decisions by key"
            )


def read_truth(path: Path, label: str, key: str | None = None, format: Format | None = None) -> TrueLabels:
    """Read true labels by key, or in the order of the decisions if there is no key.

    Parameters
    ----------
    path
        A file of records, as `stream_osr_connectors.files.open_source` reads them.
    label, key
        Names of the columns.
    format
        As for `stream_osr_connectors.files.open_source`.

    Raises
    ------
    ConnectorError
        If the file cannot be read, has no labels, or a key has two labels.
    """
    by_key: dict[str, str] = {}
    first: str | int | None = None
    in_order: list[str | None] = []
    with open_source(path, format=format, key=key, label=label, features=[]) as source:
        for record in source:
            if isinstance(record, BadRecord):
                raise ConnectorError(f"{path}, row {record.row}: {record.reason}")
            text = None if record.label is None else str(record.label)
            in_order.append(text)
            first = record.key if first is None else first
            if record.key is not None and text is not None and by_key.setdefault(str(record.key), text) != text:
                raise ConnectorError(
                    f"{path}: key {record.key!r} has the labels {by_key[str(record.key)]!r} and {text!r}. "
                    "A key must identify one instance. Otherwise omit --key and give one row for each decision"
                )
    if not any(text is not None for text in in_order):
        raise ConnectorError(f"{path} has no label in column {label!r}. Give the column of labels")
    if key is not None:
        return TrueLabels(lambda name, number: by_key.get(str(name)), None, str(path), first)
    rows = len(in_order)
    return TrueLabels(lambda name, number: in_order[number] if number < rows else None, rows, str(path))
