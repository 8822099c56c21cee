"""The tables that pages are made of: the five sets, openness by openness; what each part of the method is worth.

Drawn from a results file alone. ``python -m benchmarks.openset.summary`` writes them between the markers of
``README.md`` and ``docs/results/README.md``, and says what they were measured on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import typer

from benchmarks.openset.cells import done, read
from benchmarks.openset.methods import ENTRIES, GROUPS, OURS
from benchmarks.openset.sets import FIVE, LEVELS, SETTINGS, Level
from benchmarks.openset.statistics import Compared, compare
from benchmarks.records import Record
from benchmarks.written import RECORDS, ROOT, Write, table, tell

TUNING, REPORTING = tuple(range(100, 106)), tuple(range(10))
"""Seeds that may be tuned on, and those that are reported: never the same.

A seed draws the known classes, what trains, the order of the stream, and the method's own randomness. Whatever is
chosen by looking at a test part (a default, a constant, a variant) is chosen on the first; whatever stands in a table
comes from the second.
"""

RESULTS = RECORDS / "results.jsonl"
PAGE = ROOT / "docs" / "results" / "README.md"
FRONT = ROOT / "README.md"

REPORTED = {"decision_delay": 0, "test_share": 1.0}
"""Untouched defaults in micro-batches of 64."""

PAPERS = ("CD-OSR", "CD-OSR class-wise", "CD-OSR, full grid", "CD-OSR class-wise, full grid")
"""The paper's method with its prior chosen by validation, from either start; over the whole grid where it was run."""

SCORES = {"auroc": "AUROC", "fpr95": "FPR95", "oscr": "OSCR"}

NAMES: dict[Level, str] = {"closed": "closed set", "medium": "medium openness", "high": "highest openness"}


def is_rival(method: str) -> bool:
    """Whether a method is of others, decides by itself and gets no labels."""
    return method not in (*GROUPS["stream"], *GROUPS["cocluster"], *GROUPS["baselines"]) and not ENTRIES[method].asks


def standing(
    records: Sequence[Record], dataset: str, level: Level, measure: str = "micro_f"
) -> tuple[Compared, Compared | None, Compared | None]:
    """Compare ours with the paper's method (the better of starts and grids), and with the best of the others.

    Better and best are so by the mean over the seeds, with hindsight.
    """
    kept = (r for r in records if r["method"] in (OURS, *PAPERS) or is_rival(r["method"]))
    plain = [r for r in kept if r["options"] == REPORTED]
    own = compare(plain, dataset, SETTINGS[dataset].n_unknown[level], measure, OURS)
    whole = max(row.figure.n for row in own)
    fitting = [row for row in own[1:] if 2 * row.figure.n >= whole]
    papers, best = (
        next((row for row in fitting if fits(row.method)), None) for fits in (PAPERS.__contains__, is_rival)
    )
    return own[0], papers, best


def five_sets(records: Sequence[Record]) -> str:
    """Lay out micro-F on the five sets: ours, the paper's method, the best of the others, and paired differences."""
    rows = []
    for name in FIVE:
        for level in LEVELS:
            ours, papers, best = standing(records, name, level)
            rows.append([name, NAMES[level], _mean(ours), *_beside(papers, ""), *_beside(best)])
    columns = ["", "", "stream-osr", "CD-OSR", "difference to CD-OSR", "best of the others", "difference to the best"]
    return table(columns, rows)


def front(records: Sequence[Record]) -> str:
    """Lay out micro-F at the highest openness for the README: ours, the paper's method, the best of the others."""
    rows = []
    for name in FIVE:
        compared = standing(records, name, "high")
        rows.append([name, *(_mean(row) if row else "" for row in compared)])
    return table(["", "stream-osr", "the paper's method", "best of the others"], rows)


def scores(records: Sequence[Record]) -> str:
    """Lay out the measures of the unknown score at the highest openness, beside the best of the others."""
    rows = []
    for name in FIVE:
        cells = []
        for measure in SCORES:
            ours, _, best = standing(records, name, "high", measure)
            cells += [_mean(ours), *_beside(best)]
        rows.append([name, *cells])
    heads = [head for title in SCORES.values() for head in (title, "best of the others", "difference")]
    return table(["", *heads], rows)


def ablation(records: Sequence[Record]) -> str:
    """Lay out what is lost where a part is left out: paired differences at the highest openness, and their mean."""
    parts = [name for name in GROUPS["stream"] if name != OURS and any(r["method"] == name for r in records)]
    kept = [r for r in records if r["method"] in (OURS, *parts)]
    found: dict[tuple[str, str], Compared] = {}
    for name in FIVE:
        of = [r for r in kept if r["options"] == REPORTED]
        for row in compare(of, name, SETTINGS[name].n_unknown["high"], "micro_f", OURS):
            found[row.method, name] = row
    rows: list[list[object]] = [[OURS, *(_mean(found[OURS, name]) for name in FIVE), ""]]
    for part in parts:
        of_part = [found.get((part, name)) for name in FIVE]
        over = [row.difference.mean for row in of_part if row is not None and row.difference is not None]
        cells = ["" if row is None else _difference(row, sign=-1) for row in of_part]
        mean = f"{-np.mean(over):+.3f}" if len(over) == len(FIVE) else ""
        rows.append([part.removeprefix(f"{OURS}, ").replace("broad term", "background component"), *cells, mean])
    return table(["", *FIVE, "mean"], rows)


def setting(records: Iterable[Record]) -> str:
    """Say what a table was measured on: revisions, the library's tree, seeds, machine."""
    of = [record["versions"] | {"seed": record["seed"]} for record in records]

    def each(name: str) -> str:
        return ", ".join(sorted({str(v.get(name, "not told")) for v in of}))

    seeds = sorted({v["seed"] for v in of})
    return (
        f"Seeds {seeds[0]} to {seeds[-1]}. Commits {each('revision')} (tree of `stream_osr/`: {each('library')}).\n"
        f"Machine {each('machine')}, Python {each('python')}, numpy {each('numpy')}, numba {each('numba')}, "
        f"scikit-learn {each('scikit-learn')}."
    )


def _beside(row: Compared | None, name: str = " ({})") -> tuple[str, str]:
    return ("", "") if row is None else (_mean(row) + name.format(row.method), _difference(row))


def _mean(row: Compared) -> str:
    short = "" if row.figure.n >= len(REPORTING) else f" (n = {row.figure.n})"
    return f"{row.figure.mean:.3f}{short}"


def _difference(row: Compared, sign: int = 1) -> str:
    """Write a mean difference with its interval; starred where Holm's adjusted p is below 0.05."""
    if row.difference is None or not row.difference.n:
        return ""
    low, high = sorted((sign * row.difference.low, sign * row.difference.high))
    star = "\\*" if row.p < 0.05 else ""
    between = f" ({low:+.3f} to {high:+.3f})" if math.isfinite(low) else ""
    return f"{sign * row.difference.mean:+.3f}{star}{between}"


def gathered(path: Path) -> list[Record]:
    """Read what may be reported: cells that are done, of seeds that nothing was tuned on."""
    return [record for record in done(read(path).values()) if record["seed"] in REPORTING]


def main(write: Write = False) -> None:
    """Print the tables, and write them."""
    records = gathered(RESULTS)
    of_five = [record for record in records if record["dataset"] in FIVE]
    own = [record for record in of_five if record["method"] in GROUPS["stream"]]
    for name, text, of in (
        ("five sets", five_sets(of_five), of_five),
        ("scores", scores(of_five), of_five),
        ("ablation", ablation(of_five), own),
    ):
        tell(name, f"{text}\n\n{setting(of)}", write, PAGE)
    tell("five sets", front(of_five), write, FRONT)


if __name__ == "__main__":
    typer.run(main)
