"""Measure how well what is new is found.

    python -m benchmarks.discovery [SETTING ...] [--seeds N] [--datasets NAME,...] [--json FILE]

prints a table for each setting named (all of them, if none is: hours), and writes the figures of every run as JSON if
asked, as each setting ends. What a setting is, its module says.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.discovery import (
    ageing,
    closed,
    closed20k,
    drift,
    grouping,
    million,
    noise,
    opened,
    partitions,
    recurrence,
    streamndr,
    switched,
)

EVERY = 30.0
"""Seconds between words about how far it is."""


class Setting(NamedTuple):
    """What is measured for seeds and data sets, how it is shown, its data sets, and how many seeds it wants."""

    measure: Callable[[Sequence[int], Sequence[str]], Iterable[dict[str, Any]]]
    table: Callable[[Sequence[dict[str, Any]]], str]
    datasets: tuple[str, ...] = ()
    seeds: int = 10


SETTINGS = {
    "streamndr": Setting(lambda seeds, _: streamndr.measure(seeds), streamndr.table),
    "grouping": Setting(grouping.measure, grouping.table, grouping.DATASETS),
    "closed": Setting(closed.measure, closed.table, closed.DATASETS, seeds=6),
    "open": Setting(opened.measure, opened.table, opened.DATASETS, seeds=6),
    "closed20k": Setting(closed20k.measure, closed20k.table, closed20k.DATASETS, seeds=100),
    "switched": Setting(switched.measure, switched.table, switched.DATASETS),
    "recurrence": Setting(recurrence.measure, recurrence.table, recurrence.DATASETS),
    "ageing": Setting(ageing.measure, ageing.table, ageing.DATASETS, seeds=1),
    "million": Setting(million.measure, million.table, seeds=1),
    "partitions": Setting(partitions.measure, partitions.table, partitions.DATASETS),
    "noise": Setting(noise.measure, noise.table, noise.DATASETS, seeds=20),
    "drift": Setting(drift.measure, drift.table, drift.DATASETS),
}


def _followed(name: str, runs: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Say now and then how far it is."""
    begin = told = time.monotonic()
    for number, one in enumerate(runs, start=1):
        if time.monotonic() - told > EVERY:
            told = time.monotonic()
            where = ", ".join(f"{key} {one[key]}" for key in ("dataset", "seed") if key in one)
            print(f"{name}: {number} runs in {told - begin:.0f} s, the last of {where}", file=sys.stderr, flush=True)
        yield one


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", metavar="setting", help=f"of {', '.join(SETTINGS)}; default: all")
    parser.add_argument("--seeds", type=int, help="number of runs; default: the setting's own")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first of them; default: 0")
    parser.add_argument("--datasets", help="of the settings that have several; default: all")
    parser.add_argument("--json", type=Path, help="file for the figures of every run")
    given = parser.parse_args(arguments)
    for name in given.settings:
        if name not in SETTINGS:
            parser.error(f"no setting {name!r}: expected some of {', '.join(SETTINGS)}")
    wanted = {name: SETTINGS[name] for name in given.settings or SETTINGS}
    known = list(dict.fromkeys(dataset for setting in wanted.values() for dataset in setting.datasets))
    chosen = known if given.datasets is None else given.datasets.split(",")
    for dataset in chosen:
        if dataset not in known:
            parser.error(f"no data set {dataset!r} there: expected some of {', '.join(known)}")
    if given.seeds is not None and given.seeds < 1:
        parser.error(f"--seeds is {given.seeds}: at least 1 is needed")
    figures: dict[str, list[dict[str, Any]]] = {}
    for name, setting in wanted.items():
        number = setting.seeds if given.seeds is None else given.seeds
        seeds = range(given.first_seed, given.first_seed + number)
        runs = setting.measure(seeds, [dataset for dataset in chosen if dataset in setting.datasets])
        figures[name] = list(_followed(name, runs))
        print(f"{name}, seeds {seeds[0]} to {seeds[-1]}\n{setting.table(figures[name])}\n", flush=True)
        if given.json:
            given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
