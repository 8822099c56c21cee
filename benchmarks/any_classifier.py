"""Any classifier with the answer unknown: python -m benchmarks.any_classifier [--write].

Five classifiers learn some of the classes of a table. ``OpenSetMonitor`` adds the answer unknown, from the same
training data. The stream contains the known classes, and from its second quarter on the other classes. The table
compares the recall that the monitor reports at the end of the stream with the measured one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import typer
from river import naive_bayes, preprocessing
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_digits
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, OrdinalEncoder
from sklearn.svm import SVC

from benchmarks.deciding import scores
from benchmarks.paper.datasets import load
from benchmarks.written import ROOT, Write, table, tell
from stream_osr.monitor import OpenSetMonitor

sys.path.insert(0, str(ROOT / "examples"))

PAGE = ROOT / "docs" / "results" / "any_classifier.md"
CLOSEST = 0.03
"""Largest difference between the reported and the measured recall."""


class Scenario(NamedTuple):
    """A fitted monitor, the instances of its stream, and their labels. Labels of new classes are ``None``."""

    monitor: OpenSetMonitor
    rows: Any
    truth: list[Any]


def in_order(y: np.ndarray, known: np.ndarray, seed: int) -> np.ndarray:
    """Shuffle a stream. The new classes appear from the second quarter on."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    early = rng.random(len(y)) < 0.25
    return np.concatenate([order[early & known[order]], order[~(early & known[order])]])


def parts(y: np.ndarray, n_known: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """Draw known classes, and divide instances: those of training, those of the stream, and the stream's truth."""
    known = set(np.random.default_rng(seed).permutation(np.unique(y))[:n_known].tolist())
    rng = np.random.default_rng(seed)
    is_known = np.isin(y, list(known))
    training = rng.permutation(np.flatnonzero(is_known & (rng.random(len(y)) < share)))
    rest = np.setdiff1d(np.arange(len(y)), training)
    rest = rest[in_order(y[rest], is_known[rest], seed)]
    return training, rest, [label if label in known else None for label in y[rest].tolist()]


def of_numbers(X: np.ndarray, y: np.ndarray, n_known: int, classifier: Any, seed: int) -> Scenario:
    """Train a classifier on some of the classes of a table of numbers."""
    training, rest, truth = parts(y, n_known, 0.6, seed)
    classifier.fit(X[training], y[training])
    return Scenario(
        OpenSetMonitor(classifier, batch_size=64, seed=seed).fit(X[training], y[training]), X[rest], truth
    )


def tabular(seed: int) -> Scenario:
    """Pieces of photographs, a random forest."""
    return of_numbers(*load("SEGMENT"), 4, RandomForestClassifier(random_state=seed), seed)


def texts(seed: int) -> Scenario:
    """Documentation of scientific libraries by topic, logistic regression on TF-IDF."""
    from texts import corpus

    found, y = corpus()
    training, rest, truth = parts(y, 6, 0.6, seed)
    give = found[training].tolist()
    classifier = make_pipeline(TfidfVectorizer(sublinear_tf=True, min_df=3, max_df=0.3), LogisticRegression(C=30))
    classifier.fit(give, y[training])
    embed = make_pipeline(classifier[0], TruncatedSVD(40, random_state=seed), Normalizer())
    embed[1].fit(classifier[0].transform(give))
    monitor = OpenSetMonitor(classifier, embed, batch_size=64, seed=seed).fit(give, y[training])
    return Scenario(monitor, found[rest].tolist(), truth)


def digits(seed: int) -> Scenario:
    """Images of digits, a support vector machine with calibrated probabilities."""
    return of_numbers(*load_digits(return_X_y=True), 5, CalibratedClassifierCV(SVC(), ensemble=False), seed)


def flows(seed: int) -> Scenario:
    """Network connections with text columns, gradient boosting."""
    from intrusion import KNOWN, labelled, stream

    rng = np.random.default_rng(seed)
    (x, y), (rows, kinds) = zip(*labelled(2000, rng), strict=True), zip(*stream(3000, rng), strict=True)
    X, text = pd.DataFrame(x), make_column_selector(dtype_exclude=np.number)
    coder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    encode = make_column_transformer((coder, text), remainder="passthrough")
    classifier = make_pipeline(encode, HistGradientBoostingClassifier(random_state=seed)).fit(X, y)
    truth = [kind if kind in KNOWN else None for kind in kinds]
    return Scenario(OpenSetMonitor(classifier, seed=seed).fit(X, y), pd.DataFrame(rows), truth)


def learning(seed: int) -> Scenario:
    """Handwritten digits by pen positions, naive Bayes of river, which learns before and during the stream."""
    data = load("PENDIGITS")
    training, rest, truth = parts(data.y, 6, 0.3, seed)
    classifier = preprocessing.StandardScaler() | naive_bayes.GaussianNB()
    monitor = OpenSetMonitor(classifier, seed=seed).fit(pd.DataFrame(data.X[training]), data.y[training])
    return Scenario(monitor, data.X[rest[:4000]], truth[:4000])


SCENARIOS: dict[str, tuple[str, Callable[[int], Scenario]]] = {
    "tabular": ("random forest, the input", tabular),
    "texts": ("TF-IDF and logistic regression, an embedding", texts),
    "digits": ("calibrated SVM, the input", digits),
    "flows": ("gradient boosting, the input with text columns", flows),
    "river": ("naive Bayes of river that keeps learning, the input", learning),
}


class Result(NamedTuple):
    """Figures of a scenario.

    Attributes
    ----------
    reported, recall
        Recall of the known classes: reported at the end of the stream, and measured in the whole stream.
    alone
        Accuracy of the estimator on the known instances if it may not answer unknown.
    found, auroc
        Share of new instances that are called unknown, and area under the curve of ``p_unknown``.
    """

    reported: float
    recall: float
    alone: float
    found: float
    auroc: float


def measure(scenario: Scenario, late: int = 10) -> Result:
    """Let a monitor decide a stream. An estimator that keeps learning gets every tenth label, before its instance."""
    monitor, rows, truth = scenario
    if monitor.learns_one:
        table_of = [dict(enumerate(row)) for row in np.asarray(rows, dtype=float).tolist()]
        for number, (x, label) in enumerate(zip(table_of, truth, strict=True)):
            if label is not None and number % late == 0:
                monitor.learn_one(x, label)
            else:
                monitor.learn_one(x, key=number)
        monitor.flush()
        decisions = list(monitor.drain())
    else:
        decisions = monitor.decide(rows)
    reported = monitor.expected_recall
    assert reported is not None
    known, labels = [*decisions[0].probabilities][:-1], [truth[decision.key] for decision in decisions]
    called, odd = [decision.label for decision in decisions], [decision.p_unknown for decision in decisions]
    alone = [max(known, key=decision.probabilities.__getitem__) for decision in decisions]
    found, forced = (scores(labels, each, odd, known) for each in (called, alone))
    return Result(
        reported.recall, found["known_right"], forced["known_right"], found["unknown_recall"], found["auroc"]
    )


def main(
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 3,
    write: Write = False,
) -> None:
    """Measure the scenarios."""
    lines = []
    for name, (content, make) in SCENARIOS.items():
        results = [measure(make(seed)) for seed in range(seeds)]
        mean = [float(each) for each in np.mean(results, axis=0)]
        worst = max(abs(each.reported - each.recall) for each in results)
        cells = [f"{each:.3f}" for each in (*mean[:2], worst, *mean[2:])]
        lines.append([name, content, *cells])
        print(*lines[-1], flush=True)
    titles = ["scenario", "estimator, features", "reported recall", "measured recall", "largest difference"]
    titles += ["estimator alone", "unknown recall", "AUROC"]
    tell("any classifier", table(titles, lines), write, PAGE)


if __name__ == "__main__":
    typer.run(main)
