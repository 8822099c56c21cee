"""One worker: records a second, whose processor time a record is, and memory.

Records a second of one worker over a real broker (one is started if none is named), beside a pass-through in the same
run: the same topics, client and transactions; it decodes the same JSON and sends records of the size and headers of
decisions, and has no model. Whose processor time a record is: the client's, the recognizer's, or neither's. And the
resident set of the worker over a long stream.
"""

from __future__ import annotations

import gc
import multiprocessing
import uuid
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.discovery.million import resident
from benchmarks.kafka.ground import ASKED, DEFAULTS, MODELS, fill, test_part
from benchmarks.kafka.processor import Meter, Split
from benchmarks.written import table
from stream_osr import OpenSetRecognizer
from stream_osr_connectors.engine import DecidedRecord
from stream_osr_connectors.kafka.client.consumers import GroupConsumer
from stream_osr_connectors.kafka.client.errors import quieten
from stream_osr_connectors.kafka.client.interface import Offset
from stream_osr_connectors.kafka.client.producer import TransactionalProducer
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.service import Service
from stream_osr_connectors.kafka.run.streams import READ_AHEAD
from stream_osr_connectors.kafka.run.transactions import Transactions
from stream_osr_connectors.kafka.settings import ServiceSettings
from stream_osr_connectors.kafka.stats import ServiceStats
from stream_osr_connectors.kafka.wire.decoding import make_decoder
from stream_osr_connectors.kafka.wire.encoding import Publisher
from stream_osr_connectors.kafka.wire.messages import Outgoing, RecordOrigin, origin_of

PASS = "pass-through"
LEFT_OUT = 0.2
"""Share of the records at the beginning that is not timed."""


class Moment(NamedTuple):
    """How far a worker is: records done, seconds, whose the seconds of the processor are, resident megabytes."""

    done: int
    at: float
    split: Split
    megabytes: float


class Run(NamedTuple):
    """What a run of a worker gave.

    Attributes
    ----------
    rate
        Records a second, after the first ones.
    split
        Microseconds of the processor a record, likewise, and whose they are.
    moments
        How it went.
    """

    rate: float
    split: Split
    moments: list[Moment]


@dataclass
class Watch:
    """Stops a worker when it has done its records, and notes how far it was, and when.

    Attributes
    ----------
    figures
        Of the worker.
    records
        How many it is to do.
    every
        Records between two moments.
    meter
        Tells whose processor time it is.
    """

    figures: ServiceStats
    records: int
    every: int
    meter: Meter
    moments: list[Moment] = field(default_factory=list)

    def __call__(self) -> bool:
        """Say whether all are done."""
        done = sum(count for (name, _), count in self.figures.counts.items() if name == "records")
        if done >= min(self.records, self.moments[-1].done + self.every if self.moments else 1):
            self.moments.append(Moment(done, perf_counter(), self.meter.now(), resident()))
        return done >= self.records

    def run(self) -> Run:
        """Sum up."""
        begin = next(moment for moment in self.moments if moment.done >= LEFT_OUT * self.records)
        end = self.moments[-1]
        if begin is end:
            raise ValueError(f"{self.records} records came in too few polls to be timed; ask for more")
        timed = end.done - begin.done
        return Run(
            timed / (end.at - begin.at),
            Split(*(1e6 * (after - before) / timed for before, after in zip(begin.split, end.split, strict=True))),
            self.moments,
        )


# Two workers.


def serve(settings: ServiceSettings, watch: Watch) -> None:
    """Run the service."""
    service = Service(settings, stats=watch.figures)
    gc.collect()
    gc.freeze()  # as the command does
    service.run(watch)


def pass_through(settings: ServiceSettings, watch: Watch) -> None:
    """Do what the service does but for the recognizer, and without a way back."""
    model = OpenSetRecognizer.load(settings.model)
    decode = make_decoder(settings, [str(name) for name in model.trained.names])
    value, envelope = decision_of_usual_size(model, settings)
    most = settings.commit_batches * model.arguments["batch_size"]
    consumer = GroupConsumer(settings, settings.inputs, max(500, READ_AHEAD * most), _cannot_be)
    poll = watch.meter.timed("client", consumer.poll)
    transactions = Transactions(TransactionalProducer, settings, watch.figures)
    transactions.open()
    gc.collect()
    gc.freeze()
    while not watch():
        for place in sorted(consumer.assigned):
            consumer.begin(place, 0)
        polled = [record for records in poll(0.1).values() for record in records]
        under_way = None
        for at in range(0, len(polled), most):
            group = polled[at : at + most]
            messages = []
            for record in group:
                decode(record)
                origin = origin_of(record)
                headers = [*envelope, *origin.headers]
                messages.append(
                    Outgoing(settings.output, record.partition, origin.key, value, headers, origin.timestamp)
                )
            reached = {record.partition: record.offset + 1 for record in group}
            offsets = {Place(settings.input, number): Offset(offset, "") for number, offset in reached.items()}
            if under_way is not None:
                transactions.finish(under_way)
            under_way = transactions.begin(messages, offsets, consumer.membership)
        if under_way is not None:
            transactions.finish(under_way)
        watch.figures.add("records", Place(settings.input, 0), len(polled))
    transactions.close(2.0)
    consumer.close(leave=True)


def _cannot_be(place: Place, offset: int, error: Exception, remedy: str) -> None:
    raise RuntimeError(f"{place} cannot be read from {offset} on: {error}")


def decision_of_usual_size(
    model: OpenSetRecognizer, settings: ServiceSettings
) -> tuple[bytes, list[tuple[str, bytes | None]]]:
    """Make value and headers of the decision of median size, of the first micro-batch."""
    model.learn_many(test_part().iloc[:1000])
    model.close_batch()
    publisher = Publisher(settings, model.trained.fingerprint, 1 << 20)
    origin = RecordOrigin(100_000, 1_700_000_000_000, None, ())
    made = publisher.decisions(
        Place(settings.input, 0), [DecidedRecord(origin, decision) for decision in model.drain()]
    )
    usual = sorted(made, key=lambda message: len(message.value or b""))[len(made) // 2]
    return usual.value or b"", list(usual.headers)


def work(name: str, settings: dict[str, Any], records: int, every: int, pipe: Connection) -> None:
    """Work in a process of its own."""
    quieten()
    watch = Watch(ServiceStats(), records, every, Meter())
    (pass_through if name == PASS else serve)(ServiceSettings(**settings), watch)
    pipe.send(watch.run())


def run(address: str, folder: Path, name: str, topic: str, records: int, every: int, **others: Any) -> Run:
    """Let a worker, in a group and a process of its own, do the records of a topic.

    Models and snapshots are in a folder.
    """
    group = uuid.uuid4().hex[:6]
    settings = {
        "model": folder / f"{ASKED if name == PASS else name}.osr",
        "brokers": address,
        "input": topic,
        "group": group,
        "state": folder / f"state-{group}",
        **others,
    }
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=work, args=(name, settings, records, every, there))
    process.start()
    there.close()
    try:
        found: Run = here.recv()
    except EOFError:
        raise RuntimeError(f"{name}: the worker failed; see above") from None
    finally:
        process.join()
    return found


def speed(address: str, folder: Path, records: int, repeats: int, known: dict[str, int]) -> str:
    """Run the workers in turn, each so many times; medians of records a second, and of microseconds a record."""
    topic = fill(address, records)
    runs: dict[str, list[Run]] = {name: [] for name in (PASS, *MODELS)}
    for _ in range(repeats):
        for name, of_its in runs.items():
            of_its.append(run(address, folder, name, topic, records, 1))
    rows = []
    for name, of_its in runs.items():
        found = [(*its.split, sum(its.split), its.split.rest / its.split.client) for its in of_its]
        *times, ratio = np.median(found, axis=0)
        rate = np.median([its.rate for its in of_its])
        rows.append([name, known.get(name, ""), f"{rate:.0f}", *(f"{us:.1f}" for us in times), f"{ratio:.2f}"])
    kinds = [f"{kind} us" for kind in (*Split._fields, "all")]
    return table(["", "known subclasses", "records/s", *kinds, "rest / client"], rows)


def by_key(address: str, folder: Path, records: int, keys: int) -> str:
    """Microseconds of the processor a record: one stream for each partition, and one for each key in two memories."""
    topic = fill(address, records, keys)
    rows = []
    for memory in (None, 1 << 28, 1 << 24):
        others = {} if memory is None else {"by": "key", "key_memory": memory}
        its = run(address, folder, DEFAULTS, topic, records, 1, **others)
        stream = "one a partition" if memory is None else f"{keys} keys, key_memory {memory >> 20} MiB"
        rows.append([stream, f"{its.rate:.0f}", f"{sum(its.split):.0f}", f"{its.moments[-1].megabytes:.0f}"])
    return table(["streams", "records/s", "us", "resident MB"], rows)


def memory(address: str, folder: Path, records: int) -> str:
    """Measure records a second and the resident set on the way through a long stream."""
    moments = run(address, folder, ASKED, fill(address, records), records, records // 20).moments
    rows = [
        [end.done, f"{(end.done - begin.done) / (end.at - begin.at):.0f}", f"{end.megabytes:.1f}"]
        for begin, end in pairwise(moments)
    ]
    return table(["records", "records/s", "resident MB"], rows)
