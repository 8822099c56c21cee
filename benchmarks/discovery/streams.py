"""What the settings share: trained models, recognizers, what a stream told, and tables.

Everything goes through the public `OpenSetRecognizer`, defaults untouched but for the number of principal components
(the protocol's) and what a setting says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks import deciding
from benchmarks.openset.sets import FIVE, SETTINGS, problem
from benchmarks.written import table
from stream_osr import Decision, OpenSetRecognizer, SubclassEmerged, SubclassMerged, SubclassSplit
from stream_osr.config import grouped, parameters
from stream_osr.discovery.events import Event
from stream_osr.evaluation import TimeToDetection
from stream_osr.training.trained import TrainedModel

__all__ = ["BATCH", "FIVE", "Heard", "Problem", "Table", "announced", "listen", "prepare", "recognizer", "train"]

BATCH = 64
"""Micro-batch of most settings."""


class Problem(NamedTuple):
    """Known classes that have been trained on, and what streams are made of.

    Attributes
    ----------
    dataset
        Name of the data set.
    seed
        Of the division into known and unknown, training and test, and of the training.
    trained
        The trained model.
    X_train, y_train
        The training part, shapes (n, p) and (n,).
    X, y
        Test part of the known classes and all instances of the unknown ones, in the order of the protocol.
    unknown
        The unknown classes, in the order in which they appear.
    """

    dataset: str
    seed: int
    trained: TrainedModel
    X_train: np.ndarray
    y_train: np.ndarray
    X: np.ndarray
    y: np.ndarray
    unknown: tuple[Any, ...]

    @property
    def of_known(self) -> np.ndarray:
        """Which rows of the test part are of known classes, shape (n,)."""
        return np.isin(self.y, np.array(self.trained.labels))


def train(dataset: str, X: np.ndarray, y: np.ndarray, seed: int) -> TrainedModel:
    """Train on rows and labels of the known classes of a data set, with the defaults."""
    labels = tuple(dict.fromkeys(y.tolist()))
    group = np.array([labels.index(label) for label in y.tolist()])
    return deciding.train(X, group, parameters(seed=seed, pca=SETTINGS[dataset].pca), labels)


def prepare(dataset: str, seed: int) -> Problem:
    """Divide a data set at its highest openness, and train on the known classes."""
    given = problem(dataset, SETTINGS[dataset].n_unknown["high"], seed)
    y_train, y = np.array(given.known)[given.group], np.array(given.labels)
    unknown = tuple(label for label in dict.fromkeys(given.labels) if label not in given.known)
    trained = train(dataset, given.X_train, y_train, seed)
    return Problem(dataset, seed, trained, given.X_train, y_train, given.X_test, y, unknown)


class Heard(NamedTuple):
    """What a stream told.

    Attributes
    ----------
    decisions, events
        All of them, in order.
    times
        When each new class was detected, and false alarms.
    """

    decisions: list[Decision]
    events: list[Event]
    times: TimeToDetection

    @property
    def emerged(self) -> list[SubclassEmerged]:
        """The announcements."""
        return [event for event in self.events if isinstance(event, SubclassEmerged)]


def announced(events: Iterable[Any]) -> dict[int, int]:
    """Return the subclasses that events announce, and when; parts, and what they merge into, count too."""
    out: dict[int, int] = {}
    for event in events:
        if isinstance(event, SubclassEmerged):
            out.setdefault(event.subclass_id, event.seq)
        elif isinstance(event, SubclassSplit):
            out.setdefault(event.new_id, event.seq)
        elif isinstance(event, SubclassMerged) and event.subclass_id in out:
            out.setdefault(event.into, event.seq)
    return out


def recognizer(given: Problem, seed: int, **arguments: Any) -> OpenSetRecognizer:
    """Make a recognizer over the trained model."""
    return OpenSetRecognizer.from_trained(given.trained, **grouped(seed=seed, **arguments))


def listen(model: OpenSetRecognizer, X: np.ndarray, y: np.ndarray) -> Heard:
    """Run instances through a recognizer, their classes hidden, and close the last batch.

    Parameters
    ----------
    model
        Trained; it learns the stream.
    X
        Rows of shape (n, p).
    y
        Class of each, shape (n,).
    """
    begin = model.summary().stream_size
    times = TimeToDetection(model.trained.labels, begin)
    truth = y.tolist()
    for label in truth:
        times.arrived(label)
    model.learn_many(pd.DataFrame(X, columns=list(model.trained.names)), key=range(begin, begin + len(X)))
    model.flush()
    events = list(model.drain_events())
    for event in events:  # first: a decision counts up to the announcement of its subclass
        times.note(event)
    decisions = list(model.drain())
    for decision in decisions:
        times.decided(decision, truth[decision.seq - begin])
    return Heard(decisions, events, times)


# Tables

Runs = Sequence[dict[str, Any]]
Cell = Callable[[Runs], object]


class Table(NamedTuple):
    """A table of Markdown: a row for each value of some keys of the runs, and perhaps one for all of them."""

    columns: Mapping[str, Cell]
    keys: tuple[str, ...] = ("dataset",)
    total: str = ""

    def __call__(self, runs: Runs) -> str:
        """Lay out runs."""
        rows: dict[str, list[dict[str, Any]]] = {}
        for run in runs:
            rows.setdefault(", ".join(str(run[key]) for key in self.keys), []).append(run)
        if self.total:
            rows[self.total] = list(runs)
        cells = [[name, *(column(of) for column in self.columns.values())] for name, of in rows.items()]
        return table(["", *self.columns], cells)


def column(key: str, function: Callable[[Sequence[float]], float] = fmean, form: str = ".3f") -> Cell:
    """Make a column of a figure, or of a dict of figures in each run; ``None`` counts as infinity."""

    def cell(runs: Runs) -> str:
        found = (run[key].values() if isinstance(run[key], dict) else [run[key]] for run in runs)
        return format(function([math.inf if each is None else each for of in found for each in of]), form)

    return cell


def within(most: float) -> Callable[[Sequence[float]], float]:
    """Return what gives the share of figures that are so large at most."""
    return lambda values: fmean(value <= most for value in values)


def quantile(share: float) -> Callable[[Sequence[float]], float]:
    """Return what gives the least figure that is as large as this share of them."""
    return lambda values: float(np.quantile(values, share, method="inverted_cdf"))


def ever(values: Sequence[float]) -> float:
    """Share of finite figures."""
    return fmean(map(math.isfinite, values))


def finite(value: float) -> float | None:
    """Return a number, or what JSON has for infinity: None."""
    return value if math.isfinite(value) else None
