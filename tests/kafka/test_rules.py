"""A stream goes on by the rules that it was begun with, until a snapshot lets it go over to ours."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_kafka.client import Committed
from stream_osr_kafka.run.models import ModelFile
from stream_osr_kafka.run.partition import RULES, begin, step
from stream_osr_kafka.run.recovery import Recovery
from stream_osr_kafka.run.snapshots import Snapshots
from stream_osr_kafka.settings import ServiceSettings
from stream_osr_kafka.wire.boundaries import Boundary, History, Progress
from stream_osr_kafka.wire.decoding import JsonDecoder
from stream_osr_kafka.wire.messages import Message
from tests.blobs import around, fitted
from tests.kafka.test_partition import DECODE, PLACE, advance, records


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    fitted(chains=1, decision_delay=20, seed=5).save(tmp_path / "model.osr")
    return ServiceSettings(model=tmp_path / "model.osr", brokers="b", input="in", state=tmp_path / "state")


def test_the_rules_of_earlier_are_those_of_the_replay_and_end_with_a_snapshot(settings: ServiceSettings) -> None:
    model = ModelFile.load(settings)
    snapshots = Snapshots(settings.state, keep=2)
    snapshots.open()
    recovery = Recovery(settings, model, snapshots)
    old = begin(model.recognizer(PLACE), Boundary(0))._replace(rules=1)
    old, _ = advance(old, [records(40)])
    snapshots.write(PLACE, old)
    old, _ = advance(old, [records(30, begin=40)])
    text = f"1 {model.identity} {old.lineage} 0+0f 40,30"
    assert recovery.progress(old).text() == text, "as it was written before there were rules"

    found = recovery.find(PLACE, Committed(70, text, 0, 100), 0)
    assert (found.state.rules, found.replay, found.snapshots) == (1, (Boundary(70),), (Boundary(40),))
    back, _ = step(found.state, PLACE, records(30, begin=40), (), Boundary(70), DECODE)
    assert back.rules == 1
    assert recovery.progress(back).text() == text

    assert recovery.upgraded(back, [Boundary(40)]) is None, "the snapshot of its end is not written yet"
    snapshots.write(PLACE, back)
    state = recovery.upgraded(back, [Boundary(40), Boundary(70)])
    assert state is not None
    assert recovery.progress(state).text() == f"{RULES} {model.identity} {old.lineage} 70+0 "
    assert recovery.upgraded(state, [Boundary(70)]) is None, "once"
    again = recovery.find(PLACE, Committed(70, text, 0, 100), 0)
    assert (again.state.rules, again.replay) == (1, ()), "a crash before it is committed"

    state, outcomes = advance(state, [records(30, begin=70)])
    found = recovery.find(PLACE, Committed(100, recovery.progress(state).text(), 70, 100), 0)
    assert (found.state.rules, found.replay) == (RULES, (Boundary(100),))
    expected, told = step(found.state, PLACE, records(30, begin=70), (), Boundary(100), DECODE)
    assert told == outcomes[0]
    assert expected.history == state.history == History(Boundary(70), False).to(Boundary(100))


def test_a_stream_that_has_only_begun_needs_no_snapshot(settings: ServiceSettings) -> None:
    model = ModelFile.load(settings)
    begun = begin(model.recognizer(PLACE), Boundary(9, 2))._replace(rules=1)
    state = Recovery.upgraded(begun, [])
    assert state == begun._replace(rules=RULES)
    assert Progress.parse(Progress("a", "b", state.history).text()).history.fresh


# Rules 3: fewer than half of the features

FOUR = ("a", "b", "c", "d")
FEWER = b'{"a": 1.0, "B": 1.0, "C": 1.0, "D": 1.0}'
READ_FOUR = JsonDecoder(JsonFields(label="y", features=FOUR), 1000)


def of_four(folder: Path) -> ServiceSettings:
    """A model of four features, none of which was ever missing in training."""
    rng = np.random.default_rng(3)
    model = OpenSetRecognizer(chains=1, seed=5, decision_delay=20)
    for label, at in (("left", 0.0), ("right", 9.0)):
        for x in around([at] * 4, 40, rng, FOUR):
            model.learn_one(x, label)
    model.freeze()
    model.save(folder / "model.osr")
    return ServiceSettings(model=folder / "model.osr", brokers="b", input="in", state=folder / "state")


def batch_of_four(n: int, begin: int) -> list[Message]:
    """With one that has a single feature, one that has none, one that is no JSON, and one that lacks a value."""
    rows = around([0.0] * 4, n, np.random.default_rng(begin), FOUR)
    values = [json.dumps(x).encode() for x in rows]
    values[3], values[5], values[7], values[9] = FEWER, b'{"A": 1}', b"{", b'{"a": 1, "b": 1, "c": null, "d": 1}'
    return [
        Message("in", 3, begin + i, 1000 * (begin + i), b"k%d" % (begin + i), value, [])
        for i, value in enumerate(values)
    ]


def test_a_replay_of_a_stream_of_the_release_before_decides_as_that_did(tmp_path: Path) -> None:
    settings = of_four(tmp_path)
    model, snapshots = ModelFile.load(settings), Snapshots(tmp_path / "state", keep=2)
    snapshots.open()
    recovery = Recovery(settings, model, snapshots)
    old = begin(model.recognizer(PLACE), Boundary(0))._replace(rules=2)
    first, second = batch_of_four(40, 0), batch_of_four(30, 40)
    old, one = step(old, PLACE, first, (), Boundary(40), READ_FOUR)
    assert [received.offset for received, _ in one.taken.refused] == [5, 7], "a single feature was enough"
    assert old.model.counters["unlike"] == 1
    snapshots.write(PLACE, old)
    old, two = step(old, PLACE, second, (), Boundary(70), READ_FOUR)
    text = f"2 {model.identity} {old.lineage} 0+0f 40,30"
    assert recovery.progress(old).text() == text, "as the release before wrote it"

    found = recovery.find(PLACE, Committed(70, text, 0, 110), 0)
    assert (found.state.rules, found.replay) == (2, (Boundary(70),))
    back, told = step(found.state, PLACE, second, (), Boundary(70), READ_FOUR)
    assert [received.offset for received, _ in told.taken.refused] == [45, 47]
    assert (told.decisions, told.events, back.waiting) == (two.decisions, two.events, old.waiting)
    assert back.model.counters == old.model.counters

    snapshots.write(PLACE, back)
    state = recovery.upgraded(back, [Boundary(40), Boundary(70)])
    assert state is not None
    assert state.rules == RULES == 5
    state, outcome = step(state, PLACE, batch_of_four(40, 70), (), Boundary(110), READ_FOUR)
    assert [received.offset for received, _ in outcome.taken.refused] == [73, 75, 77], "by the rules of today"
    assert recovery.progress(state).text() == f"5 {model.identity} {old.lineage} 70+0 40"


def test_what_was_refused_is_counted_the_same_in_a_replay(tmp_path: Path) -> None:
    """Through a snapshot, and from the beginning."""
    settings = of_four(tmp_path)
    model, snapshots = ModelFile.load(settings), Snapshots(tmp_path / "state", keep=2)
    snapshots.open()
    recovery = Recovery(settings, model, snapshots)
    batches = [batch_of_four(40, 0), batch_of_four(40, 40)]
    state = begin(model.recognizer(PLACE), Boundary(0))
    for batch in batches:
        state, outcome = step(state, PLACE, batch, (), Boundary(batch[-1].offset + 1), READ_FOUR)
        assert len(outcome.taken.refused) == 3
        if batch is batches[0]:
            after_one = state
    assert state.model.counters["refused"] == 6
    assert state.model.signals.data_quality == 8, "two lack a value"
    assert state.model.counters["unlike"] == 0
    text = recovery.progress(state).text()
    for snapshot in (None, after_one):
        if snapshot is not None:
            snapshots.write(PLACE, snapshot)
        found = recovery.find(PLACE, Committed(80, text, 0, 80), 0)
        back = found.state
        for batch in batches[2 - len(found.replay) :]:
            back, _ = step(back, PLACE, batch, (), Boundary(batch[-1].offset + 1), READ_FOUR)
        assert back.model.counters == state.model.counters
        assert back.model.signals == state.model.signals
