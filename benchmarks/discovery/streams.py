"""What the settings share: trained models, the recognizers over them, and what a stream told.

Everything goes through the public `OpenSetRecognizer`, defaults untouched but for the number of principal components
(the protocol's) and what a setting says.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.accuracy.cells import SETTINGS, problem
from stream_osr import Decision, OpenSetRecognizer, SubclassEmerged
from stream_osr.config import parameters
from stream_osr.discovery.events import Event
from stream_osr.evaluation import KNOWN_CLASSES, TimeToDetection
from stream_osr.features import Features
from stream_osr.trained import TrainedModel, train_model

FIVE = tuple(KNOWN_CLASSES)
"""The data sets of the paper."""


class Problem(NamedTuple):
    """Known classes that have been trained on, and what streams are made of.

    Attributes
    ----------
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


def prepare(dataset: str, seed: int) -> Problem:
    """Divide a data set at its highest openness, and train on the known classes with the defaults."""
    setting = SETTINGS[dataset]
    given = problem(dataset, setting.n_unknown["high"], seed)
    chosen = parameters(seed=seed, pca_components=setting.pca)
    features = Features(range(given.X_train.shape[1]))
    trained = train_model(features, given.X_train, given.group, given.known, chosen)
    y = np.array(given.labels)
    unknown = tuple(label for label in dict.fromkeys(given.labels) if label not in given.known)
    return Problem(seed, trained, given.X_train, np.array(given.known)[given.group], given.X_test, y, unknown)


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


def recognizer(given: Problem, seed: int, **arguments: Any) -> OpenSetRecognizer:
    """Make a recognizer over the trained model."""
    return OpenSetRecognizer.from_trained(given.trained, seed=seed, **arguments)


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
        times.happened(event)
    decisions = list(model.drain())
    for decision in decisions:
        times.decided(decision, truth[decision.seq - begin])
    return Heard(decisions, events, times)
