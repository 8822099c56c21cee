"""Names and first lines of docstrings: terms of the field, one class for each name, plain words in the tests."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from tools.checks.sources import Sources

_REPLACED = """
glance _glance cells company pour parting joined parted aside broad background Noise strangers cores middles
Arrived Sitting guests terms gaps powers flags filling space Value Holder Outcome told Judged Seated Followed
Telling Waiting Following opened succession take_over Passage past Room guard books unlike stamps asking ask_log
acting Told Found Kept Seen Standing standing telling figures patience lookout pool happened inside NamingUndone
"""
REPLACED = set(_REPLACED.split())
"""Names with a term of the field in their place; no module, class, function, parameter or attribute has them."""
_REPLACED_MODULES = """
value requests actions opening growing keeping loading finding findings watching joining closing held shown
between following
"""
REPLACED_MODULES = set(_REPLACED_MODULES.split())
"""Words that are no names of modules."""
OF_THE_FIELD = {
    ("stream_osr.model.", "guests"),  # of the restaurants of the franchise
    ("stream_osr_connectors.kafka.setting_names", "flags"),
    ("stream_osr_connectors.cli.", "flags"),
    ("stream_osr_connectors.commands.", "flags"),
    ("stream_osr_connectors.commands.", "standing"),  # a key of JSON on the wire of the page
    ("stream_osr_connectors.page.live.", "standing"),
    ("stream_osr.archive.records", "past"),  # a name in archives
    ("stream_osr.config", "broad"),  # a name of the first argument list
}
RELATIVE = re.compile(
    r"((By|From|Of|In|For|To|At|With) )?(what|where|whether|who|whose|whom|how|which|when|why)(ever)?\b",
    re.IGNORECASE,
)
IN_TESTS = re.compile(r"(?<![A-Za-z])(?:[Tt]old|[Bb]ooks?|[Ll]aw|[Aa]sked|[Ss]hare[ds]?[ _]out)(?![A-Za-z])")
"""Words that the tests do not use, as names or in texts."""
QUOTED = {
    "tests/test_checks.py",
    "tests/test_prose.py",
    "tests/archives/test_changes.py",  # fields of records
    "tests/connectors/test_commands.py",  # the name of a file
}
"""Tests that quote such words."""
MOST_PRIVATE = 60
"""Private names of the library that all tests import."""


def check(sources: Sources) -> Iterator[str]:
    """Find names and docstrings that break a rule."""
    yield from replaced_names(sources)
    yield from classes_with_one_name(sources)
    yield from relative_docstrings(sources)
    yield from words_of_tests(sources)
    yield from private_names_in_tests(sources)


def names(module: str, tree: ast.Module) -> set[str]:
    """Names that other modules see."""
    found = {module.rpartition(".")[2]}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            fields = [each.target for each in node.body if isinstance(each, ast.AnnAssign | ast.AugAssign)]
            found |= {node.name, *(each.id for each in fields if isinstance(each, ast.Name))}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return found


def replaced_names(sources: Sources) -> Iterator[str]:
    """Find names that a term of the field has replaced."""
    for module, tree in sources.trees.items():
        used = names(module, tree) & REPLACED | {module.rpartition(".")[2]} & REPLACED_MODULES
        for name in sorted(used):
            if not any(module.startswith(place) and name == own for place, own in OF_THE_FIELD):
                yield f"{module} has the name {name}; use the field's term"


def classes_with_one_name(sources: Sources) -> Iterator[str]:
    """Find class names that two classes have."""
    nodes = (node for tree in sources.trees.values() for node in ast.walk(tree))
    counts = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    yield from (f"{count} classes have the name {name}" for name, count in counts.items() if count > 1)


def relative_docstrings(sources: Sources) -> Iterator[str]:
    """Find docstrings of modules and classes that begin with a relative clause."""
    for module, tree in sources.trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef) and RELATIVE.match(ast.get_docstring(node) or ""):
                yield f"{module} {getattr(node, 'name', '')}: a docstring begins with a noun or a verb"


def words_of_tests(sources: Sources) -> Iterator[str]:
    """Find everyday words where the tests need a term of the field."""
    for path in sources.test_files:
        if sources.place(path) in QUOTED:
            continue
        for number, line in enumerate([path.stem, *path.read_text().splitlines()]):
            yield from (f"{sources.place(path)}:{number}: {word}" for word in IN_TESTS.findall(line))


def private_names_in_tests(sources: Sources) -> Iterator[str]:
    """Count the private names that tests import from the library."""
    found = sorted(
        {
            f"{node.module}.{alias.name}"
            for path in sources.test_files
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module in sources.modules
            for alias in node.names
            if alias.name.startswith("_")
        }
    )
    if len(found) > MOST_PRIVATE:
        yield f"tests import {len(found)} private names, at most {MOST_PRIVATE} are expected: {', '.join(found)}"
