"""The sampler visits every seating as often as the exact posterior says, on problems small enough to enumerate.

All runs have fixed seeds. A frequency is judged by its standard error from the means of 100 consecutive batches,
which allows for the correlation between sweeps.
"""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.model.moves.hyperparameters import ALPHA, GAMMA
from tests.model import chains
from tests.model.problems import make_base, seat, stream_problem
from tests.oracles import crf, stream

pytestmark = pytest.mark.thorough
LARGEST = 4.5
"""Largest standardised difference allowed; of some thousand differences none should reach it by chance."""

ROWS = np.array([[0.1, 0.0], [0.5, 0.3], [0.2, -0.1], [-0.4, 0.2], [1.2, 0.9]])

PLACES = np.array([[1.0, 6.0], [1.0, 4.0], [2.0, 5.0], [1.0, 6.0], [3.0, 5.0]])
"""Categories of the same instances; one value is missing, and one is among those that training did not have."""

TRAINING = [
    # groups, features, kind, ownership
    pytest.param((0, 0, 1, 1), 1, "numbers", True, id="two groups, own dishes, d=1"),
    pytest.param((0, 0, 1, 1), 1, "numbers", False, id="two groups, shared dishes, d=1"),
    pytest.param((0, 0, 1, 1), 2, "numbers", True, id="two groups, own dishes, d=2", marks=pytest.mark.long),
    pytest.param((0, 0, 1, 1), 2, "numbers", False, id="two groups, shared dishes, d=2", marks=pytest.mark.long),
    pytest.param((0, 1, 0, 1), 2, "numbers", False, id="two groups in turn, shared dishes, d=2"),
    pytest.param((0, 0, 0, 0, 0), 1, "numbers", True, id="one group of five, d=1", marks=pytest.mark.long),
    pytest.param((0, 0, 0, 0), 2, "numbers", True, id="one group of four, d=2"),
    pytest.param((0, 0, 1, 1), 1, "categories", True, id="two groups, own dishes, categories, d=1"),
    pytest.param((0, 0, 1, 1), 1, "categories", False, id="two groups, shared dishes, categories, d=1"),
    pytest.param((0, 0, 0, 0), 0, "categories", True, id="one group of four, categories alone"),
]


def training_problem(groups, d, kind, ownership, alpha, gamma):
    """The exact posterior, and a sampler's state to start from (each instance at its own table)."""
    rows = ROWS[: len(groups), :d]
    if kind == "categories":
        rows = np.hstack([PLACES[: len(groups)], rows])
    prior, base = make_base(d, kind, nu=d + 2.0, psi=0.1, beta=0.005)
    exact = crf.Franchise(groups, alpha, gamma, ownership).posterior(rows, base)
    start = (alpha, gamma) if isinstance(alpha, float) else (ALPHA.shape / ALPHA.rate, GAMMA.shape / GAMMA.rate)
    each = crf.Seating(tuple(range(len(groups))), tuple(range(len(groups))))
    return exact, seat(each, rows, groups, prior, alpha=start[0], gamma=start[1], exclusive=ownership)


def check(numbers, exact, furthest=0.02) -> None:
    """Frequencies of the seatings."""
    scores, distance = chains.indicator_scores(numbers, exact.probabilities)
    assert np.abs(scores).max() < LARGEST
    assert distance < furthest


@pytest.mark.parametrize(("groups", "d", "kind", "ownership"), TRAINING)
def test_training_sweeps_visit_seatings_as_often_as_they_are_likely(groups, d, kind, ownership):
    exact, state = training_problem(groups, d, kind, ownership, ALPHA, GAMMA)
    record = chains.training_chain(np.random.default_rng(1), 80_000, state)
    numbers = chains.numbered(record, exact.seatings, groups)
    check(numbers, exact)
    assert abs(chains.z_score(record.alpha, exact.mean_alpha)) < LARGEST
    assert abs(chains.z_score(record.gamma, exact.mean_gamma)) < LARGEST
    # alpha0 and gamma go with the number of tables and of dishes
    tables = chains.of_seatings(exact.seatings, lambda s: len(s.dishes))
    eaten = chains.of_seatings(exact.seatings, lambda s: len(set(s.dishes)))
    franchise = crf.Franchise(groups, ALPHA, GAMMA, ownership)
    means = np.array([franchise.mean_concentrations(seating) for seating in exact.seatings])
    expected = exact.probabilities @ (means * np.stack([tables, eaten], axis=1))
    assert abs(chains.z_score(record.alpha * tables[numbers], expected[0])) < LARGEST
    assert abs(chains.z_score(record.gamma * eaten[numbers], expected[1])) < LARGEST


@pytest.mark.parametrize("redishing", [True, False], ids=["with re-dishing", "visits alone"])
@pytest.mark.parametrize(
    ("groups", "d", "ownership"),
    [
        pytest.param((0, 0, 1, 1), 1, False, id="shared dishes, d=1"),
        pytest.param((0, 0, 0, 1, 1), 2, True, id="own dishes, d=2"),
    ],
)
def test_seating_with_fixed_concentrations(groups, d, ownership, redishing):
    # alpha0 and gamma near 1: tables of several guests and dishes of several tables are common
    exact, state = training_problem(groups, d, "numbers", ownership, 1.5, 1.2)
    record = chains.training_chain(np.random.default_rng(2), 120_000, state, fixed=True, redishing=redishing)
    numbers = chains.numbered(record, exact.seatings, groups)
    check(numbers, exact)


STREAM = [
    # rows, instances in the window before the batch, splits and merges proposed after each pass
    pytest.param([[3.6], [2.0], [-1.2]], 0, 0, id="three, d=1"),
    pytest.param([[0.8], [1.9], [-1.2]], 1, 0, id="three, one of them in the window, d=1"),
    pytest.param([[3.4, 1.9], [1.9, 0.7], [-1.2, -0.4]], 0, 0, id="three, d=2", marks=pytest.mark.long),
    pytest.param([[3.6], [2.0], [-1.2], [3.8]], 0, 0, id="four, d=1", marks=pytest.mark.long),
    pytest.param([[1.2], [1.6], [-1.2], [1.4]], 0, 3, id="four, splits and merges, d=1"),
    pytest.param([[1.2, 0.9], [1.5, 0.7], [-1.6, -0.4]], 1, 3, id="three, splits and merges, d=2"),
]


@pytest.mark.parametrize(("rows", "first", "proposals"), STREAM)
def test_stream_step_visits_seatings_as_often_as_they_are_likely(rows, first, proposals):
    rows = np.array(rows)
    n, d = rows.shape
    problem = stream_problem(rows, crf.Seating((0,) * n, ()), nu=d + 2.0)
    exact = stream.target(problem.oracle, rows, problem.state.log_frozen)
    record = problem.run(np.random.default_rng(4), 100_000, first, proposals)
    numbers = chains.numbered(record, exact.seatings, [0] * n, 2, 3)
    check(numbers, exact, 0.03)
    assert abs(chains.z_score(record.alpha, exact.mean_alpha)) < LARGEST
    assert (record.gamma == problem.oracle.gamma).all()
    # the averaged conditional probabilities: known classes, and everything else
    eats = exact.dish_probabilities
    expected = np.column_stack([eats[:, :2], eats[:, 2:].sum(axis=1)])
    np.testing.assert_allclose(record.probabilities.sum(axis=2), 1.0, rtol=0, atol=1e-12)
    assert np.abs(chains.z_score(record.probabilities, expected)).max() < LARGEST
