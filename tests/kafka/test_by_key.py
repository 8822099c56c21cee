"""A recognizer for each key: the setting `by` of the service."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.commands.parsing import parse_record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.client.interface import Committed
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run import cuts, partition, partition_keys
from stream_osr_connectors.kafka.run.folder_states import FolderStates
from stream_osr_connectors.kafka.run.models import ModelFile
from stream_osr_connectors.kafka.run.partition import Partition, step
from stream_osr_connectors.kafka.run.partition import begin as library_begin
from stream_osr_connectors.kafka.run.partition_keys import PartitionKeys, StreamKey
from stream_osr_connectors.kafka.run.publishing import follow
from stream_osr_connectors.kafka.run.recovery import Recovery
from stream_osr_connectors.kafka.run.snapshots import REACH, Snapshots
from stream_osr_connectors.kafka.stats import PartitionStats
from stream_osr_connectors.kafka.wire.boundaries import Boundary
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder
from stream_osr_connectors.kafka.wire.messages import Message
from tests.blobs import stream_part
from tests.kafka.brokers import Broker
from tests.kafka.commands import done, refused
from tests.kafka.scraping import address, metrics, status, total
from tests.kafka.streams import Sent, Stream, Worker, check_outputs, ends_of, recognizer_after, small_model, until
from tests.kafka.test_monitor import ask

PARTITIONS = 2
KEYS = [f"pump {n}" for n in range(6)]
BAD_KEYS = (None, b"", b"\xff")
NEEDED = {"model": "m.osr", "brokers": "b:1", "input": "in"}


def instances(n: int, begin: int, keys: Sequence[str] = KEYS, partitions: int = PARTITIONS) -> list[tuple[int, Sent]]:
    """Instances of some keys, of which the first has the most, with a new class in each of them."""
    out = []
    for number, (x, _) in enumerate(stream_part(n, seed=begin), begin):
        key = number % (len(keys) + 1) % len(keys)
        out.append((key % partitions, Sent(keys[key].encode(), json.dumps({**x, "device": keys[key]}).encode())))
    return out


def check_each_key(stream: Stream, dead: list[set[int]]) -> int:
    """Check that each key has the decisions and events of a recognizer that gets only its micro-batches.

    Returns the number of micro-batches.
    """
    batches = 0
    outputs = zip(stream.values("decisions"), stream.values("events"), strict=True)
    for number, (decisions, events) in enumerate(outputs):
        offsets = [value["offset"] for value in decisions]
        assert sorted(offsets) == [n for n in range(len(stream.sent[number])) if n not in dead[number]], "each once"
        for by in {value["by"] for value in decisions}:
            own = [value for value in decisions if value["by"] == by]
            batches += len(ends_of(own))
            model = recognizer_after(stream, number, own, stream.model.arguments["seed"])
            check_outputs(model, own, [value for value in events if value["by"] == by], by)
        for value in events:
            subclass = f"/{value['subclass_id']}" if "subclass_id" in value else ""
            assert value["subject"] == f"{stream.topic}/{number}:{value['by']}{subclass}"
    return batches


def test_each_key_is_decided_once_through_a_kill_a_lost_disk_and_a_move(broker: Broker, tmp_path: Path) -> None:
    few = {"by": "key", "max_keys": 3, "key_memory": 1, "snapshot_interval": 0.5, "metrics_port": 0}
    stream = Stream(broker.address, tmp_path, PARTITIONS, small_model(), **few)
    stream.settings["state_topic"] = f"{stream.topic}.state"
    assert "created: 2 partitions" in done("topics", "--create", "--config", stream.config())

    def worker(name: str, disk: str) -> Worker:
        return Worker(stream, name, STREAM_OSR_STATE=str(tmp_path / disk))

    one = worker("one", "a")
    stream.send(instances(300, 0))
    stream.send((0, Sent(key, b'{"a": 1, "b": 1}')) for key in (*BAD_KEYS, b"pump 8", b"pump 9"))
    stream.wait()
    found = metrics(one)
    assert total(found, "stream_osr_keys") == len(KEYS) == 3 * total(found, "stream_osr_keys_awake")
    assert total(found, "stream_osr_keys_refused_total") == 2
    assert not found.get("stream_osr_emerging_subclasses"), "there is no recognizer of the partition"
    until(lambda: status(one, "/readyz") == 200, 30, lambda: one.lines()[-1])
    assert "it has max_keys (3) keys, and 2 records of further keys" in ask(address(one), "/readyz")[1]
    stream.send(instances(300, 300))
    one.await_transaction(30)
    one.kill()
    one = worker("one", "b")
    stream.send(instances(150, 600))
    stream.wait()
    assert one.stop() == 0
    two = worker("two", "c")
    stream.send(instances(150, 750))
    stream.wait()
    assert two.stop() == 0
    why = [dict(letter.headers) for letter in stream.read("dlq")[0]]
    assert [each["__connect.errors.stage"] for each in why] == 3 * [b"DECODE"] + 2 * [b"VALIDATE"]
    assert why[-1]["__connect.errors.exception.message"].startswith(b"the partition has 3 keys")
    dead = {int(each["__connect.errors.offset"]) for each in why}
    assert check_each_key(stream, [dead, set()]) > 2 * len(KEYS)
    assert not (tmp_path / "state").exists()


def test_commands_name_a_key(broker: Broker, tmp_path: Path) -> None:
    stream = Stream(broker.address, tmp_path, PARTITIONS, small_model(), by="device", snapshot_interval=1000.0)
    stream.settings["labels"] = f"{stream.topic}.labels"
    config = stream.config()
    done("topics", "--create", "--config", config)
    worker = Worker(stream)
    stream.send(instances(400, 0))
    stream.send([(1, Sent(b"k", b'{"a": 1, "b": 1}')), (1, Sent(b"k", b'{"a": 1, "b": 1, "device": 1.5}'))])
    stream.wait()
    first, second = (
        next(each for each in part if each["type"] == "SubclassEmerged") for part in stream.values("events")
    )
    assert "Name the key" in refused("label", "k7", "left", "--config", config)
    assert "KEY/ID" in refused("mute", "11", "--config", config)
    subject = f"{first['by']}/{first['subclass_id']}"
    assert done("promote", subject, "third", "--config", config).startswith("promote queued")
    stream.wait(lambda: "SubclassPromoted" in stream.event_types(0))
    done("mute", second["subject"], "--config", config)
    stream.wait(lambda: "SubclassMuted" in stream.event_types(1))
    worker.kill()
    worker = Worker(stream)
    done("undo", second["by"], "--config", config)
    done("mute", f"{stream.topic}/1:pump 9/1", "--config", config)
    done("label", "k", "left", "--stream", "pump 9", "--config", config)
    stream.send(instances(140, 400))
    stream.wait(lambda: "NamingUndone" in stream.event_types(1))
    stream.wait()
    begins = count(540, 10)

    def logged(line: str) -> bool:
        stream.send(instances(10, next(begins)))  # a late label applies with the next instances
        return line in "\n".join(worker.lines())

    for number, command in ((1, "mute"), (0, "label")):
        line = f"{stream.topic}/{number}: command {command} was not applied: there is no key 'pump 9'"
        until(partial(logged, line), 30, lambda line=line: f"{line} in the log")
    assert worker.stop() == 0
    assert "is live at" in "\n".join(worker.lines()), "it has replayed"
    promoted = {value["by"] for part in stream.values("decisions") for value in part if value["label"] == "third"}
    assert promoted == {first["by"]}
    reasons = [dict(letter.headers)["__connect.errors.exception.message"] for letter in stream.read("dlq")[1]]
    assert [b"'device'" in each for each in reasons] == [True, True]


PLACE = Place("in", 3)
STREAM_KEY = StreamKey("key", JsonDecoder(JsonFields(features=["a", "b"]), 1000))


class Stepper:
    """A partition with keys, which goes on micro-batch by micro-batch."""

    def __init__(self, folder: Path, delay: int = 0, **settings: Any) -> None:
        small_model(decision_delay=delay).save(folder / "m.osr")
        given = {**NEEDED, "by": "key", "model": folder / "m.osr", "state": folder / "state", **settings}
        self.settings = ServiceSettings(**given)
        self.model = ModelFile.load(self.settings)
        self.state = library_begin(self.model.recognizer(PLACE), Boundary(0), keys=self.keys())
        self.snapshots = Snapshots(FolderStates(self.settings.state).open(), keep=2)

    def keys(self, by: str = "key") -> PartitionKeys | None:
        return PartitionKeys.of(self.settings, self.model.trained, self.model.arguments)

    def step(self, *keys: str, n: int = 8, closes: bool = True) -> list[str]:
        """Decide some instances of each key; returns the decisions as text."""
        begin = self.state.history.last.offset
        records = [
            Message("in", 3, at, 1000 * at, keys[at % len(keys)].encode(), json.dumps(x).encode(), [])
            for at, (x, _) in enumerate(stream_part(n * len(keys), begin), begin)
        ]
        end = Boundary(begin + len(records), closes=closes)
        self.state, out = step(self.state, PLACE, records, (), end, STREAM_KEY.decode, STREAM_KEY)
        return [str((origin.by, decision)) for origin, decision, _ in out.decisions]

    def read(self) -> Partition | None:
        at, lineage = self.state.history.last, self.state.lineage
        found = self.snapshots.read(PLACE, lineage, at, self.model.trained, self.keys)
        return found and self.state._replace(model=found.model, keys=found.keys)


def test_a_snapshot_has_the_states_that_changed_and_leads_to_the_same_bits(tmp_path: Path, caplog: Any) -> None:
    stepper = Stepper(tmp_path, key_memory=1)
    names = [f"pump {n}" for n in range(12)]
    stepper.step(*names)
    assert stepper.state.keys is not None
    assert (len(stepper.state.keys), stepper.state.keys.awake) == (12, 1)
    first = stepper.settings.state / stepper.snapshots.write(PLACE, stepper.state)
    size, sizes = first.stat().st_size, []
    for name in names:
        stepper.step(name)
        path = stepper.settings.state / stepper.snapshots.write(PLACE, stepper.state)
        sizes.append(path.stat().st_size / size)
        assert len([*stepper.settings.state.glob("*.osr")]) <= REACH + 2, "what no snapshot needs is deleted"
    assert max(sizes[: REACH - 1]) < 0.3, sizes
    assert not first.exists(), "its last states were written again"
    begun = stepper.read()
    assert begun is not None
    expected, stepper.state = stepper.step(*names), begun
    assert stepper.step(*names) == expected
    stepper.state = begun
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert stepper.read() is None
    assert "snapshot left aside: " in caplog.text


def test_a_memory_that_is_too_small_is_reported_with_the_one_that_would_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the first reading after a start, and not with the memory that the report names."""
    monkeypatch.setattr(partition_keys, "FEW_USES", 12)
    monkeypatch.setattr(partition_keys, "WINDOW_SECONDS", 0.0)
    names = [f"pump {n}" for n in range(12)]

    def needed(memory: int, rounds: int) -> int | None:
        (folder := tmp_path / str(memory)).mkdir()
        stepper = Stepper(folder, key_memory=memory)
        for _ in range(rounds):
            stepper.step(*names)
        stepper.snapshots.write(PLACE, stepper.state)
        begun = stepper.read()
        assert begun is not None
        assert begun.keys is not None
        assert begun.keys.needed_memory is None
        stepper.state = begun
        stepper.step(*names)
        assert stepper.state.keys is not None
        assert stepper.state.keys.needed_memory is None, "they are read for the first time"
        stepper.step(*names)
        its = PartitionStats()
        follow(its, stepper.state)
        assert bool(its.key_shortage) == (its.key_memory_needed is not None)
        return its.key_memory_needed

    found = needed(1, 3)
    assert found is not None
    assert found > 12 * 1000
    assert needed(int(1.2 * found), 3) is None


def test_a_step_leaves_the_keys_before_it_alone(tmp_path: Path) -> None:
    stepper = Stepper(tmp_path)
    stepper.step("pump 1", "pump 2")
    before = stepper.state
    expected = stepper.step("pump 1", "pump 3")
    stepper.state = before
    assert stepper.step("pump 1", "pump 3") == expected
    assert before.keys is not None
    assert [*before.keys] == ["pump 1", "pump 2"]
    assert before.history.last == Boundary(16)


def test_each_key_fills_its_own_micro_batch_and_its_records_wait(tmp_path: Path) -> None:
    """Whatever the steps are, and through a snapshot."""
    stepper = Stepper(tmp_path, key_memory=1)
    stepper.state = stepper.state._replace(size=10)
    found = [each for n in (3, 4, 5, 8) for each in stepper.step("pump 1", "pump 2", n=n, closes=False)]
    assert len(found) == 40 == 2 * stepper.state.size * 2
    assert (stepper.state.undecided, stepper.state.first) == (0, None)
    stepper.step("pump 1", n=7, closes=False)
    stepper.step("pump 3", n=2, closes=False)
    assert (stepper.state.undecided, stepper.state.delayed, stepper.state.first) == (9, 9, 40)
    stepper.snapshots.write(PLACE, stepper.state)
    back, before = stepper.read(), stepper.state
    assert back is not None
    assert (back.undecided, back.delayed, back.first) == (9, 9, 40)
    expected = stepper.step("pump 1", n=1)
    assert len(expected) == 10
    stepper.state = back
    assert stepper.step("pump 1", n=1) == expected
    assert before.undecided == 9, "a step changes nothing"


@pytest.mark.parametrize("change", ["carry", "cold"])
def test_keys_follow_another_model_with_one_decision_for_each_record(tmp_path: Path, change: str) -> None:
    stepper = Stepper(tmp_path, on_model_change=change)
    stepper.state = stepper.state._replace(size=16)
    keys = "pump 1", "pump 2"
    decided = [each for _ in range(4) for each in stepper.step(*keys, n=25, closes=False)]
    recovery = Recovery(stepper.settings, ModelFile.load(stepper.settings), stepper.snapshots)
    assert recovery.is_earlier(stepper.state)
    state, handed = recovery.hand_over(PLACE, stepper.state, 0)
    assert len(decided) + len(handed.decisions) == 200
    assert {origin.by for origin, *_ in handed.decisions} == {*keys}
    assert len(handed.streams) == len(handed.events)
    assert state.keys is not None
    assert [*state.keys] == ([*keys] if change == "carry" else [])
    assert (state.undecided, state.delayed, recovery.is_earlier(state)) == (0, 0, False)
    kept = {by: state.keys.stream(by)[0].value.emerged_statistics() for by in state.keys}
    assert all(kept.values()), "what had emerged goes on"


def test_a_boundary_closes_some_keys_at_a_time_and_labels_of_quiet_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "MOST_CLOSED", 2)
    stepper = Stepper(tmp_path, key_memory=1)
    stepper.state = stepper.state._replace(size=16)
    stepper.step("pump 1", "pump 2", "pump 3", n=3, closes=False)
    decided = []
    for number in range(1, 4):
        end = Boundary(9, 0, number)
        assert cuts.ready([], stepper.state.history.last, size=16, due=True, requested=False, labels=0) == (0, end)
        stepper.state, out = step(stepper.state, PLACE, [], [], end, STREAM_KEY.decode, STREAM_KEY)
        decided.append([(origin.by, origin.offset) for origin, *_ in out.decisions])
        assert out.place == f"8-0-closed{number}"
        assert stepper.state.keys is not None
        assert stepper.state.keys.awake == 1
    assert [len(each) for each in decided] == [6, 3, 0]
    assert stepper.state.undecided == 0
    label = parse_record(b'{"key": "pump 1", "label": "left", "stream": "pump 1"}')
    for commands, end, left in (([label], Boundary(9, 1, 0), 1), ([], Boundary(9, 1, 1), 0)):
        stepper.state, _ = step(stepper.state, PLACE, [], commands, end, STREAM_KEY.decode, STREAM_KEY)
        assert stepper.state.undecided == left, "a label waits as an instance does"


@pytest.mark.parametrize("change", ["cold", "carry"])
def test_streams_of_another_setting_by_are_not_replayed_with_this_one(tmp_path: Path, change: str) -> None:
    stepper = Stepper(tmp_path)
    stepper.state = stepper.state._replace(size=16)
    stepper.model.keep(stepper.snapshots.states)
    stepper.step("pump 1", "pump 2", n=10, closes=False)
    committed = Recovery(stepper.settings, stepper.model, stepper.snapshots).progress(stepper.state).text()
    for by in ("device", None):
        settings = ServiceSettings(**{**stepper.settings.model_dump(), "by": by, "on_model_change": change})
        recovery = Recovery(settings, ModelFile.load(settings), stepper.snapshots)
        with pytest.raises(ConnectorError, match=r"need the setting `by` of that model|cannot be carried over"):
            recovery.find(PLACE, Committed(20, committed, 0, 40), 0)


def test_delayed_decisions_by_key_are_released_at_the_end(tmp_path: Path) -> None:
    stepper = Stepper(tmp_path, delay=6)
    stepper.state = stepper.state._replace(size=16)
    first = stepper.step("pump 1", "pump 2", n=20)
    assert (len(first), stepper.state.undecided, stepper.state.delayed) == (28, 0, 12)
    recovery = Recovery(stepper.settings, stepper.model, stepper.snapshots)
    state, output = recovery.flushed(PLACE, stepper.state)
    assert [origin.offset for origin, *_ in output.decisions] == list(range(28, 40))
    assert (state.delayed, state.first) == (0, None)


def test_what_does_not_work_by_key_is_refused(tmp_path: Path) -> None:
    for given, message in (
        ({"subclasses": "in.subclasses"}, "by and subclasses are both given"),
        ({"by": ""}, "by is empty: give key"),
    ):
        with pytest.raises(ValueError, match=message):
            ServiceSettings(**{**NEEDED, "by": "key", **given})
    (tmp_path / "service.yaml").write_text("brokers: b:1\ninput: in\nby: key\n")
    assert "the live page shows one stream" in refused("watch", "--config", tmp_path / "service.yaml")
