"""Whether the comparators reproduce the figures that are on record for them.

    python -m benchmarks.openset.comparators.check [--datasets PENDIGITS COIL20] [--methods OSNN] [--seeds 5]
        [--pca-on-whole] [--scale-first --hold scaling=none]

prints, for each method and data set, mean micro-F at the paper's three levels of openness beside the figures on
record, the differences, the standard error of the mean at the highest openness, and the seconds that selecting and
fitting took (methods on the same support vector machines share theirs equally). The figures on record had the
principal components fitted to the whole data set: ``--pca-on-whole`` does so too, to compare like with like. With
``--hold`` the methods that have these parameters do not choose them. On record the support vector machines had the
features of the whole data set in [-1, 1] before the principal components and nothing scaled after: that is
``--pca-on-whole --scale-first --hold scaling=none``.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from benchmarks.openset.comparators import METHODS, VARIANTS, micro_f, select_family
from benchmarks.openset.comparators.selection import on_machines
from benchmarks.openset.sets import Problem, problem
from benchmarks.paper.datasets import KNOWN_CLASSES, PCA_DIMENSIONS, UNKNOWN_CLASSES, load

PUBLISHED: dict[str, dict[str, tuple[float, ...]]] = defaultdict(dict)
"""Mean micro-F at closed, medium and highest openness, by method and data set. The figures are those of an earlier,
independent implementation of the same methods under the same protocol (5 to 10 seeds)."""
with Path(__file__).with_name("recorded.csv").open() as _file:
    for _method, _name, *_values in [*csv.reader(_file)][1:]:
        PUBLISHED[_method][_name] = tuple(map(float, _values))


def lay_out(name: str, seed: int, on_whole: bool, scale_first: bool) -> Problem:
    """Split a set, with the paper's principal components; `scale_first` maps the set into [-1, 1] by one factor."""
    given, whole = problem(name, None, seed), load(name).X
    parts = [given.X_train, given.X_test, whole]
    if scale_first:
        low, high = whole.min(), whole.max()
        parts = [(2 * X - low - high) / (high - low) for X in parts]
    if name in PCA_DIMENSIONS:
        fitted = PCA(PCA_DIMENSIONS[name], svd_solver="full").fit(parts[2] if on_whole else parts[0])
        parts = [fitted.transform(X) for X in parts[:2]]
    return given._replace(X_train=parts[0], X_test=parts[1])


def figures(
    name: str,
    methods: list[str],
    seed: int,
    on_whole: bool,
    held: Mapping[str, Any] | None = None,
    scale_first: bool = False,
) -> dict[str, tuple[list[float], float]]:
    """For each method: micro-F at three levels of openness, and seconds; what is `held` is not selected."""
    given = lay_out(name, seed, on_whole, scale_first)
    present = [given.among(n) for n in (0, *UNKNOWN_CLASSES[name])]
    together = [method for method in methods if on_machines(method)]
    found = {}
    for family in filter(None, [*([each] for each in methods if each not in together), together]):
        start = time.perf_counter()
        models = select_family(family, given.X_train, given.group, seed, held)
        seconds = (time.perf_counter() - start) / len(family)
        for method, model in models.items():
            predicted = model.predict(given.X_test)
            found[method] = [micro_f(given.truth[here], predicted[here]) for here in present], seconds
    return found


def _assignment(text: str) -> tuple[str, Any]:
    name, value = text.split("=")
    try:
        return name, float(value)
    except ValueError:
        return name, value


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=list(KNOWN_CLASSES), choices=list(KNOWN_CLASSES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=[*METHODS, *VARIANTS])
    parser.add_argument("--seeds", type=int, default=2, help="number of repetitions")
    parser.add_argument("--pca-on-whole", action="store_true", help="fit the principal components to the whole set")
    parser.add_argument("--scale-first", action="store_true", help="map the set into [-1, 1] by one factor first")
    parser.add_argument(
        "--hold", nargs="+", type=_assignment, default=[], metavar="PARAMETER=VALUE", help="instead of selecting it"
    )
    given = parser.parse_args()
    print(f"{'data set':<10} {'method':<16} {'micro-F':<17} {'on record':<17} {'difference':<20} error seconds")
    for name in given.datasets:
        found = defaultdict(list)
        for seed in range(given.seeds):
            measured = figures(name, given.methods, seed, given.pca_on_whole, dict(given.hold), given.scale_first)
            for method, (f, seconds) in measured.items():
                found[method].append((*f, seconds))
        for method, rows in found.items():
            *mean, seconds = np.mean(rows, axis=0)
            beside = f"{'-':<17} {'-':<20}"
            if name in PUBLISHED.get(method, {}):
                record = PUBLISHED[method][name]
                beside = f"{_row(record)} {_row(np.subtract(mean, record), '+.3f')}"
            error = np.std([row[2] for row in rows]) / max(len(rows) - 1, 1) ** 0.5
            print(f"{name:<10} {method:<16} {_row(mean)} {beside} {error:.3f} {seconds:7.1f}", flush=True)


def _row(values: Iterable[float], form: str = ".3f") -> str:
    return " ".join(format(value, form) for value in values)


if __name__ == "__main__":
    main()
