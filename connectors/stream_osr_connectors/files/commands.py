"""Asking something of the stream of a checkpoint: done at once, or by the run that holds it; and what was asked.

>>> from stream_osr_connectors.files.commands import Asked, ask, history
>>> ask("decisions.jsonl.checkpoint", Asked("promote", (11,), "sky", by="ann"))
Traceback (most recent call last):
    ...
stream_osr.errors.PersistenceError: there is no checkpoint decisions.jsonl.checkpoint, and no run holds it; \
`stream-osr run` makes one beside its output
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from stream_osr.config import Label
from stream_osr.errors import (
    ConnectorError,
    InUse,
    InvalidInstance,
    InvalidLabel,
    InvalidSubclass,
    NothingToUndo,
    PersistenceError,
    StreamOSRError,
)

from .checkpoint import load_checkpoint, settle
from .command_log import Act, Action, Asked, AskLog, Outcome, Result, checked
from .locking import sole_writer

__all__ = ["Action", "Asked", "Entry", "Standing", "ask", "history"]

State: TypeAlias = Result | Literal["pending"]


class Standing(NamedTuple):
    """Where something stands that was asked.

    Attributes
    ----------
    standing
        ``done``, or ``queued`` for the run that holds the checkpoint.
    n
        Its number in the log.
    said
        A sentence that says so.
    """

    standing: Literal["done", "queued"]
    n: int
    said: str


class Entry(NamedTuple):
    """One line of the audit: what was asked, by whom and when, and what came of it.

    Attributes
    ----------
    n, at, by
        Its number, the time (ISO 8601, UTC), and who asked, if that was said.
    action, subclasses, label, key, reason
        What was asked (:class:`Asked`).
    outcome
        ``done``; ``pending``: a run does it, or the next one that goes on; ``refused``: it could not be done;
        ``left``: the run that it was asked of has ended, and another one has begun anew.
    why
        Why it was refused or left.
    after
        Records that had been read when that was decided.
    undone_by
        Number of what took it back.
    takes_back
        Of an undo, the number of what it took back; ``None``: a label that came with the stream.
    """

    n: int
    at: str
    by: str | None
    action: Action
    subclasses: tuple[int, ...]
    label: Label | None
    key: str | int | None
    reason: str | None
    outcome: State
    why: str | None = None
    after: int | None = None
    undone_by: int | None = None
    takes_back: int | None = None


def ask(checkpoint: str | os.PathLike[str], asked: Asked) -> Standing:
    """Ask something of the stream of a checkpoint.

    It is written to the log beside the checkpoint, ``CHECKPOINT.asked.jsonl``. If no run holds the checkpoint, it is
    done there and then, after all that waits since before; else the run does it, within a second and between two
    records, and labels the next micro-batch so. It is done once, whatever is killed meanwhile.

    Parameters
    ----------
    checkpoint
        Of `stream-osr run`, or :func:`.loop.run`.
    asked
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
    """
    asked, log, name = checked(asked), AskLog(checkpoint), os.fspath(checkpoint)
    _check_there(checkpoint)
    above = 0 if log.path.exists() else _done_before(checkpoint)
    with log.held():
        n = log.ask(asked, above)
        done = settle(checkpoint, log)
    if done is None:
        return Standing("queued", n, "queued: a run holds the checkpoint, and does it before its next micro-batch")
    for act, outcome in done:
        if act.n == n:
            if outcome.outcome == "refused":
                raise _refusal(asked, outcome)
            taken_back = "" if asked.action == "undo" else f"; `stream-osr undo --checkpoint {name}` takes it back"
            return Standing("done", n, f"done: {_effect(asked)}{taken_back}")
    waits = "queued: what was asked before it has to be done first where it was, by `stream-osr run --resume`"
    return Standing("queued", n, waits)


def history(checkpoint: str | os.PathLike[str]) -> list[Entry]:
    """List all that was ever asked of a checkpoint, in order; empty: nothing.

    Raises
    ------
    ConnectorError
        If the log cannot be read.
    """
    entries: dict[int, Entry] = {}
    outcomes: dict[int, Outcome] = {}
    for line in AskLog(checkpoint).read():
        if isinstance(line, Act):
            asked = line.asked
            entries[line.n] = Entry(
                *(line.n, line.at, asked.by, asked.action, asked.subclasses, asked.label, asked.key, asked.reason),
                outcome="pending",
            )
        elif line.of in entries:
            outcomes[line.of] = line  # one that was done again after a crash may have another: that is the one
    standing: dict[int | None, int] = {}  # by the place in the order of what can be taken back
    for n, outcome in sorted(outcomes.items()):
        entries[n] = entries[n]._replace(outcome=outcome.outcome, why=outcome.why, after=outcome.after)
        if outcome.outcome == "done" and entries[n].action != "undo":
            standing[outcome.place] = n
        elif outcome.outcome == "done" and (taken := standing.pop(outcome.place, None)) is not None:
            entries[n] = entries[n]._replace(takes_back=taken)
            entries[taken] = entries[taken]._replace(undone_by=n)
    return list(entries.values())


def _check_there(checkpoint: str | os.PathLike[str]) -> None:
    """Refuse a name under which there is nothing, and nobody is about to write something."""
    if Path(checkpoint).exists():
        return
    try:
        with sole_writer(checkpoint):
            pass
    except InUse:
        return
    raise PersistenceError(
        f"there is no checkpoint {os.fspath(checkpoint)}, and no run holds it; `stream-osr run` makes one beside its "
        "output"
    )


def _done_before(checkpoint: str | os.PathLike[str]) -> int:
    """Return the number of the last act that a checkpoint has taken in: its log may have been lost."""
    return load_checkpoint(checkpoint).totals["asked"] if Path(checkpoint).exists() else 0


def _effect(asked: Asked) -> str:
    """Say what is different now."""
    ids, one = ", ".join(map(str, asked.subclasses)), len(asked.subclasses) == 1
    subclasses = f"subclass {ids} is" if one else f"subclasses {ids} are"
    if asked.action == "promote":
        return f"{subclasses} {asked.label} from the next micro-batch on"
    if asked.action == "mute":
        return f"{subclasses} muted: still unknown, told of no more"
    if asked.action == "label":
        return f"{asked.key} counts as {asked.label} from the next micro-batch on"
    return "the last promotion, mute or label is taken back"


_ERRORS: Mapping[str, Callable[[str], StreamOSRError]] = MappingProxyType(
    {each.__name__: each for each in (InvalidInstance, InvalidLabel, InvalidSubclass, NothingToUndo)}
)


def _refusal(asked: Asked, outcome: Outcome) -> StreamOSRError:
    """Make the error again of which the log has the name."""
    return _ERRORS.get(outcome.error or "", ConnectorError)(outcome.why or "")
