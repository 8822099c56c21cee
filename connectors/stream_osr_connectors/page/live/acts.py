"""What people ask of the stream by way of the page, and what was ever asked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol

from stream_osr.errors import ConnectorError, InvalidParameter, NothingToUndo, StreamOSRError
from stream_osr.showing import shown
from stream_osr_connectors.files.command_log import Asked, AskLog
from stream_osr_connectors.files.commands import Entry, ask, history

MOST_ENTRIES = 200
"""Of the history, on the page."""
ACTIONS = ("promote", "mute", "undo", "label")


class Conflict(StreamOSRError):
    """What is asked was about something that has changed since."""


class Answer(NamedTuple):
    """What came of it: a sentence, and ``done`` or ``queued``."""

    said: str
    standing: str


class Wish(NamedTuple):
    """What a page asks, its form checked.

    Attributes
    ----------
    action
        One of ``ACTIONS``.
    subclasses
        As the page names them.
    label, key, reason
        Class, key of an instance, and why.
    n
        Of an undo: number of what should be taken back.
    """

    action: str
    subclasses: tuple[str, ...] = ()
    label: str | int | bool | None = None
    key: str | int | None = None
    reason: str | None = None
    n: int | None = None


def read_wish(body: object) -> Wish:
    """Read what a page asks.

    Raises
    ------
    InvalidParameter
        If it is nothing that can be asked.

    Examples
    --------
    >>> read_wish({"action": "promote", "subclass": "11", "label": "sky"})
    Wish(action='promote', subclasses=('11',), label='sky', key=None, reason=None, n=None)
    """
    if not isinstance(body, dict):
        raise InvalidParameter(f"it holds {shown(body)}, not a JSON object")
    action = body.get("action")
    if action not in ACTIONS:
        raise InvalidParameter(f"action is {shown(action)}; it is one of {', '.join(ACTIONS)}")
    given = body.get("subclass")
    listed = given if isinstance(given, list) else [] if given is None else [given]
    if len(listed) > 100 or not all(isinstance(each, str | int) and not isinstance(each, bool) for each in listed):
        raise InvalidParameter(f"subclass is {shown(given)}; it is an id of the inbox, or a list of them")
    for name, kinds in (("label", (str, int, bool)), ("key", (str, int)), ("reason", (str,)), ("n", (int,))):
        if body.get(name) is not None and not isinstance(body[name], kinds):
            raise InvalidParameter(f"{name} is {shown(body[name])}, which it cannot be")
    rest = {name: body.get(name) for name in ("label", "key", "reason", "n")}
    return Wish(action, tuple(map(str, listed)), **rest)


class Acts(Protocol):
    """How people's wishes reach the stream."""

    allowed: bool
    """Whether they do."""
    version: int
    """Grows with what was asked."""

    def ask(self, wish: Wish, by: str) -> Answer:
        """Ask for something.

        Raises
        ------
        Conflict
            If another act would be taken back than the one that is meant.
        StreamOSRError
            If it cannot be done.
        """

    def look(self) -> None:
        """See what was asked since, here or elsewhere."""

    def named(self) -> Mapping[str, tuple[str, str | None]]:
        """Give status and label of each subclass of which people have said something, taken back or not."""

    def history(self) -> Sequence[Mapping[str, Any]]:
        """List all that was asked, the newest first, at most ``MOST_ENTRIES``."""

    def notes(self) -> Sequence[str]:
        """Say what could not be read."""

    def stop(self) -> None:
        """Let go of everything."""


class FileActs:
    """Acts on the checkpoint of a run over files.

    Parameters
    ----------
    checkpoint
        The checkpoint.
    allowed
        Whether anything may be asked.
    """

    def __init__(self, checkpoint: Path, *, allowed: bool) -> None:
        self._checkpoint = checkpoint
        self.allowed = allowed
        self.version = 0
        self._entries: list[Entry] = []
        self._mark: object = None
        self._trouble = ""
        self._lock = Lock()

    def ask(self, wish: Wish, by: str) -> Answer:
        """Ask for something: done at once, or by the run that holds the checkpoint."""
        keys = []
        for each in wish.subclasses:
            if not (each.isdecimal() and len(each) <= 18):
                raise InvalidParameter(f"subclass is {shown(each)}, not a number")
            keys.append(int(each))
        with self._lock:
            if wish.action == "undo":
                self.look()
                check_undo(wish.n, [_undoable(self._entries)])
            asked = Asked(wish.action, tuple(keys), wish.label, wish.key, wish.reason, by)  # type: ignore[arg-type]
            try:
                standing = ask(self._checkpoint, asked)
            finally:
                self.look()
        return Answer(standing.said, standing.standing)

    def look(self) -> None:
        """Read the log again if it has changed."""
        log = AskLog(self._checkpoint).path
        try:
            found = log.stat()
            mark: object = (found.st_ino, found.st_size, found.st_mtime_ns)
        except OSError:
            mark = None
        if mark == self._mark:
            return
        try:
            self._entries, self._trouble = history(self._checkpoint) if mark else [], ""
        except ConnectorError as error:
            self._trouble = f"What was asked cannot be read: {error}"
        self._mark = mark
        self.version += 1

    def named(self) -> Mapping[str, tuple[str, str | None]]:
        """Tell what stands of what was said of subclasses."""
        out: dict[str, tuple[str, str | None]] = {}
        for entry in self._entries:
            if entry.action not in ("promote", "mute") or entry.outcome != "done":
                continue
            status = ("named", str(entry.label)) if entry.action == "promote" else ("muted", None)
            for key in entry.subclasses:
                out[str(key)] = ("emerging", None) if entry.undone_by is not None else status
        return out

    def history(self) -> Sequence[Mapping[str, Any]]:
        """List all that was asked, the newest first."""
        last = _undoable(self._entries)
        return [
            {
                "n": entry.n,
                "at": entry.at,
                "by": entry.by,
                "action": entry.action,
                "subclasses": [str(key) for key in entry.subclasses],
                "label": entry.label,
                "what": _what(entry),
                "outcome": entry.outcome + (f": {entry.why}" if entry.why else ""),
                "reason": entry.reason,
                "undone": entry.undone_by is not None,
                "undoable": entry.n == last,
            }
            for entry in self._entries[: -MOST_ENTRIES - 1 : -1]
        ]

    def notes(self) -> Sequence[str]:
        """Say what could not be read."""
        return [self._trouble] if self._trouble else []

    def stop(self) -> None:
        """Do nothing: nothing is held."""


def _undoable(entries: Sequence[Entry]) -> int | None:
    """Give the number of the act that an undo would take back now."""
    for entry in reversed(entries):
        if entry.action != "undo" and entry.outcome in ("done", "pending") and entry.undone_by is None:
            return entry.n
    return None


def check_undo(n: int | None, undoable: Sequence[int | None]) -> None:
    """Make sure that what is taken back is what somebody has looked at."""
    if n is None or n in undoable:
        return
    if all(each is None for each in undoable):
        raise NothingToUndo(f"act {n} was taken back already, and nothing else is left to be taken back")
    raise Conflict(
        f"act {n} is not the latest one any more: somebody has acted since; look at the history, and undo the latest"
    )


def _what(entry: Entry) -> str:
    those = ", ".join(map(str, entry.subclasses))
    if entry.action == "promote":
        return f"subclass {those} is {entry.label}"
    if entry.action == "mute":
        return f"subclass {those} muted"
    if entry.action == "label":
        return f"instance {entry.key} is {entry.label}"
    return "undo" if entry.takes_back is None else f"undo of {entry.takes_back}"
