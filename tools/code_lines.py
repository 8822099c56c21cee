"""Lines of code by package, with the totals of library, connectors, tests and benchmarks; long modules and functions.

``python -m tools.code_lines [--before COMMIT] [--list]``. A line of code holds a token other than a comment; bare
strings (docstrings of modules, classes, functions and attributes) are none. A statement of several lines is as many.
"""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PLACES = ("stream_osr", "connectors", "tests", "benchmarks")
"""Folders whose modules are counted, with a total for each."""

LONGEST_MODULE = 400
LONGEST_FUNCTION = 60

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


class Module(NamedTuple):
    """A module: its lines of code, all its lines, and the lines of its functions' bodies."""

    code: int
    lines: int
    functions: dict[str, int]


def count_module(source: str) -> Module:
    """Count a module."""
    tree = ast.parse(source)
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    functions = {name: _body(node, code) for name, node in _functions(tree)}
    return Module(len(code), len(source.splitlines()), functions)


def _functions(node: ast.AST, name: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Find all functions beneath a node, with the names of the classes and functions around them."""
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{name}.{child.name}" if name else child.name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield inner, child
        yield from _functions(child, inner)


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef, code: set[int]) -> int:
    first, last = function.body[0].lineno, function.end_lineno or function.lineno
    return sum(first <= line <= last for line in code)


def count_tree(root: Path) -> dict[str, Module]:
    """Count the modules of a tree, by their paths."""
    files = sorted(path for place in PLACES for path in (root / place).rglob("*.py"))
    return {str(path.relative_to(root)): count_module(path.read_text()) for path in files}


def count_commit(commit: str, root: Path) -> dict[str, Module]:
    """Count the modules of a commit, as git has it."""
    packed = subprocess.run(["git", "-C", str(root), "archive", commit], capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
        return count_tree(Path(folder))


def by_package(modules: dict[str, Module]) -> Counter[str]:
    """Sum lines of code up by package, and in a total for each place."""
    counts: Counter[str] = Counter()
    for path, module in modules.items():
        counts[str(Path(path).parent)] += module.code
        counts[f"total {Path(path).parts[0]}"] += module.code
    return counts


def long_parts(modules: dict[str, Module]) -> list[str]:
    """List the modules and functions that are too long, and the usual lengths."""
    lengths = {path: module.lines for path, module in modules.items()}
    by_code = {path: module.code for path, module in modules.items()}
    long = [f"{path} {n}" for path, n in lengths.items() if n > LONGEST_MODULE]
    functions = [
        f"{path} {name} {n}"
        for path, module in modules.items()
        for name, n in module.functions.items()
        if n > LONGEST_FUNCTION
    ]
    bodies = [n for module in modules.values() for n in module.functions.values()]
    return [
        f"{len(modules)} modules, median {statistics.median(lengths.values()):g} lines "
        f"({statistics.median(by_code.values()):g} of code), longest {max(lengths.values())}",
        f"{len(bodies)} functions, median {statistics.median(bodies):g} lines of code, longest {max(bodies)}",
        f"modules over {LONGEST_MODULE} lines: {', '.join(long) or 'none'}",
        f"functions over {LONGEST_FUNCTION} lines of code: {', '.join(functions) or 'none'}",
    ]


def main(arguments: list[str] | None = None) -> int:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="COMMIT", help="count this commit as well, and print the difference")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="of the checkout")
    parser.add_argument("--list", action="store_true", help="print each module too")
    chosen = parser.parse_args(arguments)
    now = count_tree(chosen.root)
    counts = by_package(now)
    earlier = count_commit(chosen.before, chosen.root) if chosen.before else None
    before = Counter() if earlier is None else by_package(earlier)
    for name in sorted({*counts, *before}, key=lambda name: (name.startswith("total "), name)):
        difference = "" if earlier is None else f"{before[name]:8d} {counts[name] - before[name]:+7d}"
        print(f"{counts[name]:7d}{difference}  {name}")
    for title, modules in (("now", now), (f"at {chosen.before}", earlier)):
        if modules is not None:
            print(f"{title}:", *long_parts(modules), sep="\n  ")
    if chosen.list:
        for path, module in sorted(now.items(), key=lambda item: -item[1].lines):
            print(f"{module.lines:5d} {module.code:5d}  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
