"""Make the paper's figures and tables again: python -m benchmarks.paper [--seeds N] [--draw-only].

What is missing of tables 1 and 2 is measured; everything else is drawn from the results of `benchmarks.openset`.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from benchmarks.openset.cells import done, read
from benchmarks.openset.sets import FIVE
from benchmarks.paper import tables
from benchmarks.paper.figures import draw_all
from benchmarks.written import RECORDS, ROOT, tell

FOLDER = ROOT / "docs" / "results"


def main(
    seeds: Annotated[int, typer.Option(help="Repetitions of tables 1 and 2.")] = 3,
    draw_only: Annotated[bool, typer.Option("--draw-only", help="Measure nothing.")] = False,
) -> None:
    """Measure what is missing, draw, and write the page."""
    own = RECORDS / "paper.jsonl"
    if not draw_only:
        for name, method, seed in tables.measure(tables.missing(own, range(seeds)), own):
            print(f"measured: {name}, {method}, seed {seed}", file=sys.stderr)
    records = done(read(RECORDS / "results.jsonl").values())
    for path in draw_all(records, FOLDER / "figures" / "paper"):
        print(f"drawn: {path}")
    found = tables.read(own)
    told = {f"table {tables.PRINTED[name].number}": tables.discovered(name, found) for name in tables.PRINTED}
    validated = [r for r in records if r["dataset"] in FIVE and r["method"] in tables.VALIDATED]
    priors = {(r["dataset"], r["method"], r["seed"]): r for r in validated}  # one validation for all its records
    told["priors"] = tables.chosen(priors.values())
    for name, text in told.items():
        tell(name, text, True, FOLDER / "paper.md")


if __name__ == "__main__":
    typer.run(main)
