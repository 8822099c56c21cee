"""Measure how well what is new is found.

    python -m benchmarks.discovery [streamndr] [grouping] [drift] [--seeds 10] [--datasets NAME,...] [--json FILE]

prints a table for each setting named (all of them, if none is), and writes the figures of every run as JSON if asked,
as each setting ends.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.discovery import drift, grouping, streamndr


class Setting(NamedTuple):
    """What is measured for seeds and data sets, and how it is shown."""

    measure: Callable[[Sequence[int], Sequence[str]], Iterable[dict[str, Any]]]
    table: Callable[[Sequence[dict[str, Any]]], str]


SETTINGS = {
    "streamndr": Setting(lambda seeds, _: streamndr.measure(seeds), streamndr.table),
    "grouping": Setting(grouping.measure, grouping.table),
    "drift": Setting(drift.measure, drift.table),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", metavar="setting", help=f"of {', '.join(SETTINGS)}; default: all")
    parser.add_argument("--seeds", type=int, default=10, help="number of runs; default: 10")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first of them; default: 0")
    parser.add_argument(
        "--datasets", default=",".join(grouping.DATASETS), help="of the settings that have several; default: all"
    )
    parser.add_argument("--json", type=Path, help="file for the figures of every run")
    given = parser.parse_args(arguments)
    for name in given.settings:
        if name not in SETTINGS:
            parser.error(f"no setting {name!r}: expected some of {', '.join(SETTINGS)}")
    datasets = given.datasets.split(",")
    for name in datasets:
        if name not in grouping.DATASETS:
            parser.error(f"no data set {name!r}: expected some of {', '.join(grouping.DATASETS)}")
    if given.seeds < 1:
        parser.error(f"--seeds is {given.seeds}: at least 1 is needed")
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    figures: dict[str, list[dict[str, Any]]] = {}
    for name in given.settings or SETTINGS:
        figures[name] = list(SETTINGS[name].measure(seeds, datasets))
        print(f"{name}, seeds {seeds[0]} to {seeds[-1]}\n{SETTINGS[name].table(figures[name])}\n", flush=True)
        if given.json:
            given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
