"""Selection of tests (:mod:`tests.tiers`): ``--tier first`` is ``make test``; without the option all tests run."""

from __future__ import annotations

import os
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import tiers
from tests.examples_in_docstrings import ModuleFile

CHOICES = (tiers.FIRST, tiers.SECOND, tiers.ALL)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--tier", choices=CHOICES, default=tiers.ALL, help="tier of tests to run (default: all)")


def pytest_configure(config: pytest.Config) -> None:
    """Pass the tier to property tests, and load a plugin that only the second tier needs (its imports are slow)."""
    os.environ[tiers.VARIABLE] = config.getoption("--tier")
    if config.getoption("--tier") != tiers.FIRST and find_spec("schemathesis"):
        config.pluginmanager.import_plugin("schemathesis.pytest.plugin")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no module without tests or examples of the tier."""
    tier = config.getoption("--tier")
    if collection_path.is_dir():
        return True if tier == tiers.FIRST and tiers.is_in_folder(collection_path) else None
    if collection_path.suffix == ".py" and not tiers.has_tests(collection_path, tier):
        return True
    return None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the examples of a module."""
    named = file_path.suffix == ".py" and not file_path.name.startswith("test_")
    if named and tiers.has_tests(file_path, tiers.ALL):
        return ModuleFile.from_parent(parent, path=file_path)
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of the other tier."""
    tier = config.getoption("--tier")
    chosen = {item: tiers.is_in(item, tier) for item in items}
    if left := [item for item in items if not chosen[item]]:
        config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if chosen[item]]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose requirement is missing."""
    for requirement in tiers.requirements_of(item) & tiers.missing().keys():
        tiers.do_without(requirement)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what was skipped, and what the second tier lacks on this machine, in one line each."""
    skipped = Counter(str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []))
    if skipped:
        reasons = (f"{reason.removeprefix('Skipped: ')} ({count})" for reason, count in skipped.most_common())
        terminalreporter.write_line(f"skipped: {'; '.join(reasons)}")
    if config.getoption("--tier") == tiers.FIRST:
        lacking = ", ".join(f"{name} ({remedy})" for name, remedy in tiers.missing().items())
        hint = f", which lack on this machine: {lacking}" if lacking else ""
        terminalreporter.write_line(f"not run: tests of the second tier (make test-all){hint}")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """End at a module that cannot be imported; with several processes pytest would run all other tests first."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.exit(f"{report.nodeid} cannot be imported\n{report.longreprtext}", returncode=1)
