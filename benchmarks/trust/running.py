"""Runs: what one is, which are wanted, and how one is measured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from threadpoolctl import threadpool_limits

from benchmarks.openset.methods.stream import warm_up
from benchmarks.openset.sets import FIVE
from benchmarks.records import Record, failure, lines, versions
from benchmarks.tabular import TABLES
from benchmarks.trust import closed, opened, overlap, persistent


class Part(NamedTuple):
    """How a stream of a part is measured with a seed (and at most so many instances of it), and its streams."""

    measure: Callable[[str, int, int | None], Record]
    streams: tuple[str, ...]


PARTS = {
    "closed": Part(closed.measure, closed.STREAMS),
    "open": Part(opened.five, FIVE),
    "breadth": Part(opened.table, TABLES),
    "overlap": Part(overlap.measure, overlap.STREAMS),
    "persistent": Part(persistent.measure, persistent.STREAMS),
    "demo": Part(opened.demonstration, ("demo",)),
}


class Run(NamedTuple):
    """One measurement; ``length`` None: the whole stream."""

    part: str
    stream: str
    seed: int
    length: int | None = None


def plan(
    parts: Iterable[str], seeds: Iterable[int], only: Collection[str] = (), length: int | None = None
) -> list[Run]:
    """List runs, all streams of a seed before those of the next.

    Parameters
    ----------
    parts, seeds, length
        Of the runs.
    only
        Names of streams ("river/SEA0"), or of either half ("river", "SEA0"); empty: all.
    """
    chosen = tuple(parts)
    return [
        Run(part, stream, seed, length)
        for seed in seeds
        for part in chosen
        for stream in PARTS[part].streams
        if not only or not {stream, *stream.split("/")}.isdisjoint(only)
    ]


def measure(run: Run) -> list[Record]:
    """Measure a run; what goes wrong becomes a failed record."""
    warm_up()
    try:
        with threadpool_limits(1):
            found = PARTS[run.part].measure(run.stream, run.seed, run.length)
    except Exception as error:
        found = failure(error)
    return [{**run._asdict(), "status": "done", **found, "versions": versions()}]


def read(path: Path) -> dict[Run, Record]:
    """Read the latest record of each run that did not fail; a line that is not whole counts as absent."""
    done = (record for record in lines(path) if record["status"] == "done")
    return {Run(*(record[name] for name in Run._fields)): record for record in done}
