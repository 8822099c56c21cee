"""The estimators for scikit-learn: its own checks, its tools, arrays and frames, missing values."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pytest

from stream_osr import Input, ModelOptions, OpenSetRecognizer
from stream_osr.config import Arguments
from stream_osr.errors import InvalidInstance, InvalidLabel, InvalidParameter, MissingExtra

if TYPE_CHECKING:
    from stream_osr.sklearn import OpenSetClassifier

FEW_SWEEPS = ModelOptions(training_sweeps=3)
NONE_IN_TRAINING = "without a share of outliers in the training rows, none of them has to be one"
EXPECTED_FAILURES = {
    "OpenSetClassifier": {"check_classifiers_train": "predict_proba has a column for unknown rows"},
    "OpenSetDetector": dict.fromkeys(("check_outliers_train", "check_outliers_fit_predict"), NONE_IN_TRAINING),
}
"""Checks of scikit-learn that cannot hold, and why."""


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")  # its own, of NaN as int
@pytest.mark.thorough
@pytest.mark.parametrize("name", EXPECTED_FAILURES)
def test_all_checks_of_scikit_learn_hold_but_those_that_cannot(name: str) -> None:
    from sklearn.utils.estimator_checks import check_estimator

    import stream_osr.sklearn

    estimator, expected = getattr(stream_osr.sklearn, name)(model=FEW_SWEEPS, chains=1), EXPECTED_FAILURES[name]
    results = check_estimator(estimator, expected_failed_checks=expected, on_skip=None)
    assert {each["check_name"] for each in results if each["status"] == "xfail"} == set(expected)
    assert len([each for each in results if each["status"] == "passed"]) > 40


@pytest.mark.thorough
def test_the_other_checks_hold_without_the_column_of_unknown_and_with_a_share_of_outliers() -> None:
    from sklearn.utils.estimator_checks import estimator_checks_generator

    from stream_osr.sklearn import OpenSetClassifier, OpenSetDetector

    class WithoutUnknown(OpenSetClassifier):
        def predict_proba(self, X: Any) -> np.ndarray:
            known = super().predict_proba(X)[:, :-1]
            return known / known.sum(axis=1, keepdims=True)

    class WithOutliers(OpenSetDetector):
        def fit(self, X: Any, y: Any = None) -> Self:
            super().fit(X, y)
            self.offset_ = float(np.quantile(self.score_samples(X), 0.1))
            return self

    failing = {name for checks in EXPECTED_FAILURES.values() for name in checks}
    for kind in (WithoutUnknown, WithOutliers):
        every = estimator_checks_generator(kind(model=FEW_SWEEPS, chains=1))
        checks = [pair for pair in every if pair[1].func.__name__ in failing]
        assert checks, kind
        for estimator, check in checks:
            check(estimator)


# Two known classes and a new one


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), np.repeat(["left", "right"], 100)
    X[y == "right", 0] += 20
    return X, y, rng.normal([10, 30], size=(70, 2))


def default(**arguments: Any) -> OpenSetClassifier:
    from stream_osr.sklearn import OpenSetClassifier

    return OpenSetClassifier(**arguments)


def quick(**arguments: Any) -> OpenSetClassifier:
    return default(model=FEW_SWEEPS, **arguments)


@pytest.fixture(scope="module")
def fitted(data: Any) -> OpenSetClassifier:
    """Not to be changed."""
    X, y, _ = data
    return default().fit(X, y)


def test_rows_may_be_unknown_and_probabilities_have_a_last_column_of_it(fitted: OpenSetClassifier, data: Any) -> None:
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
    classifier, other = quick().fit(X, y), quick().fit(X, y)
    before = classifier.predict_proba(new)
    assert (classifier.predict_proba(new) == before).all()
    assert classifier.recognizer_.summary().stream_size == 0
    decisions = classifier.decide(new)
    assert [d.key for d in decisions] == list(range(70))
    assert {d.label for d in decisions} == {"unknown"}
    assert classifier.recognizer_.new_classes().number == 1
    assert (classifier.predict_proba(new) != before).any()
    assert [d.key for d in classifier.decide(new[:2], key=["a", "b"])] == ["a", "b"]
    assert other.fit_predict_stream(new) == decisions
    assert other.recognizer_.new_classes().number == 1


def test_it_is_the_recognizer(data: Any) -> None:
    X, y, new = data
    model = OpenSetRecognizer(seed=3, chains=2)
    model.learn_many(X, y)
    model.freeze()
    classifier = default(seed=3, chains=2).fit(X, y)
    assert (classifier.predict_proba(new) == model.predict_proba_many(new)).all()
    assert default().get_params() == Arguments().arguments == OpenSetRecognizer().arguments


def test_the_label_of_unknown_is_none_of_the_classes(data: Any) -> None:
    X, y, new = data
    for *labels, unknown, kind in (
        (0, 1, -1, "i"),
        (-1, 1, -2, "i"),
        ("a", "b", "unknown", "U"),
        (False, True, "unknown", "O"),
        (1.0, 2.0, -1, "i"),
    ):
        classifier = quick().fit(X, np.where(y == "left", *labels))
        assert classifier.unknown_ == unknown
        found = classifier.predict(np.concatenate([X[:1], X[-1:], new[:1]]))
        assert (found.dtype.kind, found.tolist()) == (kind, [*labels, unknown])


def test_predictions_and_scores_of_boolean_classes(data: Any) -> None:
    X, y, new = data
    classifier = quick().fit(X, y == "left")
    assert classifier.classes_.dtype == bool
    known = classifier.predict(X[[0, -1]])
    assert known.dtype == object
    assert [type(label) for label in known.tolist()] == [bool, bool]
    with pytest.raises(IndexError):  # as numbers they would choose rows 0, 1 and the last one
        X[classifier.predict(np.concatenate([X[:1], new[:1]]))]
    for unknown in (-1, "?"):
        given = quick(unknown=unknown).fit(X, y == "left").predict([X[0], new[0]])
        assert [*map(repr, given.tolist())] == ["True", repr(unknown)]
    rows, truth = np.concatenate([X, new]), np.array([*(y == "left"), *["unknown"] * len(new)], dtype=object)
    assert classifier.score(X, y == "left") > 0.95
    assert classifier.score(rows, truth) > 0.95
    assert classifier.score(rows, truth, sample_weight=np.arange(len(rows)) >= 200) == 1.0
    truth[200:] = "new"
    assert classifier.score(rows, truth, unseen="unknown") > 0.95


def test_labels_that_training_has_not_seen_count_as_unknown_on_request(data: Any) -> None:
    X, y, new = data
    rows = np.concatenate([X, new])
    for truth in (np.array([*y, *["above"] * 70]), np.array([*np.where(y == "left", 3, 5), *[8] * 70])):
        classifier = quick().fit(X, truth[:200])
        right = classifier.predict(rows)[:200] == truth[:200]
        assert classifier.score(rows, truth) == pytest.approx(right.sum() / 270)
        assert classifier.score(rows, truth, unseen="unknown") == pytest.approx((right.sum() + 70) / 270)
        assert classifier.score(rows, truth, np.arange(270) >= 200, unseen="unknown") == 1.0
    with pytest.raises(InvalidParameter, match=r"unseen is 'wrong' \(str\): expected 'unknown' or None"):
        classifier.score(rows, truth, unseen="wrong")  # type: ignore[arg-type]


def test_the_docstring_of_predict_has_the_figures_of_the_page() -> None:
    page = Path(__file__).parents[1].joinpath("docs", "python.md").read_text()
    alone, together, *_ = re.findall(r"^right: (\d\.\d\d)$", page, re.MULTILINE)
    docstring = " ".join(str(default().predict.__doc__).split())
    assert f"{alone} of the answers" in docstring
    assert f"{together} of the decisions" in docstring


# As a detector


@pytest.mark.parametrize("labelled", [False, True])
def test_a_detector_has_the_signs_of_scikit_learn(data: Any, labelled: bool) -> None:
    from stream_osr.sklearn import OpenSetDetector

    X, y, new = data
    detector = OpenSetDetector(model=FEW_SWEEPS)
    if not labelled:
        assert (detector.fit_predict(X) == 1).mean() > 0.95
    detector.fit(X, y if labelled else None)
    assert detector.classes_.tolist() == (["left", "right"] if labelled else ["known"])
    rows = np.concatenate([X, new])
    found, scores = detector.predict(rows), detector.score_samples(rows)
    assert (found == np.repeat([1, -1], [200, 70])).mean() > 0.97
    assert (np.sign(detector.decision_function(rows)) == found).all()
    assert (scores - detector.offset_ == detector.decision_function(rows)).all()
    assert (scores[:200, None] > scores[200:]).mean() > 0.99, "area under the ROC curve"
    assert detector.score_samples(new[:1])[0] == -detector.recognizer_.score_one(dict(enumerate(new[0])))
    assert {decision.label for decision in detector.decide(new)} == {"unknown"}


# Learning piece by piece


def test_labels_are_learnt_in_training_and_beside_the_stream(data: Any) -> None:
    X, y, new = data
    classifier = default()
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
    classifier = default().fit(X, y)
    classifier.decide(new)
    classifier.partial_fit(new[:40], ["above"] * 40)
    assert set(classifier.predict(new)) == {"unknown"}  # as the documentation says
    classifier.recognizer_.promote(classifier.recognizer_.new_classes().candidates[0].subclasses, "above")
    assert set(classifier.predict(new)) == {"above"}
    assert classifier.classes_.tolist() == ["above", "left", "right"]
    assert classifier.predict_proba(new).argmax(axis=1).tolist() == [0] * 70


def test_fitting_replaces_the_model_and_a_fit_that_fails_leaves_none(data: Any) -> None:
    from sklearn.exceptions import NotFittedError

    X, y, new = data
    classifier = quick().fit(new, ["above"] * len(new))
    assert classifier.fit(X, y).classes_.tolist() == ["left", "right"]
    assert set(classifier.predict(new)) == {"unknown"}
    classifier = default(unknown="left")
    with pytest.raises(InvalidLabel, match="'left' is the label of unknown"):
        classifier.fit(X, y)
    with pytest.raises(NotFittedError):
        classifier.predict(X)


def test_fitting_refuses_rows_without_labels(data: Any) -> None:
    for y in (None, ["left"] * 199 + [None], [0.0] * 199 + [np.nan]):
        with pytest.raises(InvalidLabel, match=r"go to decide\(\)"):
            default().fit(data[0], y)


# Arrays and frames


def test_names_of_training_hold(data: Any) -> None:
    import pandas as pd
    import polars as pl

    X, y, new = data
    rows = np.concatenate([X, new])
    for make in (pd.DataFrame, pl.DataFrame):
        classifier = quick().fit(make({"b": X[:, 0], "a": X[:, 1]}), y)  # the recognizer sorts names: a, b
        found = classifier.predict(make({"b": rows[:, 0], "a": rows[:, 1]}))
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            assert (classifier.predict(rows) == found).all()
        with pytest.raises(ValueError, match="feature names"):
            classifier.predict(make({"a": X[:, 0], "b": X[:, 1]}))
    numbered = quick().fit(pd.DataFrame(X, columns=[7, 5]), y)
    assert set(numbered.predict(pd.DataFrame(new, columns=[7, 5]))) == {"unknown"}
    with pytest.raises(InvalidInstance, match="training had 5, 7"):
        numbered.predict(new)


def test_a_frame_after_arrays_is_read_by_position(fitted: OpenSetClassifier, data: Any) -> None:
    import pandas as pd

    _, _, new = data
    with pytest.warns(UserWarning, match="fitted without feature names"):
        found = fitted.predict_proba(pd.DataFrame(new, columns=["p", "q"]))
    assert (found == fitted.predict_proba(new)).all()
    assert (fitted.predict_proba(pd.DataFrame(new)) == found).all()


def test_missing_values_are_taken_if_the_parameter_says_so_and_sparse_matrices_are_refused(data: Any) -> None:
    from scipy import sparse

    X, y, _ = data
    holes = X.copy()
    holes[5, 1] = np.nan
    assert quick().fit(holes, y).predict(holes[:6]).tolist() == ["left"] * 6
    with pytest.raises(ValueError, match="NaN"):
        default(input=Input(on_missing="error")).fit(holes, y)
    with pytest.raises(TypeError, match="dense data is required"):
        default().fit(sparse.csr_matrix(X), y)


def test_text_in_an_array_is_refused_and_in_a_frame_a_category() -> None:
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline

    frame = pd.DataFrame({"size": ["small", "large"] * 20, "x": np.arange(40.0)})
    y = frame["size"].to_numpy()
    passing = ColumnTransformer([("all", "passthrough", ["size", "x"])])
    with pytest.raises(InvalidInstance, match=r"convert string to float: 'small'. Give a data frame.*set_output"):
        make_pipeline(passing, quick()).fit(frame, y)
    passing.set_output(transform="pandas")
    model = make_pipeline(passing, quick()).fit(frame, y)
    assert model.score(frame, y) > 0.9


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "stream_osr.sklearn", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'stream-osr\[sklearn\]'"):
        importlib.import_module("stream_osr.sklearn")
