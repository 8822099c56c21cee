"""What earlier releases have left is taken up by this one: snapshots, models, committed offsets, topics.

Each folder here is what a release left when it was killed; see ``record.py``.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jsonschema import Draft202012Validator

from stream_osr_kafka.client import Committed
from stream_osr_kafka.commands import labelling
from stream_osr_kafka.places import Place
from stream_osr_kafka.run.partition import Partition, step
from stream_osr_kafka.run.recovery import Found, ModelFile, Recovery
from stream_osr_kafka.run.snapshots import Snapshots
from stream_osr_kafka.settings import ServiceSettings
from stream_osr_kafka.wire.boundaries import VERSIONS, Boundary, Progress
from stream_osr_kafka.wire.messages import Outcome
from stream_osr_kafka.wire.subclasses import Links, parse_summary
from tests.kafka.brokers import Broker
from tests.kafka.scraping import metrics, total
from tests.kafka.streams import Sent, Worker
from tests.kafka.test_partition import DECODE
from tests.kafka.upgrade.kept import FILES, Kept, Record, Resumed, committed, read, resume
from tests.kafka.upgrade.record import NOTHING, mixed

RELEASES = sorted(path.parent for path in Path(__file__).parent.glob(f"*/{FILES}"))
HELD_BACK = 20
"""``decision_delay`` of both models."""

MOST = 0.9
"""Of the instances of a class whose label is looked at: the classes are far apart."""

pytestmark = pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)


class Left(NamedTuple):
    """What lies there, and what finds its way in it."""

    kept: Kept
    folder: Path
    settings: ServiceSettings
    model: ModelFile
    snapshots: Snapshots
    recovery: Recovery

    def commits(self) -> list[tuple[int, Progress]]:
        """Committed offsets of the partitions, and what they carry."""
        found = self.kept.commits_of(self.settings.input)
        return [(commit.offset, Progress.parse(commit.metadata)) for commit in found]

    @property
    def version(self) -> str:
        """Of what is committed with an offset."""
        (found,) = {commit.metadata.split()[0] for commit in self.kept.commits_of(self.settings.input)}
        return found

    def find(self, number: int) -> Found:
        """Find a partition as a worker does."""
        commit, end = self.kept.commits_of(self.settings.input)[number], len(self.kept.of("input", number))
        labels = len(self.kept.of("labels"))
        return self.recovery.find(
            Place(self.settings.input, number), Committed(commit.offset, commit.metadata, 0, end), labels
        )


@pytest.fixture
def left(release: Path, tmp_path: Path) -> Left:
    """A release's files, as this one opens them."""
    kept, folder = Kept.read(release), tmp_path / "left"
    shutil.unpack_archive(release / FILES, folder)
    settings = ServiceSettings(
        brokers="none",
        model=folder / "model.osr",
        state=folder / "state",
        **{**kept.settings, "on_model_change": "refuse"},
    )
    model = ModelFile.load(settings)
    snapshots = Snapshots(settings.state / settings.group, settings.snapshots)
    return Left(kept, folder, settings, model, snapshots, Recovery(settings, model, snapshots))


# Without a broker


def test_what_was_kept_holds_every_case(left: Left) -> None:
    """Data that lost one would still pass everything else."""
    (first, one), (second, two), (third, three) = left.commits()
    place = left.settings.input
    at = [left.snapshots.boundaries(Place(place, n), p.lineage) for n, p in enumerate((one, two, three))]
    assert len(at[0]) == 2, "one goes on from a snapshot of its own"
    assert two.history.base.offset < at[0][0].offset < first
    assert at[1] == [two.history.base], "one from where it was handed over"
    assert two.history.base.offset < second
    assert at[2] == [], "one from nothing"
    assert three.history.fresh
    assert 0 == three.history.base.offset < third
    assert {p.model for p in (one, two, three)} == {left.model.identity}
    lineages = {path.stem.rpartition("-")[2] for path in left.snapshots.folder.glob("*.osr")}
    assert len(lineages) == 4, "two partitions have a run of the earlier model, too"
    assert len(list(left.snapshots.folder.glob("*.model"))) == 2
    labels = [labelling.parse(record.value).action for record in left.kept.of("labels")]
    assert labels == ["promote", "mute", "promote", "promote", "undo", "label", "mute"]
    assert {p.history.last.labels for p in (one, two, three)} == {len(labels) - 1}, "the last was not heard of"
    replayed = [
        record
        for number, (end, _) in enumerate(left.commits())
        for record in left.kept.of("input", number)[left.find(number).state.history.last.offset : end]
    ]
    refused = {r.key for r in left.kept.of("dlq")}
    assert {r.key in refused for r in replayed if r.value == NOTHING} == {left.version != "1"}, "rules of then"
    assert {None, b""} <= {value for record in replayed for _, value in record.headers}
    assert any(record.value is None for record in replayed)
    for number, (offset, _) in enumerate(left.commits()):
        assert len(waiting_of(left.kept, number, offset)) == HELD_BACK
    (summaries,) = left.kept.commits_of(f"{place}.subclasses")
    assert summaries.offset <= left.kept.of("subclasses")[-1].offset, "some are not reconciled"
    assert len({told["global"] for told in contents(left.kept.of("global-events"))}) >= 2


def test_snapshots_and_models_are_read(left: Left) -> None:
    """Also those of the earlier model's runs."""
    models = [ModelFile.kept(left.snapshots.folder, path.stem) for path in left.snapshots.folder.glob("*.model")]
    assert left.model.identity in {model.identity for model in models}
    by_model: Counter[str] = Counter()
    for path in left.snapshots.folder.glob("*.osr"):
        _, number, offset, labels, lineage = path.stem.rsplit("-", 4)
        at, found = Boundary(int(offset), int(labels)), []
        for model in models:
            snapshot = left.snapshots.read(Place(left.settings.input, int(number)), lineage, at, model.trained)
            if snapshot is not None:
                found.append(model.identity)
                assert len(snapshot.waiting) in (0, HELD_BACK)
        assert len(found) == 1, path.name
        by_model[found[0]] += 1
    assert sorted(by_model.values()) == [2, 3]


def test_settings_give_the_same_identity(left: Left) -> None:
    """With another one, nobody's service would start after the upgrade."""
    assert {progress.model for _, progress in left.commits()} == {left.model.identity}


def test_topics_are_read(left: Left) -> None:
    links, runs = Links({}, {}), dict[str, str]()
    for record in left.kept.of("links"):
        links.read(record)
    assert len(links.links) == len(left.kept.of("links")) - len(links.merged)
    for record in left.kept.of("subclasses"):
        summary = parse_summary(record, runs, left.model.trained)
        if summary is not None:
            runs[summary.local.place] = summary.local.run
    assert sorted(runs) == [f"{left.settings.input}/{number}" for number in range(3)]


def test_what_was_published_is_as_the_schemas_say(left: Left) -> None:
    names = {
        "decisions": "decision",
        "events": "event",
        "labels": "label",
        "links": "link",
        "subclasses": "subclass",
        "global-events": "global-event",
    }
    for topic, name in names.items():
        schema = json.loads(files("stream_osr_kafka").joinpath("schemas", f"{name}.json").read_text())
        validator = Draft202012Validator(schema)
        found = contents(left.kept.of(topic))
        assert found
        for value in found:
            validator.validate(value)


@pytest.mark.parametrize("number", range(3))
def test_a_replay_comes_to_what_was_published(left: Left, number: int) -> None:
    """By the rules of the release that was there: the same records are refused, the same are decided, as then."""
    found = left.find(number)
    committed_at = left.commits()[number][0]
    state, outcomes = replay(left, number, found)
    assert state.history.last == left.commits()[number][1].history.last
    assert [origin.offset for origin in state.waiting] == waiting_of(left.kept, number, committed_at)
    begin = found.state.history.last.offset
    letters = {int(dict(r.headers)["__connect.errors.offset"] or b"") for r in left.kept.of("dlq", number)}
    refused = [received.offset for outcome in outcomes for received, _ in outcome.taken.refused]
    assert refused == sorted(offset for offset in letters if offset >= begin)
    decided = [(origin.offset, d.label, d.subclass_id, d.seq) for o in outcomes for origin, d in o.decisions]
    then = [
        tuple(value[name] for name in ("offset", "label", "subclass_id", "seq"))
        for value in contents(left.kept.of("decisions", number))
    ]
    assert decided == then[-len(decided) :]
    told = [type(event).__name__ for outcome in outcomes for event in outcome.events]
    assert told == [value["type"] for value in contents(left.kept.of("events", number))][-len(told) :]


def replay(left: Left, number: int, found: Found) -> tuple[Partition, list[Outcome]]:
    """Play the micro-batches again that a partition needs."""
    records, state, outcomes = left.kept.of("input", number), found.state, []
    for end in found.replay:
        begin = state.history.last
        commands = [labelling.parse(r.value) for r in left.kept.of("labels")[begin.labels : end.labels]]
        batch: Any = records[begin.offset : end.offset]
        state, outcome = step(state, (left.settings.input, number), batch, commands, end, DECODE)
        outcomes.append(outcome)
    return state, outcomes


def waiting_of(kept: Kept, number: int, end: int) -> list[int]:
    """Offsets before the end of which nothing was published: they were held back."""
    decided = {value["offset"] for value in contents(kept.of("decisions", number))}
    refused = {int(dict(r.headers)["__connect.errors.offset"] or b"") for r in kept.of("dlq", number)}
    return sorted(set(range(end)) - decided - refused)


def contents(records: list[Record]) -> list[dict[str, Any]]:
    """Values of records, without tombstones."""
    return [json.loads(record.value) for record in records if record.value is not None]


# Against the broker


def test_a_service_goes_on(broker: Broker, tmp_path: Path, release: Path) -> None:
    """It is started, killed once it has taken everything up, and started again."""
    kept, stream = resume(release, broker.address, tmp_path, metrics_port=0)
    replayed = to_replay(kept, stream)
    assert min(replayed) > 0
    worker, reconciler = Worker(stream), Worker(stream, "r", "reconcile")
    await_all(stream)
    told = metrics(worker)
    for number, count in enumerate(replayed):
        assert total(told, "stream_osr_replayed_total", topic=stream.topic, partition=str(number)) == count
    worker.kill()
    worker = Worker(stream)
    stream.send(further(stream, 7))
    await_all(stream)
    await_reconciled(stream)
    assert worker.stop() == 0
    assert reconciler.stop() == 0
    assert any("live" in line for line in worker.lines())
    assert not any("begins anew" in line for line in [*worker.lines(), *reconciler.lines()])
    check_decided_once(kept, stream)
    check_rules_of_today(stream)

    for commit in committed(stream.address, stream.settings["group"]):
        progress, before = (
            Progress.parse(commit.metadata),
            Progress.parse(kept.commits_of(stream.topic)[commit.partition].metadata),
        )
        assert (progress.model, progress.lineage) == (before.model, before.lineage)
        assert commit.metadata.startswith(f"{VERSIONS[-1]} ")
    assert labels_of(stream, 0, "new") == labels_of(stream, 1, "new") == "third"
    assert labels_of(stream, 2, "new") == labels_of(stream, 0, "far") == labels_of(stream, 1, "far") == "unknown"
    assert "fifth" in contents(output(stream, "decisions", 2))[-1]["probabilities"], "a label that came late"
    assert "SubclassMuted" in [
        value["type"] for value in contents(output(stream, "events", 1)[len(kept.of("events", 1)) :])
    ], "what was asked and not heard of"
    for number, truth in ((2, "new"), (0, "far"), (1, "far")):
        before, after = (ids_of(records, number, truth) for records in (kept.of("decisions"), new(kept, stream)))
        assert before == after, "the same subclass as before"

    (before_that,) = kept.commits_of(f"{stream.topic}.subclasses")
    (commit,) = committed(stream.address, f"{stream.settings['group']}-reconcile")
    given, (_, next_id) = int(before_that.metadata.split()[1]), commit.metadata.split()
    links, events = output(stream, "links"), contents(output(stream, "global-events"))
    assert int(next_id) > given, "something has emerged since"
    linked: dict[tuple[Any, ...], int] = {}
    for link in contents(links):
        if "subclass" in link:
            assert linked.setdefault((link["subclass"], link["run"]), link["global"]) == link["global"]
    emerged = [event["global"] for event in events if event["type"] == "SubclassEmerged"]
    assert emerged == list(range(int(next_id))), "each identity is given once"


def test_a_service_goes_on_with_another_model_at_the_same_time(broker: Broker, tmp_path: Path, release: Path) -> None:
    """What the model before had held back is published once, after a replay by the rules of then."""
    kept, stream = resume(release, broker.address, tmp_path)
    folder = tmp_path / "state" / stream.settings["group"]
    (running,) = {Progress.parse(commit.metadata).model for commit in kept.commits_of(stream.topic)}
    (other,) = (path for path in folder.glob("*.model") if path.stem != running)
    stream.settings["model"] = str(other)
    worker = Worker(stream)
    stream.send(further(stream, 8))
    await_all(stream)
    assert worker.stop() == 0
    check_decided_once(kept, stream)
    for number in range(stream.partitions):
        models = [value["model"] for value in contents(output(stream, "decisions", number))]
        assert models[-1] != models[len(kept.of("decisions", number)) - 1]
        lineage = Progress.parse(kept.commits_of(stream.topic)[number].metadata).lineage
        now = committed(stream.address, stream.settings["group"])[number]
        assert Progress.parse(now.metadata).lineage != lineage
    assert {progress_model(c.metadata) for c in committed(stream.address, stream.settings["group"])} == {other.stem}


def check_rules_of_today(stream: Resumed) -> None:
    """What came after the first start is taken or refused as this release does it."""
    refused = {record.key for record in output(stream, "dlq")}
    lacking = [sent[-1] for sent in stream.sent]
    assert {sent.value for sent in lacking} == {NOTHING}
    assert {sent.key in refused for sent in lacking} == {True}


def progress_model(metadata: str) -> str:
    """Which model it was."""
    return Progress.parse(metadata).model


def to_replay(kept: Kept, stream: Resumed) -> list[int]:
    """How many records of each partition lie after its newest snapshot that leads to the committed offset."""
    snapshots, counts = Snapshots(stream.folder / "state" / stream.settings["group"], 2), []
    for commit in kept.commits_of(stream.topic):
        progress = Progress.parse(commit.metadata)
        there = snapshots.boundaries(Place(stream.topic, commit.partition), progress.lineage)
        usable = set(progress.history.boundaries()).intersection(there)
        counts.append(commit.offset - max((at.offset for at in usable), default=progress.history.base.offset))
    return counts


def further(stream: Resumed, seed: int) -> Iterator[tuple[int, Sent]]:
    """More of what there was, and in one partition a class that nobody has seen."""
    for number in range(stream.partitions):
        yield from mixed(number, 128, seed, "left", "right", "new", "far", *(["late"] if number == 2 else []))
        yield number, Sent(f"nothing-{seed}-{number}".encode(), NOTHING)


def await_all(stream: Resumed) -> None:
    """Wait until everything that was sent is committed."""
    stream.wait(seconds=120)


def await_reconciled(stream: Resumed) -> None:
    """Wait until every summary is taken in."""
    last = output(stream, "subclasses")[-1].offset
    stream.wait(lambda: committed(stream.address, f"{stream.settings['group']}-reconcile")[0].offset > last, 120)


def output(stream: Resumed, name: str, partition: int | None = None) -> list[Record]:
    """All records of an output: those that were there, and those since."""
    single = name in ("labels", "subclasses", "links", "global-events")
    found, _ = read(stream.address, f"{stream.topic}.{name}", 1 if single else stream.partitions)
    return [record for record in found if partition in (None, record.partition)]


def new(kept: Kept, stream: Resumed) -> list[Record]:
    """Decisions since the upgrade."""
    there = {(record.partition, record.offset) for record in kept.of("decisions")}
    return [record for record in output(stream, "decisions") if (record.partition, record.offset) not in there]


def ids_of(decisions: list[Record], number: int, truth: str) -> int:
    """The subclass that most instances of a class are in, of those that are in one."""
    its = (r for r in decisions if r.partition == number and dict(r.headers).get("truth") == truth.encode())
    ids = Counter(key for value in contents(list(its))[-60:] if (key := value["subclass_id"]) is not None)
    [(key, count)] = ids.most_common(1)
    assert count > MOST * ids.total(), ids
    return int(key)


def labels_of(stream: Resumed, number: int, truth: str) -> str:
    """What most instances of a class are decided to be, at the end."""
    its = [r for r in output(stream, "decisions", number) if dict(r.headers).get("truth") == truth.encode()]
    labels = Counter(value["label"] for value in contents(its[-20:]))
    [(label, count)] = labels.most_common(1)
    assert count > MOST * labels.total(), labels
    return str(label)


def check_decided_once(kept: Kept, stream: Resumed) -> None:
    """Over both releases each record has one decision or dead letter, in order, and nothing was counted anew."""
    for number, sent in enumerate(stream.sent):
        decisions, dead = output(stream, "decisions", number), output(stream, "dlq", number)
        values = contents(decisions)
        offsets = [value["offset"] for value in values]
        refused = [int(dict(record.headers)["__connect.errors.offset"] or b"") for record in dead]
        assert offsets == sorted(offsets)
        assert refused == sorted(refused)
        counted = Counter([*offsets, *refused])
        waiting = sorted(set(range(len(sent))) - set(counted))
        assert set(counted.values()) == {1}, f"partition {number}: doubled"
        assert len(waiting) == HELD_BACK, f"partition {number}: lost"
        assert waiting[0] > offsets[-1]
        assert [value["seq"] for value in values] == list(range(len(values)))
        assert all(record.key == sent[offset].key for record, offset in zip(decisions, offsets, strict=True))
        emerged = [
            value["subclass_id"]
            for value in contents(output(stream, "events", number))
            if value["type"] == "SubclassEmerged"
        ]
        assert len(emerged) == len(set(emerged)), f"partition {number}: told twice"
        assert len(decisions) > len(kept.of("decisions", number))
