"""A topic refuses every decision because of what the topic is, or loses them: no record is at fault."""

from __future__ import annotations

import time

import pytest

from tests.kafka.faults.auditing import audit
from tests.kafka.faults.doing import configure
from tests.kafka.faults.trials import Site, Trial, until
from tests.kafka.streams import LARGEST, check_exactly_once
from tests.processes import run

COMPACTED, DELETED = {"cleanup.policy": "compact"}, {"cleanup.policy": "delete"}


@pytest.mark.fault("a topic takes no decision at all")
@pytest.mark.parametrize("cause", ["max.message.bytes", "cleanup.policy"])
def test_a_topic_takes_no_decision(site: Site, cause: str) -> None:
    """It is lowered below every decision, or compacted while decisions have no key."""
    trial = Trial(site)
    topic = f"{trial.stream.topic}.decisions"
    trial.begin(60)
    trial.mark()
    configure(site.broker.address, topic, {"max.message.bytes": "100"} if cause == "max.message.bytes" else COMPACTED)
    keyless = cause == "cleanup.policy"
    trial.feed(1, keyless=keyless)  # alone in its transaction: is it the record, or the topic?
    trial.await_reason(topic, cause)
    trial.feed(120, keyless=keyless)
    time.sleep(3)
    assert trial.ready()[0] == 503
    assert trial.is_healthy()
    assert trial.figure("dead_letters_total") == 0
    assert len(trial.lines(topic)) < 12, "it says so over and over"
    configure(site.broker.address, topic, {"max.message.bytes": str(LARGEST), **DELETED})
    trial.finish()
    assert audit(trial.stream) == 181
    if not keyless:  # the recognizer of the check has no instances without keys
        check_exactly_once(trial.stream)


@pytest.mark.fault("the topic of decisions, events or dead letters is compacted")
@pytest.mark.parametrize(
    "output", ["decisions", *(pytest.param(o, marks=pytest.mark.long) for o in ("events", "dlq"))]
)
def test_an_output_is_compacted(site: Site, output: str) -> None:
    """It would keep the latest record of each key alone."""
    trial = Trial(site)
    topic = f"{trial.stream.topic}.{output}"
    configure(site.broker.address, topic, COMPACTED)
    trial.fails_to_start(topic, "cleanup.policy=delete")
    done = run("-m", "stream_osr_connectors", "topics", "--config", str(trial.stream.config()), timeout=60)
    assert done.returncode == 1
    assert "cleanup.policy=delete" in done.stdout + done.stderr
    configure(site.broker.address, topic, DELETED)
    trial.begin(60)
    trial.mark()
    configure(site.broker.address, topic, {"cleanup.policy": "compact,delete"})
    trial.await_reason(topic, "cleanup.policy")
    configure(site.broker.address, topic, DELETED)
    trial.await_ready()
    trial.decide(60)
    trial.end_exactly_once()


@pytest.mark.fault("a few decisions are larger than their topic takes")
def test_decisions_that_are_too_large_are_found_at_once(site: Site) -> None:
    """Somebody has lowered the limit of the topic; each of them is a dead letter, all others are published."""
    trial = Trial(site)
    topic = f"{trial.stream.topic}.decisions"
    trial.begin(60)
    configure(site.broker.address, topic, {"max.message.bytes": "50000"})
    begun = time.monotonic()
    trial.feed(1, long=True)
    until(lambda: trial.figure("dead_letters_total") == 1, 30, trial.tail)
    alone = time.monotonic() - begun
    trial.feed(200)
    trial.decide(40, long=True)
    assert trial.figure("dead_letters_total") == 41
    among = time.monotonic() - begun - alone
    print(f"one alone: {alone:.1f} s; 40 among 240: {among:.1f} s")
    assert among < 20 * alone, "40 that are found one by one cost 40 times one"
    trial.end()
    assert audit(trial.stream) == 301
    for number, letters in enumerate(trial.stream.read("dlq")):
        for letter in letters:
            found = dict(letter.headers)
            sent = trial.stream.sent[number][int(found["__connect.errors.offset"])]
            assert (letter.key, letter.value) == (sent.key, sent.value)
            assert found["__connect.errors.stage"] == b"PUBLISH"
            assert b"TooLarge" in found["__connect.errors.exception.message"]
