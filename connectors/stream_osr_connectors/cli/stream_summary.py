"""Messages of commands: their progress, what they set aside, and what a stream amounts to so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from stream_osr.errors import ConnectorError
from stream_osr.printable_text import counted, printable
from stream_osr_connectors.terminal import Terminal

if TYPE_CHECKING:
    from rich.progress import Progress

    from stream_osr import OpenSetRecognizer
    from stream_osr_connectors.commands import Command, CommandResult

SHOWN = 12
"""Candidates, subclasses and reasons that have a place of their own."""
COMPLAINTS_SHOWN = 3


def progress_bar(console: Terminal, total: bool) -> Progress:
    """Make a progress bar, silent unless a person is watching."""
    from rich import progress  # slow to import, and --help does without
    from rich.text import Text

    from stream_osr.compiling import being_compiled

    class Compiling(progress.ProgressColumn):
        """The function that is being compiled while the work waits for it."""

        def render(self, task: progress.Task) -> Text:
            """Say it in a few words."""
            name = being_compiled()
            return Text(f"compiling {name.strip('_')}" if name else "", style="dim")

    columns: list[Any] = [progress.SpinnerColumn(), progress.TextColumn("{task.description}")]
    if total:
        columns += [progress.BarColumn(), progress.MofNCompleteColumn()]
    else:
        columns += [progress.TextColumn("{task.completed} records")]
    return progress.Progress(
        *(*columns, progress.TimeElapsedColumn(), Compiling()),
        console=console,
        disable=not console.is_terminal,
        transient=True,
        redirect_stdout=False,  # it would read what others write for its colours
        redirect_stderr=False,
    )


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
    from stream_osr_connectors.files.key_check import find_key

    found = None
    with suppress(ConnectorError):  # what is wrong with the other columns is not asked
        found = find_key(path, format, but)
    if found is not None and found.option == "--key":
        console.say(f"{without}; did you mean --key {found.name}? ({found.why})")


def came_of(n: int, command: Command, result: CommandResult) -> str:
    """Say what came of a command, in a line."""
    who = "" if command.by is None else f" by {command.by}"
    why = "" if result.why is None else f": {result.why}"
    return f"asked {n}{who}: {command.describe()}: {result.outcome}{why}"


def account(model: OpenSetRecognizer) -> list[str]:
    """Say how much of a stream was decided how, what is new in it, and how it differs from training."""
    summary, found = model.summary(), model.new_classes()
    size = summary.stream_size
    if not size:
        return ["nothing was decided yet", *summary.unmet.messages()]
    unknown = round(summary.unknown_share * size)
    emerged = [f"S{key} {count}" for key, count, announced in summary.emerging if announced]
    listed = ", ".join(emerged[:SHOWN]) + (f" and {len(emerged) - SHOWN} more" if len(emerged) > SHOWN else "")
    lines = [
        f"{counted(size, 'instance')} decided in all: {size - unknown} known, {unknown} unknown "
        f"({100 * summary.unknown_share:.1f} %)",
        f"new subclasses, with their instances: {listed}" if emerged else "new subclasses: none",
        *repr(found).splitlines()[: SHOWN + 1],
    ]
    if len(found.candidates) > SHOWN:
        lines.append(f"and {counted(len(found.candidates) - SHOWN, 'smaller one')}")
    return [*lines, *_recall(model), *summary.unmet.messages()]


def _recall(model: OpenSetRecognizer) -> list[str]:
    """Tell the recall so that nobody takes it for a figure about the whole stream."""
    now = model.expected_recall
    if now is None:
        return []
    below = "; that is below what training promised" if model.signals.recall_dropped else ""
    return [
        f"of the known instances alone, estimated share labelled right: {now.recall:.3f} ({now.low:.3f} to "
        f"{now.high:.3f}), wrongly called unknown: {now.false_unknown:.3f}{below}"
    ]


def set_aside(count: int, reasons: Mapping[str, int], where: str) -> list[str]:
    """Say how many records were set aside, and why.

    >>> set_aside(3, {"it has no label": 2}, "--errors FILE keeps them")
    ['3 set aside; --errors FILE keeps them', '  2: it has no label', '  1: reasons that were not counted']
    """
    if not count:
        return []
    most = Counter(reasons).most_common()
    kinds = [(number, printable(kind, 200)) for kind, number in most[:SHOWN]]
    rest = sum(number for _, number in most[SHOWN:])
    uncounted = count - sum(reasons.values())
    kinds += [(rest, "other reasons")] * (rest > 0) + [(uncounted, "reasons that were not counted")] * (uncounted > 0)
    return [f"{count} set aside; {where}", *(f"  {number}: {kind}" for number, kind in kinds)]


def naming(model: OpenSetRecognizer, checkpoint: Path) -> str | None:
    """Say which command names the largest candidate; ``None``: there is none."""
    candidates = model.new_classes().candidates
    if not candidates:
        return None
    ids = ",".join(map(str, candidates[0].subclasses))
    return f"next, to name {candidates[0].name}: stream-osr promote {ids} NAME --checkpoint {quote(str(checkpoint))}"
