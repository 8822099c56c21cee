"""A stream goes on by the rules that it was begun with, until a snapshot lets it go over to ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_osr_connectors.kafka.boundaries import Boundary, History, Progress
from stream_osr_connectors.kafka.client import Committed
from stream_osr_connectors.kafka.models import ModelFile
from stream_osr_connectors.kafka.partition import RULES, begin, step
from stream_osr_connectors.kafka.recovery import Recovery
from stream_osr_connectors.kafka.settings import ServiceSettings
from stream_osr_connectors.kafka.snapshots import Snapshots
from tests.blobs import fitted
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
    old = begin(model.recognizer(*PLACE), Boundary(0))._replace(rules=1)
    old, _ = advance(old, [records(40)])
    snapshots.write(*PLACE, old)
    old, _ = advance(old, [records(30, begin=40)])
    text = f"1 {model.identity} {old.lineage} 0+0f 40,30"
    assert recovery.progress(old).text() == text, "as it was written before there were rules"

    found = recovery.find(PLACE[1], Committed(70, text, 0, 100), 0)
    assert (found.state.rules, found.replay, found.snapshots) == (1, (Boundary(70),), (Boundary(40),))
    back, _ = step(found.state, PLACE, records(30, begin=40), (), Boundary(70), DECODE)
    assert back.rules == 1
    assert recovery.progress(back).text() == text

    assert recovery.upgraded(back, [Boundary(40)]) is None, "the snapshot of its end is not written yet"
    snapshots.write(*PLACE, back)
    state = recovery.upgraded(back, [Boundary(40), Boundary(70)])
    assert state is not None
    assert recovery.progress(state).text() == f"2 {model.identity} {old.lineage} 70+0 "
    assert recovery.upgraded(state, [Boundary(70)]) is None, "once"
    again = recovery.find(PLACE[1], Committed(70, text, 0, 100), 0)
    assert (again.state.rules, again.replay) == (1, ()), "a crash before it is committed"

    state, outcomes = advance(state, [records(30, begin=70)])
    found = recovery.find(PLACE[1], Committed(100, recovery.progress(state).text(), 70, 100), 0)
    assert (found.state.rules, found.replay) == (RULES, (Boundary(100),))
    expected, told = step(found.state, PLACE, records(30, begin=70), (), Boundary(100), DECODE)
    assert told == outcomes[0]
    assert expected.history == state.history == History(Boundary(70), False).to(Boundary(100))


def test_a_stream_that_has_only_begun_needs_no_snapshot(settings: ServiceSettings) -> None:
    model = ModelFile.load(settings)
    begun = begin(model.recognizer(*PLACE), Boundary(9, 2))._replace(rules=1)
    state = Recovery.upgraded(begun, [])
    assert state == begun._replace(rules=RULES)
    assert Progress.parse(Progress("a", "b", state.history).text()).history.fresh
