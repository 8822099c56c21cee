"""One partition as a value: steps, snapshots, and coming back by replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_osr import SubclassEmerged
from stream_osr.errors import ConnectorError
from stream_osr_connectors.commands.command import parse_record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.client.interface import Committed
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.models import ModelFile
from stream_osr_connectors.kafka.run.partition import Partition, begin, seed_of, step
from stream_osr_connectors.kafka.run.partition_position import StartingPoint
from stream_osr_connectors.kafka.run.recovery import Recovery
from stream_osr_connectors.kafka.run.snapshots import Snapshots
from stream_osr_connectors.kafka.wire.boundaries import Boundary
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder
from stream_osr_connectors.kafka.wire.messages import Message, PartitionOutput
from tests.blobs import fitted_once, stream_part

DECODE = JsonDecoder(JsonFields(label="y", features=["a", "b"]), 1000)
PLACE = Place("in", 3)


def records(n: int, begin: int = 0, seed: int = 0) -> list[Message]:
    return [
        Message("in", 3, begin + i, 1000 * (begin + i), b"k%d" % (begin + i), json.dumps(x).encode(), [("h", b"1")])
        for i, (x, _) in enumerate(stream_part(n, seed))
    ]


def advance(
    partition: Partition, batches: list[list[Message]], commands: Any = ()
) -> tuple[Partition, list[PartitionOutput]]:
    outcomes = []
    for batch in batches:
        partition, outcome = step(partition, PLACE, batch, commands, Boundary(batch[-1].offset + 1), DECODE)
        outcomes.append(outcome)
    return partition, outcomes


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    fitted_once(chains=1, decision_delay=20, seed=5).save(tmp_path / "model.osr")
    return ServiceSettings(model=tmp_path / "model.osr", brokers="b", input="in", state=tmp_path / "state")


@pytest.fixture
def model(settings: ServiceSettings) -> ModelFile:
    return ModelFile.load(settings)


@pytest.fixture
def snapshots(settings: ServiceSettings) -> Snapshots:
    folder = Snapshots(settings.state, keep=2)
    folder.open()
    return folder


def test_a_step_leaves_the_partition_before_it_alone(model: ModelFile) -> None:
    before = begin(model.recognizer(PLACE), Boundary(0))
    one, outcomes = advance(before, [records(40)])
    assert before.model.pending == 0
    again, repeated = advance(before, [records(40)])
    assert outcomes == repeated
    assert len(outcomes[0].decisions) == 20, "the others are held back"
    assert len(one.waiting) == len(again.waiting) == 20
    after, outcomes = advance(one, [records(40, begin=40, seed=1)])
    assert [origin.offset for origin, _ in outcomes[0].decisions] == list(range(20, 60))
    assert [decision.key for _, decision in outcomes[0].decisions] == [f"k{n}" for n in range(20, 60)]
    assert after.history.last == Boundary(80)


def test_each_partition_has_randomness_of_its_own(model: ModelFile) -> None:
    seeds = {model.recognizer(Place("in", n)).seed for n in range(100)} | {
        model.recognizer(Place("other", 0)).seed,
        seed_of(6, Place("in", 0)),
    }
    assert len(seeds) == 102


def test_refused_records_belong_to_the_batch(model: ModelFile) -> None:
    batch = records(40)
    batch[3] = batch[3]._replace(value=b"{")
    batch[7] = batch[7]._replace(value=b'{"a": "high", "b": 1}')
    batch[9] = batch[9]._replace(value=b'{"a": 1, "b": 1, "y": "left"}')
    after, (outcome,) = advance(begin(model.recognizer(PLACE), Boundary(0)), [batch])
    assert [(r.offset, refusal.stage) for r, refusal in outcome.taken.refused] == [(3, "DECODE"), (7, "VALIDATE")]
    assert len(outcome.taken.labelled) == 1
    assert len(outcome.decisions) + len(after.waiting) == 37
    assert after.history.last == Boundary(40)


# What people ask


def test_names_mutes_and_undoing(model: ModelFile, caplog: Any) -> None:
    partition, outcomes = advance(begin(model.recognizer(PLACE), Boundary(0)), [records(64), records(64, 64, 1)])
    emerged = next(e.subclass_id for outcome in outcomes for e in outcome.events if isinstance(e, SubclassEmerged))
    name = f"in/3:{emerged}"
    asked = [
        {"subclass": name, "mute": True},
        {"undo": "in/3"},
        {"subclass": f"in/4:{emerged}", "label": "elsewhere"},
        {"subclass": f"other/3:{emerged}", "label": "elsewhere"},
        {"subclass": "in/3:99999", "label": "nothing"},
        {"subclass": name, "label": "of an earlier run", "run": "77aa"},
        {"subclass": name, "label": "third", "run": partition.lineage},
        {"key": "k100", "label": "left"},
        {"key": "never seen", "label": "left"},
    ]
    asked_for = ["SubclassMuted", "NamingUndone", "SubclassPromoted"]
    commands = [parse_record(json.dumps(each).encode()) for each in asked]
    after, outcome = step(partition, PLACE, records(64, 128, 2), commands, Boundary(192, 9), DECODE)
    kinds = [type(e).__name__ for e in outcome.events]
    assert [kind for kind in kinds if kind in asked_for] == asked_for
    assert caplog.text.count("was not applied") == 2
    assert caplog.text.count("has started a new run since") == 1
    assert after.model.summary().known[-1].name == "third"
    assert after.history.last == Boundary(192, 9)


# Coming back


def batches(sizes: list[int]) -> list[list[Message]]:
    everything, at, out = records(sum(sizes)), 0, []
    for size in sizes:
        out.append(everything[at : at + size])
        at += size
    return out


def replay(found: StartingPoint, everything: list[Message]) -> Partition:
    """Go through the micro-batches that were published before."""
    back = found.state
    for end in found.replay:
        taken = [record for record in everything if back.history.last.offset <= record.offset < end.offset]
        back, _ = step(back, PLACE, taken, (), end, DECODE)
    return back


@pytest.mark.parametrize("at", [0, 1, 3, 5])
def test_a_partition_comes_back_by_replay(
    model: ModelFile, settings: ServiceSettings, snapshots: Snapshots, at: int
) -> None:
    """A snapshot after ``at`` micro-batches (0: none) and the rest replayed: the same bits from then on."""
    recovery = Recovery(settings, model, snapshots)
    portions = batches([32, 32, 7, 32, 1])
    state = begin(model.recognizer(PLACE), Boundary(0))
    for number, portion in enumerate(portions, start=1):
        state, _ = advance(state, [portion])
        if number == at:
            snapshots.write(PLACE, state)
    text = recovery.progress(state).text()
    found = recovery.find(PLACE, Committed(104, text, 0, 200), 0)
    assert found.state.history.last.offset == sum(map(len, portions[:at]))
    back = replay(found, [record for portion in portions for record in portion])
    assert (back.lineage, back.history.last) == (state.lineage, state.history.last)
    following = [records(64, begin=104, seed=9)]
    assert advance(back, following)[1] == advance(state, following)[1]


def test_old_snapshots_are_let_go_and_broken_ones_left_aside(
    model: ModelFile, settings: ServiceSettings, snapshots: Snapshots, caplog: Any
) -> None:
    recovery = Recovery(settings, model, snapshots)
    state = begin(model.recognizer(PLACE), Boundary(0))
    paths = []
    for portion in batches([32, 32, 32]):
        state, _ = advance(state, [portion])
        paths.append(snapshots.write(PLACE, state))
    assert [path.exists() for path in paths] == [False, True, True]
    assert (
        snapshots.boundaries(Place("in", 30), state.lineage)
        == snapshots.boundaries(Place("n", 3), state.lineage)
        == []
    )
    paths[2].write_bytes(paths[2].read_bytes()[:-100])
    found = recovery.find(PLACE, Committed(96, recovery.progress(state).text(), 0, 96), 0)
    assert (found.state.history.last, found.replay) == (Boundary(64), (Boundary(96),))
    assert "snapshot left aside" in caplog.text


def test_headers_come_back_from_a_snapshot_as_they_were(model: ModelFile, snapshots: Snapshots) -> None:
    """Null is not empty, and bytes are any."""
    headers = [("none", None), ("empty", b""), ("bytes", bytes(range(256)))]
    batch = [record._replace(headers=headers) for record in records(40)]
    state, _ = advance(begin(model.recognizer(PLACE), Boundary(0)), [batch])
    snapshots.write(PLACE, state)
    back = snapshots.read(PLACE, state.lineage, Boundary(40), model.trained)
    assert back is not None
    assert back.waiting == state.waiting
    assert {origin.headers for origin in back.waiting} == {tuple(headers)}


def test_a_state_that_is_lost(model: ModelFile, settings: ServiceSettings, snapshots: Snapshots) -> None:
    recovery = Recovery(settings, model, snapshots)
    state, _ = advance(begin(model.recognizer(PLACE), Boundary(0)), batches([32, 32]))
    state = state._replace(history=state.history.since(Boundary(32)))
    text = recovery.progress(state).text()
    lost = {
        "no snapshot leads to offset 64": Committed(64, text, 0, 100),
        "committed by something else": Committed(64, "", 0, 100),
        "did not write": Committed(64, "theirs", 0, 100),
        "with the micro-batches up to 64": Committed(63, text, 0, 100),
        "no snapshot leads to offset 64, with records since 70": Committed(64, text, 70, 100),
        "the partition ends at 50": Committed(64, text, 0, 50),
    }
    for message, committed in lost.items():
        with pytest.raises(ConnectorError, match=message):
            recovery.find(PLACE, committed, 0)
        cold = Recovery(settings.model_copy(update={"on_lost_state": "cold"}), model, snapshots)
        found = cold.find(PLACE, committed, 7)
        assert found.new
        assert found.state.history.base.labels == 7
        assert committed.first <= found.state.history.last.offset <= committed.end
        assert message in str(found.change)
    snapshots.write(PLACE, state)
    assert recovery.find(PLACE, Committed(64, text, 64, 100), 0).replay == (), "which needs no records"


def test_snapshots_of_another_run_are_not_used(
    model: ModelFile, settings: ServiceSettings, snapshots: Snapshots
) -> None:
    recovery = Recovery(settings, model, snapshots)
    old, _ = advance(begin(model.recognizer(PLACE), Boundary(0)), batches([64]))
    snapshots.write(PLACE, old)
    new, _ = advance(begin(model.recognizer(PLACE), Boundary(0)), batches([32, 32]))
    found = recovery.find(PLACE, Committed(64, recovery.progress(new).text(), 0, 64), 0)
    assert found.replay == (Boundary(32), Boundary(64))


def test_a_partition_that_comes_straight_back_is_taken_as_it_was(
    model: ModelFile, settings: ServiceSettings, snapshots: Snapshots
) -> None:
    recovery = Recovery(settings, model, snapshots)
    state, _ = advance(begin(model.recognizer(PLACE), Boundary(0)), batches([64]))
    committed = Committed(64, recovery.progress(state).text(), 0, 100)
    recovery.remember(PLACE, state, 64)
    for _ in range(2):  # until its beginning is committed
        assert recovery.find(PLACE, committed, 0).state is state
    recovery.begun(PLACE)
    assert recovery.find(PLACE, committed, 0).state is not state
    ahead, _ = advance(state, [records(10, begin=64)])
    recovery.remember(PLACE, ahead, 74)
    assert recovery.find(PLACE, committed, 0).replay == (Boundary(64),)


def test_what_was_refused_is_counted_the_same_in_a_replay(
    model: ModelFile, settings: ServiceSettings, snapshots: Snapshots
) -> None:
    """Through a snapshot, and from the beginning."""
    recovery = Recovery(settings, model, snapshots)
    everything = [
        record._replace(value={3: b'{"A": 1}', 7: b"{", 9: b'{"a": 1, "b": null}'}.get(n % 40, record.value))
        for n, record in enumerate(records(80))
    ]
    portions = [everything[:40], everything[40:]]
    before = begin(model.recognizer(PLACE), Boundary(0))
    after_one, _ = advance(before, portions[:1])
    state, (outcome,) = advance(after_one, portions[1:])
    assert len(outcome.taken.refused) == 2
    assert state.model.counters["refused"] == 4
    assert (state.model.signals.data_quality, state.model.counters["unlike"]) == (6, 0), "two lack a value"
    for snapshot in (None, after_one):
        if snapshot is not None:
            snapshots.write(PLACE, snapshot)
        found = recovery.find(PLACE, Committed(80, recovery.progress(state).text(), 0, 80), 0)
        back = replay(found, everything)
        assert back.model.counters == state.model.counters
        assert back.model.signals == state.model.signals
