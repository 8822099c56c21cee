"""What commands tell while they work."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stream_osr.errors import ConnectorError
from stream_osr_connectors.terminal import Terminal

if TYPE_CHECKING:
    from rich.progress import Progress

    from stream_osr_connectors.commands import Command, CommandResult

COMPLAINTS_SHOWN = 3


def progress_bar(console: Terminal, total: bool) -> Progress:
    """Make a progress bar, silent unless a person is watching."""
    from stream_osr_connectors.cli.progress import progress_bar as make  # slow to import, and --help does without

    return make(console, total)


def complainer(console: Terminal) -> Callable[[int, str], None]:
    """Report the first few unusable records, each in a line."""
    numbers = count(1)

    def complain(row: int, reason: str) -> None:
        number = next(numbers)
        if number <= COMPLAINTS_SHOWN:
            console.say(f"row {row} set aside: {reason}")
        elif number == COMPLAINTS_SHOWN + 1:
            console.say("(further rows are set aside without a line each)")

    return complain


def suggest_key(console: Terminal, path: str | Path, format: Any, but: Collection[str | None], without: str) -> None:
    """Say which column looks like the key that was not given, if one does, and what it is like without."""
    from stream_osr_connectors.files.likely_key import find_key

    found = None
    with suppress(ConnectorError):  # what is wrong with the other columns is not asked
        found = find_key(path, format, but)
    if found is not None and found.option == "--key":
        console.say(f"{without}; did you mean --key {found.name}? ({found.why})")


def set_aside(console: Terminal, count: int, errors: Path | None) -> None:
    """Say how many records were set aside, if some were, and where they are."""
    if count:
        where = f"kept in {errors}" if errors is not None else "--errors FILE keeps them"
        console.say(f"{count} set aside; {where}")


def came_of(n: int, command: Command, result: CommandResult) -> str:
    """Say what came of a command, in a line."""
    who = "" if command.by is None else f" by {command.by}"
    why = "" if result.why is None else f": {result.why}"
    return f"asked {n}{who}: {command.describe()}: {result.outcome}{why}"
