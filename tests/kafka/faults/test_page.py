"""The page for operators, the matrix and the code name the same faults and messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "kafka_reference.md").read_text()
VALUE = "\0"
"""Stands for a value in a message."""


class Row(NamedTuple):
    """A row of the table: cores of messages, and the faults or the occasion."""

    messages: list[str]
    occasions: list[str]


def rows() -> list[Row]:
    """Rows of the table."""
    section = PAGE.partition("\n## Faults and messages\n")[2].partition("\n## ")[0]
    lines = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    return [Row(re.findall(r"`([^`]+)`", message), when.split("; ")) for message, when, *_ in lines]


@cache
def faults() -> set[str]:
    """Faults that have a test."""
    return {
        name
        for file in Path(__file__).parent.glob("test_*.py")
        for name in re.findall(r'^@pytest\.mark\.fault\("(.+)"\)$', file.read_text(), re.MULTILINE)
    }


def texts_of(tree: ast.AST) -> Iterator[str]:
    """Texts of a program, with their values replaced."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"%[\d.]*[a-z]", VALUE, node.value)
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else VALUE for each in node.values)


@cache
def texts() -> list[str]:
    """All texts of the library and the connectors that may be in a log."""
    files = [file for room in ("stream_osr", "connectors") for file in sorted((ROOT / room).rglob("*.py"))]
    return [text for file in files for text in texts_of(ast.parse(file.read_text()))]


def test_the_page_says_what_happens_with_every_fault_that_is_faults() -> None:
    named = [each for row in rows() for each in row.occasions if each in faults()]
    assert len(named) == len(set(named)) > 50
    assert faults() - set(named) == set(), "the page lacks these"


def test_every_row_is_tested_or_has_a_message() -> None:
    """The faults of a row are tested, all or none; a row without one has a message."""
    for row in rows():
        assert set(row.occasions) <= faults() or (row.messages and not set(row.occasions) & faults()), row


def test_every_message_of_the_page_is_one_of_the_code() -> None:
    """Dots stand for a value."""
    messages = [message for row in rows() for message in row.messages]
    assert len(messages) == len(set(messages)) > 40
    for message in messages:
        core = re.compile(VALUE.join(map(re.escape, message.split("..."))))
        assert any(core.search(text) for text in texts()), f"no text of the code has {message!r}"
