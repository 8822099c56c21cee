"""Untouched defaults on many tables, beside six recipes: python -m benchmarks.breadth [--write].

A recipe is what a practitioner would build instead: a forest for the class, a score for novelty, a quantile for a
threshold. It is ten lines of scikit-learn with its defaults. No unknown instance is used to choose anything.

What has been measured is kept in the results file and not measured again. The bar on each table is the best recipe
there, chosen with hindsight; means over the seeds.
"""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import matplotlib as mpl
import numpy as np
import typer
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors

from benchmarks.deciding import decide, scores
from benchmarks.openset.figures import OURS_COLOUR, STYLE
from benchmarks.records import Record, append, lines, seeds_of, versions
from benchmarks.tabular import TABLES, Part, divide, frame
from benchmarks.written import RECORDS, ROOT, Write, table, tell
from stream_osr import OpenSetRecognizer

OURS = "stream-osr"
UNKNOWN = "unknown"
BATCH = 64
RESULTS = RECORDS / "breadth.jsonl"
PAGE = ROOT / "docs" / "results" / "breadth.md"
FIGURE = ROOT / "docs" / "results" / "figures" / "breadth.png"


NEIGHBOURS = 5
CROWD = 20
TREES = 200
BEYOND = 0.05
"""Share of the validation instances beyond the threshold. A fifth of the training instances is validation data."""

Score = Callable[[np.ndarray], np.ndarray]
"""The novelty of rows, shape (n,); more is stranger."""


def neighbours(X: np.ndarray, y: np.ndarray) -> Score:
    """Score by the mean distance to the nearest training instances."""
    found = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(X)
    return lambda rows: found.kneighbors(rows)[0].mean(axis=1)


def detector(estimator: Any, X: np.ndarray, y: np.ndarray) -> Score:
    """Score by an outlier detector of scikit-learn."""
    found = clone(estimator).fit(X)
    return lambda rows: -found.score_samples(rows)


def distance(X: np.ndarray, y: np.ndarray) -> Score:
    """Score by the Mahalanobis distance to the nearest class mean, the covariance within classes pooled."""
    classes, number = np.unique(y, return_inverse=True)
    means = np.stack([X[number == j].mean(axis=0) for j in range(len(classes))])
    precision = LedoitWolf().fit(X - means[number]).precision_
    return lambda rows: np.min([_squares(rows - mean, precision) for mean in means], axis=0)


def class_distance(X: np.ndarray, y: np.ndarray) -> Score:
    """Score by each class's own covariance, with its log-determinant: the best class counts."""
    fitted = [LedoitWolf().fit(X[y == label]) for label in np.unique(y)]
    parts = [(each.location_, each.precision_, np.linalg.slogdet(each.covariance_)[1]) for each in fitted]
    return lambda rows: np.min([_squares(rows - m, precision) + log_det for m, precision, log_det in parts], axis=0)


def doubt(X: np.ndarray, y: np.ndarray) -> Score:
    """Score by what is left of 1 by the forest's largest probability."""
    forest = RandomForestClassifier(TREES, random_state=0).fit(X, y)
    return lambda rows: 1.0 - forest.predict_proba(rows).max(axis=1)


def _squares(rows: np.ndarray, precision: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ia,ab,ib->i", rows, precision, rows))


RECIPES: dict[str, Callable[[np.ndarray, np.ndarray], Score]] = {
    "forest, nearest neighbours": neighbours,
    "forest, local outlier factor": partial(detector, LocalOutlierFactor(n_neighbors=CROWD, novelty=True)),
    "forest, isolation forest": partial(detector, IsolationForest(random_state=0)),
    "forest, pooled covariance": distance,
    "forest, covariance of each class": class_distance,
    "forest, its own doubt": doubt,
}


def follow(name: str, part: Part, seed: int, unknown: str) -> tuple[np.ndarray, np.ndarray]:
    """Decide a stream by a recipe: labels, and how novel each instance is, shape (n,) both."""
    mean, spread = part.X_train.mean(axis=0), part.X_train.std(axis=0)
    spread[spread == 0.0] = 1.0
    X, rows, y = (part.X_train - mean) / spread, (part.X_test - mean) / spread, part.y_train
    order = np.random.default_rng(seed).permutation(len(X))
    back, rest = np.split(order, [len(X) // 5])
    fit = RECIPES[name]
    threshold = np.quantile(fit(X[rest], y[rest])(X[back]), 1.0 - BEYOND)
    novelty = fit(X, y)(rows)
    labels = RandomForestClassifier(TREES, random_state=0).fit(X, y).predict(rows)
    return np.where(novelty > threshold, unknown, labels), novelty


def measure(name: str, seed: int, method: str) -> Record:
    """Score a method on the stream of a table; ours with untouched defaults, in micro-batches of 64."""
    part = divide(name, seed)
    if method == OURS:
        model = OpenSetRecognizer(seed=seed, batch_size=BATCH, unknown=UNKNOWN)
        model.learn_many(frame(name, part.X_train), part.y_train.tolist())
        decisions = decide(model, frame(name, part.X_test))
        labels, novelty = [d.label for d in decisions], [d.p_unknown for d in decisions]
    else:
        labels, novelty = follow(method, part, seed, UNKNOWN)
    found = scores(part.y_test.tolist(), labels, novelty, part.known)
    return {
        "table": name,
        "seed": seed,
        "method": method,
        "n_train": len(part.X_train),
        "n_test": len(part.X_test),
        "d": part.X_train.shape[1],
        "known": len(part.known),
        **{figure: found[figure] for figure in ("micro_f", "auroc", "known_right", "unknown_recall")},
        "versions": versions(),
    }


def means(records: list[Record], figure: str) -> dict[str, dict[str, float]]:
    """Average a figure over the seeds: by table, then by method, of tables with ours and a recipe."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        found[record["table"]][record["method"]].append(record[figure])
    compared = {name: of for name, of in sorted(found.items()) if OURS in of and len(of) > 1}
    return {name: {method: float(np.mean(v)) for method, v in of.items()} for name, of in compared.items()}


def best(of: dict[str, float]) -> str:
    """Name the recipe that is best on a table."""
    return max((method for method in of if method != OURS), key=of.__getitem__)


def page(records: list[Record]) -> str:
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


def draw(records: list[Record], path: Path) -> None:
    """Draw where the defaults stand beside the recipes, a line a table."""
    f = means(records, "micro_f")
    names = sorted(f, key=lambda name: f[name][OURS] - f[name][best(f[name])])
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.0, 0.27 * len(names) + 1.2), layout="constrained")
        axes = figure.subplots()
        for at, name in enumerate(names):
            others = [value for method, value in f[name].items() if method != OURS]
            labels = ("recipes", "defaults") if not at else ("", "")
            axes.plot(others, [at] * len(others), "|", color="#7f7f7f", markersize=9, label=labels[0])
            axes.plot([f[name][OURS]], [at], "o", color=OURS_COLOUR, markersize=6, label=labels[1])
        axes.set_yticks(range(len(names)), names)
        axes.set(xlim=(0.0, 1.0), xlabel="micro-F over the known classes, mean of the seeds")
        axes.legend(loc="lower left", frameon=False)
        figure.savefig(path, dpi=150)


def main(
    seeds: Annotated[str, typer.Option(help="Seeds, as 0-4.")] = "0-4",
    json_file: Annotated[Path, typer.Option("--json", help="Results, added to and read again.")] = RESULTS,
    write: Write = False,
) -> None:
    """Measure what is not in the results yet; print the table."""
    done = {(r["table"], r["seed"], r["method"]): r for r in lines(json_file)}
    for key in itertools.product(TABLES, seeds_of(seeds), (OURS, *RECIPES)):
        if key not in done:
            done[key] = record = measure(*key)
            append(json_file, record)
            print(*key, f"{record['micro_f']:.3f} {record['auroc']:.3f}", file=sys.stderr)
    records = list(done.values())
    if write:
        draw(records, FIGURE)
    tell("breadth", page(records), write, PAGE)


if __name__ == "__main__":
    typer.run(main)
