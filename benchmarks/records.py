"""Runs of a benchmark: records in a file of JSON Lines, worker processes, and seeds of a command line."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import platform
import signal
import subprocess
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.written import ROOT, commit, git

Record = dict[str, Any]
"""What identifies a run, and what was measured; often with ``status`` ("done" or "failed") and an ``error``."""

Work = TypeVar("Work")


def append(path: Path, record: Record) -> None:
    """Add one line in one write: a reader, or a second writer, never sees half of it.

    What an interrupted write left at the end of the file is closed off first.
    """
    line = json.dumps(_plain(record), ensure_ascii=False, allow_nan=False).encode() + b"\n"
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            line = b"\n" + line
        os.write(handle, line)
        os.fsync(handle)
    finally:
        os.close(handle)


def lines(path: Path) -> Iterator[Record]:
    """Read every line that is whole; none if there is no file."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with suppress(ValueError):
            yield json.loads(line)


def _plain(value: Any) -> Any:
    """Turn arrays into lists and what is not a finite number into null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def seeds_of(text: str) -> list[int]:
    """Read seeds: numbers and ranges, separated by commas.

    Examples
    --------
    >>> seeds_of("0-2,100")
    [0, 1, 2, 100]
    """
    ranges = (part.partition("-") for part in text.split(","))
    return [seed for first, _, last in ranges for seed in range(int(first), int(last or first) + 1)]


def failure(error: Exception) -> Record:
    """Return the fields of a failed run."""
    where = "".join(traceback.format_tb(error.__traceback__)[-2:]).replace(str(ROOT), ".")
    return {"status": "failed", "error": f"{type(error).__name__}: {error}", "where": where}


@cache
def versions() -> dict[str, str]:
    """Versions of everything that the figures depend on: packages, machine, revision, and the library's own tree."""
    found = {"python": platform.python_version(), "machine": f"{platform.machine()}, {os.cpu_count()} cores"}
    for name in ("stream-osr", "numpy", "scipy", "numba", "scikit-learn"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    with suppress(OSError, subprocess.SubprocessError):  # not a checkout
        found |= {"revision": commit(), "library": git("rev-parse", "--short=12", "HEAD:stream_osr")}
    return found


def run_all(measure: Callable[[Work], Iterable[Record]], work: Sequence[Work], jobs: int) -> Iterator[Record]:
    """Measure pieces of work in so many processes, and yield their records (with several: a piece at a time).

    Raises
    ------
    concurrent.futures.process.BrokenProcessPool
        If a process was killed.
    """
    if jobs == 1:
        for piece in work:
            yield from measure(piece)
        return
    context = multiprocessing.get_context("spawn")  # compiled kernels and threads do not survive a fork
    interrupts = (signal.SIGINT, signal.SIG_IGN)  # the parent handles them
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=signal.signal, initargs=interrupts) as pool:
        try:
            for future in as_completed([pool.submit(_measured, measure, piece) for piece in work]):
                yield from future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _measured(measure: Callable[[Work], Iterable[Record]], piece: Work) -> list[Record]:
    return list(measure(piece))
