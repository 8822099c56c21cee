"""Modules of the library and of the connectors, with their syntax trees and their imports."""

from __future__ import annotations

import ast
from functools import cached_property
from pathlib import Path


class Sources:
    """Source files below the root of a checkout.

    Parameters
    ----------
    root
        Folder with ``stream_osr`` and ``connectors``.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def modules(self) -> dict[str, Path]:
        """Every module by its name."""
        found = {}
        for top in (self.root / "stream_osr", *sorted((self.root / "connectors").glob("*/"))):
            for path in top.rglob("*.py"):
                name = ".".join(path.relative_to(top.parent).with_suffix("").parts)
                found[name.removesuffix(".__init__")] = path
        return found

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """Syntax tree of every module."""
        return {name: ast.parse(path.read_text()) for name, path in self.modules.items()}

    @cached_property
    def imports(self) -> dict[str, frozenset[str]]:
        """Modules of the project that each module imports, at the top or in a function."""
        return {name: self._imported(name) for name in self.modules}

    def _imported(self, name: str) -> frozenset[str]:
        out = set()
        inside = name.split(".") if self.modules[name].name == "__init__.py" else name.split(".")[:-1]
        for node in ast.walk(self.trees[name]):
            if isinstance(node, ast.Import):
                out |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                above = inside[: len(inside) - node.level + 1] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                names = {alias.name: f"{base}.{alias.name}" for alias in node.names}
                out |= {full if full in self.modules else base for full in names.values()}
        return frozenset(out & self.modules.keys() - {name})

    @cached_property
    def test_files(self) -> list[Path]:
        """Every Python file of the tests."""
        return sorted((self.root / "tests").rglob("*.py"))

    def place(self, path: Path) -> str:
        """Path of a file relative to the root."""
        return path.relative_to(self.root).as_posix()
