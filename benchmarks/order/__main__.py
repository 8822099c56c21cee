"""Measure streams whose neighbouring instances resemble each other: real tables and made-up processes.

    python -m benchmarks.order --json FILE [--kind real|made|all] [--cases NAME,...] [--seeds 0-4] [--baselines]
    python -m benchmarks.order --page docs/results/order.md BEFORE NOW

The first appends a line of JSON to the file for each run. The second writes the figures of two such files into the
page, beside what must hold.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.order import kinds, page, processes, tables
from benchmarks.order.case import Case
from benchmarks.order.running import measure
from benchmarks.records import append, seeds_of
from benchmarks.written import commit, write


def chosen(kind: str, cases: str) -> list[str]:
    """List names of cases: those that a pattern of `cases` fits, whole or in a part between slashes; empty: all."""
    made = [*processes.NAMES, *kinds.NAMES]
    names = {"real": tables.NAMES, "made": made, "all": [*tables.NAMES, *made]}[kind]
    patterns = [each for each in cases.split(",") if each]
    return [
        name
        for name in names
        if not patterns or any(fnmatch(part, p) for p in patterns for part in (name, *name.split("/")))
    ]


def case_of(name: str, seed: int) -> Case:
    """Make the case of a name; a table does not depend on the seed."""
    if name in tables.NAMES:
        return tables.case(name)
    return (kinds if name in kinds.NAMES else processes).case(name, seed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file that a line is appended to for each run")
    parser.add_argument("--kind", choices=("real", "made", "all"), default="all", help="default: all")
    parser.add_argument("--cases", default="", help="names, parts of names or patterns (TEP, closed, */open/order)")
    parser.add_argument("--seeds", type=seeds_of, default="1", help="default: 1")
    parser.add_argument("--baselines", action="store_true", help="add a forest and the calibrated frozen model")
    parser.add_argument("--page", type=Path, help="page that the figures of the files are written into")
    parser.add_argument("files", type=Path, nargs="*", help="for the page: figures before and now, or only now")
    given = parser.parse_args(arguments)
    if given.page is not None:
        *before, now = map(page.read, given.files)
        write("order", page.text(before[0] if before else {}, now), given.page)
        return 0
    names = chosen(given.kind, given.cases)
    if not names:
        parser.error(f"no case is named {given.cases}: expected some of {', '.join(chosen('all', ''))}")
    for seed in given.seeds:
        measured: dict[str, page.Record] = {}
        for name in names:
            figures = measure(case_of(name, seed), seed, given.baselines)
            measured[name] = record = {"case": name, "seed": seed, "commit": commit(), **figures}
            if given.json is not None:
                append(given.json, record)
            unmet = page.unmet(record, measured.get(page.twin_of(name)))
            print(f"{name:28}{seed:4} right {record['right']:.3f}, not met: {' '.join(unmet) or 'none'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
