"""Table of packages and modules in ``docs/architecture.md``: ``python -m tools.module_table [--write | --check]``.

Each package has a row: the first line of its docstring, and the names of its modules. Without an option every module
is printed with the first line of its own docstring.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- modules -->", "<!-- end of modules -->"


def packages() -> Iterator[Path]:
    """List the folders of all packages, each before those within it."""
    for top in (ROOT / "stream_osr", *sorted(path for path in (ROOT / "connectors").iterdir() if path.is_dir())):
        yield from sorted(path.parent for path in top.rglob("__init__.py"))


def modules(package: Path) -> list[Path]:
    """List the modules of a package, without those of packages within it."""
    return sorted(path for path in package.glob("*.py") if path.name != "__init__.py")


def first_line(module: Path) -> str:
    """Read the first line of a module's docstring, as Markdown.

    Raises
    ------
    ValueError
        If it has none.
    """
    docstring = ast.get_docstring(ast.parse(module.read_text()))
    if not docstring:
        raise ValueError(f"{module.relative_to(ROOT)} has no docstring")
    line = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", docstring.splitlines()[0]).replace("``", "`")
    return line.replace("|", "\\|")


def table() -> str:
    """Make the table: a row for each package."""
    rows = ["| package | content | modules |", "| --- | --- | --- |"]
    for package in packages():
        names = ", ".join(f"`{module.stem}`" for module in modules(package))
        line = first_line(package / "__init__.py")
        rows.append(f"| `{package.relative_to(ROOT).as_posix()}/` | {line} | {names} |")
    return "\n".join(rows)


def listed() -> str:
    """List all modules, each with the first line of its docstring."""
    every = [path for package in packages() for path in (package / "__init__.py", *modules(package))]
    return "\n".join(f"{path.relative_to(ROOT).as_posix()}: {first_line(path)}" for path in every)


def with_table(page: str) -> str:
    """Put the present table between the markers of a page."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE} has no {BEGIN} with {END} after it")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main() -> int:
    """Print the modules, write the table, or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--write", action="store_true", help="write the table into the page")
    doing.add_argument("--check", action="store_true", help="end with 1 if the page has another table")
    given = parser.parse_args()
    page = PAGE.read_text()
    if given.write:
        PAGE.write_text(with_table(page))
    elif given.check:
        if with_table(page) != page:
            print("docs/architecture.md: run python -m tools.module_table --write", file=sys.stderr)
            return 1
    else:
        print(listed())
    return 0


if __name__ == "__main__":
    sys.exit(main())
