"""The command line of the service, and its ends: one clear line, an exit code, and the wait for the next start."""

from __future__ import annotations

import logging
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.errors import ConnectorError, InvalidParameter, MissingExtra, NotTrained, PersistenceError
from stream_osr_connectors.kafka import ServiceSettings, exits, load_settings
from stream_osr_connectors.kafka.ops.command import _errors_logged
from stream_osr_connectors.kafka.ops.workers import FIRST_DELAY, LONGEST_DELAY, StartOrder, pause
from stream_osr_connectors.kafka.run.models import ModelName
from stream_osr_connectors.kafka.run.recovery import LaterModelError
from stream_osr_connectors.kafka.stats import ServiceStats
from tests.blobs import fitted_once
from tests.kafka.brokers import Broker
from tests.kafka.commands import refused, run
from tests.kafka.streams import until
from tests.processes import COMMAND
from tests.processes import run as run_python


def start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_python("-W", "ignore", *COMMAND, *arguments, timeout=60, env={**os.environ, **environment})


def serve_once(folder: Path, brokers: str, topic: str) -> subprocess.CompletedProcess[str]:
    fitted_once().save(folder / "m.osr")
    settings = ["--model", str(folder / "m.osr"), "--brokers", brokers, "--input", topic]
    return start("serve", *settings, "--state", str(folder / "state"))


def test_help_lists_every_setting() -> None:
    for command in (["serve"], ["run", "--config", "service.yaml"]):
        ended = start(*command, "--help", COLUMNS="120")
        assert ended.returncode == 0
        for name in ServiceSettings.model_fields:
            assert f"--{name.replace('_', '-')}" in ended.stdout, (command, name)


def test_run_with_a_configuration_is_the_service(tmp_path: Path) -> None:
    config = tmp_path / "service.yaml"
    config.write_text("input: in\n")
    for arguments in (["--config", config], [f"--config={config}"]):
        assert "setting brokers: it is missing" in refused("run", *arguments, "--model", "m.osr")
    result = run("run", "--model", "m.osr", "--input", config)
    assert isinstance(result.exception, PersistenceError), "without one it is the command for files"


def test_a_model_that_cannot_be_used_ends_the_start_without_a_watchdog(tmp_path: Path) -> None:
    arguments = ["serve", "--brokers", "127.0.0.1:1", "--input", "in", "--state", tmp_path / "state"]
    assert "there is no file" in refused(*arguments, "--model", tmp_path / "none.osr")
    OpenSetRecognizer().save(tmp_path / "untrained.osr")
    assert isinstance(run(*arguments, "--model", tmp_path / "untrained.osr").exception, NotTrained)
    until(lambda: "watchdog" not in {thread.name for thread in threading.enumerate()}, 10, lambda: "a watchdog")


def test_no_broker_is_one_clear_line(tmp_path: Path) -> None:
    ended = serve_once(tmp_path, "127.0.0.1:1", "in")
    assert ended.returncode == exits.NO_BROKER
    assert ended.stderr.startswith("error: cannot connect to 127.0.0.1:1: ")
    assert len(ended.stderr.splitlines()) == 1
    assert "Traceback" not in ended.stderr


def test_a_topic_that_is_missing_is_named(broker: Broker, tmp_path: Path) -> None:
    ended = serve_once(tmp_path, broker.address, "nowhere")
    assert ended.returncode == exits.NO_TOPIC
    assert "error: input: topic nowhere does not exist" in ended.stderr
    assert "topics: input nowhere, output nowhere.decisions" in ended.stderr


def test_an_extra_that_is_not_installed_is_named() -> None:
    code = (
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'orjson' else find(name, *a)\n"
        "from stream_osr_connectors.cli.app import main; main()"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, "serve"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    message = "error: the Kafka service needs orjson, which is not installed: run pip install 'stream-osr[kafka]'"
    assert (ended.returncode, ended.stderr.strip()) == (1, message)
    assert issubclass(MissingExtra, ImportError)


SETTINGS = ServiceSettings(model="m", brokers="b:1", input="in")
MODEL = ModelName("m", 32, 0.0, None)


def test_what_ends_the_service() -> None:
    """Some exit codes end it always, some only until it has been open, others never."""
    always = {exits.REFUSED, exits.TAKEN}
    at_first = {exits.NO_BROKER, exits.NO_TOPIC, exits.NO_RIGHT}
    never = {0, 2, None, exits.HUNG, exits.AGAIN, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGTERM}
    for code in always | at_first | never:
        assert exits.ends_service(code, was_open=False) == (code not in never), code
        assert exits.ends_service(code, was_open=True) == (code in always), code
    assert not exits.ends_service(exits.TAKEN, was_open=True, first=False), "only first workers settle a name"
    assert exits.ends_service(exits.REFUSED, was_open=True, first=False)


def test_each_error_has_its_code() -> None:
    for error, code, passes in (
        (ConnectorError("x"), exits.REFUSED, False),
        (PersistenceError("x"), exits.REFUSED, False),
        (ValueError("x"), exits.REFUSED, False),
        (exits.NoBrokerError("x"), exits.NO_BROKER, True),
        (exits.TakenError("x"), exits.TAKEN, False),
        (exits.StartAgainError("x"), exits.AGAIN, True),
        (LaterModelError("x"), exits.AGAIN, True),
        (exits.NoTopicError("x"), exits.NO_TOPIC, True),
        (exits.NoRightError("x"), exits.NO_RIGHT, False),
        (exits.EndedError("x", 77), exits.NO_RIGHT, False),
    ):
        assert exits.exit_code(error) == code, error
        assert exits.passes(error) == passes, f"{error!r} while the process stops"


def logged(caplog: pytest.LogCaptureFixture, error: ConnectorError, **order: Any) -> list[str]:
    """Messages of a worker that ends with an error."""
    caplog.clear()
    with pytest.raises(SystemExit), _errors_logged(ServiceStats(), StartOrder(SETTINGS, MODEL, b"", **order)):
        raise error
    return caplog.messages


def test_errors_are_logged_and_those_that_may_come_back_less_and_less_often(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = time.monotonic()
    for kind in (exits.NoBrokerError, exits.NoTopicError, exits.NoRightError):
        for silent, messages in ((-math.inf, ["why"]), (now + 100, []), (now - 1, ["why"])):
            assert logged(caplog, kind("why"), silent=silent) == messages, (kind, silent)
    for kind, first, messages in (
        (ConnectorError, False, ["why"]),
        (exits.TakenError, True, ["why"]),
        (exits.TakenError, False, []),
        (LaterModelError, True, []),
    ):
        assert logged(caplog, kind("why"), first=first, silent=math.inf) == messages, (kind, first)


def test_waits_get_longer_and_are_spread() -> None:
    assert pause(1, 0.0) < FIRST_DELAY < pause(1, 0.999) < pause(2, 0.0)
    assert all(pause(n, 0.5) == LONGEST_DELAY for n in (7, 50, 10_000))


def test_several_inputs_and_times_in_settings(tmp_path: Path) -> None:
    settings = ServiceSettings(model="m", brokers="b:1", input="a, b", group="g")
    assert (settings.inputs, settings.output, settings.dead_letters) == (("a", "b"), "g.decisions", "g.dlq")
    file = tmp_path / "service.yaml"
    file.write_text("{model: m, brokers: 'b:1', input: [a, b], group: h}\n")
    assert load_settings(file).inputs == ("a", "b")
    assert load_settings(file).events == "h.events"
    with pytest.raises(InvalidParameter, match="input and input are the same topic, a"):
        load_settings(model="m", brokers="b:1", input="a,a")
    for given in ({"start": "tomorrow"}, {"stop": "latest"}, {"stop": "2026-13-01"}):
        with pytest.raises(InvalidParameter, match=r"(start|stop) is .*, expected .* or a time such as"):
            load_settings(model="m", brokers="b:1", input="a", **given)
