"""The recognizer as scikit-learn's users meet it: its own checks, its tools, arrays and frames, missing values."""

from __future__ import annotations

import importlib
import pickle
import re
import sys
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from stream_osr import Input, ModelOptions, OpenSetRecognizer
from stream_osr.config import Arguments
from stream_osr.errors import InvalidFeature, InvalidInstance, InvalidLabel, InvalidParameter, MissingExtra
from stream_osr.sklearn import OpenSetClassifier, OpenSetDetector

ONE_COLUMN_MORE = "predict_proba has one column more than there are classes: an answer may be unknown"
NONE_IN_TRAINING = "without a share of outliers in the training rows, none of them has to be one"
EXPECTED_FAILURES = {
    OpenSetClassifier: {"check_classifiers_train": ONE_COLUMN_MORE},
    OpenSetDetector: dict.fromkeys(("check_outliers_train", "check_outliers_fit_predict"), NONE_IN_TRAINING),
}
"""Checks of scikit-learn that cannot hold, and why."""


# strict: one that holds after all is to be taken from the list
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")  # its own, of NaN as int
@parametrize_with_checks(
    [kind() for kind in EXPECTED_FAILURES],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES[type(estimator)],
    xfail_strict=True,
)
def test_check_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


class WithoutUnknown(OpenSetClassifier):
    """Probabilities of the known classes, given that it is one of them."""

    def predict_proba(self, X: Any) -> np.ndarray:
        known = super().predict_proba(X)[:, :-1]
        return known / known.sum(axis=1, keepdims=True)


class WithOutliers(OpenSetDetector):
    """Detector that calls a tenth of the training rows outliers."""

    def fit(self, X: Any, y: Any = None) -> Self:
        super().fit(X, y)
        self.offset_ = float(np.quantile(self.score_samples(X), 0.1))
        return self


@parametrize_with_checks([WithoutUnknown(), WithOutliers()])
def test_it_is_the_column_of_unknown_or_the_share_of_outliers_alone(estimator: Any, check: Any) -> None:
    if check.func.__name__ in EXPECTED_FAILURES[type(estimator).__base__]:
        check(estimator)


# Two classes, and a third that nobody knows


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), np.repeat(["left", "right"], 100)
    X[y == "right", 0] += 20
    return X, y, rng.normal([10, 30], size=(70, 2))


@pytest.fixture(scope="module")
def fitted(data: Any) -> OpenSetClassifier:
    """Not to be changed."""
    X, y, _ = data
    return OpenSetClassifier().fit(X, y)


def quick(**arguments: Any) -> OpenSetClassifier:
    return OpenSetClassifier(model=ModelOptions(training_sweeps=3), **arguments)


def test_answers_may_be_unknown_and_probabilities_have_a_last_column_of_it(
    fitted: OpenSetClassifier, data: Any
) -> None:
    X, y, new = data
    rows = np.concatenate([X, new])
    assert fitted.classes_.tolist() == ["left", "right"]
    assert fitted.unknown_ == "unknown"
    assert set(fitted.predict(new)) == {"unknown"}
    assert fitted.score(X, y) > 0.95
    assert fitted.score(new, ["unknown"] * len(new)) == 1.0
    found = fitted.predict_proba(rows)
    assert found.shape == (270, 3)
    assert found.sum(axis=1) == pytest.approx(np.ones(270))
    names = np.array([*fitted.classes_, fitted.unknown_])
    assert (names[found.argmax(axis=1)] == fitted.predict(rows)).all()


def test_predicting_changes_nothing_and_deciding_does(data: Any) -> None:
    X, y, new = data
    classifier = OpenSetClassifier().fit(X, y)
    before = classifier.predict_proba(new)
    assert (classifier.predict_proba(new) == before).all()
    assert classifier.recognizer_.summary().stream_size == 0
    decisions = classifier.decide(new)
    assert [d.key for d in decisions] == list(range(70))
    assert {d.label for d in decisions} == {"unknown"}
    assert classifier.recognizer_.new_classes().number == 1
    assert (classifier.predict_proba(new) != before).any()
    assert [d.key for d in classifier.decide(new[:2], key=["a", "b"])] == ["a", "b"]


def test_it_is_the_recognizer(data: Any) -> None:
    X, y, new = data
    model = OpenSetRecognizer(seed=3, chains=2)
    model.learn_many(X, y)
    model.freeze()
    classifier = OpenSetClassifier(seed=3, chains=2).fit(X, y)
    assert (classifier.predict_proba(new) == model.predict_proba_many(new)).all()
    assert OpenSetClassifier().get_params() == Arguments().arguments == OpenSetRecognizer().arguments


@pytest.mark.parametrize(
    ("labels", "unknown", "kind"),
    [
        ((0, 1), -1, "i"),
        ((-1, 1), -2, "i"),
        (("a", "b"), "unknown", "U"),
        ((False, True), "unknown", "O"),
        ((1.0, 2.0), -1, "i"),
    ],
)
def test_the_label_of_unknown_is_none_of_the_classes(data: Any, labels: Any, unknown: Any, kind: str) -> None:
    X, y, new = data
    classifier = quick().fit(X, np.where(y == "left", *labels))
    assert classifier.unknown_ == unknown
    found = classifier.predict(np.concatenate([X[:1], X[-1:], new[:1]]))
    assert found.dtype.kind == kind
    assert found.tolist() == [*labels, unknown]


def test_answers_beside_booleans_are_no_numbers(data: Any) -> None:
    X, y, new = data
    classifier = quick().fit(X, y == "left")
    assert classifier.classes_.dtype == bool
    known = classifier.predict(X[[0, -1]])
    assert known.dtype == object
    assert [type(answer) for answer in known.tolist()] == [bool, bool]
    with pytest.raises(IndexError):  # as numbers they would choose rows 0, 1 and the last one
        X[classifier.predict(np.concatenate([X[:1], new[:1]]))]
    for unknown in (-1, "?"):
        given = quick(unknown=unknown).fit(X, y == "left").predict([X[0], new[0]])
        assert [*map(repr, given.tolist())] == ["True", repr(unknown)]


def test_score_beside_booleans(data: Any) -> None:
    X, y, new = data
    classifier = quick().fit(X, y == "left")
    rows, truth = np.concatenate([X, new]), np.array([*(y == "left"), *["unknown"] * len(new)], dtype=object)
    assert classifier.score(X, y == "left") > 0.95
    assert classifier.score(rows, truth) > 0.95
    assert classifier.score(rows, truth, sample_weight=np.arange(len(rows)) >= 200) == 1.0
    assert cross_val_score(quick(), X, y == "left", cv=2).min() > 0.95


def test_labels_that_training_has_not_seen_count_as_unknown_on_request(data: Any) -> None:
    X, y, new = data
    rows = np.concatenate([X, new])
    for truth in (np.array([*y, *["above"] * 70]), np.array([*np.where(y == "left", 3, 5), *[8] * 70])):
        classifier = quick().fit(X, truth[:200])
        right = classifier.predict(rows)[:200] == truth[:200]
        assert classifier.score(rows, truth) == pytest.approx(right.sum() / 270)
        assert classifier.score(rows, truth, unseen="unknown") == pytest.approx((right.sum() + 70) / 270)
        assert classifier.score(rows, truth, np.arange(270) >= 200, unseen="unknown") == 1.0
    booleans = np.array([*(y == "left"), *["new"] * 70], dtype=object)
    assert quick().fit(X, y == "left").score(rows, booleans, unseen="unknown") > 0.95
    with pytest.raises(InvalidParameter, match=r"unseen is 'wrong' \(str\): expected 'unknown' or None"):
        classifier.score(rows, truth, unseen="wrong")  # type: ignore[arg-type]


def test_a_stream_by_another_name(data: Any) -> None:
    X, y, new = data
    decided, other = quick().fit(X, y).decide(new, key=range(5, 75)), quick().fit(X, y)
    assert other.fit_predict_stream(new, key=range(5, 75)) == decided
    assert other.recognizer_.new_classes().number == 1


def test_the_docstring_of_predict_has_the_figures_of_the_page() -> None:
    page = Path(__file__).parents[1].joinpath("docs", "python.md").read_text()
    alone, together, *_ = re.findall(r"^right: (\d\.\d\d)$", page, re.MULTILINE)
    assert f"{alone} of the answers" in (told := " ".join(str(OpenSetClassifier.predict.__doc__).split()))
    assert f"{together} of the decisions" in told


# As a detector


@pytest.mark.parametrize("labelled", [False, True])
def test_a_detector_has_the_signs_of_scikit_learn(data: Any, labelled: bool) -> None:
    X, y, new = data
    detector = OpenSetDetector(model=ModelOptions(training_sweeps=3)).fit(X, y if labelled else None)
    assert detector.classes_.tolist() == (["left", "right"] if labelled else ["known"])
    rows = np.concatenate([X, new])
    truth = np.repeat([1, -1], [200, 70])
    found, scores = detector.predict(rows), detector.score_samples(rows)
    assert (found == truth).mean() > 0.97
    assert (np.sign(detector.decision_function(rows)) == found).all()
    assert (scores - detector.offset_ == detector.decision_function(rows)).all()
    assert roc_auc_score(truth, scores) > 0.99
    assert detector.score_samples(new[:1])[0] == -detector.recognizer_.score_one(dict(enumerate(new[0])))
    assert {decision.label for decision in detector.decide(new)} == {"unknown"}


def test_a_detector_in_a_pipeline_and_of_frames(data: Any) -> None:
    X, _, new = data
    names = ["p", "q"]
    for make in (pd.DataFrame, lambda X, columns: pl.DataFrame(X, schema=columns)):
        pipeline = make_pipeline(OpenSetDetector(model=ModelOptions(training_sweeps=3))).fit(make(X, columns=names))
        assert pipeline.predict(make(new, columns=names)).tolist() == [-1] * 70
        assert pipeline.score_samples(make(X, columns=names)).mean() > -0.1
    assert (OpenSetDetector(model=ModelOptions(training_sweeps=3)).fit_predict(X) == 1).mean() > 0.95


# Learning piece by piece


def test_labels_teach_in_training_and_beside_the_stream(data: Any) -> None:
    X, y, new = data
    classifier = OpenSetClassifier()
    for rows in np.array_split(np.arange(200), 4):
        classifier.partial_fit(X[rows], y[rows], classes=["left", "right"])
    assert classifier.score(X, y) > 0.95
    classifier.decide(X)  # ends training
    assert set(classifier.predict(new)) == {"unknown"}
    classifier.partial_fit(new[:40], ["above"] * 40)
    assert classifier.classes_.tolist() == ["above", "left", "right"]
    assert (classifier.predict(new[40:]) == "above").mean() > 0.9
    assert classifier.predict_proba(X).shape == (200, 4)
    assert classifier.score(X, y) > 0.95


def test_labels_leave_an_emerged_subclass_its_seats_and_promoting_does_not(data: Any) -> None:
    X, y, new = data
    classifier = OpenSetClassifier().fit(X, y)
    classifier.decide(new)
    classifier.partial_fit(new[:40], ["above"] * 40)
    assert set(classifier.predict(new)) == {"unknown"}  # as the documentation says
    classifier.recognizer_.promote(classifier.recognizer_.new_classes().candidates[0].subclasses, "above")
    assert set(classifier.predict(new)) == {"above"}
    assert classifier.classes_.tolist() == ["above", "left", "right"]
    assert classifier.predict_proba(new).argmax(axis=1).tolist() == [0] * 70


def test_fitting_forgets(data: Any) -> None:
    X, y, new = data
    classifier = quick().fit(new, ["above"] * len(new))
    assert classifier.fit(X, y).classes_.tolist() == ["left", "right"]
    assert set(classifier.predict(new)) == {"unknown"}


@pytest.mark.parametrize("y", [None, ["left"] * 199 + [None], [0.0] * 199 + [np.nan]], ids=["no", "None", "NaN"])
def test_rows_without_labels_are_sent_to_the_stream(data: Any, y: Any) -> None:
    with pytest.raises(InvalidLabel, match=r"go to decide\(\)"):
        OpenSetClassifier().fit(data[0], y)


def test_a_fit_that_fails_leaves_no_model(data: Any) -> None:
    X, y, _ = data
    classifier = OpenSetClassifier(unknown="left")
    with pytest.raises(InvalidLabel, match="'left' is the label of unknown"):
        classifier.fit(X, y)
    with pytest.raises(NotFittedError):
        classifier.predict(X)


# Tools of scikit-learn


def test_clones_and_pickles(fitted: OpenSetClassifier, data: Any) -> None:
    assert clone(OpenSetClassifier(chains=2, categorical=("a",))).get_params()["chains"] == 2
    assert not hasattr(clone(fitted), "recognizer_")
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(data[2]) == fitted.predict_proba(data[2])).all()


def test_pipeline_grid_search_and_cross_validation() -> None:
    X, y = load_iris(return_X_y=True)
    one_chain = quick(chains=1)
    assert cross_val_score(one_chain, X, y, cv=3).mean() > 0.9
    assert cross_val_predict(one_chain, X, y, cv=3, method="predict_proba").shape == (150, 4)
    pipeline = make_pipeline(FunctionTransformer(np.log), one_chain)
    search = GridSearchCV(pipeline, {"opensetclassifier__min_probability": [0.0, 1.0]}, cv=3, n_jobs=1).fit(X, y)
    assert search.best_params_ == {"opensetclassifier__min_probability": 0.0}
    assert search.predict([[5.1, 3.5, 1.4, 0.2], [50.0, 40.0, 30.0, 60.0]]).tolist() == [0, -1]


# Arrays and frames


def test_frames_with_text_and_missing_values() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=100), "colour": rng.choice(["red", "blue"], 100)})
    y = np.where(frame["colour"] == "red", "warm", "cold")
    frame.loc[3, "size"] = np.nan
    classifier = OpenSetClassifier().fit(frame, y)
    assert classifier.feature_names_in_.tolist() == ["size", "colour"]
    assert classifier.score(frame, y) > 0.9
    assert set(classifier.recognizer_.trained.values["colour"]) == {"red", "blue"}
    with pytest.raises(InvalidFeature, match="'size' of row 0 is 'big'"):
        classifier.predict(pd.DataFrame({"size": ["big"], "colour": ["red"]}))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_names_of_training_hold(data: Any, make: Any) -> None:
    X, y, new = data
    frame = make({"b": X[:, 0], "a": X[:, 1]})  # the recognizer sorts names: a, b
    classifier = quick().fit(frame, y)
    rows = np.concatenate([X, new])
    found = classifier.predict(make({"b": rows[:, 0], "a": rows[:, 1]}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert (classifier.predict(rows) == found).all()
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(make({"a": X[:, 0], "b": X[:, 1]}))


def test_a_frame_after_arrays_is_read_by_position(fitted: OpenSetClassifier, data: Any) -> None:
    _, _, new = data
    with pytest.warns(UserWarning, match="fitted without feature names"):
        found = fitted.predict_proba(pd.DataFrame(new, columns=["p", "q"]))
    assert (found == fitted.predict_proba(new)).all()
    assert (fitted.predict_proba(pd.DataFrame(new)) == found).all()


def test_names_that_are_numbers(data: Any) -> None:
    X, y, new = data
    classifier = quick().fit(pd.DataFrame(X, columns=[7, 5]), y)
    assert set(classifier.predict(pd.DataFrame(new, columns=[7, 5]))) == {"unknown"}
    with pytest.raises(InvalidInstance, match="training had 5, 7"):
        classifier.predict(new)


def test_missing_values_are_taken_if_the_parameter_says_so(data: Any) -> None:
    X, y, _ = data
    holes = X.copy()
    holes[5, 1] = np.nan
    assert quick().fit(holes, y).predict(holes[:6]).tolist() == ["left"] * 6
    with pytest.raises(ValueError, match="NaN"):
        OpenSetClassifier(input=Input(on_missing="error")).fit(holes, y)


def test_text_in_an_array_is_refused_and_in_a_frame_a_category() -> None:
    frame = pd.DataFrame({"size": ["small", "large"] * 20, "x": np.arange(40.0)})
    y = frame["size"].to_numpy()
    passing = ColumnTransformer([("all", "passthrough", ["size", "x"])])
    with pytest.raises(InvalidInstance, match=r"convert string to float: 'small'. Give a data frame.*set_output"):
        make_pipeline(passing, quick()).fit(frame, y)
    passing.set_output(transform="pandas")
    model = make_pipeline(passing, quick()).fit(frame, y)
    assert model.score(frame, y) > 0.9


def test_sparse_matrices_are_refused(data: Any) -> None:
    with pytest.raises(TypeError, match="dense data is required"):
        OpenSetClassifier().fit(sparse.csr_matrix(data[0]), data[1])


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "stream_osr.sklearn")
    with pytest.raises(MissingExtra, match=r"pip install 'stream-osr\[sklearn\]'"):
        importlib.import_module("stream_osr.sklearn")
