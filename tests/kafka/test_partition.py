"""One partition as a value: steps, snapshots, and coming back by replay."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from stream_osr import OpenSetRecognizer, SubclassEmerged
from stream_osr.errors import ConnectorError
from stream_osr_connectors.commands.parsing import parse_record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.client.interface import Committed
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.folder_states import FolderStates
from stream_osr_connectors.kafka.run.models import ModelFile
from stream_osr_connectors.kafka.run.partition import Partition, begin, seed_of, step
from stream_osr_connectors.kafka.run.partition_position import StartingPoint
from stream_osr_connectors.kafka.run.publishing import PendingBatch, account
from stream_osr_connectors.kafka.run.recovery import Recovery
from stream_osr_connectors.kafka.run.snapshots import Snapshots
from stream_osr_connectors.kafka.stats import PartitionRecall, PartitionStats, ServiceStats
from stream_osr_connectors.kafka.wire.boundaries import Boundary
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder
from stream_osr_connectors.kafka.wire.messages import Message, PartitionOutput
from tests.blobs import fitted_once, moved_model, stream_part

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
def new(model: ModelFile) -> Partition:
    return begin(model.recognizer(PLACE), Boundary(0))


@pytest.fixture
def snapshots(settings: ServiceSettings) -> Snapshots:
    return Snapshots(FolderStates(settings.state).open(), keep=2)


@pytest.fixture
def recovery(settings: ServiceSettings, model: ModelFile, snapshots: Snapshots) -> Recovery:
    return Recovery(settings, model, snapshots)


def test_each_partition_has_randomness_of_its_own(model: ModelFile) -> None:
    seeds = {model.recognizer(place).seed for place in (Place("other", 0), *(Place("in", n) for n in range(100)))}
    assert len({*seeds, seed_of(6, Place("in", 0))}) == 102


# What commands change


def test_names_mutes_and_undoing(new: Partition, caplog: Any) -> None:
    partition, outcomes = advance(new, [records(64), records(64, 64, 1)])
    emerged = next(e.subclass_id for outcome in outcomes for e in outcome.events if isinstance(e, SubclassEmerged))
    name = f"in/3:{emerged}"
    given = [
        {"subclass": name, "mute": True},
        {"undo": "in/3"},
        {"accept_frame": "in/3"},
        {"reject_frame": "in/4"},
        {"subclass": f"in/4:{emerged}", "label": "elsewhere"},
        {"subclass": f"other/3:{emerged}", "label": "elsewhere"},
        {"subclass": "in/3:99999", "label": "nothing"},
        {"subclass": name, "label": "of an earlier run", "run": "77aa"},
        {"subclass": name, "label": "third", "run": partition.lineage},
        {"key": "k100", "label": "left"},
        {"key": "never seen", "label": "left"},
    ]
    expected = ["SubclassMuted", "NamingUndone", "SubclassPromoted"]
    commands = [parse_record(json.dumps(each).encode()) for each in given]
    after, outcome = step(partition, PLACE, records(64, 128, 2), commands, Boundary(192, 9), DECODE)
    kinds = [type(e).__name__ for e in outcome.events]
    assert [kind for kind in kinds if kind in expected] == expected
    assert caplog.text.count("was not applied") == 3
    assert "command accept_frame was not applied: the stream has not moved" in caplog.text
    assert caplog.text.count("has started a new run since") == 1
    assert after.model.summary().known[-1].name == "third"
    assert after.history.last == Boundary(192, 9)


def test_a_moved_frame_is_seen_and_judged() -> None:
    model, stats = moved_model(), PartitionStats()
    assert len(list(model.drain())) == 224
    partition = begin(model, Boundary(0))
    stats.follow(partition.model)
    assert "in b by +" in stats.frame
    given = [{"accept_frame": "in/3"}, {"undo": "in/3"}, {"reject_frame": "in/3"}, {"undo": "in/3"}]
    for place, each in enumerate(given, start=1):
        command = parse_record(json.dumps(each).encode())
        partition, _ = step(partition, PLACE, [], [command], Boundary(0, place), DECODE)
        stats.follow(partition.model)
        assert bool(stats.frame) == (command.action == "undo"), each


# Coming back


def batches(sizes: list[int]) -> list[list[Message]]:
    rest = iter(records(sum(sizes)))
    return [list(islice(rest, size)) for size in sizes]


def find(recovery: Recovery, state: Partition, end: int = 100) -> StartingPoint:
    """What a worker finds after this state was committed."""
    return recovery.find(PLACE, Committed(state.history.last.offset, recovery.progress(state).text(), 0, end), 0)


def replay(found: StartingPoint, everything: list[Message]) -> Partition:
    """Go through the micro-batches that were published before."""
    back = found.state
    for end in found.replay:
        taken = [record for record in everything if back.history.last.offset <= record.offset < end.offset]
        back, _ = step(back, PLACE, taken, (), end, DECODE)
    return back


@pytest.mark.parametrize("at", [0, 3, *(pytest.param(at, marks=pytest.mark.thorough) for at in (1, 5))])
def test_a_partition_comes_back_by_replay(new: Partition, recovery: Recovery, snapshots: Snapshots, at: int) -> None:
    """A snapshot after ``at`` micro-batches (0: none) and the rest replayed: the same bits from then on."""
    portions = batches([32, 32, 7, 32, 1])
    state = new
    for number, portion in enumerate(portions, start=1):
        state, _ = advance(state, [portion])
        if number == at:
            snapshots.write(PLACE, state)
    found = find(recovery, state, 200)
    assert found.state.history.last.offset == sum(map(len, portions[:at]))
    back = replay(found, records(104))
    assert (back.lineage, back.history.last) == (state.lineage, state.history.last)
    following = [records(64, begin=104, seed=9)]
    assert advance(back, following)[1] == advance(state, following)[1]


def test_old_snapshots_are_deleted_and_those_that_are_damaged_or_of_another_run_are_not_used(
    new: Partition, model: ModelFile, recovery: Recovery, snapshots: Snapshots, caplog: Any
) -> None:
    state, paths = new, []
    for portion in batches([32, 32, 32]):
        state, _ = advance(state, [portion])
        paths.append(Path(snapshots.states.where) / snapshots.write(PLACE, state))
    assert [path.exists() for path in paths] == [False, True, True]
    for place in (Place("in", 30), Place("n", 3)):
        assert snapshots.boundaries(place, state.lineage) == []
    paths[2].write_bytes(paths[2].read_bytes()[:-100])
    found = find(recovery, state)
    assert (found.state.history.last, found.replay) == (Boundary(64), (Boundary(96),))
    assert "snapshot left aside" in caplog.text
    another, _ = advance(begin(model.recognizer(PLACE), Boundary(0)), batches([32, 32]))
    assert find(recovery, another).replay == (Boundary(32), Boundary(64))


def test_headers_come_back_from_a_snapshot_as_they_were(new: Partition, snapshots: Snapshots) -> None:
    """Null is not empty, and bytes are any."""
    headers = [("none", None), ("empty", b""), ("bytes", bytes(range(256)))]
    state, _ = advance(new, [[record._replace(headers=headers) for record in records(40)]])
    snapshots.write(PLACE, state)
    back = snapshots.read(PLACE, state.lineage, Boundary(40), new.model.trained)
    assert back is not None
    assert back.waiting == state.waiting
    assert len(back.waiting) == 20


def test_a_state_that_is_lost(
    new: Partition, recovery: Recovery, settings: ServiceSettings, snapshots: Snapshots
) -> None:
    state, _ = advance(new, batches([32, 32]))
    state = state._replace(history=state.history.since(Boundary(32)))
    text = recovery.progress(state).text()
    settings = settings.model_copy(update={"on_lost_state": "cold"})
    cold = Recovery(settings, ModelFile.load(settings), snapshots)
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
        found = cold.find(PLACE, committed, 7)
        assert found.new
        assert found.state.history.base.labels == 7
        assert committed.first <= found.state.history.last.offset <= committed.end
        assert message in str(found.change)
    found = cold.find(PLACE, lost["no snapshot leads to offset 64"], 7)
    assert found.state.history.last.offset == state.waiting[0].offset == 44, "where decisions are delayed"
    assert found.change is not None
    assert (found.change.lost, found.change.repeated) == (0, 0)
    snapshots.write(PLACE, state)
    assert recovery.find(PLACE, Committed(64, text, 64, 100), 0).replay == (), "which needs no records"


@pytest.mark.parametrize("size", [16, 128])
def test_another_batch_size_applies_from_the_next_step_on(
    model: ModelFile, settings: ServiceSettings, snapshots: Snapshots, size: int
) -> None:
    """With records that wait, more than the new size has room for."""
    everything = records(200)
    state = begin(model.recognizer(PLACE), Boundary(0), size=64)
    state, first = step(state, PLACE, everything[:100], (), Boundary(100, closes=False), DECODE)
    recovery = Recovery(settings.model_copy(update={"batch_size": size}), model, snapshots)
    found = find(recovery, state, 200)
    assert (found.replay, found.state.size, recovery.is_earlier(found.state)) == (
        (Boundary(100, closes=False),),
        64,
        True,
    )
    state, handed = recovery.hand_over(PLACE, replay(found, everything), 0)
    assert (handed.decisions, handed.events, state.undecided, recovery.is_earlier(state)) == ([], [], 36, False)
    state, second = step(state, PLACE, everything[100:], (), Boundary(200), DECODE)
    decided = [origin.offset for outcome in (first, second) for origin, _, *_ in outcome.decisions]
    assert decided == list(range(200 - len(state.waiting)))
    assert (len(state.waiting), state.undecided) == (20, 0), "these are delayed"


def test_a_partition_that_comes_straight_back_is_taken_as_it_was(new: Partition, recovery: Recovery) -> None:
    state, _ = advance(new, batches([64]))
    recovery.remember(PLACE, state, 64)
    for _ in range(2):  # until its beginning is committed
        assert find(recovery, state).state is state
    recovery.begun(PLACE)
    assert find(recovery, state).state is not state
    ahead, _ = advance(state, [records(10, begin=64)])
    recovery.remember(PLACE, ahead, 74)
    assert find(recovery, state).replay == (Boundary(64),)


def test_what_was_refused_is_counted_the_same_in_a_replay(
    new: Partition, recovery: Recovery, snapshots: Snapshots
) -> None:
    """From the beginning, and through a snapshot."""
    everything = [
        record._replace(value={3: b'{"A": 1}', 7: b"{", 9: b'{"a": 1, "b": null}'}.get(n % 40, record.value))
        for n, record in enumerate(records(80))
    ]
    after_one, _ = advance(new, [everything[:40]])
    state, (outcome,) = advance(after_one, [everything[40:]])
    assert len(outcome.taken.refused) == 2
    assert state.model.counters["refused"] == 4
    assert (state.model.signals.data_quality, state.model.counters["unlike"]) == (6, 0), "two lack a value"
    for expected in (2, 1):
        found = find(recovery, state, 80)
        assert len(found.replay) == expected
        back = replay(found, everything)
        assert back.model.counters == state.model.counters
        assert back.model.signals == state.model.signals
        snapshots.write(PLACE, after_one)


# The recall of the known classes, from the recognizer to the figures and the log


def test_figures_follow_the_recognizer() -> None:
    model, figures = fitted_once(chains=1), PartitionStats()
    figures.follow(model)
    assert figures.recall == PartitionRecall(None, model.trained.report.known_recall)
    without = fitted_once(chains=1, references=0)
    figures.follow(without)
    assert figures.recall == PartitionRecall(), "it is not known whether the promise holds"
    assert figures.menu is not None
    assert figures.menu.references == 0


def test_a_drop_is_in_the_figures_and_once_in_the_log(settings: ServiceSettings, caplog: Any) -> None:
    trained = fitted_once(200, chains=1).trained
    unreachable = replace(trained.report, known_recall=1.1, recall_interval=(1.05, 1.15))
    OpenSetRecognizer.from_trained(replace(trained, report=unreachable), chains=1).save(settings.model)
    before = begin(ModelFile.load(settings).recognizer(PLACE), Boundary(0))
    figures = ServiceStats(partitions={PLACE: PartitionStats()})
    for offset in (0, 200):
        batch = records(200, offset)
        after, (outcome,) = advance(before, [batch])
        with caplog.at_level(logging.WARNING, logger="stream_osr.kafka"):
            account(figures, settings, [PendingBatch(PLACE, before, after, batch, outcome)], [], 0.0)
        before = after
    recall = figures.partitions[PLACE].recall
    assert (recall.now, recall.promised, recall.dropped) == (after.model.expected_recall, 1.1, True)
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    jumped = [text for text in warned if "called unknown, usually" in text]
    assert figures.counts["unknown_rate_jumps", PLACE] == len(jumped)
    (dropped,) = [text for text in warned if text not in jumped]
    assert dropped.startswith("in/3: recall of the known classes ")
    assert "below the 1.100 promised" in dropped
