"""Running units of work, in this process or in several, so that an interruption costs what was under way only."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from benchmarks.openset import results
from benchmarks.openset.cells import Cell, measure

Ended = tuple[Cell, str | None]
"""A cell, and its error if it failed."""


def run(unit: Sequence[Cell], path: Path) -> Iterator[Ended]:
    """Measure a unit; each record is in the file as soon as it is there."""
    for record in measure(unit):
        results.append(path, record)
        yield Cell.from_record(record), record.get("error")


def run_all(work: Sequence[Sequence[Cell]], path: Path, jobs: int) -> Iterator[Ended]:
    """Measure units in so many processes and tell of the cells as they end (with several: a unit at a time).

    Raises
    ------
    concurrent.futures.process.BrokenProcessPool
        If a process was killed; what was measured is in the file.
    """
    if jobs == 1:
        for unit in work:
            yield from run(unit, path)
        return
    context = multiprocessing.get_context("spawn")  # compiled kernels and threads do not survive a fork
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_leave_interrupts_to_parent) as pool:
        try:
            for future in as_completed([pool.submit(_run, unit, path) for unit in work]):
                yield from future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _run(unit: Sequence[Cell], path: Path) -> list[Ended]:
    return list(run(unit, path))


def _leave_interrupts_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
