"""A service with its own stream, started by its command and watched from outside."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.kafka import Service, load_settings
from tests.kafka.brokers import Broker
from tests.kafka.faults.auditing import audit
from tests.kafka.faults.doing import make_topics
from tests.kafka.scraping import address, metrics, total
from tests.kafka.security import GUARDED_USER, PASSWORD
from tests.kafka.streams import Sent, Stream, Worker, check_exactly_once, instances, small_model, until

SHORT = {
    "transaction_deadline": 3.0,
    "transaction_timeout": 6.0,
    "session_timeout": 6.0,
    "max_wait": 0.3,
    "metrics_port": 0,
}
"""Settings with which a fault is noticed soon."""

SOON = 30.0
"""Seconds in which a service goes on, or says what is wrong, on a busy machine."""

TIME = re.compile(r"^\d+-\d+-\d+ \S+ ")
"""At the beginning of a line of the log."""

POISON = (Sent(b"k", b"{"), Sent(b"k", b'{"a": "no number", "b": 1}'))
"""Dead letters of two stages."""

STATE = os.environ.get("FAULTS_STATE")
"""Whether every service has its state in a `topic` or below a `url`, not only those of the faults of this topic."""

FOLDER_ALONE: dict[str, Any] = {"state_topic": None, "state_url": None}
"""Settings of a service with its state in its folder, whatever `STATE` is."""

LONG = (("long", b"x" * 60_000),)
"""Headers that make a decision large."""


class Site(NamedTuple):
    """What a test of the matrix is given: the broker, and a folder of its own."""

    broker: Broker
    folder: Path


class Trial:
    """A service under test.

    Parameters
    ----------
    site
        Where.
    partitions
        Of the input and the outputs.
    guarded
        It comes to the broker as a user whose rights can be taken.
    model
        Its model; a small one if not given.
    name
        A folder of the site, where several services run in one test.
    settings
        Others than the short ones.
    """

    def __init__(
        self,
        site: Site,
        partitions: int = 2,
        *,
        guarded: bool = False,
        model: OpenSetRecognizer | None = None,
        name: str = "one",
        **settings: Any,
    ) -> None:
        folder = site.folder / name
        folder.mkdir()
        whole = {**SHORT, "state": str(folder / "state"), **settings}
        if guarded:
            whole |= {
                "brokers": site.broker.security.guarded,
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_username": GUARDED_USER,
                "sasl_password": PASSWORD,
            }
        if STATE == "topic":
            whole = {"state_topic": f"state-{uuid.uuid4().hex[:8]}", **whole}
        if STATE == "url" and "state_topic" not in whole:
            whole = {"state_url": (folder / "all").as_uri(), **whole}
        self.broker = site.broker
        self.stream = Stream(site.broker.address, folder, partitions, model or small_model(), **whole)
        self.worker: Worker = None  # type: ignore[assignment]  # `start` makes it
        self.fed = 0
        self._since = 0
        if whole.get("state_topic"):
            self.make_topics()

    def make_topics(self) -> None:
        """Create the topic of states as the command does."""
        configs = {self.stream.settings["state_topic"]: {"cleanup.policy": "compact"}}
        make_topics(self.broker.address, self.stream.partitions, configs)

    # What goes in.

    def feed(self, n: int = 60, *, poison: bool = False, keyless: bool = False, long: bool = False) -> None:
        """Put records into the input, perhaps some dead letters among them, without keys, or with a long header."""
        records = instances(n, self.stream.partitions, seed=self.fed, begin=self.fed)
        changes = {**({"key": None} if keyless else {}), **({"headers": LONG} if long else {})}
        records = [(number, each._replace(**changes)) for number, each in records]
        if poison:
            records += [(number % self.stream.partitions, each) for number, each in enumerate(POISON)]
        self.fed += n
        self.stream.send(records)

    def decide(self, n: int = 60, **kinds: bool) -> None:
        """Put records into the input, and wait until they are committed."""
        self.feed(n, **kinds)
        self.settle()

    # The service.

    def start(self, instance: str = "w", *, anew: bool = False, **environment: str) -> Worker:
        """Start the service."""
        self.worker = Worker(self.stream, instance, anew=anew, **environment)
        self._since = 0
        return self.worker

    def begin(self, n: int = 120, **environment: str) -> None:
        """Start it, and have it decide something."""
        self.feed(n)
        self.start(**environment)
        self.settle()
        self.await_ready()

    def end(self) -> None:
        """Stop it by SIGTERM: nothing is unaccounted for, and it ends well."""
        self.check_accounts()
        self.count()
        self.worker.process.send_signal(signal.SIGTERM)
        assert self.worker.process.wait(40) == 0, self.tail()

    def finish(self) -> None:
        """Wait until all is done and it is ready, and stop it."""
        self.settle()
        self.await_ready()
        self.end()

    def goes_on(self) -> None:
        """Check that it goes on by itself, and that nothing is lost or doubled."""
        self.settle()
        self.await_ready()
        self.end_exactly_once()
        audit(self.stream)

    def end_exactly_once(self) -> None:
        """Stop it, and check that every record has one decision or one dead letter, of the right bits."""
        self.end()
        check_exactly_once(self.stream)

    def count(self) -> None:
        """Add what this process counts as lost and as repeated to what the processes before it have counted."""
        before = self.stream.counted or {"lost": 0.0, "repeated": 0.0}
        self.stream.counted = {kind: its + self.figure(f"{kind}_records_total") for kind, its in before.items()}

    def fails_to_start(self, *words: str, instance: str = "w") -> None:
        """Start it, and check that it ends by itself as `fails` says."""
        self.start(instance)
        self.fails(*words)

    def fails(self, *words: str) -> None:
        """Check that it ends by itself with exit code 1 and an error that has these words."""
        until(lambda: self.worker.process.poll() is not None, SOON, lambda: f"it goes on:\n{self.tail()}")
        assert self.worker.process.returncode == 1, self.tail()
        lines = self.worker.lines()
        assert not any("Traceback" in line for line in lines), self.tail()
        error = next((line for line in reversed(lines) if line.startswith("error: ")), lines[-1])
        assert all(word in error for word in words), error

    # What is seen of it.

    def settle(self, seconds: float = 60) -> None:
        """Wait until everything that was sent is committed."""
        with Watch(self.stream) as watch:
            until(
                lambda: watch.committed() == [len(sent) for sent in self.stream.sent],
                seconds,
                lambda: f"committed {watch.committed()} of {[len(sent) for sent in self.stream.sent]}\n{self.tail()}",
            )

    def ready(self) -> tuple[int, str]:
        """Status of /readyz, and what it says."""
        return said_at(self.worker, "/readyz")

    def await_ready(self, seconds: float = SOON) -> None:
        """Wait until it says that it is ready."""
        until(lambda: self.ready()[0] == 200, seconds, lambda: f"{self.ready()}\n{self.tail()}")

    def await_not_ready(self, *words: str, seconds: float = SOON) -> None:
        """Wait until it says that it is not ready, and why, in such words."""

        def is_said() -> bool:
            code, text = self.ready()
            return code == 503 and all(word.lower() in text.lower() for word in words)

        until(is_said, seconds, lambda: f"503 with {words} was expected, not {self.ready()}\n{self.tail()}")

    def await_reason(self, *words: str, seconds: float = SOON) -> None:
        """Wait until it is not ready, and until its log has the reason too."""
        self.await_not_ready(*words, seconds=seconds)
        self.await_line(*words)

    def is_healthy(self) -> bool:
        """Say whether its loops turn."""
        return said_at(self.worker, "/healthz")[0] == 200

    def figure(self, name: str, **labels: str) -> float:
        """A metric, summed over its samples with these labels."""
        return total(metrics(self.worker), f"stream_osr_{name}", **labels)

    def mark(self) -> None:
        """From here on only lines of the log count that come later."""
        self._since = len(self.worker.lines())

    def lines(self, *words: str) -> list[str]:
        """Lines of the log, above those for debugging, with all these words; a number is one only if it is whole."""
        sought = [re.compile(rf"(?<![\w.-]){re.escape(word)}(?!\d)", re.IGNORECASE) for word in words]
        lines = [TIME.sub("", line) for line in self.worker.lines()[self._since :] if " DEBUG " not in line]
        return [line for line in lines if all(each.search(line) for each in sought)]

    def await_line(self, *words: str, seconds: float = SOON) -> str:
        """Wait for a line of the log with all these words."""
        until(lambda: bool(self.lines(*words)), seconds, lambda: f"no line with {words}\n{self.tail()}")
        return self.lines(*words)[-1]

    def tail(self) -> str:
        """The end of its log, and how it ended."""
        return "\n".join([*self.worker.lines()[-40:], f"(exit code {self.worker.process.poll()})"])

    def check_accounts(self) -> None:
        """As the service itself counts, every record that is committed is accounted for."""
        assert "stream_osr_unaccounted_records_total" in metrics(self.worker)
        assert self.figure("unaccounted_records_total") == 0

    def check_committed(self) -> None:
        """Whatever is committed by now is decided or a dead letter: offsets run ahead of nothing."""
        with Watch(self.stream) as watch:
            committed = watch.committed()
        audit(self.stream, below=dict(enumerate(committed)))


class ServiceThread:
    """A service in a thread of this process, and how it ended."""

    def __init__(self, stream: Stream, **makers: Any) -> None:
        self.service = Service(load_settings(stream.config(), instance="w"), **makers)
        self.error: BaseException | None = None
        self._stopped = threading.Event()
        self.thread = threading.Thread(target=self._work)
        self.thread.start()

    def _work(self) -> None:
        try:
            self.service.run(self._stopped.is_set)
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        """End it as SIGTERM does."""
        self._stopped.set()
        self.thread.join(60)
        assert not self.thread.is_alive()


@contextmanager
def running(stream: Stream, **makers: Any) -> Iterator[Service]:
    """A service in a thread of this process, stopped cleanly in the end."""
    run = ServiceThread(stream, **makers)
    try:
        yield run.service
    finally:
        run.stop()
    assert run.error is None, run.error


class Watch:
    """Asks how far a group is, with one client for many times."""

    def __init__(self, stream: Stream) -> None:
        self._places = [TopicPartition(stream.topic, number) for number in range(stream.partitions)]
        self._consumer = KafkaConsumer(
            bootstrap_servers=stream.address, group_id=stream.settings["group"], enable_auto_commit=False
        )

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def committed(self) -> list[int]:
        """Offset of each partition; 0 where nothing is. Open transactions are not waited for."""
        ends = time.monotonic() + SOON
        while True:
            try:
                return [self._consumer.committed(place, timeout_ms=3000) or 0 for place in self._places]
            except KafkaError as error:
                if time.monotonic() > ends:
                    raise AssertionError(f"the broker does not say what is committed: {error}") from None
                time.sleep(0.2)


def said_at(worker: Worker, path: str) -> tuple[int, str]:
    """Status of an answer, and its text; 0: no answer."""
    try:
        with urlopen(address(worker) + path, timeout=10) as answer:
            return int(answer.status), answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except (URLError, OSError) as error:
        return 0, str(error)


def assigned(worker: Worker) -> float:
    """Count the partitions of a worker."""
    return total(metrics(worker), "stream_osr_assigned_partitions")


def kill_workers() -> None:
    """Kill the workers that tests have left behind."""
    for worker in Worker.started:
        if worker.process.poll() is None:
            worker.kill()
    Worker.started.clear()


def workers_of(trial: Trial) -> dict[str, int]:
    """Process ids of the workers under a parent, the latest of each."""
    started = (re.search(r"(\S+) started, process (\d+)", line) for line in trial.worker.lines())
    return {found[1]: int(found[2]) for found in started if found}


def kill(trial: Trial, name: str) -> None:
    """SIGKILL a worker under a parent, if it runs."""
    process = workers_of(trial).get(name)
    if process is not None:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
