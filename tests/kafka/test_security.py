"""TLS and logging in, against the real broker: what is right works, what is wrong is one line without the secret."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stream_osr.cli import app
from stream_osr.errors import StreamOSRError
from tests.kafka.brokers import Broker
from tests.kafka.security import PASSWORD, USER, add_user, token
from tests.kafka.streams import Stream, Worker, check_exactly_once, instances, small_model

WRONG = "wrong-horse-battery"


def secured(broker: Broker, folder: Path, mechanism: str = "SCRAM-SHA-512", **settings: Any) -> Stream:
    """A stream whose service talks to the listener that asks for a password."""
    login = {"sasl_username": USER, "sasl_password": PASSWORD}
    if mechanism == "OAUTHBEARER":
        (folder / "token").write_text(token())
        login = {"sasl_token_file": str(folder / "token")}
    return Stream(
        broker.address,
        folder,
        2,
        small_model(),
        **{
            "brokers": broker.security.address,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": mechanism,
            "tls_ca": str(broker.security.authority),
            **login,
            **settings,
        },
    )


def test_scram_over_tls(broker: Broker, tmp_path: Path) -> None:
    add_user(broker.address)
    secret = tmp_path / "password"
    secret.write_text(PASSWORD + "\n")
    stream = secured(broker, tmp_path, sasl_password=None, sasl_password_file=str(secret), labels=None)
    stream.send(instances(200, 2))
    worker = Worker(stream)
    stream.wait()
    assert worker.stop() == 0
    check_exactly_once(stream)
    assert PASSWORD not in worker.log.read_text()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"])
def test_other_ways_to_log_in(broker: Broker, tmp_path: Path, mechanism: str) -> None:
    add_user(broker.address)
    stream = secured(broker, tmp_path, mechanism)
    result = CliRunner().invoke(app, ["topics", "--config", str(stream.config())])
    assert stream.topic in result.output, result.exception


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_a_wrong_password_is_one_line(broker: Broker, tmp_path: Path, mechanism: str) -> None:
    add_user(broker.address)
    stream = secured(broker, tmp_path, mechanism, sasl_password=WRONG)
    line = only_line(Worker(stream))
    assert f"refuses to let us in as {USER} by {mechanism}" in line
    assert WRONG not in line
    result = CliRunner().invoke(app, ["topics", "--config", str(stream.config())])
    assert isinstance(result.exception, StreamOSRError)
    assert f"as {USER} by {mechanism}" in str(result.exception)
    assert WRONG not in str(result.exception) + result.output


def test_a_wrong_token_is_one_line(broker: Broker, tmp_path: Path) -> None:
    stream = secured(broker, tmp_path, "OAUTHBEARER")
    wrong = token()[:-9] + "."
    (tmp_path / "token").write_text(wrong)
    line = only_line(Worker(stream))
    assert "refuses to let us in by OAUTHBEARER" in line
    assert wrong not in line


def test_an_unknown_authority_is_one_line(broker: Broker, tmp_path: Path) -> None:
    add_user(broker.address)
    stream = secured(broker, tmp_path, tls_ca=str(broker.security.other_authority))
    line = only_line(Worker(stream))
    assert f"the certificate of {broker.security.address} is not trusted" in line
    assert "tls_ca" in line
    assert PASSWORD not in line


def test_a_listener_of_another_kind_is_one_line(broker: Broker, tmp_path: Path) -> None:
    line = only_line(Worker(secured(broker, tmp_path, brokers=broker.address)))
    assert "check the port and security_protocol" in line
    plain = {"security_protocol": "PLAINTEXT", "sasl_mechanism": None, "log_format": "json"}
    line = only_line(Worker(secured(broker, tmp_path, **plain)))
    assert '"level":"critical"' in line
    assert "no broker answered as PLAINTEXT" in line


def only_line(worker: Worker) -> str:
    """Wait for its end, and return all that it has said: one line."""
    begun = time.monotonic()
    assert worker.process.wait(60) == 1
    assert time.monotonic() - begun < 45
    (line,) = worker.lines()
    assert "Traceback" not in line
    return line
