"""What is trained on and what streams past, and what a recognizer with untouched defaults makes of it."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr.discovery.events import Event
from stream_osr.training.training_report import TrainingReport


class Problem(NamedTuple):
    """A training part and a stream.

    Attributes
    ----------
    X_train, y_train
        Training instances and their labels, shapes (m, p) and (m,).
    X, y
        The stream and the true labels, which the recognizer is not told, shapes (n, p) and (n,).
    arguments
        Of the recognizer, where a protocol asks for other than the defaults: micro-batches, principal components.
    """

    X_train: np.ndarray
    y_train: np.ndarray
    X: np.ndarray
    y: np.ndarray
    arguments: dict[str, Any]

    def first(self, length: int | None) -> Problem:
        """Cut the stream to a length; ``None``: all of it."""
        return self._replace(X=self.X[:length], y=self.y[:length])


def train(given: Problem, seed: int) -> tuple[OpenSetRecognizer, TrainingReport]:
    """Train a recognizer of one thread; results do not depend on how many there are."""
    model = OpenSetRecognizer(**grouped(**given.arguments, n_jobs=1, seed=seed))
    model.learn_many(pd.DataFrame(given.X_train), given.y_train.tolist())
    return model, model.freeze()


class Followed(NamedTuple):
    """What a stream told.

    Attributes
    ----------
    label
        Label of each decision, by place in the stream.
    right, unknown
        Whether a decision is right, and whether it says unknown, shape (n,).
    p_unknown
        Probability of being unknown, shape (n,).
    events
        In order.
    windows
        In order, if they were asked for: number of decisions in a row, shares of them that are right and that say
        unknown, and ``expected_recall`` when the last of them was out (None: the recognizer did not say).
    seconds
        Processor time of the steps, without what was asked between them.
    """

    label: list[Any]
    right: np.ndarray
    unknown: np.ndarray
    p_unknown: np.ndarray
    events: list[Event]
    windows: list[list[Any]]
    seconds: float


def follow(model: OpenSetRecognizer, X: np.ndarray, y: np.ndarray, window: int | None = None) -> Followed:
    """Run a stream through a recognizer and close the last batch.

    Parameters
    ----------
    model
        Trained, its stream not begun.
    X, y
        Rows (n, p) and true labels (n,).
    window
        Ask for the live figure whenever so many decisions are out; ``None``: do not ask.
    """
    known, truth = set(model.trained.labels), y.tolist()
    n, step = len(X), model.batch_size
    label: list[Any] = [None] * n
    right, unknown, p_unknown = np.zeros(n, bool), np.zeros(n, bool), np.full(n, np.nan)
    events: list[Event] = []
    windows: list[list[Any]] = []
    done = asked = 0
    seconds = 0.0
    for begin in range(0, n, step):
        start = time.process_time()
        model.learn_rows(np.asarray(X[begin : begin + step], float), key=range(begin, min(begin + step, n)))
        if begin + step >= n:
            model.flush()
        decisions, told = list(model.drain()), list(model.drain_events())
        seconds += time.process_time() - start
        events += told
        for decision in decisions:
            at = decision.key
            label[at], p_unknown[at] = decision.label, decision.p_unknown
            right[at], unknown[at] = decision.label == truth[at], decision.label not in known
        done += len(decisions)
        if window is not None and (done - asked >= window or (done == n and not asked)):
            part = slice(asked, done)
            live = model.expected_recall
            shares = [float(right[part].mean()), float(unknown[part].mean())]
            windows.append([done - asked, *shares, None if live is None else list(live)])
            asked = done
    if done != n:
        raise RuntimeError(f"{done} decisions for {n} instances")
    return Followed(label, right, unknown, np.clip(p_unknown, 0.0, 1.0), events, windows, seconds)
