"""Measure how well what is new is found.

    python -m benchmarks.discovery [SETTING ...] [--seeds N] [--datasets NAME,...] [--json FILE]

prints a table for each setting named (all of them, if none is: hours), and writes the figures of every run as JSON if
asked, as each setting ends. What a setting is, its module says.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
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
from benchmarks.discovery.streams import Runs


class Setting(NamedTuple):
    """How a data set is measured with a seed, the table of the runs, the data sets, and the usual number of seeds."""

    measure: Callable[[str, int], Iterable[dict[str, Any]]]
    table: Callable[[Runs], str]
    datasets: tuple[str, ...]
    seeds: int = 10


SETTINGS = {
    "streamndr": Setting(streamndr.measure, streamndr.table, ("RandomRBF",)),
    "grouping": Setting(grouping.measure, grouping.TABLE, grouping.DATASETS),
    "closed": Setting(closed.measure, closed.TABLE, closed.DATASETS, seeds=6),
    "open": Setting(opened.measure, opened.TABLE, opened.DATASETS, seeds=6),
    "closed20k": Setting(closed20k.measure, closed20k.TABLE, closed20k.DATASETS, seeds=100),
    "switched": Setting(switched.measure, switched.TABLE, switched.DATASETS),
    "recurrence": Setting(recurrence.measure, recurrence.TABLE, recurrence.DATASETS),
    "ageing": Setting(ageing.measure, ageing.TABLE, ageing.DATASETS, seeds=1),
    "million": Setting(million.measure, million.table, ("made-up Gaussians",), seeds=1),
    "partitions": Setting(partitions.measure, partitions.TABLE, partitions.DATASETS),
    "noise": Setting(noise.measure, noise.TABLE, noise.DATASETS, seeds=20),
    "drift": Setting(drift.measure, drift.TABLE, drift.DATASETS),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    known = list(dict.fromkeys(dataset for setting in SETTINGS.values() for dataset in setting.datasets))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", metavar="setting", help=f"of {', '.join(SETTINGS)}; default: all")
    parser.add_argument("--seeds", type=int, help="number of runs; default: the setting's own")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first of them; default: 0")
    parser.add_argument("--datasets", default=",".join(known), help="of the settings that have several; default: all")
    parser.add_argument("--json", type=Path, help="file for the figures of every run")
    given = parser.parse_args(arguments)
    if unheard_of := {*given.settings} - {*SETTINGS} | {*given.datasets.split(",")} - {*known}:
        parser.error(f"no setting or data set {', '.join(unheard_of)}: expected {', '.join((*SETTINGS, *known))}")
    figures: dict[str, list[dict[str, Any]]] = {}
    for name in given.settings or SETTINGS:
        setting, figures[name] = SETTINGS[name], []
        seeds = range(given.first_seed, given.first_seed + (given.seeds or setting.seeds))
        for dataset in (each for each in given.datasets.split(",") if each in setting.datasets):
            for seed in seeds:
                for run in setting.measure(dataset, seed):
                    figures[name].append({"dataset": dataset, "seed": seed, **run})
                print(f"measured: {name}, {dataset}, seed {seed}", file=sys.stderr)
        print(f"{name}, seeds {seeds[0]} to {seeds[-1]}\n{setting.table(figures[name])}\n", flush=True)
        if given.json:
            given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
