"""What stops a running service is named: a quota, too few replicas, a password, a right."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from kafka.admin import ACLOperation, ResourceType

from tests.kafka.brokers import Broker, SecondBroker
from tests.kafka.faults.doing import Rights, replicate, set_configs, set_quota
from tests.kafka.faults.trials import SOON, Site, Trial
from tests.kafka.security import PASSWORD, REAUTH_SECONDS, add_user


def login(broker: Broker, user: str, password: Path) -> dict[str, str]:
    """Settings of a service that reads its password from a file, which may change while it runs."""
    password.write_text(PASSWORD)
    return {
        "brokers": broker.security.address,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": user,
        "sasl_password_file": str(password),
        "tls_ca": str(broker.security.authority),
    }


@pytest.mark.beside
@pytest.mark.fault("a quota of the brokers throttles the service")
def test_a_quota(site: Site) -> None:
    trial = Trial(site)
    trial.begin()
    client = f"stream-osr-{trial.stream.settings['group']}-w"
    trial.mark()
    set_quota(site.broker.address, client, 1.0)
    trial.feed(400)
    trial.await_not_ready("throttles us by a quota, for", client)
    trial.await_line("a transaction failed", "throttles us by a quota, for", client)
    trial.feed(20)
    set_quota(site.broker.address, client, None)
    trial.goes_on()


@pytest.mark.fault("a topic has fewer replicas in sync than its min.insync.replicas")
def test_too_few_replicas(site: Site) -> None:
    """One of two brokers dies; no other test makes topics meanwhile, which might come to lie there."""
    trial = Trial(site)
    topic = f"{trial.stream.topic}.decisions"
    trial.begin()
    trial.mark()
    second = SecondBroker(site.folder, site.broker)
    second.start()
    try:
        replicate(site.broker.address, topic, 2, Broker.NODE, SecondBroker.NODE)
        set_configs(site.broker.address, topic, min_insync_replicas="2")
    finally:
        second.kill()
    trial.feed(100)
    few = f"topic {topic} has fewer replicas in sync than its min.insync.replicas"
    trial.await_not_ready(few)
    trial.await_line(few)
    trial.check_committed()
    set_configs(site.broker.address, topic, min_insync_replicas="1")
    trial.goes_on()


@pytest.mark.beside
@pytest.mark.fault("the password of the service is changed at the brokers")
def test_another_password(site: Site) -> None:
    user, password = "rotated", site.folder / "password"
    add_user(site.broker.address, user)
    trial = Trial(site, **login(site.broker, user, password))
    trial.begin()
    trial.mark()
    add_user(site.broker.address, user, "another-horse-battery")
    trial.feed(100)
    refused = f"refuses to let us in as {user} by SCRAM-SHA-256", "check sasl_mechanism"
    trial.await_not_ready(*refused, seconds=30 + REAUTH_SECONDS)
    trial.await_line(*refused)
    trial.feed(10)
    trial.check_committed()
    password.write_text("another-horse-battery")
    trial.goes_on()
    assert "horse-battery" not in trial.worker.log.read_text()


@pytest.mark.beside
@pytest.mark.fault("the brokers refuse the service for a long time")
@pytest.mark.parametrize(("seconds", "most"), [(45.0, 5), pytest.param(240.0, 8, marks=pytest.mark.long)])
def test_a_long_refusal_has_few_lines(site: Site, seconds: float, most: int) -> None:
    """Attempts are 5 to 10 s apart: a client looks for a broker for 5 s, and the next one waits for up to 5 s."""
    user = "refused"
    add_user(site.broker.address, user)
    trial = Trial(site, **login(site.broker, user, site.folder / "password"))
    trial.begin()
    add_user(site.broker.address, user, "another-horse-battery")
    trial.mark()
    trial.await_line("the consumer failed", seconds=SOON + REAUTH_SECONDS)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        time.sleep(1)
        assert trial.worker.process.poll() is None, trial.tail()
    lines = [*trial.lines("the consumer failed"), *trial.lines("no broker at")]
    assert 3 <= len(lines) <= most, "\n".join(lines)
    assert any("times more since it was last said" in line for line in lines)
    assert len(trial.lines("WARNING")) + len(trial.lines("ERROR")) <= 4 * most, trial.tail()
    add_user(site.broker.address, user)
    trial.feed(100)
    trial.goes_on()


RIGHTS = [
    (ResourceType.TOPIC, ACLOperation.READ, "READ on the topic", "{topic}"),
    (ResourceType.GROUP, ACLOperation.READ, "READ on the group", "{group}"),
    (ResourceType.TRANSACTIONAL_ID, ACLOperation.WRITE, "WRITE on the transactional id", "{group}-:w"),
]


@pytest.mark.beside
@pytest.mark.fault("the right to the input, the group or the transactional id is taken away, and given back")
@pytest.mark.parametrize(
    ("resource", "operation", "right", "name"), RIGHTS, ids=["input", "group", "transactional id"]
)
def test_a_right_is_taken_away(
    site: Site, resource: ResourceType, operation: ACLOperation, right: str, name: str
) -> None:
    trial = Trial(site, guarded=True)
    name = name.format(topic=trial.stream.topic, group=trial.stream.settings["group"])
    rights = Rights(site.broker.address, name, resource, operation)
    trial.begin(32)
    trial.mark()
    rights.take("denied")
    trial.feed(100)
    trial.await_not_ready(right, name)
    trial.await_line("the user lacks the right", right, name)
    rights.give_back("denied")
    trial.goes_on()
