"""What the settings share: trained models, recognizers, and what a stream told.

Everything goes through the public `OpenSetRecognizer`, defaults untouched but for the number of principal components
(the protocol's) and what a setting says.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks import deciding
from benchmarks.openset.sets import FIVE, SETTINGS, problem
from stream_osr import Decision, OpenSetRecognizer, SubclassEmerged, SubclassMerged, SubclassSplit
from stream_osr.config import grouped
from stream_osr.discovery.events import Event
from stream_osr.evaluation import TimeToDetection
from stream_osr.parameters import parameters
from stream_osr.training.trained import TrainedModel

__all__ = ["BATCH", "FIVE", "Heard", "Problem", "announced", "listen", "prepare", "recognizer", "train"]

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
