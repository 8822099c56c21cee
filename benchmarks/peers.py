"""What a user would run instead, on the same stream: python -m benchmarks.peers [--write].

LETTER's whole test stream, ten known classes, all others new, in batches of 64, one thread: processor microseconds an
instance, and how often each is right that an instance is of a known class, or of none. No label comes after training.
None of them does the same: half-space trees know no classes, the forest discovers nothing, river's clusterers do not
say what is known, a mixture refitted batch by batch forgets; those last two are here for the cost.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import typer
from river import anomaly, cluster
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture
from sklearn.neighbors import LocalOutlierFactor
from threadpoolctl import threadpool_limits

from benchmarks.deciding import UNKNOWN
from benchmarks.growth import BATCH, SEED, train
from benchmarks.openset.comparators.neighbours import OSNN
from benchmarks.openset.sets import Problem, problem
from benchmarks.streams import ONE_CHAIN
from benchmarks.written import Write, table, tell

WARM = 4 * BATCH
COMPONENTS = 30
REFIT = 1000
FALSE_ALARMS = 0.05
"""Of the training instances: where a threshold has to be chosen, this share of them lies beyond it."""

Decide = Callable[[np.ndarray], np.ndarray | None]
"""Take a batch in; the class of each instance as a number, or `UNKNOWN`. None: it does not say."""
Contender = Callable[[np.ndarray, np.ndarray], Decide]
"""Train on rows and their classes, numbers from 0."""


def stream_osr(X: np.ndarray, y: np.ndarray, **arguments: Any) -> Decide:
    """Make a recognizer; its labels are the classes' numbers, and -1 for unknown."""
    model = train(X, y, **arguments)

    def decide(rows: np.ndarray) -> np.ndarray:
        model.learn_rows(rows)
        model.close_batch()
        return np.array([decision.label for decision in model.drain()])

    return decide


def minas(X: np.ndarray, y: np.ndarray, **arguments: Any) -> Decide:
    """MINAS of the package streamndr; its new classes have numbers beyond those of the known ones."""
    from streamndr.model import Minas

    model = Minas(random_state=SEED, **arguments).learn_many(X, y.tolist())

    def decide(rows: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):  # of clusters that are one point
            labels = model.predict_many(rows)
        return np.where(labels > y.max(), UNKNOWN, labels)

    return decide


def half_space_trees(X: np.ndarray, _: np.ndarray) -> Decide:
    """Half-space trees, learning from what they do not find odd; a known instance is of class 0, for want of more."""
    low, high = X.min(axis=0), X.max(axis=0)
    trees = anomaly.HalfSpaceTrees(seed=SEED)
    model = anomaly.QuantileFilter(trees, q=1.0 - FALSE_ALARMS)

    def one(row: np.ndarray) -> int:
        x = dict(enumerate(row.tolist()))
        odd = model.classify(model.score_one(x))
        model.learn_one(x)
        return UNKNOWN if odd else 0

    def decide(rows: np.ndarray) -> np.ndarray:
        return np.array([one(row) for row in np.clip((rows - low) / (high - low), 0.0, 1.0)])

    decide(np.random.default_rng(SEED).permutation(X))
    return decide


def forest(X: np.ndarray, y: np.ndarray) -> Decide:
    """Random forest; what LOF finds odd is unknown, refitted to training and the latest instances it did not."""
    trees = RandomForestClassifier(random_state=SEED).fit(X, y)

    def fitted(rows: np.ndarray) -> LocalOutlierFactor:
        return LocalOutlierFactor(novelty=True, contamination=FALSE_ALARMS).fit(rows)

    outliers, seen, latest = fitted(X), 0, list[np.ndarray]()

    def decide(rows: np.ndarray) -> np.ndarray:
        nonlocal outliers, seen, latest
        known = outliers.predict(rows) == 1
        seen += len(rows)
        latest.append(rows[known])
        if seen >= REFIT:
            outliers, seen, latest = fitted(np.concatenate([X, *latest])), 0, []
        return np.where(known, trees.predict(rows), UNKNOWN)

    return decide


def osnn(X: np.ndarray, y: np.ndarray) -> Decide:
    """Ratio of the distances to the nearest instances of two classes."""
    return OSNN().fit(X, y).predict


def mixture(*_: np.ndarray) -> Decide:
    """Refit a Dirichlet process mixture of Gaussians to every batch, as far as one can."""

    def decide(rows: np.ndarray) -> None:
        model = BayesianGaussianMixture(n_components=min(COMPONENTS, len(rows)), random_state=SEED)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(rows)
        model.predict(rows)

    return decide


def clusterer(make: Callable[[], Any], *_: np.ndarray) -> Decide:
    """One of river's clusterers, one instance after the other."""
    model = make()

    def decide(rows: np.ndarray) -> None:
        for row in rows.tolist():
            x = dict(enumerate(row))
            model.learn_one(x)
            model.predict_one(x)

    return decide


CONTENDERS: dict[str, Contender] = {
    "stream-osr, defaults": stream_osr,
    "stream-osr, one chain, window 0": partial(stream_osr, **ONE_CHAIN),
    "MINAS (streamndr), its defaults: 3 clusters a class": minas,
    "MINAS, 30 clusters a class": partial(minas, kini=30, min_short_mem_trigger=100, min_examples_cluster=20),
    "half-space trees (river)": half_space_trees,
    f"random forest, LOF refitted every {REFIT} (scikit-learn)": forest,
    "OSNN": osnn,
    "Dirichlet process mixture of each batch (scikit-learn)": mixture,
    "STREAMKMeans (river)": partial(clusterer, lambda: cluster.STREAMKMeans(seed=SEED)),
    "DBSTREAM (river)": partial(clusterer, lambda: cluster.DBSTREAM(clustering_threshold=2.0)),
    "DenStream (river)": partial(clusterer, lambda: cluster.DenStream(epsilon=2.0)),
}
COLUMNS = ["", "processor, us", "wall, us", "accuracy of known or unknown", "on known instances"]
COLUMNS += ["on unknown instances", "label accuracy"]


def stream(decide: Decide, rows: np.ndarray) -> list[np.ndarray | None]:
    """Have all batches decided, one after the other."""
    return [decide(rows[at : at + BATCH]) for at in range(0, len(rows), BATCH)]


def rightness(called: np.ndarray, truth: np.ndarray) -> list[float]:
    """How often the call known or unknown is right: of all, of the known, of the unknown; how often the label is."""
    known = truth != UNKNOWN
    right = (called != UNKNOWN) == known
    return [float(each.mean()) for each in (right, right[known], right[~known], called == truth)]


def measure(contender: Contender, given: Problem) -> list[float]:
    """Run it over the first instances to get warm, then, trained anew, over the stream; cells of its row."""
    with threadpool_limits(1):
        stream(contender(given.X_train, given.group), given.X_test[:WARM])
        decide = contender(given.X_train, given.group)
        begin = np.array([time.process_time(), time.perf_counter()])
        called = stream(decide, given.X_test)
        took = np.array([time.process_time(), time.perf_counter()]) - begin
    cells = (1e6 * took / len(given.X_test)).tolist()
    if any(each is None for each in called):
        return cells
    found = rightness(np.concatenate(called), given.truth)
    return cells + (found[:-1] if contender is half_space_trees else found)


def main(write: Write = False) -> None:
    """Measure and print."""
    given, rows = problem("LETTER", None, SEED), []
    mean, spread = given.X_train.mean(axis=0), given.X_train.std(axis=0)
    given = given._replace(X_train=(given.X_train - mean) / spread, X_test=(given.X_test - mean) / spread)
    for name, contender in CONTENDERS.items():
        print(f"measuring {name}", file=sys.stderr)
        rows.append([name, *measure(contender, given)])
    text = table(COLUMNS, [[*row, *[""] * (len(COLUMNS) - len(row))] for row in rows])
    tell("peers", text, write)


if __name__ == "__main__":
    typer.run(main)
