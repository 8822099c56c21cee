"""Checkpoints: one file with everything that a run over files needs to go on as if it had not been interrupted."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from stream_osr import OpenSetRecognizer, errors
from stream_osr.archive import check_content, read_archive, write_archive
from stream_osr.archive.rules import anything, fields, many, mapping, maybe, text, whole
from stream_osr.errors import ConnectorError, InUse, PersistenceError

from ..base import Position
from ..commands.command import Command, CommandReceipt, CommandResult
from ..commands.file_log import CommandLog, of_file
from ..commands.runner import CommandRunner
from .locking import sole_writer

__all__ = ["Checkpoint", "ask", "load_checkpoint", "load_model", "save_checkpoint"]


class Checkpoint(NamedTuple):
    """Everything that a run needs to go on as if it had not been interrupted.

    Attributes
    ----------
    model
        The recognizer, its unfinished micro-batch included.
    source
        Position of the source after the last record that the model has seen.
    sinks
        Positions of the sinks (in the order of :class:`.file_run.Sinks`), flushed; ``None`` where there is none.
    totals
        Records ``read``, ``decided``, ``labelled``, ``set_aside``, and ``events``, so far; ``asked``: number of the
        last thing that was asked of the stream and is part of it.
    reading
        How the input is read, in words of whoever runs it (names of columns, say), to be compared when it goes on;
        ``None``: nobody has said.
    reasons
        Why records were set aside: how many of each kind (:func:`.rejected_record.kind_of`).
    """

    model: OpenSetRecognizer
    source: Position | None
    sinks: tuple[Position | None, ...]
    totals: Counter[str]
    reading: Mapping[str, Any] | None = None
    reasons: Mapping[str, int] = MappingProxyType({})


def save_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint, whole or not at all."""
    content = {**checkpoint._asdict(), "model": checkpoint.model.as_state()}
    content |= {"totals": dict(checkpoint.totals), "reasons": dict(checkpoint.reasons)}
    write_archive(
        path, "checkpoint", {name: value for name, value in content.items() if value or name not in _PERHAPS}
    )


_PLACE = maybe(mapping(text(), anything))
_PERHAPS = {"reading": mapping(text(), anything), "reasons": mapping(text(), whole(1))}
_CONTENT = fields(_PERHAPS, model=anything, source=_PLACE, sinks=many(_PLACE, "3"), totals=mapping(text(), whole(0)))


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
    totals = Counter(content["totals"])
    perhaps = content.get("reading"), Counter(content.get("reasons", {}))
    return Checkpoint(model, content["source"], content["sinks"], totals, *perhaps)


def load_model(path: str | os.PathLike[str]) -> OpenSetRecognizer:
    """Read a saved model, or the model in a checkpoint.

    Raises
    ------
    PersistenceError
        If the file is neither.
    """
    return load_model_and_run(path)[0]


def load_model_and_run(path: str | os.PathLike[str]) -> tuple[OpenSetRecognizer, Checkpoint | None]:
    """Read a saved model, or the model in a checkpoint with what else is there of its run.

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
    """Give a command to the stream of a checkpoint.

    It is written to the log beside the checkpoint, ``CHECKPOINT.asked.jsonl``. If no run holds the checkpoint, it is
    done there and then, after all that waits since before; else the run does it, within a second and between two
    records, and labels the next micro-batch so. It is done once, whatever is killed meanwhile.

    Parameters
    ----------
    checkpoint
        Of `stream-osr run`, or a :class:`.file_run.FileRun`.
    command
        What is asked.

    Raises
    ------
    InvalidParameter
        If it is not complete, or too long. Nothing is written then.
    InvalidSubclass, InvalidLabel, InvalidInstance, NothingToUndo
        If it cannot be done (a run that holds the checkpoint tells of that in the log). The log has it as refused.
    PersistenceError
        If there is no checkpoint, or it cannot be used.
    ConnectorError
        If the log cannot be written.

    Examples
    --------
    >>> from stream_osr_connectors.commands import Command
    >>> ask("decisions.jsonl.checkpoint", Command("promote", (11,), "sky", by="ann"))
    Traceback (most recent call last):
        ...
    stream_osr.errors.PersistenceError: there is no checkpoint decisions.jsonl.checkpoint, and no run holds it; \
`stream-osr run` makes one beside its output
    """
    command, log, name = of_file(command), CommandLog(checkpoint), os.fspath(checkpoint)
    there = Path(checkpoint).exists()
    if not there and not _is_held(checkpoint):
        raise PersistenceError(
            f"there is no checkpoint {name}, and no run holds it; `stream-osr run` makes one beside its output"
        )
    # the log may have been lost: numbers go on above those that the checkpoint has taken in
    above = load_checkpoint(checkpoint).totals["asked"] if there and not log.path.exists() else 0
    with log.exclusive():
        n = log.ask(command, above)
        done = settle(checkpoint, log)
    if done is None:
        said = "queued: a run holds the checkpoint, and does it before its next micro-batch"
        return CommandReceipt(said, "queued", n)
    result = next((result for number, _, result in done if number == n), None)
    if result is None:
        waits = "queued: what was asked before it has to be done first where it was, by `stream-osr run --resume`"
        return CommandReceipt(waits, "queued", n)
    if result.outcome == "refused":
        raise getattr(errors, result.error or "", ConnectorError)(result.why or "")
    taken_back = "" if command.action == "undo" else f"; `stream-osr undo --checkpoint {name}` takes it back"
    return CommandReceipt(f"done: {command.effect()}{taken_back}", "done", n)


def _is_held(checkpoint: str | os.PathLike[str]) -> bool:
    try:
        with sole_writer(checkpoint):
            return False
    except InUse:
        return True


def settle(checkpoint: str | os.PathLike[str], log: CommandLog) -> list[tuple[int, Command, CommandResult]] | None:
    """Apply the commands that a checkpoint was given, and save it.

    Returns
    -------
    What was done; ``None``: a run holds the checkpoint, and does it.

    Raises
    ------
    PersistenceError
        If there is no checkpoint, or it cannot be used or written.
    ConnectorError
        If the log cannot be read or written.
    """
    with log.exclusive():
        try:
            with sole_writer(checkpoint):
                started = load_checkpoint(checkpoint)
                done = CommandRunner(log, started.totals).run(started.model)
                if done:
                    save_checkpoint(checkpoint, started)
        except InUse:
            return None
    return done
