"""Whether the comparators reproduce the figures that are on record for them.

    python -m benchmarks.openset.comparators.check [--datasets PENDIGITS COIL20] [--methods OSNN] [--seeds 5]
        [--pca-on-whole] [--scale-first --hold scaling=none] [--near 0.005]

prints, for each method and data set, mean micro-F at the paper's three levels of openness beside the figures on
record, the differences, the standard error of the mean at the highest openness, and the seconds that selecting and
fitting took (methods on the same support vector machines share theirs equally). The figures on record had the
principal components fitted to the whole data set: ``--pca-on-whole`` does so too, to compare like with like. With
``--hold`` the methods that have these parameters do not choose them. On record the support vector machines had the
features of the whole data set in [-1, 1] before the principal components and nothing scaled after: that is
``--pca-on-whole --scale-first --hold scaling=none``. With ``--near`` a line for each repetition says how far apart in
the test is what validation hardly tells apart: lowest and highest micro-F, at the highest openness, of parameters
that validate so near to the best.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from benchmarks.openset.comparators import METHODS, VARIANTS, micro_f, select_family
from benchmarks.openset.comparators.base import OpenSetClassifier
from benchmarks.openset.comparators.margin_classifier import MachinePool, MarginClassifier
from benchmarks.openset.comparators.selection import judged
from benchmarks.paper.datasets import KNOWN_CLASSES, PCA_DIMENSIONS, UNKNOWN_CLASSES, load
from benchmarks.paper.protocol import split, validation_split

NEIGHBOURS = 20
"""Parameters at most that ``--near`` fits, evenly among those that are near enough."""

PUBLISHED: dict[str, dict[str, tuple[float, float, float]]] = {
    "OSNN": {
        "LETTER": (0.903, 0.783, 0.727),
        "PENDIGITS": (0.926, 0.879, 0.854),
        "USPS": (0.902, 0.838, 0.784),
        "COIL20": (0.964, 0.944, 0.931),
        "YALEB": (0.656, 0.510, 0.376),
    },
    "EVM": {
        "LETTER": (0.918, 0.827, 0.778),
        "PENDIGITS": (0.956, 0.890, 0.859),
        "USPS": (0.918, 0.822, 0.772),
        "COIL20": (0.976, 0.965, 0.954),
        "YALEB": (0.561, 0.454, 0.341),
    },
    "W-SVM": {
        "LETTER": (0.968, 0.648, 0.548),
        "PENDIGITS": (0.987, 0.859, 0.789),
        "USPS": (0.960, 0.848, 0.780),
        "COIL20": (0.923, 0.737, 0.636),
        "YALEB": (0.847, 0.632, 0.448),
    },
    "P_I-SVM": {
        "LETTER": (0.968, 0.642, 0.542),
        "PENDIGITS": (0.988, 0.833, 0.755),
        "USPS": (0.957, 0.848, 0.785),
        "COIL20": (0.889, 0.549, 0.434),
        "YALEB": (0.900, 0.609, 0.400),
    },
    "W-OSVM": {
        "LETTER": (0.939, 0.518, 0.410),
        "PENDIGITS": (0.919, 0.606, 0.516),
        "USPS": (0.927, 0.505, 0.409),
        "COIL20": (0.926, 0.823, 0.767),
        "YALEB": (0.631, 0.359, 0.203),
    },
    "1-vs-Set linear": {
        "LETTER": (0.759, 0.401, 0.314),
        "PENDIGITS": (0.968, 0.606, 0.492),
        "USPS": (0.962, 0.611, 0.498),
        "COIL20": (0.888, 0.738, 0.658),
        "YALEB": (0.861, 0.538, 0.325),
    },
    "1-vs-Set rbf": {
        "LETTER": (0.813, 0.447, 0.354),
        "PENDIGITS": (0.992, 0.599, 0.478),
        "USPS": (0.968, 0.683, 0.573),
        "COIL20": (0.946, 0.879, 0.823),
        "YALEB": (0.850, 0.390, 0.198),
    },
    "k-NN distance": {
        "LETTER": (0.933, 0.792, 0.728),
        "PENDIGITS": (0.983, 0.924, 0.872),
        "USPS": (0.921, 0.749, 0.667),
        "COIL20": (0.969, 0.911, 0.879),
        "YALEB": (0.864, 0.655, 0.468),
    },
    "GMM per class": {
        "LETTER": (0.960, 0.802, 0.727),
        "PENDIGITS": (0.984, 0.912, 0.835),
        "USPS": (0.972, 0.781, 0.693),
        "COIL20": (0.994, 0.902, 0.847),
        "YALEB": (0.955, 0.732, 0.534),
    },
    "QDA + chi2": {
        "LETTER": (0.899, 0.639, 0.550),
        "PENDIGITS": (0.970, 0.843, 0.754),
        "USPS": (0.959, 0.834, 0.764),
        "COIL20": (0.996, 0.790, 0.698),
        "YALEB": (0.958, 0.645, 0.424),
    },
    "LDA + posterior": {
        "LETTER": (0.723, 0.440, 0.354),
        "PENDIGITS": (0.780, 0.569, 0.487),
        "USPS": (0.808, 0.686, 0.639),
        "COIL20": (0.836, 0.717, 0.640),
        "YALEB": (0.828, 0.721, 0.618),
    },
}
"""Mean micro-F at no, medium and highest openness of an earlier, independent implementation of the same methods under
the same protocol (5 to 10 seeds), kept as the reference for this one."""


def project(name: str, X: NDArray[np.float64], X_train: NDArray[np.float64], on_whole: bool) -> PCA | None:
    """Principal components that the paper takes of a set, or None where it uses the features as they are."""
    if name not in PCA_DIMENSIONS:
        return None
    return PCA(PCA_DIMENSIONS[name], svd_solver="full").fit(X if on_whole else X_train)


class Parts(NamedTuple):
    """Training part and test part; `truth` has -1 for unknown, `present` a mask for each openness."""

    X_train: NDArray[np.float64]
    y_train: NDArray[np.int64]
    X_test: NDArray[np.float64]
    truth: NDArray[np.int64]
    present: list[NDArray[np.bool_]]


def lay_out(name: str, seed: int, on_whole: bool, scale_first: bool) -> Parts:
    """Split a set; `scale_first` maps the whole of it into [-1, 1] by one factor before."""
    data = load(name)
    if scale_first:
        low, high = data.X.min(), data.X.max()
        data = data._replace(X=(2 * data.X - low - high) / (high - low))
    n_unknown = UNKNOWN_CLASSES[name]
    part = split(data.X, data.y, KNOWN_CLASSES[name], n_unknown[-1], seed)
    number = {label: j for j, label in enumerate(part.known)}
    components = project(name, data.X, part.X_train, on_whole)
    X_train, X_test = (
        rows if components is None else components.transform(rows) for rows in (part.X_train, part.X_test)
    )
    y_train = np.array([number[label] for label in part.y_train.tolist()])
    truth = np.array([number.get(label, -1) for label in part.y_test.tolist()])
    present = [np.isin(part.y_test, np.array(part.known + part.unknown[:n])) for n in (0, *n_unknown)]
    return Parts(X_train, y_train, X_test, truth, present)


def figures(
    name: str,
    methods: list[str],
    seed: int,
    on_whole: bool,
    held: Mapping[str, Any] | None = None,
    scale_first: bool = False,
) -> dict[str, tuple[tuple[float, float, float], float, str]]:
    """For each method: micro-F at three levels of openness, seconds and what was selected, but for what is `held`."""
    parts = lay_out(name, seed, on_whole, scale_first)
    found = {}
    for family in _families(methods):
        start = time.perf_counter()
        models = select_family(family, parts.X_train, parts.y_train, seed, held)
        seconds = (time.perf_counter() - start) / len(family)
        for method, model in models.items():
            f = assess(model, parts)
            shown = ", ".join(
                f"{key}={value}" if isinstance(value, str) else f"{key}={value:.4g}"
                for key, value in model.get_params().items()
                if value is not None
            )
            found[method] = f, seconds, shown
    return found


def assess(model: OpenSetClassifier, parts: Parts) -> tuple[float, float, float]:
    """Micro-F at three levels of openness."""
    predicted = model.predict(parts.X_test)
    closed, medium, highest = (micro_f(parts.truth[here], predicted[here]) for here in parts.present)
    return closed, medium, highest


def neighbours(method: str, parts: Parts, seed: int, near: float, held: Mapping[str, Any]) -> tuple[int, list[float]]:
    """How many parameters validate within `near` of the best, and micro-F at the highest openness of some of them."""
    X, y = parts.X_train, parts.y_train
    validation = validation_split(X, y, seed)
    pool = MachinePool(validation.X_fit, validation.y_fit, validation.X_open, X)
    values = list(judged(method, validation, pool, held))
    best = max(value for value, _ in values)
    close = [parameters for value, parameters in values if value >= best - near]
    some = [close[j] for j in np.unique(np.linspace(0, len(close) - 1, NEIGHBOURS).round().astype(int))]
    make = (METHODS | VARIANTS)[method].make
    return len(close), [assess(make(**parameters).fit(X, y), parts)[2] for parameters in some]


def _families(methods: list[str]) -> list[list[str]]:
    """Methods on support vector machines together, the others one by one."""
    together = [name for name in methods if _on_machines(name)]
    return [[name] for name in methods if name not in together] + ([together] if together else [])


def _on_machines(method: str) -> bool:
    made = (METHODS | VARIANTS)[method].make
    return isinstance(made, type) and issubclass(made, MarginClassifier)


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
    parser.add_argument(
        "--scale-first", action="store_true", help="map the whole set into [-1, 1] by one factor first"
    )
    parser.add_argument(
        "--hold", nargs="+", type=_assignment, default=[], metavar="PARAMETER=VALUE", help="instead of selecting it"
    )
    parser.add_argument("--near", type=float, help="show what the test makes of parameters so near to the best")
    parser.add_argument("--verbose", action="store_true", help="print each repetition and what was selected")
    options = parser.parse_args()
    held = dict(options.hold)
    print(f"{'data set':<10} {'method':<16} {'micro-F':<17} {'on record':<17} {'difference':<20} error seconds")
    for name in options.datasets:
        found = defaultdict(list)
        for seed in range(options.seeds):
            measured = figures(name, options.methods, seed, options.pca_on_whole, held, options.scale_first)
            for method, (f, seconds, shown) in measured.items():
                found[method].append((*f, seconds))
                if options.verbose:
                    print(f"  seed {seed} {method:<16} {_row(f)}  {seconds:6.1f} s  {shown}", flush=True)
                if options.near is not None:
                    parts = lay_out(name, seed, options.pca_on_whole, options.scale_first)
                    n, f_near = neighbours(method, parts, seed, options.near, held)
                    print(
                        f"  seed {seed} {method:<16} {f[2]:.3f} of {min(f_near):.3f} to {max(f_near):.3f}, {n} near"
                    )
        for method, rows in found.items():
            *f, seconds = np.mean(rows, axis=0)
            record = PUBLISHED.get(method, {}).get(name)
            beside = f"{'-':<17} {'-':<20}"
            if record is not None:
                beside = f"{_row(record)} " + " ".join(
                    f"{mine - its:+.3f}" for mine, its in zip(f, record, strict=True)
                )
            error = np.std([row[2] for row in rows]) / max(len(rows) - 1, 1) ** 0.5
            print(
                f"{name:<10} {method:<16} {_row(f)} {beside} {error:.3f} {seconds:7.1f}",
                flush=True,
            )


def _row(figures: object) -> str:
    return " ".join(f"{value:.3f}" for value in figures)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
