"""Untouched defaults on many tables, beside six recipes: python -m benchmarks.breadth [--write].

What has been measured is kept in the results file and not measured again. The bar on each table is the best recipe
there, chosen with hindsight; means over the seeds.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any

import matplotlib as mpl
import numpy as np
import typer
from matplotlib.figure import Figure

from benchmarks.breadth.recipes import RECIPES, follow
from benchmarks.openset.cells import versions
from benchmarks.openset.figures import OURS_COLOUR, STYLE
from benchmarks.tabular import TABLES, Part, divide, frame
from benchmarks.written import RECORDS, ROOT, table, write
from stream_osr import OpenSetRecognizer
from stream_osr.evaluation import OpenSetReport, auroc

OURS = "stream-osr"
UNKNOWN = "unknown"
BATCH = 64
RESULTS = RECORDS / "breadth.jsonl"
PAGE = ROOT / "docs" / "results" / "breadth.md"
FIGURE = ROOT / "docs" / "results" / "figures" / "breadth.png"
Key = tuple[str, int, str]


def ours(name: str, part: Part, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Decide a stream with untouched defaults, in micro-batches of 64."""
    model = OpenSetRecognizer(seed=seed, batch_size=BATCH, unknown=UNKNOWN)
    model.learn_many(frame(name, part.X_train), part.y_train.tolist())
    model.learn_many(frame(name, part.X_test))
    model.flush()
    decisions = list(model.drain())
    return np.array([d.label for d in decisions]), np.array([d.p_unknown for d in decisions])


def measure(name: str, seed: int, method: str) -> dict[str, Any]:
    """Score a method on the stream of a table."""
    part = divide(name, seed)
    labels, novelty = ours(name, part, seed) if method == OURS else follow(method, part, seed, UNKNOWN)
    report = OpenSetReport(part.known, UNKNOWN)
    report.update_many(part.y_test.tolist(), labels.tolist())
    return {
        "table": name,
        "seed": seed,
        "method": method,
        "n_train": len(part.X_train),
        "n_test": len(part.X_test),
        "d": part.X_train.shape[1],
        "known": len(part.known),
        "micro_f": report.micro_f,
        "auroc": auroc(novelty, ~np.isin(part.y_test, part.known)),
        "known_right": report.known_accuracy,
        "unknown_recall": report.unknown_recall,
        "versions": versions(),
    }


def read(path: Path) -> dict[Key, dict[str, Any]]:
    """Read what has been measured, the latest of each."""
    lines = path.read_text().splitlines() if path.exists() else []
    records = [json.loads(line) for line in lines]
    return {(r["table"], r["seed"], r["method"]): r for r in records}


def means(records: list[dict[str, Any]], figure: str) -> dict[str, dict[str, float]]:
    """Average a figure over the seeds: by table, then by method, of tables with ours and a recipe."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        found[record["table"]][record["method"]].append(record[figure])
    compared = {name: of for name, of in sorted(found.items()) if OURS in of and len(of) > 1}
    return {name: {method: float(np.mean(v)) for method, v in of.items()} for name, of in compared.items()}


def best(of: dict[str, float]) -> str:
    """Name the recipe that is best on a table."""
    return max((method for method in of if method != OURS), key=of.__getitem__)


def page(records: list[dict[str, Any]]) -> str:
    """Make the table, and a sentence for each figure of how it ends."""
    f, areas = means(records, "micro_f"), means(records, "auroc")
    shape = {r["table"]: (r["n_train"], r["n_test"], r["d"], r["known"]) for r in records}
    rows, digits = [], "{:.3f}".format
    for name in f:
        bars = [(each[name], best(each[name])) for each in (f, areas)]
        row = [f"{digits(of[OURS])} | {digits(of[bar])} ({bar.removeprefix('forest, ')})" for of, bar in bars]
        rows.append([name, *shape[name], *row])
    columns = ["table", "training", "stream", "d", "known", "micro-F", "best recipe", "AUROC", "best recipe"]
    sentences = [
        f"{title} is above the best recipe on {sum(x > 0.0 for x in gain)} of {len(gain)} tables.\n"
        f"It is more than 0.02 below on {sum(x < -0.02 for x in gain)}, and more than 0.05 below on "
        f"{sum(x < -0.05 for x in gain)}. The mean difference is {np.mean(gain):+.3f}."
        for title, each in (("Micro-F", f), ("AUROC", areas))
        for gain in [[of[OURS] - of[best(of)] for of in each.values()]]
    ]
    return "\n\n".join([table(columns, rows), "\n".join(sentences)])


def draw(records: list[dict[str, Any]], path: Path) -> None:
    """Draw where the defaults stand beside the recipes, a line a table."""
    f = means(records, "micro_f")
    names = sorted(f, key=lambda name: f[name][OURS] - f[name][best(f[name])])
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.0, 0.27 * len(names) + 1.2), layout="constrained")
        axes = figure.subplots()
        for at, name in enumerate(names):
            others = [value for method, value in f[name].items() if method != OURS]
            axes.plot(
                others, [at] * len(others), "|", color="#7f7f7f", markersize=9, label="recipes"[: 99 * (not at)]
            )
            axes.plot([f[name][OURS]], [at], "o", color=OURS_COLOUR, markersize=6, label="defaults"[: 99 * (not at)])
        axes.set_yticks(range(len(names)), names)
        axes.set_xlim(0.0, 1.0)
        axes.set_xlabel("micro-F over the known classes, mean of the seeds")
        axes.legend(loc="lower left", frameon=False)
        figure.savefig(path, dpi=150)


def main(
    tables: Annotated[str, typer.Option(help="Names, separated by commas, or all.")] = "all",
    seeds: Annotated[str, typer.Option(help="From and to, or one.")] = "0-4",
    methods: Annotated[str, typer.Option(help=f"{OURS}, recipes or all.")] = "all",
    json_file: Annotated[Path, typer.Option("--json", help="Results, added to and read again.")] = RESULTS,
    written: Annotated[bool, typer.Option("--write", help="Into docs/results/breadth.md, and draw.")] = False,
) -> None:
    """Measure what is not in the results yet; print the table."""
    first, _, last = seeds.partition("-")
    chosen = {OURS: [OURS], "recipes": list(RECIPES)}.get(methods, [OURS, *RECIPES])
    done = read(json_file)
    for name in TABLES if tables == "all" else tables.split(","):
        for seed in range(int(first), int(last or first) + 1):
            for method in chosen:
                if (name, seed, method) not in done:
                    done[name, seed, method] = record = measure(name, seed, method)
                    with json_file.open("a") as file:
                        file.write(json.dumps(record) + "\n")
                    sys.stderr.write(f"{name} {seed} {method}: {record['micro_f']:.3f} {record['auroc']:.3f}\n")
    records = list(done.values())
    print(page(records))
    if written:
        draw(records, FIGURE)
        write("breadth", page(records), PAGE)


if __name__ == "__main__":
    typer.run(main)
