"""Topics are deleted and made again behind the back of a running service, and get more partitions."""

from __future__ import annotations

import time

import pytest

from tests.kafka.faults.auditing import audit, decisions
from tests.kafka.faults.doing import TOPIC_CONFIGS, add_partitions, delete_topic, make_topics
from tests.kafka.faults.trials import POISON, Site, Trial
from tests.kafka.scraping import metrics
from tests.kafka.streams import Sent, instances


def forget(trial: Trial) -> None:
    """What was sent to a topic that has gone does not count any more."""
    trial.stream.sent = [[] for _ in range(trial.stream.partitions)]


@pytest.mark.fault("the input is deleted and made again")
@pytest.mark.parametrize("lost", ["cold", "fail"])
def test_the_input_is_deleted_and_made_again(site: Site, lost: str) -> None:
    """With ``cold`` it goes on with what is new; with ``fail`` it ends with an error. No id is used again."""
    trial = Trial(site, on_lost_state=lost)
    topic = trial.stream.topic
    trial.begin(140)
    before = decisions(trial.stream)
    trial.mark()
    delete_topic(site.broker.address, topic)
    trial.await_reason(topic)
    time.sleep(3)
    ages = [age for _, age in metrics(trial.worker).get("stream_osr_progress_age_seconds", ())]
    assert all(age > 2 for age in ages), "with no input there is no progress"
    assert trial.is_healthy()
    make_topics(site.broker.address, 2, {topic: TOPIC_CONFIGS})
    forget(trial)
    trial.feed(100, poison=True)
    if lost == "fail":
        trial.fails(topic, "on_lost_state")
        assert trial.lines(topic, "70"), trial.tail()
        trial.stream.settings["on_lost_state"] = "cold"
        trial.start()
    else:
        trial.await_line(topic, "70")  # as far as the group was in the topic that has gone
    trial.finish()
    audit(trial.stream, name=f"{topic}+1")
    assert decisions(trial.stream) == before, "an id that was used before"


@pytest.mark.fault("an output is deleted and made again")
@pytest.mark.parametrize(
    ("output", "at_once"),
    [
        ("decisions", False),
        ("decisions", True),
        *(pytest.param(each, False, marks=pytest.mark.long) for each in ("events", "dlq")),
    ],
)
def test_an_output_is_deleted_and_made_again(site: Site, output: str, at_once: bool) -> None:
    """If that is done at once, nothing tells but the topic's identity."""
    trial = Trial(site)
    topic = f"{trial.stream.topic}.{output}"
    trial.feed(16, poison=True)
    trial.begin(16)
    done = [len(sent) for sent in trial.stream.sent]
    trial.mark()
    delete_topic(site.broker.address, topic)
    if at_once:
        make_topics(site.broker.address, 2, {topic: TOPIC_CONFIGS})
    for _ in range(3):
        trial.feed(100, poison=True)
    if not at_once:
        trial.await_not_ready(topic)
        trial.check_accounts()
        make_topics(site.broker.address, 2, {topic: TOPIC_CONFIGS})
    trial.await_line(topic, "was deleted")
    trial.finish()
    audit(trial.stream, gone=[(number, offset) for number, end in enumerate(done) for offset in range(end)])


@pytest.mark.fault("the input gets another partition")
@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_the_input_gets_another_partition(site: Site, start: str) -> None:
    """Its first records come before the service can have seen it, and they count wherever the group began."""
    trial = Trial(site, start=start)
    trial.start()
    trial.await_ready()
    trial.decide(100)
    trial.mark()
    add_partitions(site.broker.address, trial.stream.topic, 3)
    trial.stream.partitions = 3
    trial.stream.sent.append([])
    trial.stream.send([(2, sent) for _, sent in instances(90, 1, seed=7, begin=100)])
    trial.stream.send([(2, each) for each in POISON])
    trial.feed(60)
    trial.await_line(trial.stream.topic, "3")
    trial.finish()
    assert audit(trial.stream) == 252


@pytest.mark.fault("every field of the records has another name")
def test_every_field_has_another_name(site: Site) -> None:
    """A feed that was renamed upstream is no novelty."""
    trial = Trial(site)
    trial.begin(200)
    known = trial.figure("subclasses"), trial.figure("events_total")
    renamed = [(n % 2, Sent(b"r%d" % n, b'{"length": %d.5, "width": %d.25}' % (n % 7, n % 11))) for n in range(64)]
    trial.stream.send(renamed)
    trial.settle()
    assert (trial.figure("dead_letters_total"), trial.figure("decisions_total")) == (64, 200)
    assert (trial.figure("subclasses"), trial.figure("events_total")) == known
    trial.decide(60)
    assert trial.ready()[0] == 200
    trial.end_exactly_once()
    dead = [dict(record.headers) for part in trial.stream.read("dlq") for record in part]
    assert {each["__connect.errors.stage"] for each in dead} == {b"VALIDATE"}
