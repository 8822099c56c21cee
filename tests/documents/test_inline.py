"""Commands that stand within a line of a page, or in a block that is not run, are commands that there are."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from stream_osr_connectors.cli.app import app
from tests.documents.commands import ROOT, is_command, options, problem, targets

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")])
_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")
_OPTION = re.compile(r"`(--[a-z][a-z-]*)\b[^`]*`")
_NAMED = re.compile(r"`{1,2}([^`\n]+)`{1,2}")
_AT_HEAD = re.compile(r"^[# ]*(?:[A-Z]+=\S+ )?((?:stream-osr|python) [^\n]*)$", re.MULTILINE)
_SHOWN = re.compile(r"<!-- not run: [^>]*-->\n+```(?:bash|sh|console)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^ {4}(\S.*)$", re.MULTILINE)


def lines_of(page: str) -> list[str]:
    """The command lines of a page that nobody runs: spans of code, indented blocks, blocks said not to be run."""
    page = page.replace("\\\n", " ")
    prose = _FENCE.sub("", page)
    shown = [line.strip() for block in _SHOWN.findall(page) for line in block.splitlines()]
    spans = [" ".join(span.split()) for span in _SPAN.findall(prose)]
    return [line for line in (*spans, *_INDENTED.findall(prose), *shown) if is_command(line)]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_commands_that_a_page_names_are_there(path: Path) -> None:
    wrong = [f"`{line}`: {fault}" for line in lines_of(path.read_text()) if (fault := problem(line))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_options_that_a_page_names_are_there(path: Path) -> None:
    """Named alone, as `--resume`: some command has it, ours or one of a measurement."""
    named = {match[1] for match in _OPTION.finditer(_FENCE.sub("", path.read_text()))}
    ours = set().union(*options().values())
    missing = {option for option in named - ours if not re.search(rf'"{option}"', measurements())}
    assert not missing


def test_commands_that_the_program_and_the_examples_name_are_there() -> None:
    """In messages, in helps and on the page; in examples those at the head of a file as well."""
    wrong, looked = [], 0
    for room in ("stream_osr", "connectors", "examples"):
        for source in sorted((ROOT / room).rglob("*")):
            if source.suffix not in (".py", ".html", ".js", ".yaml"):
                continue
            text = re.sub(r"\{+[^{}]*\}+", "X", source.read_text())
            lines = [*_NAMED.findall(text), *(_AT_HEAD.findall(text) if room == "examples" else ())]
            for line in filter(is_command, lines):
                looked += 1
                if fault := problem(line):
                    wrong.append(f"{source.relative_to(ROOT)}: `{line}`: {fault}")
    assert not wrong, "\n".join(wrong)
    assert looked > 50


@cache
def measurements() -> str:
    """What measures and builds, as one text."""
    rooms = (ROOT / room for room in ("benchmarks", "tools", "examples", "tests/model"))
    return "\n".join(source.read_text() for room in rooms for source in room.rglob("*.py"))


def test_help_lists_what_can_be_made() -> None:
    command = ["make", "--no-print-directory", "help"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    listed = {line.split()[0] for line in output.splitlines()}
    assert listed == set(phony[1].split()) == set(targets())
    assert all(len(line.split()) > 1 for line in output.splitlines()), "a target without a word of what it does"


def test_every_command_has_an_example_that_is_right() -> None:
    """Each ends its ``--help`` with one."""
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        examples = re.findall(r"^ *Example: (stream-osr .*)$", command.help, re.MULTILINE)
        assert examples, name
        for line in examples:
            assert problem(line) is None, line
