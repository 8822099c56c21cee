"""Measure whether known classes hold, and what the library's promises are worth.

    python -m benchmarks.trust --json FILE [--parts closed,open,...] [--seeds 0-4] [--only NAME,...] [--jobs N]
    python -m benchmarks.trust --table FILE [--against FILE2]

The first measures, a line of JSON for each run, and leaves out what is in the file already; an interrupted command
goes on where it was. The second prints tables and whether what is wanted is met; FILE2 is of the same runs with
another state of the library.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.records import append, run_all, seeds_of
from benchmarks.trust import running
from benchmarks.trust.running import PARTS, plan, read


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, or print tables; return 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file for the figures, added to")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}; default: all")
    parser.add_argument("--seeds", type=seeds_of, default="0-4", help="default: 0-4")
    parser.add_argument("--only", default="", help="streams (river/SEA0), or families (river), or names (SEA0)")
    parser.add_argument("--length", type=int, help="instances of each stream at most; default: its own number")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each; default: 1")
    parser.add_argument("--table", type=Path, help="file to print the tables of")
    parser.add_argument("--against", type=Path, help="file to compare it with, run by run")
    given = parser.parse_args(arguments)
    if given.table is not None:
        from benchmarks.trust.tables import markdown

        print(markdown(read(given.table), read(given.against) if given.against else {}))
        return 0
    if given.json is None:
        parser.error("--json FILE to measure, or --table FILE to print")
    only = [name for name in given.only.split(",") if name]
    wanted, there = plan(given.parts.split(","), given.seeds, only, given.length), read(given.json)
    missing = [run for run in wanted if run not in there]
    print(f"{len(wanted)} runs, {len(wanted) - len(missing)} of them in {given.json}", file=sys.stderr, flush=True)
    failed = 0
    for number, record in enumerate(run_all(running.measure, missing, given.jobs), start=1):
        append(given.json, record)
        said = f"{record['seconds']:.1f} s" if record["status"] == "done" else f"failed: {record['error']}"
        failed += record["status"] == "failed"
        where = f"{record['part']} {record['stream']} seed {record['seed']}"
        print(f"{number}/{len(missing)} {where}: {said}", file=sys.stderr, flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
