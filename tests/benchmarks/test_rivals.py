"""Rivals in accuracy: each is right on a problem that is easy, and says the same twice."""

from __future__ import annotations

import importlib.util
import os
from functools import cache

import numpy as np
import pytest
from scipy.stats import multivariate_t

from benchmarks.openset.methods import ENTRIES, UNKNOWN, Setup
from benchmarks.openset.methods.brand import Terms
from benchmarks.openset.methods.echo import change
from benchmarks.openset.tuned import Simulation

RIVALS = (
    "MINAS",
    "ECSMiner",
    "ECSMiner with feedback",
    "ECHO",
    "SENCForest",
    "Dirichlet process mixture",
    "Brand-like",
)
SETUP = Setup(None, 3, None, {})


@pytest.fixture(scope="module")
def blobs():
    """Four known classes and two unknown ones, far apart in three dimensions; training part, test part, answers."""
    rng = np.random.default_rng(0)
    centres = 10.0 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [-1, -1, 0]])
    group = np.repeat(np.arange(4), 60)
    answers = rng.permutation(np.repeat(np.arange(6), 50))
    return (
        centres[group] + rng.normal(size=(len(group), 3)),
        group,
        centres[answers] + rng.normal(size=(len(answers), 3)),
        answers,
    )


@pytest.fixture(scope="module")
def once(blobs):
    """Each rival's first run, by name; it is looked at by two tests."""
    return cache(lambda name: decided(name, blobs))


def decided(name, blobs):
    entry = ENTRIES[name]
    if entry.needs and importlib.util.find_spec(entry.needs) is None:
        message = f"{entry.needs} is not installed: pip install --no-deps {entry.needs}"
        if os.environ.get("CI", "").lower() == "true":  # `make install` brings it
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    X, group, test, answers = blobs
    method = entry.make(SETUP)
    method.fit(X, group, range(4))
    if entry.asks:
        method.answers = answers
    return method, method.decide(test, 64 if entry.kind == "in order" else len(test), 0)


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_knows_what_is_easy(name, blobs, once):
    method, outcome = once(name)
    known = blobs[3] < 4
    assert (outcome.predicted[known] == blobs[3][known]).mean() > 0.8
    assert (outcome.predicted[~known] == UNKNOWN).mean() > 0.8
    assert set(np.unique(outcome.predicted)) <= {UNKNOWN, *range(4)}
    assert method.chosen["open"] > 0.8
    if outcome.score is not None:
        assert outcome.score[~known].mean() > outcome.score[known].mean() + 0.3
        assert (outcome.closest[known] == blobs[3][known]).mean() > 0.95


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_says_the_same_twice_and_anew(name, blobs, once):
    # what the first test part has taught must not stay for the second, and nothing may be drawn outside of the seed
    method, outcome = once(name)
    again = method.decide(blobs[2], 64 if ENTRIES[name].kind == "in order" else len(blobs[2]), 0)
    _, anew = decided(name, blobs)
    for other in (again, anew):
        np.testing.assert_array_equal(other.predicted, outcome.predicted)
        np.testing.assert_array_equal(other.score, outcome.score)


def test_simulated_classes_are_numbered_from_0_and_the_unknown_ones_beyond(blobs):
    of = Simulation.of(blobs[0], blobs[1], 5)
    assert set(of.group) == {0, 1}
    assert set(of.answers) == {0, 1, 2, 3}
    assert of.judge(np.where(of.answers < 2, of.answers, UNKNOWN)) == (1.0, 1.0)
    assert of.judge(np.full(len(of.answers), UNKNOWN)) == (0.0, 0.0)


def test_a_term_of_the_mixture_is_the_student_t_of_its_instances():
    # the predictive of a normal-inverse-Wishart posterior, worked out from all instances at once
    rng = np.random.default_rng(2)
    X, mean, kappa, nu, scale = rng.normal(size=(7, 3)), rng.normal(size=3), 0.7, 6.5, np.diag([1.0, 2.0, 0.5])
    terms = Terms(mean[None], np.array([kappa]), np.array([nu]), scale[None])
    for x in X:
        terms.put(0, x, 1)
    terms.put(0, X[6], -1)
    own = X[:6]
    away, about = own.mean(axis=0) - mean, own - own.mean(axis=0)
    kappa_n, nu_n = kappa + 6, nu + 6
    scale_n = scale + about.T @ about + kappa * 6 / kappa_n * np.outer(away, away)
    df = nu_n - 3 + 1
    t = multivariate_t((kappa * mean + own.sum(axis=0)) / kappa_n, scale_n * (kappa_n + 1) / (kappa_n * df), df)
    x = rng.normal(size=3)
    assert terms.log_predictive(x, 1)[0] == pytest.approx(t.logpdf(x), abs=1e-9)
    for x in own:
        terms.put(0, x, -1)
    np.testing.assert_array_equal(terms.mean[0], mean)


def test_a_change_of_confidences_is_found_where_it_is_and_only_if_there_is_one():
    rng = np.random.default_rng(4)
    steady = rng.beta(2.0, 5.0, 300)
    assert change(steady[:200]) == -1  # nothing but cushions
    assert change(np.full(300, 0.5)) == -1
    assert abs(change(np.concatenate([steady, rng.beta(5.0, 2.0, 300)])) - 300) < 10
