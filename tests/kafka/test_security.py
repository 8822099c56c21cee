"""TLS and logins against the real broker: what is right works, what is wrong is one line without the secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trustme
from kafka.errors import KafkaTimeoutError
from typer.testing import CliRunner

from stream_osr_connectors.cli.app import app
from stream_osr_connectors.kafka import exits, load_settings
from stream_osr_connectors.kafka.client.errors import client_error, explained
from tests.kafka.brokers import Broker
from tests.kafka.security import KEY_PASSWORD, PASSWORD, USER, add_user, token
from tests.kafka.streams import Stream, Worker, check_exactly_once, instances, small_model
from tests.kafka.test_service import decide_all
from tests.processes import COMMAND, run

pytestmark = pytest.mark.needs("broker")

WRONG = "wrong-horse-battery"


def secured(broker: Broker, folder: Path, mechanism: str = "SCRAM-SHA-512", **settings: Any) -> Stream:
    """A stream whose service uses the listener that requires a password."""
    add_user(broker.address)
    login = {"sasl_username": USER, "sasl_password": PASSWORD}
    if mechanism == "OAUTHBEARER":
        (folder / "token").write_text(token())
        login = {"sasl_token_file": str(folder / "token")}
    given = {"security_protocol": "SASL_SSL", "sasl_mechanism": mechanism, **login, **settings}
    return listened(broker, folder, broker.security.address, **given)


def listened(broker: Broker, folder: Path, address: str, **settings: Any) -> Stream:
    """A stream whose service uses one of the listeners, and knows its authority."""
    given = {"brokers": address, "tls_ca": str(broker.security.authority), **settings}
    return Stream(broker.address, folder, 2, small_model(), **given)


def topics(stream: Stream) -> Any:
    """Run the command ``topics`` in this process."""
    return CliRunner().invoke(app, ["topics", "--config", str(stream.config())])


def works(stream: Stream, secret: str) -> None:
    """Decide everything once, without the secret in the log."""
    stream.send(instances(200, 2))
    worker = decide_all(stream)
    check_exactly_once(stream)
    assert secret not in worker.log.read_text()


def test_scram_over_tls(broker: Broker, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(PASSWORD + "\n")
    works(secured(broker, tmp_path, sasl_password=None, sasl_password_file=str(secret), labels=None), PASSWORD)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER"])
def test_other_ways_to_log_in(broker: Broker, tmp_path: Path, mechanism: str) -> None:
    stream = secured(broker, tmp_path, mechanism)
    result = topics(stream)
    assert stream.topic in result.output, result.exception


def test_a_certificate_of_ours_with_an_encrypted_key(broker: Broker, tmp_path: Path) -> None:
    works(certified(broker, tmp_path), KEY_PASSWORD)


def test_a_certificate_that_is_missing_or_wrong_is_one_line(broker: Broker, tmp_path: Path) -> None:
    message = f"{broker.security.certified} asks for a certificate of ours"
    without = {"tls_certificate": None, "tls_key": None, "tls_key_password": None}
    said = refused(certified(broker, tmp_path, **without))
    assert message in said
    assert "tls_certificate" in said
    stranger = trustme.CA().issue_cert("osr@localhost")
    stranger.private_key_and_cert_chain_pem.write_to_path(tmp_path / "stranger.pem")
    stream = certified(broker, tmp_path, **without | {"tls_certificate": str(tmp_path / "stranger.pem")})
    assert message in str(explained(load_settings(stream.config()), client_error(KafkaTimeoutError())))


def test_a_key_that_cannot_be_opened_is_one_line(broker: Broker, tmp_path: Path) -> None:
    for wrong in (WRONG, None):
        said = str(topics(certified(broker, tmp_path, tls_key_password=wrong)).exception)
        assert "tls_key_password" in said
        assert str(broker.security.key) in said
        assert WRONG not in said


def certified(broker: Broker, folder: Path, **settings: Any) -> Stream:
    """A stream whose service uses the listener that requires a certificate."""
    own = broker.security
    named = {"tls_certificate": str(own.certificate), "tls_key": str(own.key), "tls_key_password": KEY_PASSWORD}
    return listened(broker, folder, own.certified, **{"security_protocol": "SSL", **named, **settings})


def test_a_wrong_password_is_one_line(broker: Broker, tmp_path: Path) -> None:
    line = only_line(Worker(secured(broker, tmp_path, sasl_password=WRONG, log_format="json")))
    assert WRONG not in line
    logged = json.loads(line)
    assert logged["level"] == "critical"
    assert f"refuses to let us in as {USER} by SCRAM-SHA-512" in logged["message"]


def test_a_wrong_password_for_plain_and_a_wrong_token(broker: Broker, tmp_path: Path) -> None:
    said = refused(secured(broker, tmp_path, "PLAIN", sasl_password=WRONG))
    assert f"refuses to let us in as {USER} by PLAIN" in said
    stream = secured(broker, tmp_path, "OAUTHBEARER")
    wrong = token()[:-9] + "."
    (tmp_path / "token").write_text(wrong)
    said = refused(stream)
    assert "refuses to let us in by OAUTHBEARER" in said
    assert wrong not in said


def test_an_unknown_authority_is_one_line(broker: Broker, tmp_path: Path) -> None:
    stream = secured(broker, tmp_path, tls_ca=str(broker.security.other_authority))
    line = only_line(Worker(stream))
    assert f"the certificate of {broker.security.address} is not trusted" in line
    assert "tls_ca" in line
    assert PASSWORD not in line


def test_a_listener_of_another_kind(broker: Broker, tmp_path: Path) -> None:
    said = refused(secured(broker, tmp_path, brokers=broker.address))
    assert "Check the port and security_protocol" in said
    said = refused(secured(broker, tmp_path, security_protocol="PLAINTEXT", sasl_mechanism=None))
    assert "no broker answered as PLAINTEXT" in said


def refused(stream: Stream) -> str:
    """Run a command that has to fail, and return all that it prints: one line.

    In a process of its own: the client leaves sockets of connections that failed to the garbage collector.
    """
    ended = run("-W", "ignore", *COMMAND, "topics", "--config", stream.config(), timeout=90)
    assert ended.returncode in (exits.REFUSED, exits.NO_BROKER, exits.NO_RIGHT)
    (line,) = (ended.stdout + ended.stderr).splitlines()
    assert not any(secret in line for secret in (PASSWORD, KEY_PASSWORD, WRONG))
    return line


def only_line(worker: Worker) -> str:
    """Wait for its end, and return all that it has said: one line."""
    assert worker.process.wait(90) in (exits.REFUSED, exits.NO_BROKER, exits.NO_RIGHT)
    (line,) = worker.lines()
    assert "Traceback" not in line
    return line
