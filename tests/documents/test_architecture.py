"""The table of packages and modules is that of the sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import module_table


def test_the_page_has_the_present_table() -> None:
    page = module_table.PAGE.read_text()
    assert module_table.with_table(page) == page, "python -m tools.module_table --write"


def test_every_module_is_listed_with_the_first_line_of_its_docstring() -> None:
    table, lines = module_table.table(), module_table.listed().splitlines()
    assert "stream_osr/version.py: " in "".join(line[:25] for line in lines)
    assert len(lines) > 200
    assert all(f"`{Path(line.split(':')[0]).stem}`" in table for line in lines if "__init__.py" not in line)


def test_a_module_without_a_docstring_and_a_page_without_markers_are_named() -> None:
    with pytest.raises(ValueError, match=r"documents/__init__\.py has no docstring"):
        module_table.first_line(Path(__file__).parent / "__init__.py")
    with pytest.raises(ValueError, match="<!-- modules -->"):
        module_table.with_table("# A page")
