"""What every comparator must do, and each method's equations on cases worked out by hand."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest
from sklearn.base import clone

from benchmarks.openset.comparators.evm import ExtremeValueMachine
from benchmarks.openset.comparators.gaussian import GaussianMixtures, LDAPosterior, QDAChi2
from benchmarks.openset.comparators.margin_classifier import make_scaling
from benchmarks.openset.comparators.neighbours import OSNN, KNNDistance, within_class_whitening
from benchmarks.openset.comparators.one_vs_set import OneVsSet, best_slab
from benchmarks.openset.comparators.weibull import fit_weibull
from benchmarks.openset.comparators.weibull_machines import PISVM, WOSVM, WSVM, tail_size

SUPPORT_VECTOR_MACHINES = [
    *(OneVsSet(gamma=gamma) for gamma in (None, 2.0, "auto")),
    *(PISVM(gamma=2.0, scaling="one"), PISVM(gamma=2.0), WOSVM(gamma=2.0), WSVM(gamma=2.0, cap_gamma=2.0)),
]
DISTANCES = [OSNN(sigma=0.6), ExtremeValueMachine(tail=10), KNNDistance(threshold=4.0)]
MODELS = [*SUPPORT_VECTOR_MACHINES, *DISTANCES, GaussianMixtures(), QDAChi2(tail=1e-4), LDAPosterior()]
COMPARATORS = ["weibull", "neighbours", "evm", "gaussian", "weibull_machines", "one_vs_set", "selection"]
MODULES = ["statistics", *(f"comparators.{name}" for name in COMPARATORS)]


CENTRES = [[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]]


def gaussians(n: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three classes in a triangle, labels 0, 2 and 5."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(centre, 1.0, (n, 2)) for centre in CENTRES]), np.repeat([0, 2, 5], n)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_comparator_on_classes_that_are_apart(model):
    model = clone(model).fit(*gaussians())
    X, y = gaussians(seed=1)
    predicted = model.predict(X)
    accepted = predicted != -1
    assert accepted.mean() > 0.8
    assert (predicted[accepted] == y[accepted]).mean() > 0.99
    assert model.classes_.tolist() == [0, 2, 5]
    # instances between the classes and beyond them are unknown
    between = [[5.0, 5.0], [5.0, 0.0]]
    beyond = [[-200.0, -200.0], [300.0, -280.0]]
    # Slabs and linear boundaries have no end sideways, ratios none away from all classes.
    query = {LDAPosterior: between, OSNN: between}.get(type(model), beyond)
    if isinstance(model, OneVsSet) and model.gamma is None:
        query = [[-300.0, 0.0], [0.0, -300.0]]
    assert model.predict(query).tolist() == [-1] * len(query)
    assert model.score_unknown(query).min() > model.score_unknown(CENTRES).max()
    # scores are finite, and predictions compare them with the cut
    X = np.random.default_rng(5).uniform(-30, 40, (200, 2))
    score = model.score_unknown(X)
    assert np.isfinite(score).all()
    assert ((model.predict(X) == -1) == (score > model.cut())).all()
    # two classes and one feature suffice
    X = np.r_[np.linspace(0, 1, 12), np.linspace(9, 10, 12)][:, None]
    assert clone(model).fit(X, np.repeat([0, 1], 12)).predict([[0.5], [9.5]]).tolist() == [0, 1]


def test_examples_in_the_docstrings():
    for module in MODULES:
        outcome = doctest.testmod(importlib.import_module(f"benchmarks.openset.{module}"))
        assert outcome.attempted > 0 == outcome.failed, module


@pytest.mark.parametrize("method", [OSNN, ExtremeValueMachine, KNNDistance])
def test_whitened_distances_are_those_of_whitened_instances(method):
    X, y = gaussians()
    whitening = within_class_whitening(X, y)
    inside = method(whiten=True).fit(X, y).score_unknown(X + 0.5)
    assert inside == pytest.approx(method(whiten=False).fit(X @ whitening, y).score_unknown((X + 0.5) @ whitening))


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
    trained, tails = model.trained_[0], model.calibrations_[0].own
    own = trained.own[y == 0, 0]
    size = tail_size(int(trained.n_support[0, 0]), len(own), 1.5)
    smallest = np.sort(own)[:size]
    assert tails[0].weibull.shape == pytest.approx(fit_weibull(smallest[-1] - smallest + 1.0).shape)


def test_slab_contains_the_class_and_leaves_out_both_sides():
    margins = np.array([-3.0, -2.0, 1.0, 1.5, 2.0, 4.0])
    of_class = np.array([False, False, True, True, True, False])
    assert best_slab(margins, of_class, risk_weight=1.0, two_sided=True) == (1.0, 3.0)
    assert best_slab(margins, of_class, 1.0, two_sided=True, near_pressure=1.0).near == -0.5  # midway to -2
    # nothing beyond: half the width of the class further
    assert best_slab(margins[:-1], of_class[:-1], risk_weight=1.0, two_sided=False) == (1.0, 2.5)


def test_scaling_by_one_factor_keeps_proportions():
    X = np.array([[0.0, 7.0, 3.0], [5.0, 8.0, 3.0], [10.0, 9.0, 3.0]])
    assert make_scaling(X, "one")(X).tolist() == [[-1.0, -0.2, 0.0], [0.0, 0.0, 0.0], [1.0, 0.2, 0.0]]
    assert make_scaling(X * 0 + 4, "one")(X * 0 + 4).tolist() == np.zeros((3, 3)).tolist()
    assert make_scaling(X, "none")(X).tolist() == X.tolist()
