"""What a command imports before it has anything to do: nobody waits for the sampler to read a help page."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.doors.library import __version__

SLOW = {"numba", "scipy", "river", "numpy", "pandas", "pyarrow", "altair", "kafka", "starlette"}
"""What only those commands import that need it, when they run."""

COMMANDS = ("demo", "fit", "run", "report", "watch", "inspect", "warmup")
ALL = (*COMMANDS, "promote", "mute", "label", "undo", "history", "topics", "reconcile")

WATCHED = """
import json, sys
sys.argv[:] = ["stream-osr", *sys.argv[1:]]
from stream_osr_connectors.cli import main
try:
    main()
finally:
    print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""


def started(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), *((name, "--help") for name in COMMANDS)])
def test_help_imports_nothing_slow(arguments: tuple[str, ...]) -> None:
    done = started("-c", WATCHED, *arguments)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout or __version__ in done.stdout
    imported: list[Any] = json.loads(done.stderr.splitlines()[-1])
    assert "stream_osr" in imported
    assert not SLOW & set(imported)


def test_every_command_is_looked_at() -> None:
    listed = started("-m", "stream_osr_connectors", "--help").stdout
    commands = [line.split()[0] for line in listed.partition("Commands:")[2].splitlines() if line[2:3].strip()]
    assert sorted(commands) == sorted([*ALL, "serve"]), "the help of `serve` is that of its settings"


def test_names_of_the_package_are_there_when_they_are_asked_for() -> None:
    program = """
import sys
import stream_osr
assert not {"numpy", "numba", "river"} & set(sys.modules)
assert set(stream_osr.__all__) <= set(dir(stream_osr))
from stream_osr import OpenSetRecognizer, SubclassEmerged, errors
from stream_osr.compiling import _Notice
from numba.core import event
assert any(isinstance(each, _Notice) for each in event._registered["numba:compile"]), "compiling is announced"
assert stream_osr.OpenSetRecognizer is OpenSetRecognizer
assert stream_osr.discovery.events.SubclassEmerged is SubclassEmerged
assert not hasattr(stream_osr, "OpenSetRecogniser")
"""
    done = started("-c", program)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("typed", "meant"), [("predict", "run"), ("inspct", "inspect"), ("train", "fit")])
def test_a_wrong_command_is_answered_with_the_right_one(typed: str, meant: str) -> None:
    done = started("-m", "stream_osr_connectors", typed)
    assert done.returncode == 2
    assert f"Did you mean '{meant}'?" in done.stderr


def test_completion_of_the_shell_can_be_installed() -> None:
    assert "--install-completion" in started("-m", "stream_osr_connectors", "--help").stdout
