"""What stops a running service is named: a quota, too few replicas, a password, a right."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from kafka.admin import ACLOperation, ResourceType

from tests.kafka.brokers import Broker, SecondBroker
from tests.kafka.faults.doing import Rights, configure, replicate, set_quota
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


@pytest.mark.alone
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
        configure(site.broker.address, topic, {"min.insync.replicas": "2"})
    finally:
        second.kill()
    trial.feed(100)
    few = f"topic {topic} has fewer replicas in sync than its min.insync.replicas"
    trial.await_reason(few)
    trial.check_committed()
    configure(site.broker.address, topic, {"min.insync.replicas": "1"})
    trial.goes_on()


@pytest.mark.fault("the password of the service is changed at the brokers")
def test_another_password(site: Site) -> None:
    user, password = "rotated", site.folder / "password"
    add_user(site.broker.address, user)
    trial = Trial(site, **login(site.broker, user, password))
    trial.begin()
    trial.mark()
    add_user(site.broker.address, user, "another-horse-battery")
    trial.feed(100)
    refused = f"refuses to let us in as {user} by SCRAM-SHA-256", "Check sasl_mechanism"
    trial.await_reason(*refused, seconds=30 + REAUTH_SECONDS)
    trial.feed(10)
    trial.check_committed()
    password.write_text("another-horse-battery")
    trial.goes_on()
    assert "horse-battery" not in trial.worker.log.read_text()


@pytest.mark.fault("the brokers refuse the service for a long time")
@pytest.mark.parametrize(("seconds", "most"), [(45.0, 7), pytest.param(240.0, 9, marks=pytest.mark.long)])
def test_a_long_refusal_has_few_lines(site: Site, seconds: float, most: int) -> None:
    """Lines about the broker come after silences of 1, 2, 4, 8, ... s: six in 45 s and eight in 240 s, at most.

    One line is about the consumer. Attempts are 5 to 10 s apart, so that there are more of them.
    """
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


RIGHTS = {
    "input": ("READ", "denied", "lacks the right", "READ on the topic", "{topic}"),
    "group": ("READ", "denied", "lacks the right", "READ on the group", "{group}"),
    "transactional id": ("WRITE", "denied", "lacks the right", "WRITE on the transactional id", "{group}-:w"),
    "decisions": ("WRITE", "deleted", "{topic}.decisions"),
    "events": ("WRITE", "denied", "{topic}.events"),
    "dlq": ("WRITE", "deleted", "{topic}.dlq"),
}
"""The operation, the way in which it is taken away, and what is said; the last is the name of what it is about."""
OF_OTHERS = {"group": ResourceType.GROUP, "transactional id": ResourceType.TRANSACTIONAL_ID}


@pytest.mark.fault("the right to the input, the group or the transactional id is revoked and granted again")
@pytest.mark.fault("the right to write to an output is revoked and granted again")
@pytest.mark.parametrize("of", RIGHTS)
def test_a_right_is_taken_away(site: Site, of: str) -> None:
    trial = Trial(site, guarded=True)
    operation, way, *words = RIGHTS[of]
    words = [word.format(topic=trial.stream.topic, group=trial.stream.settings["group"]) for word in words]
    resource = OF_OTHERS.get(of, ResourceType.TOPIC)
    rights = Rights(site.broker.address, words[-1], resource, ACLOperation[operation])
    trial.begin(16)  # too few for a class to emerge: events come when the right has gone
    trial.mark()
    with rights.without(way):
        trial.feed(200, poison=True)
        trial.await_reason(*words)
        for _ in range(10):
            trial.feed(6)
            time.sleep(0.4)
        trial.check_committed()
        assert trial.ready()[0] == 503
        trial.check_accounts()
        assert trial.is_healthy()
        assert len(trial.lines(words[-1])) < 30, "it says so over and over"
    trial.goes_on()
