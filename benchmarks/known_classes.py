"""Known classes as they are: separate modes, and missing values: python -m benchmarks.known_classes [PART ...].

Parts: ``holes`` (classes of separate modes, with new instances between them), ``curved`` (a ring and a moon, with new
instances inside), ``missing`` (tables with missing values in training), ``process`` (TEP with missing values). Means
over the seeds, with untouched defaults. ``docs/results/known_classes.md`` has the figures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.deciding import decide, scores
from benchmarks.order.case import Case
from benchmarks.order.tables import in_order
from benchmarks.tabular import Part, divide, frame
from stream_osr import OpenSetRecognizer

UNKNOWN = "unknown"
SEEDS = range(5)
NEW = 150


def holes(
    seed: int,
    classes: int = 5,
    d: int = 5,
    n: int = 2000,
    modes: int = 2,
    spread: float = 4.0,
    share: float | None = None,
    freedom: float = np.inf,
    shared: bool = False,
) -> Case:
    """Draw classes of separate modes. New instances lie half way between two modes of a class.

    Parameters
    ----------
    seed
        Seed.
    classes, d, n, modes
        Numbers of classes, dimensions, training rows, and modes of a class.
    spread
        Standard deviation of the centres of the modes, in standard deviations of a mode.
    share
        Share of the last mode. ``None``: all modes have the same.
    freedom
        Degrees of freedom of the Student-t of a mode.
    shared
        Whether all classes have the same modes, such as two operating points, beside centres of their own.
    """
    rng = np.random.default_rng(seed)
    centre = rng.normal(0.0, spread, (classes, modes, d))
    if shared:
        centre = rng.normal(0.0, spread, (classes, 1, d)) + rng.normal(0.0, spread, (1, modes, d))
    weights = np.full(modes, 1.0 / modes)
    if share is not None:
        weights[:] = *[(1 - share) / (modes - 1)] * (modes - 1), share

    def around(places: np.ndarray) -> np.ndarray:
        scale = 1.0 if np.isinf(freedom) else np.sqrt(freedom / rng.chisquare(freedom, len(places)))[:, None]
        return np.asarray(places + scale * rng.normal(size=places.shape))

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(classes, size=count)
        return around(centre[y, rng.choice(modes, size=count, p=weights)]), y

    (X, y), (known, truth) = draw(n), draw(1500)
    pairs = np.array([rng.choice(modes, 2, replace=False) for _ in range(NEW)])
    between = centre[rng.integers(classes, size=NEW)[:, None], pairs].mean(axis=1)
    return mixed(rng, X, y, known, truth, around(between))


def curved(seed: int, shape: str = "ring", d: int = 2, n: int = 1200) -> Case:
    """Draw a ring or a moon beside two round classes, in d dimensions. New instances lie inside the curve."""
    rng = np.random.default_rng(seed)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        y, angle = rng.integers(3, size=count), rng.uniform(0.0, 2.0 * np.pi if shape == "ring" else np.pi, count)
        rows = rng.normal(size=(count, d))
        rows[:, :2] += np.where((y == 0)[:, None], 10.0 * np.column_stack([np.cos(angle), np.sin(angle)]), 0.0)
        rows[:, 0] += np.array([0.0, 25.0, -25.0])[y]
        return rows, y

    (X, y), (known, truth) = draw(n), draw(1500)
    inside = rng.normal(size=(NEW, d))
    inside[:, 1] += 0.0 if shape == "ring" else 3.0
    return mixed(rng, X, y, known, truth, inside)


def mixed(
    rng: np.random.Generator, X: np.ndarray, y: np.ndarray, known: np.ndarray, truth: np.ndarray, new: np.ndarray
) -> Case:
    """Mix known and new instances of a stream. The true label of a new instance is ``"unknown"``."""
    order = rng.permutation(len(known) + len(new))
    names, labels = np.array([f"c{v}" for v in y]), [*(f"c{v}" for v in truth), *[UNKNOWN] * len(new)]
    return Case(X, names, np.vstack([known, new])[order], np.array(labels)[order])


def figures(case: Case, seed: int) -> dict[str, float]:
    """Decide the stream, and score the decisions."""
    train, stream = (pd.DataFrame(rows).add_prefix("x") for rows in (case.X_train, case.X))
    model = OpenSetRecognizer(seed=seed, unknown=UNKNOWN)
    model.learn_many(train, pd.Series(case.y_train))
    decisions = decide(model, stream)
    labels, odd = [str(each.label) for each in decisions], [each.p_unknown for each in decisions]
    found = scores(case.y.tolist(), labels, odd, np.unique(case.y_train).tolist())
    return {
        "known right": found["known_right"],
        "found": found["unknown_recall"],
        "AUROC": found["auroc"],
        "subclasses": float(sum(model.trained.report.subclasses.values())),
    }


KINDS: dict[str, dict[str, Any]] = {
    "10 classes, d 20": {"classes": 10, "d": 20},
    "5 classes, d 5": {},
    "5 classes, d 8, near": {"d": 8, "n": 3000, "spread": 2.0},
    "3 modes": {"modes": 3},
    "5 modes": {"modes": 5, "d": 8},
    "a mode of 5 %": {"share": 0.05},
    "d 2": {"d": 2, "spread": 8.0},
    "d 10": {"d": 10},
    "d 40": {"d": 40, "n": 4000},
    "200 rows": {"n": 200},
    "20 000 rows": {"n": 20_000},
    "heavy tails (5)": {"freedom": 5.0},
    "shared modes, d 20": {"d": 20, "shared": True},
}


def report_holes() -> Iterator[str]:
    """Report the figures of all kinds of holes."""
    for name, arguments in KINDS.items():
        yield line(name, lambda seed, own=arguments: figures(holes(seed, **own), 1))


def report_curved() -> Iterator[str]:
    """Figures of curved classes."""
    for shape, d in (("ring", 2), ("ring", 5), ("moon", 2), ("moon", 5)):
        yield line(f"{shape}, d {d}", lambda seed, own=(shape, d): figures(curved(seed, *own), 1))


def masked(X: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Set a share of the numbers to missing at random. Each row keeps a number."""
    holes = np.random.default_rng(1000 + seed).random(X.shape) < share
    holes[holes.all(axis=1), 0] = False
    return np.where(holes, np.nan, X)


def report_missing() -> Iterator[str]:
    """Micro-F of tables with missing values in training, and of training on the complete rows alone."""
    for name in ("SEGMENT", "VEHICLE", "TEXTURE", "DIGITS", "WAVEFORM"):
        for share in (0.01, 0.05, 0.2):

            def scored(seed: int, name: str = name, share: float = share) -> dict[str, float]:
                part = divide(name, seed)
                X = masked(part.X_train, share, seed)
                complete = ~np.isnan(X).any(axis=1)
                enough = complete.sum() >= 200
                return {
                    "all rows": micro_f(name, part, X, np.ones(len(X), bool), seed),
                    "complete rows": micro_f(name, part, X, complete, seed) if enough else np.nan,
                }

            yield line(f"{name}, {share:.0%} missing", scored)


def micro_f(name: str, part: Part, X: np.ndarray, rows: np.ndarray, seed: int) -> float:
    """Micro-F of a table's stream after training on some rows."""
    model = OpenSetRecognizer(seed=seed, batch_size=64, unknown=UNKNOWN)
    model.learn_many(frame(name, X[rows]), part.y_train[rows].tolist())
    decisions = decide(model, frame(name, part.X_test))
    labels, odd = [str(each.label) for each in decisions], [each.p_unknown for each in decisions]
    return scores(part.y_test.tolist(), labels, odd, part.known)["micro_f"]


def report_process() -> Iterator[str]:
    """Figures of TEP, with missing values in training, in the stream, or in both."""
    case = in_order("TEP", "open")
    truth = np.where(np.isin(case.y, np.unique(case.y_train)), case.y, UNKNOWN)
    for where in ("nothing", "training", "stream", "both"):
        for share in (0.001, 0.003, 0.01, 0.05) if where != "nothing" else (0.0,):

            def scored(seed: int, share: float = share, where: str = where) -> dict[str, float]:
                X = masked(case.X_train, share, seed) if where in ("training", "both") else case.X_train
                stream = masked(case.X, share, seed + 50) if where in ("stream", "both") else case.X
                return figures(Case(X, case.y_train, stream, truth), 0)

            yield line(f"TEP, {share:.1%} missing in {where}", scored, range(3))


def line(name: str, scored: Callable[[int], dict[str, float]], seeds: range = SEEDS) -> str:
    """Mean of each figure over the seeds, and the lowest and highest."""
    found = [scored(seed) for seed in seeds]
    values = {each: np.array([one[each] for one in found]) for each in found[0]}
    shown = (f"{each} {own.mean():.3f} ({own.min():.3f} to {own.max():.3f})" for each, own in values.items())
    return f"{name}: " + ", ".join(shown)


PARTS = {"holes": report_holes, "curved": report_curved, "missing": report_missing, "process": report_process}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        for text in PARTS[part]():
            print(text, flush=True)
