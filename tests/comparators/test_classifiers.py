"""What every comparator must do, and each method's equations on cases worked out by hand."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest
from sklearn.base import clone

from benchmarks.openset.comparators.evm import ExtremeValueMachine
from benchmarks.openset.comparators.gmm import GaussianMixtures
from benchmarks.openset.comparators.knn import KNNDistance
from benchmarks.openset.comparators.lda import LDAPosterior
from benchmarks.openset.comparators.margin_classifier import tail_size
from benchmarks.openset.comparators.margins import make_scaling
from benchmarks.openset.comparators.one_vs_set import OneVsSet, best_slab
from benchmarks.openset.comparators.osnn import OSNN
from benchmarks.openset.comparators.pi_svm import PISVM
from benchmarks.openset.comparators.qda import QDAChi2
from benchmarks.openset.comparators.w_svm import WOSVM, WSVM
from benchmarks.openset.comparators.weibull import fit_weibull
from benchmarks.openset.comparators.whitening import within_class_whitening
from stream_osr.errors import InvalidLabel, InvalidParameter

MODELS = [
    OneVsSet(),
    OneVsSet(gamma=2.0),
    OneVsSet(gamma="auto"),
    PISVM(gamma=2.0, scaling="one"),
    WOSVM(gamma=2.0),
    WSVM(gamma=2.0, cap_gamma=2.0),
    PISVM(gamma=2.0),
    OSNN(sigma=0.6),
    ExtremeValueMachine(tail=10),
    KNNDistance(threshold=4.0),
    GaussianMixtures(),
    QDAChi2(tail=1e-4),
    LDAPosterior(),
]
COMPARATORS = ["weibull", "osnn", "knn", "evm", "gmm", "qda", "lda", "pi_svm", "w_svm", "one_vs_set", "selection"]
MODULES = ["comparing", "statistics", *(f"comparators.{name}" for name in COMPARATORS)]


def name_of(value: object) -> str | None:
    return type(value).__name__ if value in MODELS else None


def gaussians(n: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three classes in a triangle, labels 0, 2 and 5."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    X = np.concatenate([rng.normal(centre, 1.0, (n, 2)) for centre in centres])
    return X, np.repeat([0, 2, 5], n)


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_classes_apart_are_told_apart(model):
    model = clone(model).fit(*gaussians())
    X, y = gaussians(seed=1)
    predicted = model.predict(X)
    accepted = predicted != -1
    assert accepted.mean() > 0.8
    assert (predicted[accepted] == y[accepted]).mean() > 0.99
    assert model.classes_.tolist() == [0, 2, 5]


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_what_lies_between_the_classes_and_beyond_is_unknown(model):
    model = clone(model).fit(*gaussians())
    between = [[5.0, 5.0], [5.0, 0.0]]
    beyond = [[-200.0, -200.0], [300.0, -280.0]]
    # Slabs and linear boundaries have no end sideways, ratios none away from all classes.
    query = {LDAPosterior: between, OSNN: between}.get(type(model), beyond)
    if isinstance(model, OneVsSet) and model.gamma is None:
        query = [[-300.0, 0.0], [0.0, -300.0]]
    assert model.predict(query).tolist() == [-1] * len(query)
    known = model.score_unknown([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    assert model.score_unknown(query).min() > known.max()


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_scores_are_finite_and_predictions_their_cut(model):
    model = clone(model).fit(*gaussians())
    X = np.random.default_rng(5).uniform(-30, 40, (200, 2))
    score = model.score_unknown(X)
    assert np.isfinite(score).all()
    assert ((model.predict(X) == -1) == (score > model.cut())).all()


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_two_classes_and_one_feature_suffice(model):
    X = np.r_[np.linspace(0, 1, 12), np.linspace(9, 10, 12)][:, None]
    assert clone(model).fit(X, np.repeat([0, 1], 12)).predict([[0.5], [9.5]]).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("X", "y", "error", "told"),
    [
        ([[0.0], [1.0]], [0], InvalidParameter, r"y is of shape \(1,\): expected \(2,\)"),
        ([[0.0], [1.0]], ["a", "b"], InvalidLabel, "expected integers, 0 or above"),
        ([[0.0], [1.0]], [0, -1], InvalidLabel, "the label -1: expected 0 or above"),
        ([[0.0], [1.0]], [3, 3], InvalidParameter, "at least 2 known classes"),
        ([[0.0], [np.nan]], [0, 1], ValueError, "NaN"),
    ],
)
def test_what_cannot_be_fitted_is_named(X, y, error, told):
    with pytest.raises(error, match=told):
        OSNN().fit(X, y)


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_the_docstrings(module):
    outcome = doctest.testmod(importlib.import_module(f"benchmarks.openset.{module}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_osnn_ratio():
    # nearest 1 away in class 0, nearest of class 1 is 2 away: the second neighbour, of class 0 too, does not count
    model = OSNN(sigma=0.5).fit([[0.0, 0.0], [0.0, -0.5], [3.0, 0.0]], [0, 0, 1])
    assert model.score_unknown([[1.0, 0.0]]) == pytest.approx([0.5])
    assert model.predict([[1.0, 0.0], [1.1, 0.0]]).tolist() == [0, -1]


def test_qda_distance_is_mahalanobis():
    X = np.array([[0.0, 0], [2, 0], [0, 4], [2, 4], [10, 0], [12, 0], [10, 4], [12, 4]])
    model = QDAChi2(shrinkage=0.0, ridge=0.0).fit(X, np.repeat([0, 1], 4))
    # each class: mean (1, 2), covariance diag(4/3, 16/3)
    assert model.score_unknown([[3.0, 2.0], [1.0, 6.0]]) == pytest.approx([4 / (4 / 3), 16 / (16 / 3)])


def test_knn_counts_in_typical_distances_of_its_class():
    model = KNNDistance(k=2, threshold=2.0, whiten=False).fit(
        np.r_[0:5, 50:55][:, None].astype(float), np.repeat([0, 1], 5)
    )
    # second neighbour, itself left out: 2, 1, 1, 1, 2 away in each class; the median is 1
    assert model.score_unknown([[2.0], [6.0]]).round(9).tolist() == [1.0, 3.0]


@pytest.mark.parametrize("method", [OSNN, ExtremeValueMachine, KNNDistance])
def test_whitened_distances_are_those_of_whitened_instances(method):
    X, y = gaussians()
    whitening = within_class_whitening(X, y)
    inside = method(whiten=True).fit(X, y).score_unknown(X + 0.5)
    assert inside == pytest.approx(method(whiten=False).fit(X @ whitening, y).score_unknown((X + 0.5) @ whitening))


def test_evm_probability_of_inclusion():
    X = np.array([[0.0], [4.0], [6.0], [10.0]])
    model = ExtremeValueMachine(tail=2, delta=0.5).fit(X, [0, 1, 1, 1])
    # margins of the instance at 0: half of 4 and of 6
    law = fit_weibull(np.array([2.0, 3.0]))
    expected = np.exp(-((1.5 / law.scale) ** law.shape))
    assert 1 - model.score_unknown([[-1.5]]) == pytest.approx([expected])


def test_wsvm_multiplies_two_tails_and_leaves_out_classes_by_the_third():
    model = WSVM(gamma=1.0, cap_gamma=1.0, rho=1e-3)
    product = np.log([[0.5, 0.2], [0.5, 0.2], [0.5, 0.2]])
    one_class = np.log([[0.9, 0.9], [1e-4, 0.9], [1e-4, 1e-4]])
    label, unknownness = model.combine([product, one_class], np.array([3, 4]))
    assert label[:2].tolist() == [3, 4]
    assert unknownness[:2] == pytest.approx([-np.log(0.5), -np.log(0.2)])
    assert unknownness[2] > model.cut()


def test_pi_svm_reads_only_the_class_s_own_tail():
    X, y = gaussians()
    model = PISVM(gamma=1.0).fit(X, y)
    trained, tails = model.trained_[0], model.calibrations_[0]
    own = trained.own[y == 0, 0]
    size = tail_size(int(trained.machines.n_support[0, 0]), len(own), 1.5)
    smallest = np.sort(own)[:size]
    assert tails[0].weibull.shape == pytest.approx(fit_weibull(smallest[-1] - smallest + 1.0).shape)


def test_slab_holds_the_class_and_leaves_out_both_sides():
    margins = np.array([-3.0, -2.0, 1.0, 1.5, 2.0, 4.0])
    of_class = np.array([False, False, True, True, True, False])
    near, far = best_slab(margins, of_class, risk_weight=1.0, two_sided=True)
    assert (near, far) == (1.0, 3.0)
    near, far = best_slab(margins[:-1], of_class[:-1], risk_weight=1.0, two_sided=False)
    assert best_slab(margins, of_class, 1.0, two_sided=True, near_pressure=1.0).near == -0.5  # midway to -2
    assert (near, far) == (1.0, 2.5)  # nothing beyond: half the width of the class further


def test_scaling_by_one_factor_keeps_proportions():
    X = np.array([[0.0, 7.0, 3.0], [5.0, 8.0, 3.0], [10.0, 9.0, 3.0]])
    assert make_scaling(X, "one")(X).tolist() == [[-1.0, -0.2, 0.0], [0.0, 0.0, 0.0], [1.0, 0.2, 0.0]]
    assert make_scaling(X * 0 + 4, "one")(X * 0 + 4).tolist() == np.zeros((3, 3)).tolist()
    assert make_scaling(X, "none")(X).tolist() == X.tolist()
