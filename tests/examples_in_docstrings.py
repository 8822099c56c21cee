"""Examples in docstrings, as one test for each module, which is imported when the test runs.

``--doctest-modules`` of pytest imports every module while it collects tests, with each optional package.
"""

from __future__ import annotations

import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


class ModuleFile(pytest.File):
    """A module with examples."""

    def collect(self) -> Iterator[pytest.Item]:
        """Make the test."""
        yield Examples.from_parent(self, name="examples")


class Examples(pytest.Item):
    """All examples of a module."""

    def runtest(self) -> None:
        """Run the examples; the first lines of a failure name the docstring."""
        below = ROOT / "connectors" if ROOT / "connectors" in self.path.parents else ROOT
        parts = self.path.relative_to(below).with_suffix("").parts
        module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
        runner, output = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS), list[str]()
        tests = doctest.DocTestFinder(exclude_empty=True).find(module, module.__name__)
        for test in tests:
            runner.run(test, out=output.append)
        if runner.failures:
            pytest.fail("".join(output), pytrace=False)
        if not any(test.examples for test in tests):
            pytest.fail(f"no example found in {module.__name__}", pytrace=False)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Place and name in reports."""
        return self.path, 0, f"examples of {self.path.name}"
