"""Runs gathered by stream, and means over seeds with their standard errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from benchmarks.records import Record
from benchmarks.trust.running import PARTS, Run

Seeds = Mapping[int, Record]
"""The runs of a stream by seed."""

Streams = Mapping[str, Seeds]
"""The runs of a part by stream, in the order of the part."""


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
        return f"{short(self.mean)} ± {short(self.error)}" if self.n > 1 else short(self.mean)


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


def over_seeds(runs: Seeds, figure: str) -> Mean:
    """Average a figure of a stream."""
    return mean_of(record.get(figure) for record in runs.values())


def differences(now: Seeds, before: Seeds, figure: str) -> Mean:
    """Average the difference that a change made, over the seeds that both have."""
    pairs = [(now[seed].get(figure), before[seed].get(figure)) for seed in now if seed in before]
    return mean_of(None if a is None or b is None else a - b for a, b in pairs)


def gather(records: Mapping[Run, Record], part: str) -> dict[str, dict[int, Record]]:
    """Gather the runs of a part; streams that were cut short are streams of their own."""
    place = {stream: number for number, stream in enumerate(PARTS[part].streams)}
    chosen = [run for run in records if run.part == part and run.stream in place]
    found: dict[str, dict[int, Record]] = {}
    for run in sorted(chosen, key=lambda run: (place[run.stream], run.length or math.inf, run.seed)):
        name = run.stream if run.length is None else f"{run.stream} (at most {run.length})"
        found.setdefault(name, {})[run.seed] = derived(records[run])
    return found


def derived(record: Record) -> Record:
    """Add the figures of a closed stream that are differences of others.

    ``lost``: known right in the last fifth, less what the frozen model gets right there. ``beyond``: how much more is
    called unknown than the expected recall leaves room for. ``off``: expected recall, less what came.
    """
    if "right_last" not in record:
        return record
    found = record | {"lost": record["right_last"] - record["frozen"]}
    if (promised := record["promised"]) is not None:
        found |= {"beyond": record["unknown"] - (1.0 - promised), "off": promised - record["right"]}
        found |= {"beyond_last": record["unknown_last"] - (1.0 - promised), "off_by": abs(found["off"])}
    return found


def paired(now: Streams, before: Streams) -> list[str]:
    """Return the streams that both have a seed of."""
    return [name for name, runs in now.items() if not set(runs).isdisjoint(before.get(name, {}))]
