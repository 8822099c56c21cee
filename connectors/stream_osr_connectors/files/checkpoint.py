"""Checkpoints: one file with everything that a run over files needs to continue after an interruption."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from stream_osr import OpenSetRecognizer, errors
from stream_osr.archive.checks import recognizer
from stream_osr.archive.files import read_archive, write_archive
from stream_osr.archive.recognizers import content_of, restored
from stream_osr.errors import ConnectorError, InUse, PersistenceError
from stream_osr.support.rules import anything, fields, many, mapping, maybe, text, whole

from ..base import Position
from ..commands.command import Command, CommandReceipt, CommandResult
from ..commands.file_log import CommandLog, of_file
from ..commands.runner import CommandRunner
from .account import Account
from .locking import sole_writer
from .streams import KEYS, KeyedStreams, OneStream, keyed_of, recognizer_of

__all__ = ["Checkpoint", "ask", "load_checkpoint", "load_model", "save_checkpoint"]


class Checkpoint(NamedTuple):
    """Everything that a run needs to continue as if it had not been interrupted.

    Attributes
    ----------
    model
        The recognizer, including its unfinished micro-batch.
    source
        Position of the source after the last record that the model has seen.
    sinks
        Positions of the sinks (in the order of :class:`.file_run.Sinks`) after a flush, or ``None`` for a missing
        sink.
    totals
        Counts of records ``read``, ``decided``, ``labelled`` and ``set_aside``, and of ``events``. ``asked`` is the
        number of the last command that was applied.
    reading
        How the input is read, in terms of the caller (names of columns, for example). A run that resumes compares it.
        ``None`` means unknown.
    reasons
        Why records were set aside: the count of each kind (:func:`.rejected_record.kind_of`).
    keys
        State of the recognizers by key (:meth:`.streams.KeyedStreams.as_state`). ``model`` then has no stream.
        ``None`` means one stream.
    """

    model: OpenSetRecognizer
    source: Position | None
    sinks: tuple[Position | None, ...]
    totals: Counter[str]
    reading: Mapping[str, Any] | None = None
    reasons: Mapping[str, int] = MappingProxyType({})
    keys: Mapping[str, Any] | None = None


def model_of(checkpoint: Checkpoint, path: Path, stream: str | None) -> OpenSetRecognizer:
    """Return the recognizer of a checkpoint, or the one of a key if it has a stream for each key.

    Raises
    ------
    ConnectorError
        If it has a stream for each key and none is given, or the reverse.
    InvalidParameter
        If there is no such key.
    """
    if (checkpoint.keys is None) != (stream is None):
        raise wrong_stream(path, stream)
    if checkpoint.keys is None or stream is None:
        return checkpoint.model
    return recognizer_of(checkpoint.model, checkpoint.keys, path, stream)


def wrong_stream(path: Path, stream: str | None) -> ConnectorError:
    """Return the error for files with a stream for each key if no ``stream`` is given, or the reverse."""
    if stream is None:
        remedy = "Choose one with --stream KEY. `stream-osr report` of the checkpoint lists the keys"
        return ConnectorError(f"{path} has a stream for each key. {remedy}")
    return ConnectorError(f"{path} has one stream. Leave out --stream")


def save_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint completely or not at all."""
    content = {**checkpoint._asdict(), "model": content_of(checkpoint.model, checkpoint.model.value)}
    content |= {"totals": dict(checkpoint.totals), "reasons": dict(checkpoint.reasons)}
    write_archive(
        path, "checkpoint", {name: value for name, value in content.items() if value or name not in _PERHAPS}
    )


_PLACE = maybe(mapping(text(), anything))
_PERHAPS = {"reading": mapping(text(), anything), "reasons": mapping(text(), whole(1)), "keys": KEYS}
_CONTENT = fields(
    _PERHAPS, model=recognizer, source=_PLACE, sinks=many(_PLACE, "3"), totals=mapping(text(), whole(0))
)


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint.

    Raises
    ------
    PersistenceError
        If the file does not exist or cannot be used.
    """
    content = read_archive(path, "checkpoint", _CONTENT)
    model = restored(OpenSetRecognizer, content["model"])
    totals = Counter(content["totals"])
    perhaps = content.get("reading"), Counter(content.get("reasons", {})), content.get("keys")
    return Checkpoint(model, content["source"], content["sinks"], totals, *perhaps)


def streams_of(checkpoint: Checkpoint, path: str | os.PathLike[str]) -> OneStream | KeyedStreams:
    """Return the streams of a checkpoint, to apply commands to them or to look at them."""
    account = Account(
        checkpoint.model, checkpoint.totals, None, lambda row, reason: None, Counter(checkpoint.reasons)
    )
    if checkpoint.keys is None:
        return OneStream(account)
    return KeyedStreams(keyed_of(checkpoint.model, path, checkpoint.keys), account, checkpoint.keys)


def save_streams(path: str | os.PathLike[str], checkpoint: Checkpoint, streams: OneStream | KeyedStreams) -> None:
    """Write a checkpoint with the state of the streams."""
    if not isinstance(streams, KeyedStreams):
        save_checkpoint(path, checkpoint)
        return
    save_checkpoint(path, checkpoint._replace(keys=streams.as_state()))
    streams.keyed.saved()


def load_model(path: str | os.PathLike[str]) -> OpenSetRecognizer:
    """Read a saved model, or the model in a checkpoint.

    Raises
    ------
    PersistenceError
        If the file is neither.
    """
    return load_model_and_run(path)[0]


def load_model_and_run(path: str | os.PathLike[str]) -> tuple[OpenSetRecognizer, Checkpoint | None]:
    """Read a saved model, or a checkpoint and the model in it.

    Raises
    ------
    PersistenceError
        If the file is neither.
    """
    try:
        return OpenSetRecognizer.load(path), None
    except PersistenceError as error:
        if "holds a checkpoint" not in str(error):
            raise
        checkpoint = load_checkpoint(path)
        return checkpoint.model, checkpoint


def ask(checkpoint: str | os.PathLike[str], command: Command) -> CommandReceipt:
    """Send a command to the stream of a checkpoint.

    The command is written to the log beside the checkpoint, ``CHECKPOINT.asked.jsonl``. If no run uses the
    checkpoint, the command is applied at once, after all earlier ones. Otherwise the run applies it between two
    records within a second, so it affects the next micro-batch. The command is applied once, even if a process is
    killed.

    Parameters
    ----------
    checkpoint
        Checkpoint of `stream-osr run` or of a :class:`.file_run.FileRun`.
    command
        The command.

    Raises
    ------
    InvalidParameter
        If the command is incomplete or too long. Nothing is written then.
    InvalidSubclass, InvalidLabel, InvalidInstance, NothingToJudge, NothingToUndo
        If the command cannot be applied. The log then has it as refused. If a run uses the checkpoint, only the log
        has the failure.
    PersistenceError
        If the checkpoint does not exist or cannot be used.
    ConnectorError
        If the log cannot be written.

    Examples
    --------
    >>> from stream_osr_connectors.commands import Command
    >>> ask("decisions.jsonl.checkpoint", Command("promote", (11,), "sky", by="ann"))
    Traceback (most recent call last):
        ...
    stream_osr.errors.PersistenceError: there is no checkpoint decisions.jsonl.checkpoint, and no run uses it. \
`stream-osr run` creates one beside its output
    """
    command, log, name = of_file(command), CommandLog(checkpoint), os.fspath(checkpoint)
    there = Path(checkpoint).exists()
    if not there and not _is_held(checkpoint):
        raise PersistenceError(
            f"there is no checkpoint {name}, and no run uses it. `stream-osr run` creates one beside its output"
        )
    # the log may have been lost: numbers go on above those that the checkpoint has taken in
    above = load_checkpoint(checkpoint).totals["asked"] if there and not log.path.exists() else 0
    with log.exclusive():
        n = log.ask(command, above)
        done = settle(checkpoint, log)
    if done is None:
        said = "queued: the run that uses the checkpoint applies it before its next micro-batch"
        return CommandReceipt(said, "queued", n)
    result = next((result for number, _, result in done if number == n), None)
    if result is None:
        waits = "queued: earlier commands come first, and `stream-osr run --resume` applies them at their place"
        return CommandReceipt(waits, "queued", n)
    if result.outcome == "refused":
        raise getattr(errors, result.error or "", ConnectorError)(result.why or "")
    taken_back = "" if command.action == "undo" else f". `stream-osr undo --checkpoint {name}` reverts it"
    return CommandReceipt(f"done: {command.effect()}{taken_back}", "done", n)


def _is_held(checkpoint: str | os.PathLike[str]) -> bool:
    try:
        with sole_writer(checkpoint):
            return False
    except InUse:
        return True


def settle(checkpoint: str | os.PathLike[str], log: CommandLog) -> list[tuple[int, Command, CommandResult]] | None:
    """Apply the queued commands to a checkpoint, and save it.

    Returns
    -------
    The commands that were applied, or ``None`` if a run uses the checkpoint and applies them itself.

    Raises
    ------
    PersistenceError
        If the checkpoint does not exist, or cannot be used or written.
    ConnectorError
        If the log cannot be read or written.
    """
    with log.exclusive():
        try:
            with sole_writer(checkpoint):
                started = load_checkpoint(checkpoint)
                streams = streams_of(started, checkpoint)
                done = CommandRunner(log, started.totals).run(streams.apply)
                if done:
                    save_streams(checkpoint, started, streams)
        except InUse:
            return None
    return done
