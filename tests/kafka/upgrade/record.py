"""Make the test data of a release: run its code against a broker, with everything that an upgrade has to take up.

    python -m tests.kafka.upgrade.record CHECKOUT

leaves them in a folder beside this file, named by the commit of the checkout. It needs Java and Maven, and the
environment of the tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from kafka import KafkaAdminClient

from tests.kafka.brokers import Broker
from tests.kafka.streams import Sent, Worker
from tests.kafka.upgrade.kept import (
    FILES,
    NULL,
    Kept,
    Resumed,
    Topic,
    committed,
    headers_of_no_value,
    read,
)

ROOT = Path(__file__).parents[3]
INPUT = "upgraded"
SETTINGS: dict[str, Any] = {
    "input": INPUT,
    "labels": f"{INPUT}.labels",
    "subclasses": f"{INPUT}.subclasses",
    "group": "upgraded-group",
    "batch_size": 32,
    "commit_batches": 1,
    "max_wait": 0.3,
    "session_timeout": 6.0,
    "transaction_deadline": 8.0,
    "transaction_timeout": 10.0,
    "snapshot_interval": 1000.0,
    "snapshots": 2,
    "on_model_change": "carry",
    "log_level": "debug",
}
WHOLE = {"max.message.bytes": "2000000", "retention.ms": "-1"}
DEAD = {**WHOLE, "max.message.bytes": "2100000"}
COMPACTED = {"cleanup.policy": "compact"}
EACH, ONE = (0, 0), (0,)
TOPICS = (
    Topic(INPUT, EACH, WHOLE),
    Topic(f"{INPUT}.decisions", EACH, WHOLE),
    Topic(f"{INPUT}.events", EACH, WHOLE),
    Topic(f"{INPUT}.dlq", EACH, DEAD),
    Topic(f"{INPUT}.labels", ONE, {"retention.ms": "-1"}),
    Topic(f"{INPUT}.subclasses", ONE, COMPACTED),
    Topic(f"{INPUT}.links", ONE, COMPACTED),
    Topic(f"{INPUT}.global-events", ONE, {"retention.ms": "-1"}),
)

CENTRES = {"left": (0.0, 0.0), "right": (10.0, 0.0), "new": (4.0, 14.0), "far": (-14.0, 6.0), "late": (24.0, 10.0)}
"""Of the instances; the models know the first two."""

NOTHING = b'{"temperature": 3.5}'
"""An instance without a single feature of the model."""

MODELS = """
from tests.blobs import fitted
same = dict(batch_size=32, chains=1, window=32, decision_delay=20)
fitted(40, seed=5, **same).save("{folder}/earlier.osr")
fitted(60, seed=6, **same).save("{folder}/later.osr")
"""


def mixed(number: int, n: int, seed: int, *classes: str) -> Iterator[tuple[int, Sent]]:
    """Instances for a partition; a header says what they are."""
    rng = np.random.default_rng([seed, number])
    for at, name in enumerate(rng.choice(classes, n)):
        x = dict(zip("ab", rng.normal(CENTRES[name]).tolist(), strict=True))
        yield number, Sent(f"{seed}-{number}-{at}".encode(), json.dumps(x).encode(), (("truth", str(name).encode()),))


def odd(number: int, seed: int) -> Iterator[tuple[int, Sent]]:
    """Records of which some are dead letters and some are decided though little is in them."""
    key = f"odd-{seed}-{number}".encode()
    good = b'{"a": 0.3, "b": -0.2}'
    yield number, Sent(key + b"-json", b'{"a": 1.0, "b"', (("trace", b"1"),))
    yield number, Sent(key + b"-nothing", NOTHING)
    yield number, Sent(key + b"-half", b'{"a": 0.1}')
    yield number, Sent(key + b"-headers", good, (("trace", b""), ("trace", b"2"), ("gr\u00f6\u00dfe", b"\x00\xff")))
    yield number, Sent(key + b"-null-header", good, (("trace", NULL),))
    yield number, Sent(None, good)
    yield number, Sent(key + b"-tombstone", None, (("trace", NULL), ("empty", b"")))
    yield number, Sent(key + b"-text", b'{"a": "high", "b": 2.0}', (("empty", b""),))


COMMITTED = "transaction committed"


class Recording:
    """A service of the release, from its beginning to its end."""

    def __init__(self, checkout: Path, address: str, folder: Path) -> None:
        self.address = address
        self.environment = {
            "PYTHONPATH": f"{checkout}:{checkout / 'connectors'}",
            "PYTHONSAFEPATH": "1",
            "NUMBA_NUM_THREADS": "1",
        }
        self.python(MODELS.format(folder=folder))
        self.stream = Resumed(address, folder, SETTINGS, TOPICS)
        self.model("earlier")

    def python(self, code: str, *arguments: str) -> str:
        """Run code of the release."""
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, *arguments],
            env={**os.environ, **self.environment},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def ask(self, *arguments: str) -> None:
        """Ask something of the service."""
        config = str(self.stream.config())
        print(self.python("from stream_osr.cli import main; main()", *arguments, "--config", config).strip())

    def model(self, name: str) -> None:
        """Let the next worker run another model."""
        shutil.copy(self.stream.folder / f"{name}.osr", self.stream.folder / "model.osr")

    def worker(self, instance: str = "w", subcommand: str = "run") -> Worker:
        """Start a process."""
        return Worker(self.stream, instance, subcommand, **self.environment)

    def send(self, *portions: Iterator[tuple[int, Sent]]) -> None:
        """Put records into the input."""
        with headers_of_no_value():
            self.stream.send(each for portion in portions for each in portion)

    def decided(self) -> None:
        """Wait until all that was sent is committed."""
        self.stream.wait(lambda: self.at() == [len(sent) for sent in self.stream.sent], 120)

    def at(self) -> list[int]:
        """Where the service is."""
        found = {c.partition: c.offset for c in committed(self.address, SETTINGS["group"])}
        return [found.get(number, 0) for number in range(self.stream.partitions)]

    def reconciled(self) -> None:
        """Wait until all that was said of subclasses is taken in."""
        _, (end,) = read(self.address, SETTINGS["subclasses"], 1)
        last = self.records("subclasses")[-1].offset + 1

        def done() -> bool:
            found = committed(self.address, f"{SETTINGS['group']}-reconcile")
            return bool(found) and found[0].offset in range(last, end + 1)

        self.stream.wait(done, 120)

    def records(self, suffix: str) -> list[Any]:
        """All records of an output."""
        name = f"{INPUT}.{suffix}"
        partitions = 1 if name in {topic.name for topic in TOPICS if topic.ends == ONE} else self.stream.partitions
        return read(self.address, name, partitions)[0]

    def told(self, kind: str, number: int) -> bool:
        """Say whether an event of a partition is there."""
        return any(r.partition == number and json.loads(r.value)["type"] == kind for r in self.records("events"))

    def subclass(self, number: int, truth: str) -> str:
        """Name the subclass that holds most of a class that is new."""
        of = [
            json.loads(r.value)["subclass_id"]
            for r in self.records("decisions")
            if r.partition == number and dict(r.headers).get("truth") == truth.encode()
        ]
        [(key, _)] = Counter(key for key in of if key is not None).most_common(1)
        return f"{INPUT}/{number}:{key}"

    def await_event(self, kind: str, number: int) -> None:
        """Wait for an event."""
        self.stream.wait(lambda: self.told(kind, number), 60)

    def add_partition(self) -> None:
        """One more, in which nothing has been handed over."""
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        count = self.stream.partitions + 1
        admin.create_partitions({topic.name: count for topic in TOPICS if topic.ends == EACH})
        admin.close()
        self.stream.partitions = count
        self.stream.sent.append([])
        time.sleep(2)  # until the whole broker knows

    def run(self) -> None:
        """The earlier model; the later one; and an end in the middle of everything."""
        both = ("left", "right", "new")
        worker, reconciler = self.worker(), self.worker("r", "reconcile")
        self.send(mixed(0, 160, 1, *both), mixed(1, 160, 1, *both), odd(0, 1))
        self.decided()
        self.ask("promote", self.subclass(0, "new"), "third")
        self.await_event("SubclassPromoted", 0)
        self.send(mixed(0, 64, 2, *both), mixed(1, 64, 2, *both), odd(1, 2))
        self.decided()
        self.reconciled()
        assert worker.stop() == 0
        assert reconciler.stop() == 0

        self.model("later")
        worker, reconciler = self.worker(), self.worker("r", "reconcile")
        for number in range(2):
            worker.await_line(f"{INPUT}/{number} goes on under another model")
        self.send(mixed(0, 96, 3, *both, "far"), odd(0, 3))
        self.decided()
        assert worker.stop() == 0

        self.add_partition()
        worker = self.worker()
        self.send(*(mixed(number, 160, 4, *both, "far") for number in range(3)), *(odd(n, 4) for n in range(3)))
        self.decided()
        self.await_event("SubclassEmerged", 2)
        self.reconciled()
        reconciler.kill()
        self.ask("mute", self.subclass(0, "far"))
        self.ask("promote", self.subclass(1, "new"), "third")
        self.ask("promote", self.subclass(2, "new"), "wrong")
        self.await_event("SubclassMuted", 0)
        self.await_event("SubclassPromoted", 1)
        self.await_event("SubclassPromoted", 2)
        self.ask("undo", f"{INPUT}/2")
        self.await_event("NamingUndone", 2)
        far = next(s.key for s in self.stream.sent[2][100:] if ("truth", b"far") in s.headers)
        assert far is not None
        self.ask("label", far.decode(), "fifth")
        self.send(*(mixed(number, 96, 5, *both, "far") for number in range(3)), *(odd(n, 5) for n in range(3)))
        self.decided()
        before = self.at()
        count = sum(COMMITTED in line for line in worker.lines())
        self.send(*(mixed(number, 256, 6, *both, "far") for number in range(3)), *(odd(n, 6) for n in range(3)))
        while not worker.in_transaction() or sum(COMMITTED in line for line in worker.lines()) < count + 4:
            time.sleep(0.001)
        worker.kill()
        print("in a transaction:", worker.in_transaction())
        ends = [len(sent) for sent in self.stream.sent]
        print("committed", before, "then", self.at(), "of", ends)
        assert sum(before) < sum(self.at()) < sum(ends), "it was not killed in the middle: try again"
        self.ask("mute", self.subclass(1, "far"))

    def keep(self, release: str, folder: Path) -> None:
        """Leave what there is now in a folder."""
        records, topics = [], []
        for name, ends, configs in TOPICS:
            found, last = read(self.address, name, self.stream.partitions if ends == EACH else 1)
            records += found
            topics.append(Topic(name, last, configs))
        groups = (SETTINGS["group"], f"{SETTINGS['group']}-reconcile")
        commits = tuple(commit for group in groups for commit in committed(self.address, group))
        folder.mkdir()
        Kept(release, SETTINGS, tuple(topics), commits, tuple(records)).write(folder)
        left = self.stream.folder / "left"
        shutil.copytree(self.stream.folder / "state", left / "state", ignore=shutil.ignore_patterns(".writable"))
        shutil.copy(self.stream.folder / "model.osr", left)
        shutil.make_archive(str(folder / FILES.removesuffix(".zip")), "zip", left)
        for commit in commits:
            print(commit)


def main(checkout: Path) -> None:
    """Make the data of the release that is checked out there."""
    release = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    folder = Path(__file__).parent / release
    if folder.exists():
        raise SystemExit(f"{folder} is there already; delete it first")
    with tempfile.TemporaryDirectory() as scratch:
        jars = ROOT / ".pytest_cache" / "d" / "kafka-jars"
        (Path(scratch) / "broker").mkdir()
        broker = Broker(Path(scratch) / "broker", jars)
        broker.start()
        try:
            recording = Recording(checkout.resolve(), broker.address, Path(scratch))
            found = recording.python("import stream_osr; print(stream_osr.__file__)").strip()
            assert Path(found).is_relative_to(checkout.resolve()), f"{found} is not of {checkout}"
            recording.run()
            recording.keep(release, folder)
        except Exception:
            for worker in Worker.started:
                print(worker.log.name, *worker.lines()[-15:], sep="\n")
            raise
        finally:
            for worker in Worker.started:
                if worker.process.poll() is None:
                    worker.kill()
            broker.stop()
    print(f"{folder}: {sum(path.stat().st_size for path in folder.rglob('*') if path.is_file())} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
