"""The blocks of a page that a reader would copy, and what the page says about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md") if "results" not in path.parts))
"""All that is run: the read-me and the site, but for the tables of results."""
BROKER = "tests/kafka/broker/broker.sh"
REMARK = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')


class Block(NamedTuple):
    """A block of code.

    Attributes
    ----------
    line
        Where its text begins in the page, from 1.
    language
        The first word behind the fence; of an indented block ``"indented"``.
    title
        Name of the file that it shows, or none.
    text
        What is in it.
    remark
        The comment before it, or none: ``meanwhile``, ``not run: REASON``, ``long`` (``make test-long`` runs it),
        ``after Ctrl-C`` (where something was begun last).
    """

    line: int
    language: str
    title: str
    text: str
    remark: str

    @property
    def why_not(self) -> str:
        """Why it is not run, if it is not."""
        return self.remark.removeprefix("not run:").strip() if self.remark.startswith("not run:") else ""


def blocks(page: str) -> Iterator[Block]:
    """Read the blocks of a page, in order.

    >>> [(block.language, block.text, block.remark) for block in blocks("<!-- meanwhile -->\\n```bash\\nls\\n```\\n")]
    [('bash', 'ls\\n', 'meanwhile')]
    """
    remark = ""
    for token in MarkdownIt().parse(page):
        if token.type == "html_block" and (said := REMARK.search(token.content)):
            remark = said[1]
            continue
        if token.type in ("fence", "code_block"):
            info = token.info.strip()
            language = "indented" if token.type == "code_block" else (info.split() or [""])[0]
            titled = TITLE.search(info)
            line = (token.map or [0])[0] + (1 if token.type == "code_block" else 2)
            yield Block(line, language, titled[1] if titled else "", token.content, remark)
        remark = ""


def in_checkout(page: str) -> bool:
    """Say whether the page's reader stands in a checkout of the project."""
    return "<!-- in a checkout -->" in page


@cache
def needs_broker(page: str) -> bool:
    """Say whether commands of the page want a Kafka broker at the usual port."""
    if "examples/kafka" not in page and BROKER not in page:
        return False  # without parsing it
    return any("examples/kafka" in block.text or BROKER in block.text for block in blocks(page) if _is_run(block))


def starts_broker(page: str) -> bool:
    """Say whether the page's reader starts it."""
    return any(f"{BROKER} start" in block.text for block in blocks(page) if _is_run(block))


def _is_run(block: Block) -> bool:
    return block.language == "bash" and not block.why_not and not block.title
