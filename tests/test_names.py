"""Names, docstrings and imports of internals by tests."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from tests.test_rooms import ROOT, modules, tree

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
MOST_INTERNALS = 250
"""Import statements of all tests that take something private; the modules of tests/doors have nearly all of them."""


def names(module: str) -> set[str]:
    """Names that others see."""
    found = {module.rpartition(".")[2]}
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
            found |= {each.target.id for each in node.body if isinstance(each, ast.AnnAssign | ast.AugAssign)
                      and isinstance(each.target, ast.Name)}  # fmt: skip
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return found


def test_names_are_the_field_s_terms() -> None:
    used = {(module, name) for module in modules() for name in names(module) & REPLACED}
    used |= {(module, module.rpartition(".")[2]) for module in modules()} & {
        (module, name) for module in modules() for name in REPLACED_MODULES
    }
    assert not {
        (module, name)
        for module, name in used
        if not any(module.startswith(place) and name == own for place, own in OF_THE_FIELD)
    }


def test_a_class_name_stands_for_one_class() -> None:
    classes = Counter(
        node.name for module in modules() for node in ast.walk(tree(module)) if isinstance(node, ast.ClassDef)
    )
    assert not [name for name, count in classes.items() if count > 1]


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    described = [
        (module, getattr(node, "name", ""), ast.get_docstring(node) or "")
        for module in modules()
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Module | ast.ClassDef)
    ]
    assert not [(module, name) for module, name, text in described if RELATIVE.match(text)]


def exported(package: str) -> set[str]:
    """Names that a package offers to people."""
    if package not in modules() or modules()[package].name != "__init__.py":
        return set()
    assigned = [node for node in ast.walk(tree(package)) if isinstance(node, ast.Assign)]
    lists = [ast.literal_eval(node.value) for node in assigned if getattr(node.targets[0], "id", "") == "__all__"]
    return set().union(*lists)


def test_tests_reach_inside_by_few_modules() -> None:
    statements = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted(Path(ROOT, "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        if node.module in modules() and not {each.name for each in node.names} <= exported(node.module)
    ]
    assert len(statements) <= MOST_INTERNALS, statements
