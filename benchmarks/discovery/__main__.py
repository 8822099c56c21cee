"""Measure how well what is new is found.

    python -m benchmarks.discovery [SETTING ...] [--seeds N] [--datasets NAME,...] [--json FILE]

prints a table for each setting named (all of them, if none is: hours), and writes the figures of every run as JSON if
asked, as each setting ends. What a setting is, its module says.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

SETTINGS = {
    name: import_module(f"benchmarks.discovery.{'opened' if name == 'open' else name}")
    for name in (
        *("streamndr", "grouping", "closed", "open", "closed20k", "switched", "recurrence", "ageing", "million"),
        *("partitions", "noise", "drift"),
    )
}
"""A setting is a module. It has data sets (``DATASETS``), and perhaps a usual number of seeds (``SEEDS``, else 10).
``measure`` yields the runs of a data set and a seed, and ``table`` lays out runs."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    known = list(dict.fromkeys(dataset for setting in SETTINGS.values() for dataset in setting.DATASETS))
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
        seeds = range(given.first_seed, given.first_seed + (given.seeds or getattr(setting, "SEEDS", 10)))
        for dataset in (each for each in given.datasets.split(",") if each in setting.DATASETS):
            for seed in seeds:
                for run in setting.measure(dataset, seed):
                    figures[name].append({"dataset": dataset, "seed": seed, **run})
                print(f"measured: {name}, {dataset}, seed {seed}", file=sys.stderr)
        print(f"{name}, seeds {seeds[0]} to {seeds[-1]}\n{setting.table(figures[name])}\n", flush=True)
        if given.json:
            given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
