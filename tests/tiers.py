"""Two tiers of tests, and the programs and data that the second one needs.

The first tier (``make test``) needs nothing but the Python packages that it installs. A test marked ``needs``
or ``thorough`` belongs to the second tier. The first tier runs a property test with 20 examples, the second one with
the number that the test states.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])

FIRST, SECOND, ALL = "first", "second", "all"
TESTS = Path(__file__).parent
VARIABLE = "TEST_TIER"
"""Variable of the environment: the tier that this process and the processes that it starts run."""
EXAMPLES = 20
"""Examples of a property test in the first tier."""
OF_THE_SECOND = ("needs", "thorough", "long")
FOLDERS = ("benchmarks", "comparators", "documents", "kafka/faults")
"""Folders of the second tier: tests of the measurements and of the pages, and faults of a broker."""
_WHOLE_MODULE = re.compile(rf"^pytestmark = (?:.+\n)*?.*mark\.({'|'.join(OF_THE_SECOND)})\b", re.MULTILINE)
_EXAMPLE = re.compile(r"^ *>>> ", re.MULTILINE)
_CLOCKS = ("/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime", "/usr/lib/faketime")


def programs(*names: str) -> Callable[[], bool]:
    """Check that each program is on the path."""
    return lambda: all(shutil.which(name) is not None for name in names)


def chromium() -> str | None:
    """Path of the browser."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def faketime() -> str | None:
    """Path of the library that sets the clock of a process."""
    found = (Path(folder, "libfaketimeMT.so.1") for folder in _CLOCKS)
    return next((str(path) for path in found if path.exists()), None)


def _data() -> bool:
    from benchmarks.paper.datasets import data_directory  # imports numpy, before which conftest.py sets variables

    return data_directory().is_dir()


REQUIREMENTS: dict[str, tuple[Callable[[], object], str]] = {
    "broker": (programs("java", "mvn"), "Java 17 and Maven"),
    "browser": (chromium, "make browser"),
    "data": (_data, "STREAM_OSR_DATA=folder"),
    "faketime": (faketime, "make faketime"),
    "java": (programs("java"), "Java 17"),
    "prometheus": (programs("promtool", "prometheus-alertmanager"), "make prometheus"),
    "pyspark": (lambda: find_spec("pyspark"), "make pyspark"),
    "systemd": (programs("systemctl", "systemd-analyze", "unshare", "nsenter", "setpriv"), "make systemd"),
}
"""What a test may need: a check, and the command or the setting that provides it."""
OPTIONAL = {"prometheus", "systemd"}
"""Requirements that a machine of continuous integration may lack."""
OF_FIXTURES = {"started": "broker", "broker": "broker", "brokers": "broker", "browser": "browser"}
"""Fixtures that start a program, with the requirement."""


def missing() -> dict[str, str]:
    """Requirements that this machine lacks, with the remedy of each."""
    return {name: remedy for name, (present, remedy) in REQUIREMENTS.items() if not present()}


def do_without(name: str, reason: str = "") -> NoReturn:
    """Skip a test whose requirement is missing; it fails with ``CI=true``, unless the requirement is optional."""
    message = f"needs {name}: {reason or REQUIREMENTS[name][1]}"
    if os.environ.get("CI", "").lower() == "true" and name not in OPTIONAL:
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def requirements_of(item: pytest.Item) -> set[str]:
    """Requirements of a test, by its markers and its fixtures."""
    marked = {str(name) for mark in item.iter_markers("needs") for name in mark.args}
    return marked | {OF_FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in OF_FIXTURES}


@cache
def is_in_folder(path: Path) -> bool:
    """Whether a path is a folder of the second tier, or lies in one."""
    return any(TESTS / folder in (path, *path.parents) for folder in FOLDERS)


def has_tests(path: Path, tier: str) -> bool:
    """Whether a module has tests or examples of a tier; a module without any is not imported."""
    text = path.read_text()
    if not path.name.startswith("test_"):
        return _EXAMPLE.search(text) is not None
    return tier != FIRST or (_WHOLE_MODULE.search(text) is None and not is_in_folder(path))


def is_in(item: pytest.Item, tier: str) -> bool:
    """Whether a test belongs to a tier. A property test with more than 20 examples belongs to both."""
    if tier == ALL:
        return True
    marked = any(item.get_closest_marker(name) for name in OF_THE_SECOND)
    second = marked or bool(requirements_of(item)) or is_in_folder(item.path)
    repeated = getattr(getattr(item, "function", None), "stated_examples", 0) > EXAMPLES
    return (second or repeated) if tier == SECOND else not second


def examples(number: int, **options: Any) -> Callable[[Test], Test]:
    """Settings of a property test with a number of examples, of which the first tier runs at most 20."""
    from hypothesis import settings

    few = os.environ.get(VARIABLE) == FIRST
    chosen = settings(max_examples=min(number, EXAMPLES) if few else number, **{"deadline": None, **options})

    def decorate(test: Test) -> Test:
        test = chosen(test)
        test.stated_examples = number  # type: ignore[attr-defined]
        return test

    return decorate
