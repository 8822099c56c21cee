"""Progress bars of commands that take a while."""

from __future__ import annotations

from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from stream_osr.compiling import being_compiled
from stream_osr_connectors.terminal import Terminal


class Compiling(ProgressColumn):
    """What is being compiled while the work waits for it."""

    def render(self, task: Task) -> Text:
        """Say it in a few words."""
        name = being_compiled()
        return Text(f"compiling {name.strip('_')}" if name else "", style="dim")


def progress_bar(console: Terminal, total: bool) -> Progress:
    """Make a progress bar, silent unless a person is watching."""
    columns: list[Any] = [SpinnerColumn(), TextColumn("{task.description}")]
    columns += [BarColumn(), MofNCompleteColumn()] if total else [TextColumn("{task.completed} records")]
    return Progress(
        *columns,
        TimeElapsedColumn(),
        Compiling(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
        redirect_stdout=False,  # it would read what others write for its colours
        redirect_stderr=False,
    )
