"""Rivals in accuracy: each is right on an easy problem, and repeats its decisions."""

from __future__ import annotations

import importlib.util
import os

import numpy as np
import pytest

from benchmarks.openset.methods import ENTRIES, UNKNOWN, Setup
from benchmarks.openset.methods.streamndr import change

ECSMINER = ("ECSMiner", "ECSMiner with feedback")
RIVALS = ("MINAS", *ECSMINER, "ECHO", "SENCForest", "Dirichlet process mixture", "Brand-like")
SETUP = Setup(None, 3, {})


@pytest.fixture(scope="module")
def blobs():
    """Four known classes and two unknown ones, far apart in three dimensions; training part, test part, answers."""
    rng = np.random.default_rng(0)
    centres = 10.0 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [-1, -1, 0]])
    group = np.repeat(np.arange(4), 40)
    answers = rng.permutation(np.repeat(np.arange(6), 30))
    training, test = (centres[of] + rng.normal(size=(len(of), 3)) for of in (group, answers))
    return training, group, test, answers


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
def test_a_rival_is_right_on_an_easy_problem_and_repeats_its_decisions(name, blobs):
    method, outcome = decided(name, blobs)
    known = blobs[3] < 4
    assert (outcome.predicted[known] == blobs[3][known]).mean() > 0.8
    assert (outcome.predicted[~known] == UNKNOWN).mean() > 0.8
    assert set(np.unique(outcome.predicted)) <= {UNKNOWN, *range(4)}
    assert method.chosen["open"] > 0.8
    if outcome.score is not None:
        assert outcome.score[~known].mean() > outcome.score[known].mean() + 0.3
        assert (outcome.closest[known] == blobs[3][known]).mean() > 0.95
    # the first test part must teach nothing to the second, and nothing may be drawn outside of the seed
    again = method.decide(blobs[2], 64 if ENTRIES[name].kind == "in order" else len(blobs[2]), 0)
    for other in (again, decided(name, blobs)[1]):
        np.testing.assert_array_equal(other.predicted, outcome.predicted)
        np.testing.assert_array_equal(other.score, outcome.score)


def test_a_change_of_confidences_is_found_where_it_is_and_only_if_there_is_one():
    rng = np.random.default_rng(4)
    steady = rng.beta(2.0, 5.0, 300)
    assert change(steady[:200]) == -1  # nothing but cushions
    assert change(np.full(300, 0.5)) == -1
    assert abs(change(np.concatenate([steady, rng.beta(5.0, 2.0, 300)])) - 300) < 10
