"""Figures into a page: what a benchmark measured goes between the page's markers, with how it was measured.

The markers are comments of HTML, ``<!-- NAME -->`` and ``<!-- end of NAME -->``; what stands between them is lost.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import numba
import numpy as np
import typer

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results" / "speed.md"
RECORDS = ROOT / "benchmarks" / "results"
"""Folder of raw figures and of the logs of earlier measurements."""


def shown(value: object) -> str:
    """Format a cell: a float with about three significant digits.

    >>> [shown(each) for each in (0.4567, 12.34, 306.2, "LETTER", 1000)]
    ['0.46', '12.3', '306', 'LETTER', '1000']
    """
    if not isinstance(value, float):
        return str(value)
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f}"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: bool = False) -> str:
    """Make a table of Markdown; `right`: all columns but the first are aligned to the right.

    >>> print(table(["a", "b"], [["one", 0.5]]))
    | a | b |
    | --- | --- |
    | one | 0.50 |
    """
    rule = ["---", *["---:" if right else "---"] * (len(columns) - 1)]
    lines = [columns, rule, *([shown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def git(*arguments: str) -> str:
    """Ask git about this tree."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()


def commit() -> str:
    """Name the commit of this tree, and whether its code holds what is in no commit."""
    changed = git("status", "--porcelain", "--", "stream_osr", "connectors", "benchmarks")
    return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def how() -> str:
    """Say what measured: command, commit, versions."""
    module = sys.modules["__main__"].__spec__
    name = f"-m {module.name.removesuffix('.__main__')}" if module is not None else Path(sys.argv[0]).name
    given = (each for each in sys.argv[1:] if each != "--write")
    command = shlex.join(os.path.relpath(each, ROOT) if Path(each).is_absolute() else each for each in given)
    return (
        f"(`{f'python {name} {command}'.strip()}` at {commit()},\n{platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, numpy {np.__version__}, numba {numba.__version__})"
    )


Write = Annotated[bool, typer.Option("--write", help="Write the table into its page.")]
"""The option of a command whose table stands on a page."""


def tell(name: str, text: str, into_page: bool, page: Path = PAGE) -> None:
    """Print a text, and write it if it is to be written."""
    print(text)
    if into_page:
        write(name, text, page)


def write(name: str, text: str, page: Path = PAGE) -> None:
    """Put a text between the markers of that name, below it how it was measured.

    Raises
    ------
    ValueError
        If the page has no such markers.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, first, rest = page.read_text().partition(begin)
    _, second, after = rest.partition(end)
    if not (first and second):
        raise ValueError(f"{page} has no {begin} with {end} after it")
    page.write_text(f"{before}{begin}\n\n{text}\n\n{how()}\n\n{end}{after}")
