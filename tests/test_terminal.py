"""Output of real processes to a terminal or a log: hostile text in the input steers nothing."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import orjson
import pytest
from hypothesis import given

from stream_osr import OpenSetRecognizer
from stream_osr.archive.files import write_archive
from stream_osr_connectors.cli.stream_summary import Phases
from stream_osr_connectors.terminal import OneLine, Terminal
from tests.processes import COMMAND
from tests.test_cli import call
from tests.test_showing import ANY, harmless
from tests.tiers import examples

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\u2066\u200b\u2028[red]b[/red]\nerror: a forged line"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose classes and features have hostile names."""
    trained = OpenSetRecognizer(seed=1, chains=1)
    for i in range(60):
        trained.learn_one({EVIL: i % 7 + 9 * (i % 2), "b": i % 5}, f"{EVIL}{i % 2}")
    trained.freeze()
    path = tmp_path_factory.mktemp("hostile") / "model.osr"
    trained.save(path)
    return path


def test_the_kind_of_a_crafted_archive_steers_nothing_and_is_cut(tmp_path: Path) -> None:
    for kind, said in ((EVIL, "holds a \\x1b]0;owned"), ("x" * 10**6, "xxx, not a recognizer\n")):
        write_archive(tmp_path / "crafted.osr", kind, {})
        done = call("inspect", "crafted.osr", cwd=tmp_path)
        assert (done.returncode, len(lines(done.stderr))) == (1, 1)
        assert said in done.stderr
        assert len(done.stderr) < 300


def test_the_table_of_a_model_has_a_line_for_each_class(model: Path) -> None:
    done = call("inspect", model)
    assert done.returncode == 0, done.stderr
    table = lines(done.stdout)
    assert sum(line.startswith("\\x1b]0;owned\\x07") for line in table) == 2
    assert not any(line.startswith("error: a forged") for line in table)


@pytest.mark.thorough
def test_names_of_columns_files_and_labels_in_training_and_deciding(model: Path, tmp_path: Path) -> None:
    name = EVIL.replace("/", "|")
    (tmp_path / name).write_text(json.dumps({EVIL: "high", "y": "a"}) + "\n" + json.dumps({"y": EVIL}) + "\n")
    trained = [("fit", name, "--format", "jsonl", "--label", label, "-o", "m.osr") for label in ("y", EVIL)]
    for arguments in (
        *trained,  # on a text and a bad row
        ("fit", "--label", "y", "-o", "m.osr", "--format", EVIL, name),
        ("run", "-m", model, "-i", name, "--format", "jsonl", "-o", "out.jsonl"),
        ("run", "-m", model, "-i", "missing" + name),
        ("report", name, "missing" + name),
        ("inspect", model, name),
        (EVIL,),
        ("run", f"--{name}"),
        ("run", "-m", model, "-i", "x", "--checkpoint-every", EVIL),
        ("serve", "--config", name),
        ("topics", "--input", "a", "--group", "g", "--brokers", "127.0.0.1:1", "--batch-size", EVIL),
    ):
        done = call(*arguments, cwd=tmp_path)
        assert (done.returncode == 0) == (arguments in trained), arguments
        assert not any(line.startswith("error: a forged") for line in lines(done.stderr)[:1]), arguments
        assert done.stdout == ""
        assert "Traceback" not in done.stderr


IN_A_THREAD = "import threading as t; own = t.Thread(target=lambda: 1 / 0, name=EVIL); own.start(); own.join()"
WARNING = "import warnings; warnings.warn(EVIL)"


@pytest.mark.parametrize(
    "fault",
    [
        "raise KeyError(EVIL)",
        "import logging; logging.getLogger('stream_osr').warning('about %s', EVIL)",
        pytest.param(IN_A_THREAD, marks=pytest.mark.thorough),
        pytest.param(WARNING, marks=pytest.mark.thorough),
        pytest.param("class C:\n    def __del__(self): raise ValueError(EVIL)\nC()", marks=pytest.mark.thorough),
        pytest.param("print(EVIL); print(EVIL, file=sys.stderr)", marks=pytest.mark.thorough),
    ],
)
def test_unexpected_output_is_escaped_and_a_defect_is_one_line(fault: str) -> None:
    done = python(fault)
    written = lines(done.stdout) + lines(done.stderr)
    assert written
    assert "Traceback" not in done.stderr
    if "warn" not in fault and "print" not in fault:
        assert len(written) == 1
        assert "a defect: " in written[0]
        assert "PYTHONDEVMODE=1" in written[0]
    if "logging" in fault:
        assert written == ["about " + "".join(c if c.isprintable() else repr(c)[1:-1] for c in EVIL)]


def test_developers_see_the_traceback_of_a_defect() -> None:
    done = python("raise KeyError(EVIL)", PYTHONDEVMODE="1")
    assert "    Traceback (most recent call last):" in lines(done.stderr)
    assert done.returncode == 1


def test_a_defect_of_a_command_is_one_line() -> None:
    program = (
        "import sys; from stream_osr_connectors.cli import app, warmup\n"
        f"def fails(*, stderr): raise KeyError({EVIL!r})\n"
        "warmup.Terminal = fails; sys.argv = ['stream-osr', 'warmup']; app.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    (line,) = lines(done.stderr)
    assert line.startswith("a defect: KeyError: ")


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
def test_a_full_disk_under_standard_output_is_an_error_in_one_line(model: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, *COMMAND, "inspect", model], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode == 1
    assert done.stderr == "error: No space left on device. Free some space\n"


def test_text_that_the_terminal_cannot_write_is_escaped() -> None:
    done = python(
        "from stream_osr_connectors.terminal import Terminal; Terminal().say('\\xe4\\u4e00')",
        PYTHONIOENCODING="ascii",
    )
    assert (done.stdout, done.stderr) == ("\\xe4\\u4e00\n", "")


@pytest.mark.thorough
def test_nothing_steers_a_terminal_that_a_person_looks_at(tmp_path: Path, model: Path) -> None:
    """On a terminal, progress is drawn by escape sequences, and text of the input remains text."""
    write_archive(tmp_path / "crafted.osr", "kind \x1b]0;owned\x07", {})
    (tmp_path / "in.jsonl").write_text(json.dumps({EVIL: "\x1b]0;owned\x07"}) + "\n")
    good = [{EVIL: i % 7, "b": i % 5, f"{EVIL}2": 0} for i in range(300)]
    (tmp_path / "good.jsonl").write_text("".join(json.dumps(row) + "\n" for row in good))
    said = f"from stream_osr_connectors.terminal import *; protect_terminal(); Terminal(stderr=True).say({EVIL!r})"
    main = "from stream_osr_connectors.cli import main; main()"
    for code, program, *arguments in (
        (0, said),
        (1, main, "inspect", "crafted.osr"),
        (0, main, "inspect", model),
        (1, main, "run", "-m", model, "-i", "in.jsonl"),
        (0, main, "run", "-m", model, "-i", "good.jsonl", "-o", "out.jsonl"),
    ):
        ours, theirs = pty.openpty()
        command = [sys.executable, "-c", program, *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm-256color"}
        streams = {"stdout": theirs, "stderr": theirs, "stdin": theirs}
        with subprocess.Popen(command, cwd=tmp_path, env=environment, **streams) as process:
            os.close(theirs)
            got = b""
            with suppress(OSError):  # the error at the end of the output
                while part := os.read(ours, 65536):
                    got += part
        os.close(ours)
        assert process.returncode == code
        assert b"\\x1b]0;owned\\x07" in got
        assert b"\x1b]" not in got
        assert b"\x07" not in got
        assert "\u202e".encode() not in got
        assert b"\\x1b[0m" not in got, "a library wrote an escape sequence of its own"


@pytest.mark.parametrize(
    "fault",
    [
        "raise ValueError(EVIL)",
        pytest.param(IN_A_THREAD, marks=pytest.mark.thorough),
        pytest.param(WARNING, marks=pytest.mark.thorough),
        pytest.param("logging.getLogger('a').error(EVIL + chr(0xd800))", marks=pytest.mark.thorough),
    ],
)
def test_every_line_of_the_log_of_a_service_is_json(fault: str) -> None:
    begin = (
        "import logging\nfrom stream_osr_connectors.kafka.ops.logs import begin_logging\n"
        "from stream_osr_connectors.kafka.settings import load_settings\n"
        "given = dict(brokers='b', input='i', group='g', instance='w', state='s', log_format='json')\n"
        "begin_logging(load_settings(model='m', **given))\n"
    )
    (written,) = lines(python(begin + fault).stderr)
    line = json.loads(written)
    assert line["level"] in {"warning", "error", "critical"}
    assert line["instance"] == "w"
    for part in "\n".join(line.values()).split("\n"):
        harmless(part)


def test_bytes_on_standard_output_are_left_alone(model: Path, tmp_path: Path) -> None:
    row = json.dumps({EVIL: 1.0, "b": 2.0, "id": "\x1b\u202e"}, ensure_ascii=False)
    (tmp_path / "in.jsonl").write_text(row + "\n", encoding="utf-8")
    done = call("run", "-m", model, "-i", "in.jsonl", "--key", "id", "-o", "-", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["key"] == "\x1b\u202e"


@examples(100)
@given(ANY)
def test_a_traceback_in_the_log_forges_no_line(text: str) -> None:
    from stream_osr_connectors.kafka.ops.logs import JsonLines

    try:
        raise ValueError(text + "\nERROR forged")
    except ValueError:
        made = logging.makeLogRecord({"name": "a", "msg": "it failed", "exc_info": sys.exc_info()})
    first, *rest = OneLine("%(message)s", traces=True).format(made).split("\n")
    assert first == "it failed"
    assert all(line.startswith("    ") for line in rest)
    written = JsonLines("w").format(made)
    assert "\n" not in written
    for line in (*rest, *orjson.loads(written)["error"].split("\n")):
        harmless(line)


def python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program that protects the terminal first."""
    begin = f"import sys\nfrom stream_osr_connectors.terminal import *\nprotect_terminal()\nEVIL = {EVIL!r}\n"
    return subprocess.run(
        [sys.executable, "-c", begin + program],
        capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )  # fmt: skip


def lines(text: str) -> list[str]:
    """The lines of the output, each of them harmless."""
    found = text.removesuffix("\n").split("\n") if text else []
    for line in found:
        harmless(line)
    assert not re.search(r"\x1b|\r", text)
    return found


@pytest.mark.parametrize("terminal", [True, False])
def test_a_phase_is_a_bar_on_a_terminal_and_else_a_line(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    for name in ("", "stream_osr"):  # the service sets handlers for its process, which other tests run in this one
        monkeypatch.setattr(logging.getLogger(name), "handlers", [logging.NullHandler()])
    console = Terminal(stderr=True)
    with Phases(console, lines=True) as phases:
        phases.begin("training", 25)
        logging.getLogger("stream_osr").warning("message \x1b]0;owned")
        phases.begin("deciding")
    text = stream.getvalue()
    if terminal:
        assert re.search(r"training.* 0/25.*\d:\d\d:\d\d", text)
        assert "message \\x1b]0;owned\n" in text
    else:
        assert text == "0 s: training\n0 s: deciding\n"
