"""The command line of the service: help, and one clear line when it cannot begin."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stream_osr import OpenSetRecognizer
from stream_osr.errors import InvalidParameter, MissingExtra, NotTrained, PersistenceError
from stream_osr_connectors.cli.app import app
from stream_osr_connectors.kafka import ServiceSettings, exits, load_settings
from stream_osr_connectors.kafka.ops.command import serve
from tests.blobs import fitted_once
from tests.kafka.brokers import Broker
from tests.processes import COMMAND, run


def start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run("-W", "ignore", *COMMAND, *arguments, timeout=60, env={**os.environ, **environment})


@pytest.mark.parametrize("command", [["serve", "--help"], ["run", "--config", "service.yaml", "--help"]])
def test_help_lists_every_setting(command: list[str]) -> None:
    told = start(*command, COLUMNS="120")
    assert told.returncode == 0
    for name in ServiceSettings.model_fields:
        assert f"--{name.replace('_', '-')}" in told.stdout, name


def test_run_with_a_configuration_is_the_service(tmp_path: Path) -> None:
    config = tmp_path / "service.yaml"
    config.write_text("input: in\n")
    for arguments in (["--config", str(config)], [f"--config={config}"]):
        result = CliRunner().invoke(app, ["run", *arguments, "--model", "m.osr"])
        assert isinstance(result.exception, InvalidParameter)
        assert "setting brokers: it is missing" in str(result.exception)
    result = CliRunner().invoke(app, ["run", "--model", "m.osr", "--input", str(config)])
    assert isinstance(result.exception, PersistenceError), "without one it is the command for files"


def test_a_model_that_cannot_be_used(tmp_path: Path) -> None:
    arguments = ["serve", "--brokers", "127.0.0.1:1", "--input", "in", "--state", str(tmp_path / "state")]
    result = CliRunner().invoke(app, [*arguments, "--model", str(tmp_path / "none.osr")])
    assert "there is no file" in str(result.exception)
    OpenSetRecognizer().save(tmp_path / "untrained.osr")
    result = CliRunner().invoke(app, [*arguments, "--model", str(tmp_path / "untrained.osr")])
    assert isinstance(result.exception, NotTrained)


def test_no_broker_is_one_clear_line(tmp_path: Path) -> None:
    fitted_once().save(tmp_path / "m.osr")
    settings = ["--model", str(tmp_path / "m.osr"), "--brokers", "127.0.0.1:1", "--input", "in"]
    told = start("serve", *settings, "--state", str(tmp_path / "state"))
    assert told.returncode == exits.NO_BROKER
    assert told.stderr.startswith("error: cannot connect to 127.0.0.1:1: ")
    assert len(told.stderr.splitlines()) == 1
    assert "Traceback" not in told.stderr


def test_a_topic_that_is_missing_is_named(broker: Broker, tmp_path: Path) -> None:
    fitted_once().save(tmp_path / "m.osr")
    settings = ["--model", str(tmp_path / "m.osr"), "--brokers", broker.address, "--input", "nowhere"]
    told = start("serve", *settings, "--state", str(tmp_path / "state"))
    assert told.returncode == exits.NO_TOPIC
    assert "error: input: topic nowhere does not exist" in told.stderr
    assert "topics: input nowhere, output nowhere.decisions" in told.stderr


def test_without_the_extra_its_name_is_told() -> None:
    code = (
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'orjson' else find(name, *a)\n"
        "from stream_osr_connectors.cli.app import main; main()"
    )
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, "serve"], capture_output=True, text=True, timeout=60
    )
    assert told.returncode == 1
    assert told.stderr.strip() == (
        "error: the Kafka service needs orjson, which is not installed: run pip install 'stream-osr[kafka]'"
    )
    assert issubclass(MissingExtra, ImportError)


def test_a_service_that_cannot_begin_leaves_no_watchdog_behind(tmp_path: Path) -> None:
    with pytest.raises(PersistenceError):
        serve(load_settings(brokers="127.0.0.1:1", model=tmp_path / "none.osr", input="in"))
    ends = time.monotonic() + 10
    while any(thread.name == "watchdog" for thread in threading.enumerate()) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not [thread for thread in threading.enumerate() if thread.name == "watchdog"]
