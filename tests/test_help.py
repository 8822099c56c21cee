"""What a command imports before it has anything to do: help does not wait for the sampler. Words of errors."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from stream_osr.version import __version__
from tests.blobs import further

SLOW = {"numba", "scipy", "river", "numpy", "pandas", "pyarrow", "altair", "kafka", "starlette", "mcp"}
"""What only those commands import that need it, when they run."""

COMMANDS = (
    *("warmup", "demo", "fit", "run", "report", "watch", "mcp", "inspect"),
    *("label", "promote", "mute", "accept-frame", "reject-frame", "undo", "history"),
    *("serve", "topics", "reconcile"),
)

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


FURTHER = (f"{name} --help" for name in COMMANDS if name != "run")


@pytest.mark.parametrize("arguments", ["--help", "--version", "run --help", *further(*FURTHER)])
def test_help_imports_nothing_slow(arguments: str) -> None:
    done = started("-c", WATCHED, *arguments.split())
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout or __version__ in done.stdout
    command = arguments.removesuffix(" --help")
    if command in ("demo", "fit", "run", "report", "inspect", "warmup"):
        assert f"Example: stream-osr {command}" in " ".join(done.stdout.split())
    imported: list[Any] = json.loads(done.stderr.splitlines()[-1])
    assert "stream_osr" in imported
    assert not SLOW & set(imported)


@pytest.mark.thorough
def test_the_list_of_commands_is_complete() -> None:
    listed = started("-m", "stream_osr_connectors", "--help").stdout
    commands = [line.split()[0] for line in listed.partition("Commands:")[2].splitlines() if line[2:3].strip()]
    assert commands == [*COMMANDS]


def test_names_of_the_package_are_imported_on_first_use() -> None:
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


def test_a_wrong_command_is_answered_with_the_right_one() -> None:
    for typed, meant in (("predict", "run"), ("inspct", "inspect"), ("train", "fit")):
        result = invoked(typed)
        assert result.exit_code == 2
        assert f"Did you mean '{meant}'?" in result.stderr
    assert "--install-completion" in invoked("--help").stdout, "of the shell"


def invoked(*arguments: str) -> Result:
    from stream_osr_connectors.cli.app import app

    return CliRunner().invoke(app, arguments, prog_name="stream-osr", env={"COLUMNS": "80"})


WRONG = (
    (["run"], "Missing option '--model' / '-m', option '--input' / '-i'."),
    (["fit"], "Missing argument 'file', option '--label' / '-l'."),
    (["promote", "--by", "me"], "Missing argument 'subclass', argument 'label'."),
    (["topics", "--partition", "3"], "No such option: --partition (Possible options: "),
    (["serve", "--batchsize", "3"], "No such option: --batchsize (Possible options: --batch-size)"),
    (["promote", "1", "a", "--checkpiont", "c"], "No such option: --checkpiont (Possible options: --checkpoint)"),
    (["serve", "--batch-size", "few"], "Invalid value for '--batch-size': Input should be a valid integer"),
    (["run", "--batch-size", "few", "-m", "m", "-i", "i"], "Invalid value for '--batch-size': Input should be a"),
    (["serve", "--batch-size"], "Option '--batch-size' requires an argument."),
    (["run", "--batch-size"], "Option '--batch-size' requires an argument."),
)


def test_all_commands_report_wrong_options_in_the_same_words() -> None:
    for typed, message in WRONG:
        result = invoked(*typed)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"Error: {message}" in result.stderr


def test_the_help_of_the_service_has_the_form_of_the_others_and_a_section_for_each_subject() -> None:
    from stream_osr_connectors.kafka.settings import SUBJECTS

    page = invoked("serve", "--help").stdout
    headings = [line.removesuffix(":") for line in page.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == ["Options", *SUBJECTS.values()]
    assert "  --batch-size <int>              Instances in a micro-batch." in page
    assert max(map(len, page.splitlines())) <= 80
    assert "--batch-size" not in invoked("topics", "--help").stdout


def test_settings_are_completed_in_every_command_of_the_service() -> None:
    from stream_osr_connectors.cli.app import app

    words = {"COMP_WORDS": "stream-osr topics --brok", "COMP_CWORD": "2"}
    environment = {"_STREAM_OSR_COMPLETE": "complete_bash", **words}
    done = CliRunner().invoke(app, prog_name="stream-osr", env=environment)
    assert done.stdout.split() == ["--brokers"]


def test_a_command_to_a_run_over_files_needs_no_service() -> None:
    code = "import importlib.util as u; find = u.find_spec\n"
    code += "u.find_spec = lambda n, *a: n != 'orjson' and find(n, *a)\n"
    done = started("-c", f"{code}{WATCHED}", "undo", "--checkpoint", "none.checkpoint")
    assert "none.checkpoint" in done.stderr
    assert "orjson" not in done.stderr
