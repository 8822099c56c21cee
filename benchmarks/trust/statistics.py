"""Runs gathered by stream, and means over seeds with their standard errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from benchmarks.trust.running import PARTS, Record, Run

Seeds = Mapping[int, Record]
"""The runs of a stream by seed."""

Streams = Mapping[str, Seeds]
"""The runs of a part by stream, in the order of the part."""

Measure = Callable[[Record], float | None]


class Mean(NamedTuple):
    """Mean over seeds, its standard error (0 with one seed), and their number.

    Examples
    --------
    >>> str(Mean(0.9754, 0.0031, 5)), str(Mean(-1.5, 0.0, 1)), str(Mean(math.nan, 0.0, 0))
    ('0.975 ± 0.003', '-1.500', '')
    """

    mean: float
    error: float
    n: int

    def __str__(self) -> str:
        if not self.n:
            return ""
        error = f" ± {short(self.error)}" if self.n > 1 else ""
        return f"{short(self.mean)}{error}"

    @property
    def most(self) -> float:
        """The mean and two standard errors."""
        return self.mean + 2 * self.error

    @property
    def least(self) -> float:
        """The mean less two standard errors."""
        return self.mean - 2 * self.error


def short(value: float) -> str:
    """Write a number with three decimals; a negative zero loses its sign.

    Examples
    --------
    >>> short(0.25), short(-0.0321), short(-0.0001), short(12.0)
    ('0.250', '-0.032', '0.000', '12.000')
    """
    return f"{value:z.3f}"


def mean_of(values: Iterable[float | None]) -> Mean:
    """Average what is there.

    Examples
    --------
    >>> mean_of([1.0, None, 3.0])
    Mean(mean=2.0, error=1.0, n=2)
    """
    found = [value for value in values if value is not None and not math.isnan(value)]
    if not found:
        return Mean(math.nan, 0.0, 0)
    error = float(np.std(found, ddof=1) / math.sqrt(len(found))) if len(found) > 1 else 0.0
    return Mean(float(np.mean(found)), error, len(found))


def get(name: str) -> Measure:
    """Return what reads a figure of a record."""
    return lambda record: record.get(name)


def over_seeds(runs: Seeds, measure: Measure) -> Mean:
    """Average a figure of a stream."""
    return mean_of(measure(record) for record in runs.values())


def differences(now: Seeds, before: Seeds, measure: Measure) -> Mean:
    """Average the difference that a change made, over the seeds that both have."""
    pairs = [(measure(now[seed]), measure(before[seed])) for seed in now if seed in before]
    return mean_of(None if a is None or b is None else a - b for a, b in pairs)


def gather(records: Mapping[Run, Record], part: str) -> dict[str, dict[int, Record]]:
    """Gather the runs of a part; streams that were cut short are streams of their own."""
    place = {stream: number for number, stream in enumerate(PARTS[part].streams)}
    chosen = [run for run in records if run.part == part and run.stream in place]
    found: dict[str, dict[int, Record]] = {}
    for run in sorted(chosen, key=lambda run: (place[run.stream], run.length or math.inf, run.seed)):
        name = run.stream if run.length is None else f"{run.stream} (at most {run.length})"
        found.setdefault(name, {})[run.seed] = records[run]
    return found


def paired(now: Streams, before: Streams) -> list[str]:
    """Return the streams that both have a seed of."""
    return [name for name, runs in now.items() if not set(runs).isdisjoint(before.get(name, {}))]
