"""Messages of commands: progress, records that were set aside, and a summary of the stream."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from stream_osr.errors import ConnectorError
from stream_osr.printable_text import counted, printable
from stream_osr_connectors.summary.naming import naming_command
from stream_osr_connectors.terminal import OneLine, Terminal

if TYPE_CHECKING:
    from rich.progress import Progress

    from stream_osr import Keyed, OpenSetRecognizer
    from stream_osr_connectors.commands import Command, CommandResult

SHOWN = 12
"""Most candidates, subclasses and reasons to list."""
COMPLAINTS_SHOWN = 3
COMPILATION_SHOWN = 1.0
"""Seconds for which a bar shows that a kernel was compiled, since the next one often follows."""

logger = logging.getLogger("stream_osr")


class Phases(logging.Handler):
    """Progress of a command on standard error, phase by phase.

    A terminal shows a bar with the elapsed time. Messages of the logger ``stream_osr`` appear above the bar.

    Parameters
    ----------
    console
        Standard error.
    lines
        If standard error is no terminal, print one line for each phase.
    """

    def __init__(self, console: Terminal, *, lines: bool = False) -> None:
        super().__init__()
        self.setFormatter(OneLine("%(message)s", traces=False))
        self._console, self._lines, self._began = console, lines and not console.is_terminal, time.monotonic()
        self._bar = _bar(console) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._bar is not None:
            logger.addHandler(self)
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message above the bar."""
        self._console.say(self.format(record))

    def begin(self, name: str, total: int | None = None) -> Callable[[int], None]:
        """Begin a phase. Return a function that shows its progress."""
        if self._lines:
            self._console.say(f"{time.monotonic() - self._began:.0f} s: {name}")
        bar = self._bar
        if bar is None:
            return lambda done: None
        for task in bar.task_ids:
            bar.remove_task(task)
        task = bar.add_task(name, total=total)
        return lambda done: bar.update(task, completed=done)


def _bar(console: Terminal) -> Progress:
    from rich import progress  # slow to import
    from rich.text import Text

    from stream_osr.compiling import being_compiled, last_compiled

    class Description(progress.ProgressColumn):
        """The name of the phase, or the compilation for which it waits."""

        def render(self, task: progress.Task) -> Text:
            """Render the column."""
            compiles = being_compiled() or time.monotonic() - last_compiled() < COMPILATION_SHOWN
            return Text("compiling the sampler (once)" if compiles and last_compiled() else task.description)

    class Count(progress.MofNCompleteColumn):
        """The number of records or steps, with the total if it is known."""

        def render(self, task: progress.Task) -> Text:
            """Render the column."""
            records = Text(f"{int(task.completed)} records" if task.completed else "")
            return super().render(task) if task.total else records

    return progress.Progress(
        *(progress.SpinnerColumn(), Description(), progress.BarColumn(), Count(), progress.TimeElapsedColumn()),
        console=console.console,
        transient=True,
        redirect_stdout=False,  # it would read what others write for its colours
        redirect_stderr=False,
    )


def complainer(console: Terminal) -> Callable[[int, str], None]:
    """Return a function that reports the first unusable records, one per line."""
    numbers = count(1)

    def complain(row: int, reason: str) -> None:
        number = next(numbers)
        if number <= COMPLAINTS_SHOWN:
            console.say(f"row {row} set aside: {reason}")
        elif number == COMPLAINTS_SHOWN + 1:
            console.say("(further rows are set aside without a message)")

    return complain


def suggest_key(console: Terminal, path: str | Path, format: Any, but: Collection[str | None], without: str) -> None:
    """Suggest a key column if the user gave none and one looks like a key."""
    from stream_osr_connectors.files.key_check import find_key

    found = None
    with suppress(ConnectorError):  # what is wrong with the other columns is not asked
        found = find_key(path, format, but)
    if found is not None and found.option == "--key":
        console.say(f"{without}. Did you mean --key {found.name}? ({found.why})")


def command_outcome(n: int, command: Command, result: CommandResult) -> str:
    """Describe the result of a command in a line."""
    who = "" if command.by is None else f" by {command.by}"
    why = "" if result.why is None else f": {result.why}"
    return f"command {n}{who}: {command.describe()}: {result.outcome}{why}"


def account(model: OpenSetRecognizer) -> list[str]:
    """Summarize the decisions of a stream, its new classes, and its differences from training."""
    summary, found, stream = model.summary(), model.new_classes(), model.value.stream
    if stream is None or not stream.counts.decided:
        return ["no decisions yet", *summary.unmet.messages()]
    emerged = [f"S{key} {count}" for key, count, announced in summary.emerging if announced]
    listed = ", ".join(emerged[:SHOWN]) + (f" and {len(emerged) - SHOWN} more" if len(emerged) > SHOWN else "")
    lines = [
        str(stream.counts),
        f"new subclasses, with their instances: {listed}" if emerged else "new subclasses: none",
        *repr(found).splitlines()[: SHOWN + 1],
    ]
    if len(found.candidates) > SHOWN:
        lines.append(f"and {counted(len(found.candidates) - SHOWN, 'smaller one')}")
    return [*lines, *_recall(model), *summary.unmet.messages()]


def _recall(model: OpenSetRecognizer) -> list[str]:
    """Describe the estimated recall, and state that it applies to known instances only."""
    now = model.expected_recall
    if now is None:
        return []
    below = ". This is below the expected recall from training" if model.signals.recall_dropped else ""
    return [
        f"of the known instances alone, estimated share labelled right: {now.recall:.3f} ({now.low:.3f} to "
        f"{now.high:.3f}), wrongly called unknown: {now.false_unknown:.3f}{below}"
    ]


def set_aside(count: int, reasons: Mapping[str, int], where: str) -> list[str]:
    """Describe how many records were set aside, and for which reasons.

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


def keys(keyed: Keyed, read: int) -> list[str]:
    """Describe the streams by key: how many there are, and those with the largest share of unknown."""
    lines = keyed.summary()
    emerged = sum(line.emerged > 0 for line in lines)
    out = [f"{counted(len(lines), 'key')}, {emerged} with new subclasses"]
    if len(lines) > 1 and 2 * len(lines) > read:
        out.append("most keys have one record. Is this the column of the stream key (--by)?")
    for line in lines[:SHOWN]:
        found = f", {counted(line.emerged, 'new subclass', 'new subclasses')}" if line.emerged else ""
        share = f"{line.decided} decided, {100 * line.unknown:.1f} % unknown"
        out.append(f"  {printable(line.by, 60)}: {counted(line.seen, 'instance')}, {share}{found}")
    return [*out, *([f"  and {counted(len(lines) - SHOWN, 'more key')}"] if len(lines) > SHOWN else [])]


def naming(model: OpenSetRecognizer, checkpoint: Path, stream: str | None = None) -> str | None:
    """Return the command that names the largest candidate, or ``None`` if there is no candidate."""
    candidates = model.new_classes().candidates
    if not candidates:
        return None
    command = naming_command(candidates[0].subclasses, checkpoint, stream)
    return f"next, to name {candidates[0].name}: {command}"
