"""The change history: each command with its time, its result, and the undo that reverts it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from stream_osr.printable_text import counted

from .command import Command, Result
from .names import Partition

State: TypeAlias = Result | Literal["pending", "asked"]


class CommandEntry(NamedTuple):
    """One entry of the change history.

    Attributes
    ----------
    n, at
        Number of the command (on Kafka its offset), and its time (ISO 8601, UTC).
    command
        The command. ``None`` means a record of the topic that is not a command.
    outcome
        ``done``. ``pending``: the current or next run applies it. ``refused``: it could not be applied. ``left``: it
        was for an earlier run, and a new run has started since. ``asked``: the log of the service has the result.
    why
        Reason why it was refused or left, or is not a command.
    after
        Number of records read before the result.
    place
        Place in the undo order. ``None`` means the next place.
    undone_by
        Number of the undo that reverts this command.
    takes_back
        For an undo: the number of the command that it reverts. ``None`` means a label in the stream.
    """

    n: int
    at: str
    command: Command | None
    outcome: State = "pending"
    why: str | None = None
    after: int | None = None
    place: int | None = None
    undone_by: int | None = None
    takes_back: int | None = None

    def line(self) -> str:
        """Write the entry as a line.

        >>> command = Command("undo", partition=("sensors", 3), by="ann", reason="a lamp")
        >>> CommandEntry(3, "2026-03-02T09:14:07Z", command, "asked").line()
        '3  2026-03-02T09:14:07Z  ann: undo sensors/3 (a lamp)'
        """
        begin = f"{self.n}  {self.at[:19]}Z  "
        if self.command is None:
            return f"{begin}no command: {self.why}"
        by = "" if self.command.by is None else f"{self.command.by}: "
        reason = "" if self.command.reason is None else f" ({self.command.reason})"
        came = "" if self.outcome == "asked" else f": {self.outcome}"
        if self.after is not None and self.outcome == "done":
            came += f" after {counted(self.after, 'record')}"
        if self.undone_by is not None:
            came += f", undone by {self.undone_by}"
        if self.takes_back is not None:
            came += f", takes back {self.takes_back}"
        if self.why is not None:
            came += f": {self.why}"
        return f"{begin}{by}{self.command.describe()}{reason}{came}"

    @property
    def counts(self) -> bool:
        """Whether an undo can revert the command. A late label of a service belongs to no single stream."""
        if self.command is None or self.command.action == "undo" or self.outcome not in ("done", "pending", "asked"):
            return False
        return self.command.action != "label" or self.outcome != "asked"


def pair_undos(entries: Iterable[CommandEntry]) -> list[CommandEntry]:
    """Connect each undo with the command that it reverts.

    >>> mute, undo = (Command(action, partition=("in", 3)) for action in ("mute", "undo"))
    >>> entries = pair_undos(CommandEntry(n, "", each, "asked") for n, each in enumerate([mute, undo]))
    >>> [entry.undone_by for entry in entries]
    [1, None]
    """
    out = list(entries)
    by_stream: dict[str, dict[int, int]] = {}
    for at, entry in enumerate(out):
        if entry.command is None or entry.outcome not in ("done", "asked"):
            continue
        there = by_stream.setdefault(entry.command.place, {})
        if entry.counts:
            there[len(there) if entry.place is None else entry.place] = at
        elif entry.command.action == "undo":
            taken = there.pop(max(there, default=-1) if entry.place is None else entry.place, None)
            if taken is not None:
                out[at] = entry._replace(takes_back=out[taken].n)
                out[taken] = out[taken]._replace(undone_by=entry.n)
    return out


def last_standing(entries: Sequence[CommandEntry]) -> dict[Partition | None, int]:
    """Return for each stream the number of the command that an undo would revert now."""
    return {
        entry.command.partition: entry.n
        for entry in entries
        if entry.command is not None and entry.counts and entry.undone_by is None
    }
