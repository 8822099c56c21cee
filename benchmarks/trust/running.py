"""Runs: what one is, which are wanted, and measuring them so that an interruption costs what was under way only."""

from __future__ import annotations

import json
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from benchmarks.openset import results
from benchmarks.openset.cells import versions
from benchmarks.openset.methods.stream import compile_kernels
from benchmarks.trust import breadth, closed, demonstration, opened, overlap, persistent

Record = dict[str, Any]
"""A run's fields, ``status`` ("done" or "failed"), and what was measured or the ``error``."""


class Part(NamedTuple):
    """How a stream of a part is measured with a seed (and at most so many instances of it), and its streams."""

    measure: Callable[[str, int, int | None], Record]
    streams: tuple[str, ...]


PARTS = {
    "closed": Part(closed.measure, closed.STREAMS),
    "open": Part(opened.measure, opened.STREAMS),
    "breadth": Part(breadth.measure, breadth.STREAMS),
    "overlap": Part(overlap.measure, overlap.STREAMS),
    "persistent": Part(persistent.measure, persistent.STREAMS),
    "demo": Part(demonstration.measure, demonstration.STREAMS),
}


class Run(NamedTuple):
    """One measurement; ``length`` None: the whole stream."""

    part: str
    stream: str
    seed: int
    length: int | None = None

    @classmethod
    def from_record(cls, record: Record) -> Run:
        """Read the fields of a record."""
        return cls(*(record[name] for name in cls._fields))


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


def measure(run: Run) -> Record:
    """Measure a run; what goes wrong becomes a failed record."""
    compile_kernels()
    try:
        with threadpool_limits(1):
            found = PARTS[run.part].measure(run.stream, run.seed, run.length)
    except Exception as error:
        where = "".join(traceback.format_tb(error.__traceback__)[-2:]).replace(str(Path(__file__).parents[2]), ".")
        found = {"status": "failed", "error": f"{type(error).__name__}: {error}", "where": where}
    return {**run._asdict(), "status": "done", **found, "versions": versions()}


def measure_all(runs: Sequence[Run], path: Path, jobs: int = 1) -> Iterator[Record]:
    """Measure runs in so many processes; each record is in the file when it is yielded."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for record in map(measure, runs) if jobs == 1 else _in_processes(runs, jobs):
        results.append(path, record)
        yield record


def _in_processes(runs: Sequence[Run], jobs: int) -> Iterator[Record]:
    context = multiprocessing.get_context("spawn")  # compiled kernels and threads do not survive a fork
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_leave_interrupts_to_parent) as pool:
        try:
            for future in as_completed([pool.submit(measure, run) for run in runs]):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _leave_interrupts_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def read(path: Path) -> dict[Run, Record]:
    """Read the latest record of each run that did not fail; a line that is not whole counts as absent."""
    found: dict[Run, Record] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
                run = Run.from_record(record)
            except (ValueError, KeyError, TypeError):
                continue
            if record.get("status") == "done":
                found[run] = record
    return found
