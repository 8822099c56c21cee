"""Another model on a live topic: the earlier one's stream is ended, and goes on or begins anew, once and for all."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from stream_osr import OpenSetRecognizer, SubclassEmerged
from stream_osr.errors import ConnectorError
from stream_osr_connectors.commands.command import parse_record
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.client.interface import Committed
from stream_osr_connectors.kafka.run.models import Journal, ModelFile
from stream_osr_connectors.kafka.run.partition import Partition, begin, seed_of, step
from stream_osr_connectors.kafka.run.partition_position import StartingPoint
from stream_osr_connectors.kafka.run.recovery import LaterModelError, Recovery
from stream_osr_connectors.kafka.run.snapshots import Snapshots
from stream_osr_connectors.kafka.wire.boundaries import Boundary, Progress
from stream_osr_connectors.kafka.wire.messages import PartitionOutput
from tests.blobs import fitted_once, learn_all, stream_part, training_part
from tests.kafka.brokers import Broker
from tests.kafka.streams import Stream, Worker, instances, small_model
from tests.kafka.test_partition import DECODE, PLACE, advance, records, replay

HELD_BACK = 20
END = 200


class Upgrade:
    """A partition that model A has run up to offset ``END``, and what model B finds."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        fitted_once(chains=1, decision_delay=HELD_BACK, seed=5).save(folder / "a.osr")
        fitted_once(60, chains=1, decision_delay=HELD_BACK, seed=6).save(folder / "b.osr")
        self.settings = {"brokers": "b", "input": "in", "state": folder / "state", **settings}
        self.snapshots = Snapshots(folder / "state" / "stream-osr", keep=2)
        self.snapshots.open()
        self.state, self.outcomes = self.run("a", [40, 80, 80], snapshot_after=3)

    def recovery(self, name: str, **settings: Any) -> Recovery:
        whole = ServiceSettings(model=self.folder / f"{name}.osr", **{**self.settings, **settings})
        model = ModelFile.load(whole)
        model.keep(self.snapshots.folder)
        return Recovery(whole, model, self.snapshots)

    def run(self, name: str, sizes: list[int], snapshot_after: int) -> tuple[Partition, list[PartitionOutput]]:
        model = ModelFile.load(ServiceSettings(model=self.folder / f"{name}.osr", **self.settings))
        state, outcomes = begin(model.recognizer(PLACE), Boundary(0)), []
        for number, size in enumerate(sizes, start=1):
            state, made = advance(state, [portion(state, size)])
            outcomes += made
            if number == snapshot_after:
                self.snapshots.write(PLACE, state)
        return state, outcomes

    def committed(self, recovery: Recovery, state: Partition, first: int = 0) -> Committed:
        return Committed(state.history.last.offset, recovery.progress(state).text(), first, 1000)

    def found(self, recovery: Recovery, **changes: Any) -> StartingPoint:
        earlier = self.committed(self.recovery("a"), self.state)
        return recovery.find(PLACE, earlier._replace(**changes), 0)


def portion(state: Partition, size: int) -> list[Any]:
    """The next records of an endless stream."""
    at = state.history.last.offset
    return records(1000)[at : at + size]


def decided(outcomes: list[PartitionOutput]) -> list[int]:
    return [origin.offset for outcome in outcomes for origin, _ in outcome.decisions]


def emerged(outcomes: list[PartitionOutput]) -> list[int]:
    return [e.subclass_id for o in outcomes for e in o.events if isinstance(e, SubclassEmerged)]


@pytest.mark.parametrize("change", ["carry", "cold"])
def test_every_record_has_one_decision(tmp_path: Path, change: str) -> None:
    upgrade = Upgrade(tmp_path, on_model_change=change)
    recovery = upgrade.recovery("b")
    found = upgrade.found(recovery)
    assert (found.new, found.replay, recovery.is_earlier(found.state)) == (False, (), True)
    state, handed = recovery.hand_over(PLACE, found.state, 0)
    assert not recovery.is_earlier(state)
    assert [d.key for _, d in handed.decisions] == [f"k{n}" for n in range(END - HELD_BACK, END)]
    upgrade.state.model.flush()
    assert [d for _, d in handed.decisions] == list(upgrade.state.model.drain()), "as the earlier model saw them"
    after, outcomes = advance(state, [portion(state, 64)])
    assert decided([*upgrade.outcomes, handed, *outcomes]) == list(range(END + 64 - HELD_BACK))
    assert len(after.waiting) == HELD_BACK
    assert state.history.fresh == (change == "cold")
    assert len(emerged(upgrade.outcomes)) == 1
    assert emerged(outcomes) == ([] if change == "carry" else emerged(outcomes)) != [None]
    truth = [label for _, label in stream_part(1000)]
    ids = {d.subclass_id for origin, d in outcomes[0].decisions if truth[origin.offset] == "new"}
    if change == "carry":
        assert ids == set(emerged(upgrade.outcomes))
        assert outcomes[0].decisions[0][1].seq == END


def test_it_is_handed_over_at_the_end_wherever_the_snapshot_is(tmp_path: Path) -> None:
    upgrade = Upgrade(tmp_path, on_model_change="carry")
    recovery = upgrade.recovery("b")
    expected, told = recovery.hand_over(PLACE, upgrade.found(recovery).state, 0)
    for path in upgrade.snapshots.folder.glob("*.osr"):
        path.unlink()
    found = upgrade.found(recovery)
    assert found.replay == (Boundary(40), Boundary(120), Boundary(200))
    state, again = recovery.hand_over(PLACE, replay(found, records(1000)), 0)
    assert again.decisions == told.decisions
    following = [portion(state, 64)]
    assert advance(state, following)[1] == advance(expected, following)[1]


def test_the_beginning_comes_back_by_replay(tmp_path: Path) -> None:
    upgrade = Upgrade(tmp_path, on_model_change="carry")
    state, _ = (recovery := upgrade.recovery("b")).hand_over(PLACE, upgrade.found(recovery).state, 0)
    begun = upgrade.recovery("b").find(PLACE, upgrade.committed(recovery, state), 0)
    assert (begun.new, begun.replay, begun.state.history) == (False, (), state.history)
    later, _ = advance(state, [portion(state, 32)])
    found = upgrade.recovery("b").find(PLACE, upgrade.committed(recovery, later), 0)
    assert found.replay == (Boundary(END + 32),)
    back = replay(found, records(1000))
    following = [portion(later, 64)]
    expected = advance(later, following)[1]
    assert advance(back, following)[1] == expected
    third = upgrade.recovery("a").find(PLACE, upgrade.committed(recovery, later), 0)
    assert third.replay == (Boundary(END + 32),), "and back to the first model"


def test_other_settings_are_another_model(tmp_path: Path) -> None:
    upgrade = Upgrade(tmp_path, on_model_change="carry")
    recovery = upgrade.recovery("a", seed=9)
    state, _ = recovery.hand_over(PLACE, upgrade.found(recovery).state, 0)
    assert state.model.seed == seed_of(9, PLACE)
    assert state.model.emerged_statistics().keys() == upgrade.state.model.emerged_statistics().keys()


def test_what_is_asked_goes_to_the_stream_it_was_meant_for(tmp_path: Path) -> None:
    upgrade = Upgrade(tmp_path, on_model_change="carry")
    recovery = upgrade.recovery("b")
    earlier = upgrade.found(recovery).state
    state, _ = recovery.hand_over(PLACE, earlier, labels=3)
    assert state.history.last == Boundary(END, 0), "ids are the same, so what was asked of them holds"
    (key,) = emerged(upgrade.outcomes)
    command = parse_record(json.dumps({"subclass": f"in/3:{key}", "label": "third"}).encode())
    after, _ = step(state, PLACE, portion(state, 32), [command], Boundary(END + 32, 3), DECODE)
    assert after.model.summary().known[-1].name == "third"
    cold, _ = upgrade.recovery("b", on_model_change="cold").hand_over(PLACE, earlier, labels=3)
    assert cold.history.last == Boundary(END, 3)


def test_without_decisions_held_back_a_cold_start_needs_nothing(tmp_path: Path) -> None:
    upgrade = Upgrade(tmp_path, on_model_change="cold")
    fitted_once(chains=1, seed=5).save(tmp_path / "a.osr")
    upgrade.state, _ = upgrade.run("a", [40, 80, 80], snapshot_after=0)
    found = upgrade.found(upgrade.recovery("b"), first=150)
    assert (found.new, found.state.history.last, found.replay) == (True, Boundary(END), ())


@pytest.mark.parametrize("change", ["carry", "cold", "refuse"])
def test_a_partition_of_a_later_model_waits_for_it(tmp_path: Path, change: str) -> None:
    upgrade = Upgrade(tmp_path, on_model_change=change)
    later, ours = upgrade.recovery("a"), upgrade.recovery("b")
    identities = [recovery.progress(upgrade.state).model for recovery in (ours, later)]
    journal = Journal(upgrade.snapshots.folder)
    journal.append(identities[0])
    journal.append(identities[1])
    for _ in range(2):
        newer = rf"in/3 ran under the newer model {identities[1]}, .* {identities[0]} and waits"
        with pytest.raises(LaterModelError, match=newer):
            upgrade.found(ours)
    assert upgrade.found(later).state.history == upgrade.state.history, "the worker that has it goes on"
    journal.append(identities[0])  # given to the group once more: now it follows
    if change == "refuse":
        with pytest.raises(ConnectorError, match="has run the model") as refused:
            upgrade.found(ours)
        assert not isinstance(refused.value, LaterModelError)
    else:
        assert ours.is_earlier(upgrade.found(ours).state)


def test_when_nothing_can_be_carried_over_it_stops(tmp_path: Path) -> None:
    upgrade = Upgrade(tmp_path, on_lost_state="cold")
    with pytest.raises(ConnectorError, match=r"has run the model .* and this one .*: carry keeps .*, cold"):
        upgrade.found(upgrade.recovery("b"))
    recovery = upgrade.recovery("b", on_model_change="carry")
    other = OpenSetRecognizer(chains=1, seed=5)
    learn_all(other, [({"a": x["a"], "c": x["b"]}, y) for x, y in training_part()]).freeze()
    other.save(tmp_path / "c.osr")
    different = upgrade.recovery("c", on_model_change="carry")
    with pytest.raises(ConnectorError, match=r"in/3: the features differ.*has 'b' and the new one has 'c'.*cold"):
        different.hand_over(PLACE, upgrade.found(different).state, 0)
    for path in upgrade.snapshots.folder.glob("*.osr"):
        path.unlink()
    with pytest.raises(ConnectorError, match=r"nothing can be carried over.*need the features of that model"):
        upgrade.found(different)
    with pytest.raises(ConnectorError, match=r"nothing can be carried over.*no snapshot leads to offset 200"):
        upgrade.found(recovery, first=10)
    committed = upgrade.committed(upgrade.recovery("a"), upgrade.state)
    (upgrade.snapshots.folder / f"{Progress.parse(committed.metadata).model}.model").unlink()
    with pytest.raises(ConnectorError, match=r"nothing can be carried over.*there is no file"):
        upgrade.recovery("b", on_model_change="carry").find(PLACE, committed, 0)
    found = upgrade.recovery("b", on_model_change="cold").find(PLACE, committed, 0)
    assert found.new
    assert "there is no file" in str(found.change), "on_lost_state allows it, and it is logged"
    strict = upgrade.recovery("b", on_model_change="cold", on_lost_state="fail")
    with pytest.raises(ConnectorError, match=r"earlier model's stream is missing.*on_lost_state to cold"):
        strict.find(PLACE, committed, 0)


# Against the broker


def test_a_retrained_model_goes_on_and_is_killed(broker: Broker, tmp_path: Path) -> None:
    """A clean stop, another model, SIGKILL after the switch: one decision each, the same ids, the same bits."""
    first, second = small_model(decision_delay=HELD_BACK), fitted_once(60, batch_size=32, chains=1, window=32, seed=6)
    limits = {".subclasses": 1_000_000}
    stream = Stream(broker.address, tmp_path, 2, first, limits, snapshot_interval=1.0, on_model_change="carry")
    stream.settings["subclasses"] = f"{stream.topic}.subclasses"
    stream.send(instances(500, 2))
    worker = Worker(stream)
    stream.wait()
    assert worker.stop() == 0
    second.save(tmp_path / "model.osr")
    stream.send(instances(600, 2, seed=1, begin=500))
    worker = Worker(stream)
    worker.await_line("goes on under another model")
    worker.kill()  # before it is committed, or after
    worker = Worker(stream)
    worker.await_line("transaction committed")
    worker.kill()
    worker = Worker(stream)
    stream.wait()
    assert worker.stop() == 0
    assert not any("goes on under another model" in line for line in worker.lines())
    for number, (decisions, events) in enumerate(zip(stream.read("decisions"), stream.read("events"), strict=True)):
        values = [json.loads(record.value) for record in decisions]
        assert [value["offset"] for value in values] == list(range(len(stream.sent[number])))
        runs = [model for model, _ in groupby(value["model"] for value in values)]
        assert runs == [first.trained.fingerprint, second.trained.fingerprint]
        got = [json.loads(record.value) for record in events]
        emerged = [event["subclass_id"] for event in got if event["type"] == "SubclassEmerged"]
        assert len(emerged) == len(set(emerged)) >= 1, (
            "rarely two: the name of the topic is random, and so is the seed"
        )
        before, after = (
            [v["subclass_id"] for v in part if v["label"] == "unknown"] for part in (values[:250], values[260:])
        )
        carried, _ = Counter(after).most_common(1)[0]
        assert carried in before
        assert carried in emerged
        assert len({dict(record.headers)["ce_id"] for record in events}) == len(events)
        said = [
            record
            for record in stream.read("subclasses")[0]
            if record.key.startswith(f"{stream.topic}/{number}:".encode())
        ]
        runs = [json.loads(record.value)["run"] for record in said]
        models = [json.loads(record.value)["model"] for record in said]
        assert list(dict.fromkeys(models)) == [first.trained.fingerprint, second.trained.fingerprint]
        assert len(set(runs)) == 2, "what goes on is said anew, of another run"
