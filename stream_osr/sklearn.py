"""Estimator for scikit-learn (extra ``sklearn``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Self

import numpy as np
from river.utils.dataframe import into_frame

from stream_osr.config import Arguments, documented, plain, regrouped
from stream_osr.decision import Decisions
from stream_osr.errors import InvalidInstance, InvalidLabel, InvalidParameter
from stream_osr.instances.labels import clean_label, label_array
from stream_osr.instances.missing_values import is_missing, without_mask
from stream_osr.parameters import Label
from stream_osr.printable_text import typed
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.support.extras import needing

with needing("stream_osr.sklearn needs {}. Install it with pip install 'stream-osr[sklearn]'"):
    from sklearn.base import BaseEstimator, ClassifierMixin, OutlierMixin
    from sklearn.utils import column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["OpenSetClassifier", "OpenSetDetector"]


class _OpenSetEstimator(BaseEstimator, Arguments):
    """Common part of the estimators: training, deciding a stream, and checks of the rows."""

    n_features_in_: int
    recognizer_: OpenSetRecognizer

    def _fit(self, rows: Any, labels: list[Label], groups: Any = None) -> Self:
        recognizer = self._fresh(labels)
        recognizer.learn_many(rows, labels, group=groups)
        recognizer.freeze()
        self.recognizer_ = recognizer
        return self

    def decide(self, X: Any, *, key: Iterable[Any] | None = None) -> Decisions:
        """Decide rows together, as the next ones of the stream. Unlike ``predict``, this changes the model.

        Parameters
        ----------
        X
            Array or data frame of shape (n, p).
        key
            Key of each row, which its decision returns. ``None``: the row's number in ``X``.

        Returns
        -------
        One decision for each row, in order. With ``on_missing="skip"`` a skipped row has none.
        """
        rows = self._read(X)
        keys = range(len(rows)) if key is None else list(key)
        self.recognizer_.freeze()
        self.recognizer_.learn_many(rows, key=keys)
        self.recognizer_.flush()
        return Decisions(self.recognizer_.drain())

    def fit_predict_stream(self, X: Any, *, key: Iterable[Any] | None = None) -> Decisions:
        """Decide rows as a stream, as :meth:`decide` does, after ``fit``. The rows do not train the known classes."""
        return self.decide(X, key=key)

    @property
    def classes_(self) -> np.ndarray:
        """Known classes, sorted: those of training and those that labels and promotions opened since."""
        check_is_fitted(self, "recognizer_")
        return np.unique(label_array(self.recognizer_.value.labels))

    @property
    def unknown_(self) -> Label:
        """Label of unknown instances."""
        check_is_fitted(self, "recognizer_")
        unknown = self.recognizer_.unknown
        assert unknown is not None
        return unknown

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = plain(self)["on_missing"] != "error"
        return tags

    def set_params(self, **params: Any) -> Self:
        """Set arguments. Those of a group may have their plain names: ``set_params(sweeps=3)``."""
        super().set_params(**regrouped(self, params))
        return self

    def _fresh(self, labels: list[Label]) -> OpenSetRecognizer:
        """Make a recognizer for classes that include the given labels."""
        unknown: Any = self.unknown
        if unknown is None:
            unknown = "unknown"
            if not all(isinstance(label, str | bool) for label in labels):
                unknown = next(-number for number in range(1, len(labels) + 2) if -number not in labels)
        return OpenSetRecognizer(**{**self.arguments, "unknown": unknown})

    def _read_labelled(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, list[Label]]:
        if y is None:
            raise InvalidLabel(
                "this estimator requires y to be passed, but the target y is None. Rows without labels go to decide()"
            )
        rows = self._read(X, reset=reset)
        if str(getattr(y, "dtype", "")) in ("boolean", "bool[pyarrow]"):  # scikit-learn would make numbers of them
            y = np.array(y.tolist())
        y = column_or_1d(without_mask(y) if isinstance(y, np.ndarray) else y, warn=True)
        if any(is_missing(label) for label in y):
            raise InvalidLabel("y has missing labels. Rows without a label go to decide()")
        check_classification_targets(y)
        return rows, [clean_label(label) for label in y]

    def _read(self, X: Any, *, reset: bool = False) -> Any:
        """Check rows as scikit-learn does. A frame with the features of training stays a frame."""
        if not reset:
            check_is_fitted(self, "recognizer_")
        if hasattr(X, "columns"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if reset:
                return X
            state = self.recognizer_.value
            learnt = state.trained if state.training is None else state.training
            if learnt is not None and not learnt.features.lack(into_frame(X).columns):
                return X
        if isinstance(X, np.ndarray):
            X = without_mask(X)  # scikit-learn would take the hidden numbers
        missing = True if plain(self)["on_missing"] == "error" else "allow-nan"
        try:
            rows = validate_data(self, X, reset=reset, ensure_all_finite=missing)
        except ValueError as error:
            if not str(error).startswith("could not convert string"):
                raise
            raise InvalidInstance(
                f"X is an array with text in it: {error}. Give a data frame, in which text is a category (from a "
                "ColumnTransformer: set_output(transform='pandas'))"
            ) from None
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return rows
        import pandas as pd

        return pd.DataFrame(rows, columns=names)  # scikit-learn has warned that they come without names


@documented
class OpenSetClassifier(ClassifierMixin, _OpenSetEstimator):
    """Classifier that may answer *unknown*: :class:`stream_osr.OpenSetRecognizer` for scikit-learn.

    :meth:`fit` trains the known classes. :meth:`predict` answers row by row and changes nothing: the same rows get
    the same answers in any order. :meth:`decide` processes a stream. It decides rows together, in micro-batches.
    Subclasses that emerge there become part of the model, also for :meth:`predict`.

    Rows are arrays or data frames. Text and booleans of a frame are categories, and NaN is a missing value. Sparse
    matrices are refused, and there are no sample weights.

    Parameters
    ----------
    The parameters of :class:`stream_osr.config.Arguments`.

    Attributes
    ----------
    classes_
        Known classes, sorted, shape (J,). The label of unknown instances is not among them.
    unknown_
        Label of unknown instances. It is the argument ``unknown`` if that is given. Otherwise it is ``"unknown"`` for
        text and booleans, and -1 for numbers (or the next lower number that is no class).
    n_features_in_, feature_names_in_
        The usual attributes of scikit-learn.
    recognizer_
        Recognizer, for events, candidate new classes, naming, and everything else.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_osr.sklearn import OpenSetClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 2)), np.repeat(["left", "right"], 100)
    >>> X[y == "right", 0] += 20
    >>> classifier = OpenSetClassifier().fit(X, y)
    >>> classifier.predict([[0, 0], [20, 1], [10, 30]])
    array(['left', 'right', 'unknown'], dtype='<U7')
    >>> classifier.predict_proba([[10, 30]]).round(2)  # left, right, unknown
    array([[0., 0., 1.]])
    >>> decisions = classifier.decide(rng.normal([10, 30], size=(64, 2)))
    >>> classifier.recognizer_.new_classes().number
    1
    """

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Train the known classes. Everything learnt before is forgotten.

        Parameters
        ----------
        X
            Array or data frame of shape (n, p).
        y
            Labels of shape (n,): text, integers or booleans.
        groups
            Group (person, device, day) of each row, shape (n,), as the ``group`` of
            :meth:`stream_osr.OpenSetRecognizer.learn_one`.
        """
        return self._fit(*self._read_labelled(X, y, reset=True), groups)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn labelled rows: more training data or, after training, late evidence beside the stream.

        Training ends with :meth:`fit` or the first :meth:`decide`. Until then predictions are provisional. A new
        label opens a new class. Use :meth:`decide` for rows without a label.

        A few labels do not turn an emerged subclass into their class. The other instances of the subclass keep their
        weight, so similar rows are still called unknown. To name the subclass, promote it:
        ``recognizer_.promote(subclasses, name)``.

        Parameters
        ----------
        X, y
            As in :meth:`fit`.
        classes
            Labels to expect. They are optional. The unknown label is chosen so that it is none of them.
        """
        first = not hasattr(self, "recognizer_")
        rows, labels = self._read_labelled(X, y, reset=first)
        if first:
            declared = () if classes is None else map(clean_label, np.unique(classes))
            recognizer = self._fresh([*labels, *declared])
        else:
            recognizer = self.recognizer_
        recognizer.learn_many(rows, labels)
        recognizer.flush()
        self.recognizer_ = recognizer
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict a known class or the unknown label for each row, shape (n,), without changing the model.

        Each row is decided independently. :meth:`decide` is more accurate if several rows are of the same new class,
        because they support each other there. In the example of ``docs/python.md``, 0.78 of the answers of
        ``predict`` are right, and 0.97 of the decisions of ``decide``.

        If the classes are booleans, the result is an array of objects. With the third answer it cannot be a mask.
        """
        rows = self._read(X)
        labels = np.asarray(self.recognizer_.predict_many(rows))
        kinds = self.classes_, label_array([self.unknown_])
        if kinds[0].dtype.kind == "b":
            unknown = self.unknown_
            return np.array([unknown if each == unknown else bool(each) for each in labels.tolist()], dtype=object)
        if {each.dtype.kind for each in kinds} <= {"U"} or {each.dtype.kind for each in kinds} <= set("iub"):
            return labels.astype(np.result_type(*kinds))
        return labels.astype(object)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, unseen: Literal["unknown"] | None = None) -> float:
        """Compute the share of right answers. An instance called unknown is right if ``y`` has the unknown label.

        Parameters
        ----------
        X, y
            As in :meth:`fit`. True labels may be the unknown one.
        sample_weight
            Weights of the rows, or ``None``.
        unseen
            ``"unknown"``: a label in ``y`` that is none of ``classes_`` counts as the unknown label. So the labels of
            new classes need no translation. ``None``: such a row counts as wrong.

        Examples
        --------
        >>> import numpy as np
        >>> from stream_osr.sklearn import OpenSetClassifier
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.normal(size=(300, 2)), np.repeat(["left", "right", "above"], 100)
        >>> X[y == "right", 0] += 20
        >>> X[y == "above", 1] += 30
        >>> classifier = OpenSetClassifier().fit(X[:200], y[:200])
        >>> round(classifier.score(X, y), 1), classifier.score(X[200:], y[200:], unseen="unknown")
        (0.7, 1.0)
        """
        if unseen == "unknown":
            known = {*self.classes_.tolist()}
            labels = [clean_label(label) for label in column_or_1d(y)]
            y = label_array([label if label in known else self.unknown_ for label in labels])
        elif unseen is not None:
            raise InvalidParameter(f"unseen is {typed(unseen)}: expected 'unknown' or None")
        if self.classes_.dtype.kind != "b":
            return float(super().score(X, y, sample_weight))
        right = self.predict(X) == column_or_1d(y)  # scikit-learn compares no booleans with a third answer
        return float(np.average(right, weights=sample_weight))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the probability of each class in ``classes_`` and, in the last column, of *unknown*.

        Returns
        -------
        Probabilities of shape (n, J + 1). Each row sums to 1.
        """
        rows = self._read(X)
        found = np.asarray(self.recognizer_.predict_proba_many(rows))
        labels = [*self.recognizer_.value.labels, self.unknown_]
        return found[:, [labels.index(label) for label in (*self.classes_.tolist(), self.unknown_)]]


@documented
class OpenSetDetector(OutlierMixin, _OpenSetEstimator):
    """Detector of unknown instances, with the methods of scikit-learn's outlier detectors.

    It is the model of :class:`OpenSetClassifier` without the answer to which class an instance belongs. The
    probability of unknown sets the boundary, so there is no ``contamination``. All labelled instances are known, one
    class for each label. Do not give the labels -1 and 1 of outliers to :meth:`fit`.

    Parameters
    ----------
    The parameters of :class:`stream_osr.config.Arguments`.

    Attributes
    ----------
    offset_
        Boundary of :meth:`score_samples`, -0.5: an instance is unknown if its probability of unknown is above 0.5.
    classes_, unknown_, n_features_in_, feature_names_in_, recognizer_
        As in :class:`OpenSetClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_osr.sklearn import OpenSetDetector
    >>> detector = OpenSetDetector().fit(np.random.default_rng(0).normal(size=(200, 2)))
    >>> detector.predict([[0, 0], [10, 30]])
    array([ 1, -1])
    >>> detector.decision_function([[0, 0], [10, 30]]).round(1)
    array([ 0.5, -0.5])
    """

    offset_: float

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on known instances. Everything learnt before is forgotten.

        Parameters
        ----------
        X
            Array or data frame of shape (n, p).
        y
            Labels of the known classes, shape (n,). They help if the known instances are of several kinds. ``None``:
            all rows are of one class.
        """
        if y is None:
            rows = self._read(X, reset=True)
            self._fit(rows, ["known"] * len(rows))
        else:
            self._fit(*self._read_labelled(X, y, reset=True))
        self.offset_ = -0.5
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """Return minus the probability of unknown, shape (n,): lower is more unusual."""
        rows = self._read(X)
        return -np.asarray(self.recognizer_.predict_proba_many(rows))[:, -1]

    def decision_function(self, X: Any) -> np.ndarray:
        """Return :meth:`score_samples` minus ``offset_``, shape (n,): negative for unknown."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """Return 1 for each known row and -1 for each unknown row, shape (n,), without changing the model."""
        return np.where(self.decision_function(X) < 0, -1, 1)
