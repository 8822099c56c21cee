"""Make the paper's figures and tables again: python -m benchmarks.paper [--seeds N] [--draw-only].

What is missing of tables 1 and 2 is measured; everything else is drawn from the results of `benchmarks.openset`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.openset import results
from benchmarks.openset.sets import FIVE
from benchmarks.paper import runs, tables
from benchmarks.paper.figures import draw_all
from benchmarks.written import RECORDS, ROOT, write

FOLDER = ROOT / "docs" / "results"
PAGE = FOLDER / "paper.md"


def main(
    seeds: Annotated[int, typer.Option(help="Repetitions of tables 1 and 2.")] = 3,
    draw_only: Annotated[bool, typer.Option("--draw-only", help="Measure nothing.")] = False,
    measured: Annotated[Path, typer.Option(help="Results of benchmarks.openset.")] = RECORDS / "results.jsonl",
    own: Annotated[Path, typer.Option(help="Results of tables 1 and 2.")] = RECORDS / "paper.jsonl",
    page: Annotated[Path | None, typer.Option(help="Page whose tables are written.")] = PAGE,
    figures: Annotated[Path, typer.Option(help="Folder of the figures.")] = FOLDER / "figures" / "paper",
) -> None:
    """Measure what is missing, draw, and write the page."""
    if not draw_only:
        for name, method, seed in runs.measure(runs.missing(own, range(seeds)), own):
            print(f"measured: {name}, {method}, seed {seed}", file=sys.stderr)
    records = results.done(results.read(measured).values())
    for path in draw_all(records, figures):
        print(f"drawn: {path}")
    found = runs.read(own)
    told = {f"table {runs.PRINTED[name].number}": tables.discovered(name, found) for name in runs.PRINTED}
    priors = {record_key(r): r for r in records if r["dataset"] in FIVE and r["method"] in tables.VALIDATED}
    told["priors"] = tables.chosen(priors.values())
    for name, text in told.items():
        print(f"\n{name}\n\n{text}")
        if page is not None:
            write(name, text, page)


def record_key(record: results.Record) -> tuple[str, str, int]:
    """Name the validation that a record shares with others: a data set, a method, a seed."""
    return record["dataset"], record["method"], record["seed"]


if __name__ == "__main__":
    typer.run(main)
