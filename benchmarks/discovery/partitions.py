"""One new class, many partitions: their subclasses joined by what sums them up, against one recognizer of everything.

The test part in random order at the highest openness, dealt out to four partitions, each with a recognizer of its
own over the same trained model, seeded as the Kafka service does it. After every micro-batch of 64, partition by
partition, they say what it would publish (`stream_osr.stream.local_summaries`), and that is reconciled
(`stream_osr.discovery.reconcile`). Beside it one recognizer sees the whole stream, in micro-batches of 64 too.
Defaults otherwise.

*Subclasses*: emerged ones alive at the end; those of the four partitions together, global ones, those of the one
recognizer. *Told*: subclasses announced, global ones and those of the one recognizer. NMI is over all instances of
unknown classes: each in the subclass that its decision named, or in which that has ended, those taken for known by
class. What a partition has not announced is a subclass of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.discovery.grouping import IN_NO_SUBCLASS, agreement, clusters, ids_of
from benchmarks.discovery.streams import BATCH, Problem, announced, prepare, recognizer
from benchmarks.discovery.tables import Table, column
from stream_osr import Decision, OpenSetRecognizer
from stream_osr.discovery.events import Event, SubclassMerged
from stream_osr.discovery.reconcile import Local, LocalSummary, ReconciledSubclasses, reconcile
from stream_osr.stream.local_summaries import SubclassSums, changed_summaries
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.partition import seed_of

DATASETS = ("PENDIGITS",)
PARTITIONS = 4


class Heard(NamedTuple):
    """What a recognizer told: decisions, events, what it said of subclasses after each batch, how many are alive."""

    decisions: list[Decision]
    events: list[Event]
    said: list[list[SubclassSums]]
    alive: int


def listen(model: OpenSetRecognizer, X: np.ndarray) -> Heard:
    """Run rows of shape (n, p) through a recognizer in micro-batches."""
    heard = Heard([], [], [], 0)
    names = list(model.trained.names)
    statistics = model.value.emerged_statistics()
    for begin in range(0, len(X), BATCH):
        before = statistics
        model.learn_many(pd.DataFrame(X[begin : begin + BATCH], columns=names))
        model.close_batch()
        statistics = model.value.emerged_statistics()
        events = list(model.drain_events())
        heard.decisions.extend(model.drain())
        heard.events.extend(events)
        heard.said.append(changed_summaries(before, statistics, events))
    return heard._replace(alive=len(statistics))


def in_turn(partitions: Sequence[Heard]) -> list[LocalSummary]:
    """Return the summaries in the order in which they are reconciled: batch by batch, partition by partition."""
    most = max(len(heard.said) for heard in partitions)
    return [
        LocalSummary(Local(str(number), "", said.id), said.statistics, said.absorbed)
        for batch in range(most)
        for number, heard in enumerate(partitions)
        for after_batch in heard.said[batch : batch + 1]
        for said in after_batch
    ]


def ends_in(events: Sequence[Event]) -> dict[int, int]:
    """Say where identities went that have ended in another."""
    into: dict[int, int] = {}
    for event in events:
        if isinstance(event, SubclassMerged):
            into = {was: event.into if now == event.subclass_id else now for was, now in into.items()}
            into[event.subclass_id] = event.into
    return into


def named(heard: Heard) -> list[int]:
    """Return the subclass that each decision named, or in which it has ended."""
    into = ends_in(heard.events)
    return [into.get(key, key) for key in ids_of(heard.decisions)]


def global_clusters(
    partitions: Sequence[Heard], links: Mapping[Local, int], labels: Sequence[Any], n: int
) -> np.ndarray:
    """Return the cluster of each instance: a global subclass, or one of a partition's, or a known class."""
    out = np.empty(n, np.int64)
    own: dict[Local, int] = {}
    for number, heard in enumerate(partitions):
        seats = []
        for key in named(heard):
            local = Local(str(number), "", key)
            if key == IN_NO_SUBCLASS or local in links:
                seats.append(links.get(local, key))
            else:
                seats.append(own.setdefault(local, len(links) + len(own)))
        out[number :: len(partitions)] = clusters(heard.decisions, seats, labels)
    return out


def measure(dataset: str, seed: int) -> Iterator[dict[str, Any]]:
    """Run a stream through one recognizer, and dealt out; yield the figures."""
    given = prepare(dataset, seed)
    at = np.random.default_rng([seed, len(given.y)]).permutation(len(given.y))
    X, y = given.X[at], given.y[at]
    one = listen(recognizer(given, seed, batch_size=len(X) + 1), X)
    several = [
        listen(recognizer(given, seed_of(seed, Place(dataset, number)), batch_size=len(X) + 1), X[number::PARTITIONS])
        for number in range(PARTITIONS)
    ]
    yield scores(given, y, one, several)


def scores(given: Problem, y: np.ndarray, one: Heard, several: Sequence[Heard]) -> dict[str, Any]:
    """Compare partitions, reconciled, with one recognizer."""
    labels, known = given.trained.labels, given.trained.known
    new = ~np.isin(y, np.array(labels))
    state, told = ReconciledSubclasses(), 0
    for summary in in_turn(several):
        state, changes = reconcile(state, summary, known.prior, known.location)
        told += len(changes.emerged)
    groups = {
        "local": global_clusters(several, {}, labels, len(y)),
        "global": global_clusters(several, state.links, labels, len(y)),
        "single": clusters(one.decisions, named(one), labels),
    }
    return {
        "local": sum(heard.alive for heard in several),
        "global": len(state.sums),
        "single": one.alive,
        "ratio": len(state.sums) / one.alive,
        "told": told,
        "told by one": len(announced(one.events)),
        **{f"NMI {name}": agreement(y[new], group[new])["NMI"] for name, group in groups.items()},
    }


table = Table(
    {
        **{name: column(name, form=".1f") for name in ("local", "global", "single")},
        "ratio": column("ratio", form=".2f"),
        **{name: column(name, form=".1f") for name in ("told", "told by one")},
        **{f"NMI {name}": column(f"NMI {name}") for name in ("local", "global", "single")},
    },
    keys=("dataset", "seed"),
    total="mean",
)
