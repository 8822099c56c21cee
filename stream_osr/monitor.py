"""Open-set monitor: any fitted classifier decides between the known classes, a recognizer decides about unknown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from river.utils.dataframe import into_frame

from stream_osr.decision import Decision, Decisions
from stream_osr.errors import InvalidInstance, InvalidParameter, NotTrained
from stream_osr.instances.labels import clean_label, label_array, unknown_label
from stream_osr.instances.tables import column_values, frame_rows
from stream_osr.parameters import Label
from stream_osr.printable_text import typed
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.stream.monitoring import recall_among
from stream_osr.trust.recall import REMEMBERED, ExpectedRecall, Z

Features: TypeAlias = Literal["input", "probabilities"] | Callable[[Any], Any] | Any

SMALLEST = 1e-3
"""Amount that is added to probabilities before the logarithm. Votes of a forest are often exactly 0 or 1."""

Answer: TypeAlias = tuple[tuple[Label, ...], np.ndarray]
"""Classes of an estimator, and their probabilities for one instance."""


class OpenSetMonitor:
    """Any classifier with the answer *unknown*: the classifier chooses the class, stream-osr detects the unknown.

    The estimator is a fitted classifier of scikit-learn, or a classifier of river that may keep learning. A
    :class:`stream_osr.OpenSetRecognizer` learns the same classes. It computes the probability of unknown, finds new
    subclasses, and emits events. The probability of a class is ``(1 - p_unknown)`` times the estimator's. The label
    is unknown if ``p_unknown`` is above one half, else the most probable class. A class that only the recognizer
    knows, such as a promoted one, has the recognizer's probability.

    Parameters
    ----------
    estimator
        Classifier with ``predict_proba`` and ``classes_`` (scikit-learn), or with ``predict_proba_one`` (river).
    features
        Input of the recognizer. ``"input"`` uses the estimator's input. ``"probabilities"`` uses the log odds of the
        estimator's probabilities, which is the weakest choice: instances that the estimator assigns to a class with
        confidence look known. A callable or a transformer returns an embedding. It gets the same input as the
        estimator, and returns a table of shape (n, p), or the features of one instance for a classifier of river.
    learn
        Train a classifier of river on labelled instances. Classifiers of scikit-learn do not change.
    folds
        Number of folds of the cross-validation in :meth:`fit`. 0: the rows are new to the estimator, and the
        estimator is not trained again.
    arguments
        Arguments of :class:`stream_osr.OpenSetRecognizer`.

    Attributes
    ----------
    estimator
        The classifier.
    recognizer
        The recognizer, for events, candidate new classes and naming. Drain the decisions from the monitor.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from stream_osr.monitor import OpenSetMonitor
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 2)), np.repeat(["left", "right"], 100)
    >>> X[y == "right", 0] += 20
    >>> monitor = OpenSetMonitor(LogisticRegression().fit(X, y), batch_size=64).fit(X, y)
    >>> monitor.predict([[0, 0], [20, 1], [10, 30]])
    array(['left', 'right', 'unknown'], dtype='<U7')
    >>> for a, b in rng.normal([10, 30], size=(64, 2)):
    ...     monitor.learn_one({0: a, 1: b})
    >>> {decision.label for decision in monitor.drain()}, monitor.recognizer.new_classes().number
    ({'unknown'}, 1)
    """

    def __init__(
        self, estimator: Any, features: Features = "input", *, learn: bool = True, folds: int = 5, **arguments: Any
    ) -> None:
        self.learns_one = hasattr(estimator, "learn_one") and hasattr(estimator, "predict_proba_one")
        if not self.learns_one and not (hasattr(estimator, "predict_proba") and hasattr(estimator, "classes_")):
            raise InvalidParameter(
                f"estimator is {typed(estimator)}: expected a fitted classifier with predict_proba. Fit it first, "
                "and wrap one without probabilities in sklearn.calibration.CalibratedClassifierCV"
            )
        if features not in ("input", "probabilities") and not callable(getattr(features, "transform", features)):
            raise InvalidParameter(
                f"features is {typed(features)}: expected 'input', 'probabilities', a callable or a transformer"
            )
        if type(folds) is not int or folds < 0 or folds == 1:
            raise InvalidParameter(f"folds is {typed(folds)}: expected 0, or a whole number from 2 on")
        if self.learns_one and learn and features == "probabilities":
            raise InvalidParameter(
                "features='probabilities' needs an estimator that does not change, and this one keeps learning. Use "
                "features='input', or learn=False"
            )
        self.estimator, self.features, self.learn, self.folds = estimator, features, learn, folds
        self.recognizer = OpenSetRecognizer(**arguments)
        self._counts: dict[Label, np.ndarray] = {}
        self._answers: dict[int, Answer] = {}

    # Training.

    def fit(self, X: Any, y: Any) -> Self:
        """Train the recognizer, and measure how often the estimator is right on instances that are new to it.

        A classifier of scikit-learn is cloned and fitted in each fold of a cross-validation. A classifier of river
        predicts each row and then learns it.

        Parameters
        ----------
        X
            Rows as the estimator accepts them, such as the training data.
        y
            Label of each row.

        Raises
        ------
        InvalidInstance
            If a row cannot be used, or the numbers of rows and labels differ.
        """
        labels = [clean_label(label) for label in column_values(y, len(y), "y")]
        if self.learns_one:
            for x, label in zip(frame_rows(X)[1], labels, strict=True):
                self.learn_one(x, label)
        else:
            classes, found = self._out_of_fold(X, labels)
            self.recognizer.learn_many(self._features(X, found), labels)
            self._count(classes, found, labels)
        self.recognizer.freeze()
        return self

    def _out_of_fold(self, X: Any, labels: Sequence[Label]) -> tuple[tuple[Label, ...], np.ndarray]:
        """Predict each row by an estimator that has not seen it: classes, and probabilities of shape (n, J)."""
        if not self.folds:
            return self._classes(), self._probabilities(X)
        from sklearn.base import clone
        from sklearn.model_selection import StratifiedKFold, cross_val_predict

        y = label_array(labels)
        classes, counts = np.unique(y, return_counts=True)
        folds = min(self.folds, int(counts.min()))
        if folds < 2:
            raise InvalidInstance(
                f"class {classes[counts.argmin()].item()!r} has one row, and cross-validation needs two. Add rows, "
                "or give rows that are new to the estimator and folds=0"
            )
        parts = StratifiedKFold(folds, shuffle=True, random_state=self.recognizer.seed)
        found = cross_val_predict(clone(self.estimator), X, y, cv=parts, method="predict_proba")
        known = self._classes()
        if self.features == "probabilities" and tuple(classes.tolist()) != known:
            raise InvalidInstance(
                f"y has the classes {classes.tolist()}, and the estimator {list(known)}: expected the same classes "
                "for features='probabilities'. Fit the estimator on these classes"
            )
        return tuple(classes.tolist()), np.asarray(found)

    def _count(self, classes: Sequence[Label], found: np.ndarray, labels: Sequence[Label]) -> None:
        """Count how often the estimator is right, for each class."""
        for label, best in zip(labels, found.argmax(axis=1).tolist(), strict=True):
            self._counts[label] = np.add(self._counts.get(label, np.zeros(2)), (classes[best] == label, 1.0))

    # The stream.

    def learn_one(self, x: Any, y: Label | None = None, *, t: float | None = None, key: Any = None) -> None:
        """Add one instance: a labelled one trains, an unlabelled one waits for the next micro-batch.

        A labelled instance must be new to the estimator, because its prediction counts in :attr:`expected_recall`.

        Parameters
        ----------
        x
            Instance. A dict becomes a row of a table for a classifier of scikit-learn.
        y, t, key
            As in :meth:`stream_osr.OpenSetRecognizer.learn_one`.

        Raises
        ------
        InvalidInstance
            If the estimator or the recognizer cannot use the instance. The call then changes nothing.
        """
        answer, features = self._read(x)
        seq = self._next_seq
        self.recognizer.learn_one(features, y, t=t, key=key)
        if y is None:
            self._answers[seq] = answer
            return
        if answer[0]:
            if self.learns_one and self.learn and y in self._counts:
                self._counts[y] *= 0.5 ** (1.0 / REMEMBERED)
            self._count(answer[0], answer[1][None], [y])
        if self.learns_one and self.learn:
            self.estimator.learn_one(x, y)

    def decide(self, X: Any, *, key: Any = None) -> Decisions:
        """Decide rows together, as the next ones of the stream, and close the last micro-batch.

        Parameters
        ----------
        X
            Rows as the estimator accepts them.
        key
            Key of each row, which its decision returns. ``None``: the row's number in ``X``.
        """
        if self.learns_one:
            rows = frame_rows(X)[1]
            for each, x in zip(range(len(rows)) if key is None else key, rows, strict=True):
                self.learn_one(x, key=each)
        else:
            found, classes = self._probabilities(X), self._classes()
            features, n = self._features(X, found), len(found)
            keys = list(range(n) if key is None else column_values(key, n, "key"))
            self.recognizer.freeze()
            if self.recognizer.value.parameters.on_missing == "skip":  # positions are not known in advance
                for x, one, each in zip(frame_rows(features)[1], found, keys, strict=True):
                    seq = self._next_seq
                    self.recognizer.learn_one(x, key=each)
                    self._answers[seq] = classes, one
            else:
                seq = self._next_seq
                self.recognizer.learn_many(features, key=keys)
                self._answers |= {seq + at: (classes, one) for at, one in enumerate(found)}
        self.flush()
        return Decisions(self.drain())

    @property
    def _next_seq(self) -> int:
        """Position of the next instance in the stream."""
        its = self.recognizer.value
        return 0 if its.stream is None or its.training is not None else its.stream.state.seen + len(its.buffer)

    def flush(self) -> None:
        """Close the present micro-batch, and release all delayed decisions."""
        self.recognizer.flush()

    def drain(self) -> Iterator[Decision]:
        """Yield the final decisions, each once, in order of arrival. Known ones have the estimator's label.

        The probabilities of the estimator are those at the arrival of the instance.
        """
        for decision in self.recognizer.drain():
            answer = self._answers.pop(decision.seq, ((), np.zeros(0)))
            label, found = self._combined(decision.probabilities, answer)
            unknown = [*found][-1]
            first = unknown if decision.first_label == unknown else max(list(found)[:-1], key=found.__getitem__)
            yield decision._replace(label=label, first_label=first, probability=found[label], probabilities=found)

    def _combined(self, recognized: Mapping[Label, float], answer: Answer) -> tuple[Label, dict[Label, float]]:
        """Combine the probabilities of the recognizer and of the estimator: label and probabilities."""
        *known, unknown = recognized
        p_unknown, (classes, own) = recognized[unknown], answer
        others = {label: recognized[label] for label in known if label not in classes} if classes else {}
        total = float(own.sum()) if classes else 0.0
        if total > 0.0:
            left = max(1.0 - p_unknown - sum(others.values()), 0.0)
            found = dict(zip(classes, (left / total * own).tolist(), strict=True)) | others
        else:  # the estimator has no answer yet
            found = {label: recognized[label] for label in known}
        best = max(found, key=found.__getitem__)
        refused = p_unknown > 0.5 or found[best] < self.recognizer.min_probability
        return unknown if refused else best, found | {unknown: p_unknown}

    # Predictions between batches.

    def predict_proba_one(self, x: Any) -> dict[Label, float]:
        """Predict the probability of each class and, last, of unknown for one instance. Nothing changes."""
        answer, features = self._read(x)
        recognized = self.recognizer.predict_proba_one(features)
        return self._combined(recognized, answer)[1] if recognized else {}

    def predict_one(self, x: Any) -> Label | None:
        """Predict the label of one instance, or ``None`` before training. Nothing changes."""
        answer, features = self._read(x)
        recognized = self.recognizer.predict_proba_one(features)
        return self._combined(recognized, answer)[0] if recognized else None

    def predict(self, X: Any) -> np.ndarray:
        """Predict the label of each row, shape (n,). Nothing changes, and rows do not support each other."""
        return label_array([label for label, _ in self._predicted(X)])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the probability of each class in :attr:`classes_` and, last, of unknown, shape (n, J + 1)."""
        found, names = [each for _, each in self._predicted(X)], self.classes_
        return np.array([[*(each.get(name, 0.0) for name in names), [*each.values()][-1]] for each in found])

    def score_one(self, x: Any) -> float:
        """Return the probability of unknown, as river's anomaly detectors do: larger is more anomalous."""
        found = self.predict_proba_one(x)
        return [*found.values()][-1] if found else 0.0

    def score_samples(self, X: Any) -> np.ndarray:
        """Return minus the probability of unknown, shape (n,), as in scikit-learn: lower is more unusual."""
        return np.array([-[*each.values()][-1] for _, each in self._predicted(X)])

    def decision_function(self, X: Any) -> np.ndarray:
        """Return one half minus the probability of unknown, shape (n,): negative for unknown, as in scikit-learn."""
        return self.score_samples(X) + 0.5

    @property
    def classes_(self) -> list[Label]:
        """Classes of the estimator, then those that only the recognizer knows."""
        own = self._classes()
        return [*own, *(label for label in self.recognizer.value.labels if label not in own)]

    def _predicted(self, X: Any) -> list[tuple[Label, dict[Label, float]]]:
        current = self.recognizer._current
        if current.trained is None or current.stream is None:
            raise NotTrained(
                "the monitor has learnt no labelled instance. Call fit, or learn labelled instances first"
            )
        if self.learns_one:
            answers = [self._read(x) for x in frame_rows(X)[1]]
            return [self._combined(self.recognizer.predict_proba_one(x), answer) for answer, x in answers]
        found, classes = self._probabilities(X), self._classes()
        table = self.recognizer.predict_proba_many(self._features(X, found))
        rows = table if isinstance(table, np.ndarray) else into_frame(table).to_numpy()
        names = current.stream.labels
        names = (*names, unknown_label(self.recognizer.unknown, names))
        read = zip(rows.tolist(), found, strict=True)
        return [self._combined(dict(zip(names, row, strict=True)), (classes, own)) for row, own in read]

    # Trust.

    @property
    def expected_recall(self) -> ExpectedRecall | None:
        """Estimated share of known instances that get their own label now, or ``None`` before the first decision.

        For each class it is the share of reference instances that are not called unknown, times the share of
        labelled instances for which the estimator is right. Classes count by their shares in the stream.
        """
        trained, stream, whole = self.recognizer.value.trained, self.recognizer.value.stream, None
        if trained is not None and stream is not None:
            whole = self.recognizer.expected_recall
        if trained is None or stream is None or stream.called is None or whole is None:
            return None
        total, recall, unknown, variance = 0.0, 0.0, 0.0, 0.0
        own = self._classes()
        for j, (label, share) in enumerate(zip(stream.labels, stream.called.shares.tolist(), strict=False)):
            found = recall_among(trained, stream, [j]) if share > 0.0 else None
            right, n = self._counts.get(label, np.zeros(2)).tolist()
            if found is None or (label in own and not n):
                continue
            total, unknown = total + share, unknown + share * found.false_unknown
            if label in own:
                recall += share * (1.0 - found.false_unknown) * right / n
                guess = (right + 0.5) / (n + 1.0)
                variance += share**2 * guess * (1.0 - guess) / n
            else:
                recall += share * found.recall
        if not total:
            return None
        recall, half = recall / total, math.hypot(0.5 * (whole.high - whole.low), Z * math.sqrt(variance) / total)
        return ExpectedRecall(recall, max(0.0, recall - half), min(1.0, recall + half), unknown / total)

    # Input.

    def _classes(self) -> tuple[Label, ...]:
        if self.learns_one:
            return tuple(self._counts)
        return tuple(np.asarray(self.estimator.classes_).tolist())

    def _read(self, x: Any) -> tuple[Answer, Any]:
        """Return the estimator's probabilities of one instance, and its features for the recognizer."""
        if not self.learns_one:
            X = self._table(x)
            found = self._probabilities(X)
            if self.features == "input":
                return (self._classes(), found[0]), x
            return (self._classes(), found[0]), frame_rows(np.asarray(self._features(X, found)))[1][0]
        with _refusals("the estimator"):
            answer = self.estimator.predict_proba_one(x)
        labels, found = tuple(clean_label(label) for label in answer), np.array([*answer.values()], dtype=float)
        if self.features == "input":
            return (labels, found), x
        if self.features == "probabilities":
            return (labels, found), dict(zip(labels, _log_odds(found).tolist(), strict=True))
        with _refusals("features"):
            embedded = getattr(self.features, "transform_one", self.features)(x)
        if not isinstance(embedded, Mapping):
            embedded = dict(enumerate(np.asarray(embedded).ravel().tolist()))
        return (labels, found), embedded

    def _table(self, x: Any) -> Any:
        """Return one instance as a table with one row, as the estimator accepts it."""
        if not isinstance(x, Mapping):
            return [x]
        names = getattr(self.estimator, "feature_names_in_", None)
        if names is None and all(type(name) is int for name in x):
            return np.array([[x[name] for name in sorted(x)]])
        import pandas as pd

        return pd.DataFrame([x], columns=names)

    def _probabilities(self, X: Any) -> np.ndarray:
        """Return the probabilities of a classifier of scikit-learn, shape (n, J)."""
        with _refusals("the estimator"):
            return np.asarray(self.estimator.predict_proba(X), dtype=float)

    def _features(self, X: Any, found: np.ndarray) -> Any:
        """Return the rows for the recognizer, given the probabilities of the estimator, shape (n, J)."""
        if self.features == "probabilities":
            return _log_odds(found)
        if self.features != "input":
            with _refusals("features"):
                return getattr(self.features, "transform", self.features)(X)
        if not isinstance(X, list):
            return X
        try:
            return np.array(X, dtype=float)
        except (TypeError, ValueError):
            raise InvalidInstance(
                "the rows are a list, and not of numbers: expected a data frame or an array for features='input'. "
                "Give an embedding: features=callable"
            ) from None


@contextmanager
def _refusals(part: str) -> Iterator[None]:
    """Convert errors of foreign code about an instance."""
    try:
        yield
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, InvalidInstance):
            raise
        raise InvalidInstance(
            f"{part} cannot use the instance: {error}. Give it the columns and values that it was fitted on"
        ) from error


def _log_odds(probabilities: np.ndarray) -> np.ndarray:
    """Return the log odds of each class.

    >>> _log_odds(np.array([[0.0, 1.0]])).round(1)
    array([[-6.9,  6.9]])
    """
    return np.asarray(np.log(probabilities + SMALLEST) - np.log1p(SMALLEST - probabilities))
