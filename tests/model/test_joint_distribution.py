"""Joint-distribution tests in the sense of Geweke (2004), "Getting it right".

Training. The target is exactly

    p(alpha0) p(gamma) p(seating | alpha0, gamma) 1[no dish is served in two groups] prod_k p(x_k),

normalised once, over everything (``tests/oracles/crf.py``): the normal-inverse-Wishart model with nu, psi and
beta fixed, no pruning, no fading. The simulator starts from an exact draw of alpha0, gamma and seating and then
alternates: rows given the seating (each dish draws mean and covariance from H, then its rows), and one sweep of the
library (seating, alpha0 and gamma given the rows). If both leave the target alone, every average converges to its
exact value, which comes from the enumeration of all seatings and from the moments of H, not from a simulation.

The stream step likewise: alpha0 has its prior times ``alpha0^T / rising(alpha0, n)`` for the tables and seats of the
past, the batch sits by the rule in ``tests/oracles/stream.py``, and a row comes from its known class's density, from
the emerging subclass's posterior or from H.

nu is large enough for fourth moments to exist, so that the averages have standard errors.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from stream_osr.model.moves.hyperparameters import ALPHA, GAMMA, STREAM_ALPHA
from tests.model import chains
from tests.model.problems import make_base, seat, stream_problem
from tests.oracles import concentration, crf, stream
from tests.oracles.niw import BaseMeasure

pytestmark = pytest.mark.thorough
LARGEST = 4.5


def check(tests, numbers, probabilities) -> None:
    """Standardised differences of the means, and the frequencies of the seatings."""
    scores = {name: float(chains.z_score(*test)) for name, test in tests.items()}
    assert max(np.abs(list(scores.values()))) < LARGEST, scores
    frequencies, distance = chains.indicator_scores(numbers, probabilities)
    assert np.abs(frequencies).max() < LARGEST
    assert distance < 0.03


def variance_of_mean(base: BaseMeasure, rows=()) -> float:
    """Posterior second moment about the posterior mean of a coordinate of a dish's mean, given some rows."""
    _, beta, nu, scale = base.posterior(rows)
    return float(scale[0, 0] / (nu - base.dimension - 1) / beta)


def variance_of_row(base: BaseMeasure, rows=()) -> float:
    """The same for a coordinate of a row."""
    beta = base.posterior(rows)[1]
    return variance_of_mean(base, rows) * (1 + beta)


@pytest.mark.parametrize(
    ("groups", "d", "ownership", "fixed"),
    [
        pytest.param((0, 0, 1, 1), 1, True, False, id="own dishes, d=1"),
        pytest.param((0, 0, 1, 1), 2, True, False, id="own dishes, d=2", marks=pytest.mark.long),
        pytest.param((0, 0, 1, 1), 1, False, False, id="shared dishes, d=1"),
        pytest.param((0, 0, 0, 1), 2, True, True, id="own dishes, fixed concentrations, d=2"),
        pytest.param((0, 0, 1, 1), 2, False, True, id="shared dishes, fixed concentrations, d=2"),
    ],
)
def test_training_sweep_leaves_the_joint_distribution_alone(groups, d, ownership, fixed):
    alpha, gamma = (1.5, 1.2) if fixed else (ALPHA, GAMMA)
    prior, base = make_base(d, nu=d + 12.0, psi=6.0, beta=0.3)
    franchise = crf.Franchise(groups, alpha, gamma, ownership)
    exact = franchise.prior()
    rng = np.random.default_rng(11)
    alpha0, gamma0, seating = franchise.draw(rng)
    rows = crf.draw_rows(np.array(crf.dish_of_items(seating)), base, rng)
    state = seat(seating, rows, groups, prior, alpha=alpha0, gamma=gamma0, exclusive=ownership)
    record = chains.training_chain(rng, 80_000, state, fixed=fixed, redraw=True)

    numbers = chains.numbered(record, exact.seatings, groups)
    x = record.rows
    p = exact.probabilities

    def tabulate(value):
        return chains.of_seatings(exact.seatings, value)

    tables = tabulate(lambda s: len(s.dishes))
    dishes = tabulate(lambda s: len(set(s.dishes)))
    joined = tabulate(lambda s: s.dishes[s.tables[0]] == s.dishes[s.tables[1]])
    across = tabulate(lambda s: s.dishes[s.tables[0]] == s.dishes[s.tables[3]])  # in different groups
    shared, spread = variance_of_mean(base), variance_of_row(base)
    scale = base.predictive_scale(())[1]
    row = scipy.stats.t(prior.nu - d + 1, 0, np.sqrt(scale[0, 0]))
    # name: (values along the run, exact mean)
    tests = {
        "x": (x[:, 0, 0], 0.0),
        "x squared": (x[:, 0, 0] ** 2, spread),
        "x squared, last": (x[:, -1, -1] ** 2, spread),
        "x inside": (np.abs(x[:, 0, 0]) < 1.0, 1 - 2 * row.cdf(-1.0)),
        "x x'": (x[:, 0, 0] * x[:, 1, 0], p @ joined * shared),
        "x x' at one dish": (x[:, 0, -1] * x[:, 1, -1] * joined[numbers], p @ joined * shared),
        "x x' across groups": (x[:, 0, 0] * x[:, 3, 0], p @ across * shared),
        "x squared times tables": (x[:, 0, 0] ** 2 * tables[numbers], spread * (p @ tables)),
        "x x' times dishes": (x[:, 0, 0] * x[:, 1, 0] * dishes[numbers], p @ (joined * dishes) * shared),
    }
    if d == 2:
        tests["coordinates"] = (x[:, 0, 0] * x[:, 0, 1], 0.0)
        tests["coordinates at one dish"] = (x[:, 0, 0] * x[:, 1, 1] * joined[numbers], 0.0)
    if not fixed:
        first, second = (
            np.array([concentration.moment(ALPHA, count, franchise.sizes, power) for count in tables])
            for power in (1, 2)
        )
        menu, menu_second = (
            np.array(
                [concentration.moment(GAMMA, *counts, power) for counts in zip(dishes, tables[:, None], strict=True)]
            )
            for power in (1, 2)
        )
        tests |= {
            "alpha0": (record.alpha, p @ first),
            "alpha0 squared": (record.alpha**2, p @ second),
            "alpha0 times tables": (record.alpha * tables[numbers], p @ (first * tables)),
            "gamma": (record.gamma, p @ menu),
            "gamma squared": (record.gamma**2, p @ menu_second),
            "gamma times dishes": (record.gamma * dishes[numbers], p @ (menu * dishes)),
            "alpha0 times x x'": (record.alpha * x[:, 0, 0] * x[:, 1, 0], p @ (first * joined) * shared),
        }
    check(tests, numbers, p)


@pytest.mark.parametrize(("d", "proposals"), [(1, 0), (1, 2), pytest.param(2, 0, marks=pytest.mark.long)])
def test_stream_step_leaves_the_joint_distribution_alone(d, proposals):
    n, rng, measure = 3, np.random.default_rng(12), {"nu": d + 12.0, "psi": 6.0, "beta": 0.3}
    problem = stream_problem(np.zeros((n, d)), crf.Seating((0, 2, 3), (2, 3)), **measure)
    state, base = problem.oracle, problem.oracle.base
    exact = stream.prior(state, n)
    # an exact draw of the seating and of alpha0 given it
    seating = exact.seatings[rng.choice(len(exact.seatings), p=exact.probabilities)]
    problem = stream_problem(np.zeros((n, d)), seating, **measure)
    seats = sum(s for _, s in state.tables) + n
    problem.state.franchise.alpha[0] = concentration.draw(STREAM_ALPHA, 2 + len(seating.dishes), [seats], rng)
    record = problem.run(rng, 100_000, proposals=proposals, redraw=True)

    numbers = chains.numbered(record, exact.seatings, [0] * n, 2, 3)
    x, p = record.rows[:, :, 0], exact.probabilities
    z = np.array([stream.dish_of_items(seating, state) for seating in exact.seatings])
    tables = chains.of_seatings(exact.seatings, lambda s: len(s.dishes))

    # first and second moments of a row, and of the mean of its dish, for known 0, known 1, emerging, new
    weight, blocks = np.exp(problem.frozen.log_weight), problem.known_blocks
    centre = np.array([base.predictive_scale(block)[0][0] for block in blocks])
    spread = np.array([variance_of_row(base, block) for block in blocks])
    settled, middle = state.emerging_rows[0], base.predictive_scale(state.emerging_rows[0])[0][0]
    mean = np.array([*(weight @ centre), middle, 0.0])
    square = np.array(
        [*(weight @ (centre**2 + spread)), middle**2 + variance_of_row(base, settled), variance_of_row(base)]
    )
    mean_square = np.array([*mean[:2] ** 2, middle**2 + variance_of_mean(base, settled), variance_of_mean(base)])
    kind = np.minimum(z, 3)

    def product(i, j):
        """E[x_i x_j | seating]."""
        return np.where(z[:, i] == z[:, j], mean_square[kind[:, i]], mean[kind[:, i]] * mean[kind[:, j]])

    first, second = (
        np.array([concentration.moment(STREAM_ALPHA, 2 + count, [seats], power) for count in tables])
        for power in (1, 2)
    )
    tests = {
        "alpha0": (record.alpha, p @ first),
        "alpha0 squared": (record.alpha**2, p @ second),
        "alpha0 times tables": (record.alpha * tables[numbers], p @ (first * tables)),
        "alpha0 times x squared": (record.alpha * x[:, 0] ** 2, p @ (first * square[kind[:, 0]])),
    }
    for i in range(n):
        tests[f"x{i}"] = (x[:, i], p @ mean[kind[:, i]])
        tests[f"x{i} squared"] = (x[:, i] ** 2, p @ square[kind[:, i]])
        for k in range(4):
            there = kind[:, i] == k
            tests[f"x{i} eats {k}"] = (x[:, i] * there[numbers], p @ there * mean[k])
            tests[f"x{i} squared, eats {k}"] = (x[:, i] ** 2 * there[numbers], p @ there * square[k])
        for k in range(2):
            tests[f"probability of {k} for {i}"] = (record.probabilities[:, i, k], p @ (z[:, i] == k))
        j = (i + 1) % n
        joined = z[:, i] == z[:, j]
        pair = x[:, i] * x[:, j]
        tests[f"x{i} x{j}"] = (pair, p @ product(i, j))
        tests[f"x{i} x{j} at one dish"] = (pair * joined[numbers], p @ (product(i, j) * joined))
    check(tests, numbers, p)
