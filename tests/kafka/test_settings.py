"""Settings from file, environment and flags; secrets stay secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from stream_osr.errors import InvalidParameter
from stream_osr_connectors.kafka import ServiceSettings, load_settings
from stream_osr_connectors.kafka.client.options import connection
from stream_osr_connectors.kafka.run.models import ModelFile
from stream_osr_connectors.kafka.settings_errors import unknown_variables
from tests.blobs import fitted_once

NEEDED = {"model": "m.osr", "brokers": "b:1", "input": "in"}


def test_an_option_wins_over_the_environment_and_that_over_the_file(tmp_path: Path, monkeypatch: Any) -> None:
    config = tmp_path / "service.yaml"
    config.write_text("model: m.osr\nbrokers: b:1\ninput: in\nbatch_size: 10\ncommit_batches: 11\nseed: 12\n")
    for name, value in (("COMMIT_BATCHES", "21"), ("SEED", "22"), ("DATA", "/somewhere")):
        monkeypatch.setenv(f"STREAM_OSR_{name}", value)
    settings = load_settings(config, seed=32, features="a,b")
    assert (settings.batch_size, settings.commit_batches, settings.seed) == (10, 21, 32)
    assert settings.features == ("a", "b")
    assert (settings.output, settings.events, settings.dead_letters) == ("in.decisions", "in.events", "in.dlq")


def test_options_and_environment_alone_are_enough(monkeypatch: Any) -> None:
    monkeypatch.setenv("STREAM_OSR_BROKERS", "b:1,c:2")
    settings = load_settings(model="m.osr", input="in", output="decided")
    assert (settings.brokers, settings.output) == ("b:1,c:2", "decided")
    assert connection(settings)["bootstrap_servers"] == ["b:1", "c:2"]


def test_what_does_not_fit_or_is_missing_is_named() -> None:
    wrong = {
        r"setting batch_size: .*greater than or equal to 1": {"batch_size": 0},
        r"setting batchsize: there is no such setting.* did you mean batch_size\?": {"batchsize": 3},
        "output and input are the same topic|input and output are the same topic": {"output": "in"},
        "transaction_timeout is 30 s and transaction_deadline 40 s": {"transaction_deadline": 40.0},
        "so the features contain the answer": {"label": "y", "features": ["y"]},
        "both given": {"sasl_password": "x", "sasl_password_file": "y"},
        "setting sasl_mechanism: ": {"sasl_mechanism": "PLAYN"},
        r"setting input: ": {"input": None},
    }
    for message, given in wrong.items():
        with pytest.raises(InvalidParameter, match=message):
            load_settings(**{**NEEDED, **given})
    with pytest.raises(InvalidParameter, match=r"setting brokers: it is missing\. .*--brokers.*STREAM_OSR_BROKERS"):
        load_settings(model="m.osr", input="in")
    with pytest.raises(InvalidParameter, match=r"settings model, brokers, input: .*--input.*STREAM_OSR_INPUT"):
        load_settings()


def test_files_that_are_no_settings(tmp_path: Path) -> None:
    config = tmp_path / "service.yaml"
    for text in ("", "- a\n- b\n", "a: [", "just text", "\x00"):
        config.write_text(text)
        with pytest.raises(InvalidParameter, match=r"service\.yaml (has no settings|is not YAML)"):
            load_settings(config)
    with pytest.raises(InvalidParameter, match=r"cannot read .*: No such file"):
        load_settings(tmp_path / "other.yaml")


def test_secrets_are_never_shown(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("STREAM_OSR_SASL_PASSWORD", "hunter2")
    login = {"sasl_mechanism": "PLAIN", "sasl_username": "me", "security_protocol": "SASL_SSL"}
    certificate = {"tls_key_password": "hunter3", "tls_certificate": tmp_path / "none.pem"}
    settings = load_settings(**NEEDED, **login, **certificate)
    assert "hunter" not in f"{settings} {settings!r} {settings.model_dump()} {settings.model_dump_json()}"
    plain = settings.model_copy(update={"tls_certificate": None})
    assert connection(plain)["sasl_plain_password"] == "hunter2"
    with pytest.raises(InvalidParameter, match="tls_certificate") as refused:
        connection(settings)
    assert "hunter" not in str(refused.value)
    with pytest.raises(InvalidParameter) as caught:
        load_settings(**NEEDED, sasl_password=[["hunter4"]])
    assert "hunter" not in str(caught.value)


def test_a_password_can_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    settings = ServiceSettings(**NEEDED, sasl_password_file=tmp_path / "password")
    assert settings.password == SecretStr("hunter2")
    missing = ServiceSettings(**NEEDED, sasl_password_file=tmp_path / "other")
    with pytest.raises(InvalidParameter, match=r"cannot read sasl_password_file .*other: No such file"):
        _ = missing.password


def test_variables_that_are_no_settings_are_named() -> None:
    environment = {"STREAM_OSR_GRUOP": "g", "STREAM_OSR_DATA": "d", "STREAM_OSR_SEED": "1", "HOME": "/"}
    environment |= {"STREAM_OSR_PORT": "tcp://10.0.0.1:9464", "STREAM_OSR_PORT_9464_TCP_ADDR": "10.0.0.1"}
    environment |= {"STREAM_OSR_SERVICE_HOST": "10.0.0.1", "STREAM_OSR_SERVICE_PORT_METRICS": "9464"}  # Kubernetes
    (line,) = unknown_variables(environment, ServiceSettings.model_fields)
    assert line == (
        "the variable STREAM_OSR_GRUOP is not a setting and has no effect: did you mean STREAM_OSR_GROUP?"
    )


WRONG = """
group: my group
group: 42
group: ''
group: [a]
group: true
group: null
sasl_password: 12345
security_protocol: sasl_ssl
security_protocol: SASL_SSL
sasl_mechanism: SCRAM
brokers: ''
brokers: 9092
brokers: k1:port
brokers: {a: b}
input: 'a b'
input: ''
input: 7
input: a/b
output: sensors
output: 'a b'
dead_letters: sensors.decisions
start: yesterday
stop: now
start: 5
start: 2026-11-26 | stop: 2026-11-25
batch_size: 0
batch_size: many
batch_size: 2.5
batch_size: true
max_wait: 0
max_wait: -1
max_wait: 1s
max_wait: .inf
max_wait: .nan
transaction_timeout: 5
transaction_deadline: 0
session_timeout: 0
workers: 0
workers: two
features: []
features: ''
features: a,a
features: 5
features: [a, 5]
label: a | features: a,b
compression: gz
on_gap: skip
on_model_change: Carry
on_lost_state: drop
state: s3://b/x
state_topic: a | state_url: s3://b
state_topic: 'a b'
state_url: bucket
snapshot_interval: 0
snapshots: 1
metrics_port: 99999
metrics_port: http
log_level: verbose
log_format: xml
seed: -1
min_probability: 1.5
min_probability: 90%
decoder: 5
by: ''
by: [a, b]
max_keys: 0
key: ''
time: 3
commit_batches: 0
threads: 0
bacth_size: 3
batch-size: 3
input: a | input: b
sasl_username: bob | security_protocol: SASL_SSL
tls_ca: 5
instance: ''
contributions: 0
label_type: float
on_stop: stay
watchdog: 0
max_instance_bytes: 1MB
"""
"""Lines of a file of settings, each wrong on its own. A bar is the end of a line."""

REMEDIES = ("expected", "give", "Set ", "set ", "Put ", "Keep ", "did you mean", "Increase", "no record lies between")


@pytest.mark.parametrize("line", WRONG.strip().splitlines())
def test_a_wrong_file_is_refused_with_setting_value_and_remedy(tmp_path: Path, line: str) -> None:
    lines = line.split(" | ")
    names = {each.partition(":")[0] for each in lines}
    rest = [f"{name}: {value}" for name, value in {**NEEDED, "input": "sensors"}.items() if name not in names]
    (tmp_path / "service.yaml").write_text("\n".join([*rest, *lines]) + "\n")
    with pytest.raises(InvalidParameter) as refused:
        load_settings(tmp_path / "service.yaml")
    message = str(refused.value)
    assert any(name in message for name in names), message
    assert any(remedy in message for remedy in REMEDIES), message
    assert message.isprintable()
    assert len(message) < 300
    assert "12345" not in message, "a secret"


def test_dates_and_lists_of_a_file_are_settings(tmp_path: Path) -> None:
    lines = ["model: m.osr", "brokers: ['b:1', '[::1]:2', c]", "input: [a, b]", "start: 2026-11-25T08:00:00Z"]
    (tmp_path / "service.yaml").write_text("\n".join([*lines, "stop: 2026-11-26", "tls_check_hostname: false"]))
    settings = load_settings(tmp_path / "service.yaml")
    assert (settings.brokers, settings.input) == ("b:1,[::1]:2,c", "a,b")
    assert (settings.start_time, settings.stop) == (1764057600000 + 31536000000, "2026-11-26")


def test_fields_that_do_not_fit_to_the_model_are_refused(tmp_path: Path) -> None:
    fitted_once(chains=1).save(tmp_path / "m.osr")
    model = {**NEEDED, "model": tmp_path / "m.osr"}
    for given, message in (
        ({"features": "x0,b"}, r"features lacks 'a', which .* needs\. Leave features out"),
        ({"label": "a"}, "label is 'a', which is a feature"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            ModelFile.load(load_settings(**model, **given))
    assert ModelFile.load(load_settings(**model, features="b,a,more")).features == ["a", "b"]
