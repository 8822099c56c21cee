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
from scipy import stats

from stream_osr.model.dishes import log_prior_predictives, refill
from stream_osr.model.moves.hyperparameters import ALPHA, GAMMA, STREAM_ALPHA
from stream_osr.model.moves.seating import redish_tables, visit
from tests.model import chains
from tests.model.problems import DIRICHLET, make_base, seat, stream_problem
from tests.oracles import concentration, crf, stream
from tests.oracles.niw import BaseMeasure

LARGEST = 4.5


def variance_of_mean(base: BaseMeasure, rows=()) -> float:
    """Posterior second moment about the posterior mean of a coordinate of a dish's mean, given some rows."""
    _, beta, nu, scale = base.posterior(rows)
    return float(scale[0, 0] / (nu - base.dimension - 1) / beta)


def variance_of_row(base: BaseMeasure, rows=()) -> float:
    """The same for a coordinate of a row."""
    beta = base.posterior(rows)[1]
    return variance_of_mean(base, rows) * (1 + beta)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("groups", "d", "ownership", "fixed"),
    [
        pytest.param((0, 0, 1, 1), 1, True, False, id="own dishes, d=1"),
        pytest.param((0, 0, 1, 1), 2, True, False, id="own dishes, d=2"),
        pytest.param((0, 0, 1, 1), 1, False, False, id="shared dishes, d=1"),
        pytest.param((0, 0, 0, 1), 2, True, True, id="own dishes, fixed concentrations, d=2"),
        pytest.param((0, 0, 1, 1), 2, False, True, id="shared dishes, fixed concentrations, d=2"),
    ],
)
def test_training_sweep_leaves_the_joint_distribution_alone(groups, d, ownership, fixed):
    alpha, gamma = (1.5, 1.2) if fixed else (ALPHA, GAMMA)
    prior, base = make_base(d, nu=d + 12.0, psi=6.0, beta=0.3)
    law = crf.Franchise(groups, alpha, gamma, ownership)
    exact = law.prior()
    rng = np.random.default_rng(11)
    alpha0, gamma0, seating = law.draw(rng)
    rows = crf.draw_rows(seating, base, rng)
    state = seat(seating, rows, groups, prior, alpha=alpha0, gamma=gamma0, exclusive=ownership)
    record = chains.training_chain(rng, 80_000, state, fixed=fixed, redraw=True)

    numbers = chains.numbered(record, exact.seatings, groups)
    x = record.rows
    p = exact.probabilities

    def tabulate(value):
        return chains.of_seatings(exact.seatings, value)

    def same_dish(i, j):
        return tabulate(lambda s: s.dishes[s.tables[i]] == s.dishes[s.tables[j]])

    tables = tabulate(lambda s: len(s.dishes))
    dishes = tabulate(lambda s: len(set(s.dishes)))
    at_table = tabulate(lambda s: s.tables[0] == s.tables[1])
    joined = same_dish(0, 1)
    across = same_dish(0, 3)  # in different groups
    shared, spread = variance_of_mean(base), variance_of_row(base)
    location, scale = base.predictive_scale(())
    law_of_row = stats.t(prior.nu - d + 1, 0, np.sqrt(scale[0, 0]))
    assert not location.any()
    # name: (values along the run, exact mean)
    tests = {
        "tables": (tables[numbers], p @ tables),
        "dishes": (dishes[numbers], p @ dishes),
        "tables squared": (tables[numbers] ** 2, p @ tables**2),
        "one table": (at_table[numbers], p @ at_table),
        "one dish": (joined[numbers], p @ joined),
        "x": (x[:, 0, 0], 0.0),
        "x squared": (x[:, 0, 0] ** 2, spread),
        "x squared, last": (x[:, -1, -1] ** 2, spread),
        "x inside": (np.abs(x[:, 0, 0]) < 1.0, 1 - 2 * law_of_row.cdf(-1.0)),
        "x x'": (x[:, 0, 0] * x[:, 1, 0], p @ joined * shared),
        "x x' at one dish": (x[:, 0, -1] * x[:, 1, -1] * joined[numbers], p @ joined * shared),
        "x x' at two dishes": (x[:, 0, 0] * x[:, 1, 0] * (1 - joined[numbers]), 0.0),
        "x x' across groups": (x[:, 0, 0] * x[:, 3, 0], p @ across * shared),
        "x squared times tables": (x[:, 0, 0] ** 2 * tables[numbers], spread * (p @ tables)),
        "x x' times dishes": (x[:, 0, 0] * x[:, 1, 0] * dishes[numbers], p @ (joined * dishes) * shared),
    }
    if d == 2:
        tests["coordinates"] = (x[:, 0, 0] * x[:, 0, 1], 0.0)
        tests["coordinates at one dish"] = (x[:, 0, 0] * x[:, 1, 1] * joined[numbers], 0.0)
    if not ownership:
        tests["one dish across groups"] = (across[numbers], p @ across)
    if not fixed:
        sizes = law.sizes

        def moments(prior, count, size, power):
            return np.array([concentration.moment(prior, c, size(k), power) for k, c in enumerate(count)])

        first = moments(ALPHA, tables, lambda k: sizes, 1)
        second = moments(ALPHA, tables, lambda k: sizes, 2)
        menu = moments(GAMMA, dishes, lambda k: [tables[k]], 1)
        menu_second = moments(GAMMA, dishes, lambda k: [tables[k]], 2)
        tests |= {
            "alpha0": (record.alpha, p @ first),
            "alpha0 squared": (record.alpha**2, p @ second),
            "alpha0 times tables": (record.alpha * tables[numbers], p @ (first * tables)),
            "gamma": (record.gamma, p @ menu),
            "gamma squared": (record.gamma**2, p @ menu_second),
            "gamma times dishes": (record.gamma * dishes[numbers], p @ (menu * dishes)),
            "alpha0 times x x'": (record.alpha * x[:, 0, 0] * x[:, 1, 0], p @ (first * joined) * shared),
        }
    scores = {name: float(chains.z_score(*test)) for name, test in tests.items()}
    assert max(np.abs(list(scores.values()))) < LARGEST, scores
    frequencies, distance = chains.indicator_scores(numbers, p)
    assert np.abs(frequencies).max() < LARGEST
    assert distance < 0.03


@pytest.mark.thorough
@pytest.mark.parametrize(("groups", "d"), [((0, 0, 1, 1), 1), ((0, 0, 0, 1), 0)], ids=["beside a number", "alone"])
def test_training_sweep_leaves_the_joint_distribution_of_categories_alone(groups, d):
    # rows are drawn here and not by compiled code: fewer sweeps
    alpha, gamma = 1.5, 1.2
    prior, base = make_base(d, "categories", nu=d + 12.0, psi=6.0, beta=0.3)
    law = crf.Franchise(groups, alpha, gamma, False)
    exact, rng = law.prior(), np.random.default_rng(13)
    _, _, seating = law.draw(rng)
    rows = crf.draw_rows(seating, base, rng)
    state = seat(seating, rows, groups, prior, alpha=alpha, gamma=gamma, exclusive=False)
    guests, franchise = state.guests, state.franchise
    sweeps, n = 12_000, len(groups)
    numbers, x = np.empty(sweeps, np.int64), np.empty((sweeps, n, 2))
    known = {each: number for number, each in enumerate(exact.seatings)}
    for sweep in range(sweeps):
        for i in range(n):
            visit(rng, i, state)
        redish_tables(rng, 0, state)
        seating = crf.canonical(groups, guests.table.tolist(), franchise.table_dish.tolist())
        numbers[sweep] = known[seating]
        guests.rows[:, :-1] = crf.draw_rows(seating, base, rng)
        refill(state.dishes, franchise.table_dish[guests.table], guests.rows, prior)
        state.log_new[:] = log_prior_predictives(guests.rows, prior)
        x[sweep] = guests.rows[:, :2] - prior.first - 1.0
    p = exact.probabilities
    joined = chains.of_seatings(exact.seatings, lambda s: s.dishes[s.tables[0]] == s.dishes[s.tables[-1]])
    tests = {"one dish": (joined[numbers], p @ joined)}
    for c, own in enumerate(DIRICHLET):
        share = np.array(own) / sum(own)
        equal = (share * (np.array(own) + 1.0) / (sum(own) + 1.0)).sum()  # of two who share a dish
        for v, each in enumerate(share):
            tests[f"value {v} of {c}"] = (x[:, 0, c] == v, each)
        expected = p @ (joined * equal + (1 - joined) * (share**2).sum())
        tests[f"the same value of {c}"] = (x[:, 0, c] == x[:, -1, c], expected)
        tests[f"the same value of {c} at one dish"] = (
            (x[:, 0, c] == x[:, -1, c]) * joined[numbers],
            p @ joined * equal,
        )
    scores = {name: float(chains.z_score(np.asarray(values, float), mean)) for name, (values, mean) in tests.items()}
    assert max(np.abs(list(scores.values()))) < LARGEST, scores


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("d", "proposals"),
    [pytest.param(1, 0, id="d=1"), pytest.param(2, 0, id="d=2"), pytest.param(1, 2, id="splits and merges, d=1")],
)
def test_stream_step_leaves_the_joint_distribution_alone(d, proposals):
    n = 3
    rng = np.random.default_rng(12)
    start = crf.Seating((0, 2, 3), (2, 3))
    problem = stream_problem(np.zeros((n, d)), start, nu=d + 12.0, psi=6.0, beta=0.3)
    state, base = problem.oracle, problem.oracle.base
    exact = stream.prior(state, n)
    # an exact draw of the seating and of alpha0 given it
    seating = exact.seatings[rng.choice(len(exact.seatings), p=exact.probabilities)]
    problem = stream_problem(np.zeros((n, d)), seating, nu=d + 12.0, psi=6.0, beta=0.3)
    seats = sum(s for _, s in state.tables) + n
    problem.state.franchise.alpha[0] = concentration.draw(STREAM_ALPHA, 2 + len(seating.dishes), [seats], rng)
    record = problem.run(rng, 100_000, proposals=proposals, redraw=True)

    numbers = chains.numbered(record, exact.seatings, [0] * n, 2, 3)
    x, p = record.rows[:, :, 0], exact.probabilities
    z = np.array([stream.dish_of_items(seating, state) for seating in exact.seatings])
    tables = chains.of_seatings(exact.seatings, lambda s: len(s.dishes))
    dishes = chains.of_seatings(exact.seatings, lambda s: len({k for k in s.dishes if k >= 3}))

    # first and second moments of a row, and of the mean of its dish, for known 0, known 1, emerging, new
    weight = np.exp(problem.frozen.log_weight)
    blocks = problem.known_blocks
    centre = np.array([base.predictive_scale(block)[0][0] for block in blocks])
    spread = np.array([variance_of_row(base, block) for block in blocks])
    settled = state.emerging_rows[0]
    middle = base.predictive_scale(settled)[0][0]
    mean = np.array([*(weight @ centre), middle, 0.0])
    square = np.array(
        [*(weight @ (centre**2 + spread)), middle**2 + variance_of_row(base, settled), variance_of_row(base)]
    )
    mean_square = np.array([*mean[:2] ** 2, middle**2 + variance_of_mean(base, settled), variance_of_mean(base)])
    kind = np.minimum(z, 3)

    def product(i, j):
        """E[x_i x_j | seating]."""
        return np.where(z[:, i] == z[:, j], mean_square[kind[:, i]], mean[kind[:, i]] * mean[kind[:, j]])

    alpha_prior = {t: concentration.moment(STREAM_ALPHA, 2 + t, [seats], power=1) for t in range(n + 1)}
    alpha_square = {t: concentration.moment(STREAM_ALPHA, 2 + t, [seats], power=2) for t in range(n + 1)}
    first = np.array([alpha_prior[int(t)] for t in tables])
    tests = {
        "tables": (tables[numbers], p @ tables),
        "new dishes": (dishes[numbers], p @ dishes),
        "alpha0": (record.alpha, p @ first),
        "alpha0 squared": (record.alpha**2, p @ [alpha_square[int(t)] for t in tables]),
        "alpha0 times tables": (record.alpha * tables[numbers], p @ (first * tables)),
        "alpha0 times x squared": (record.alpha * x[:, 0] ** 2, p @ (first * square[kind[:, 0]])),
    }
    for i in range(n):
        tests[f"x{i}"] = (x[:, i], p @ mean[kind[:, i]])
        tests[f"x{i} squared"] = (x[:, i] ** 2, p @ square[kind[:, i]])
        for k in range(4):
            there = kind[:, i] == k
            tests[f"{i} eats {k}"] = (there[numbers], p @ there)
            tests[f"x{i} eats {k}"] = (x[:, i] * there[numbers], p @ there * mean[k])
            tests[f"x{i} squared, eats {k}"] = (x[:, i] ** 2 * there[numbers], p @ there * square[k])
        for k in range(2):
            tests[f"probability of {k} for {i}"] = (record.probabilities[:, i, k], p @ (z[:, i] == k))
        j = (i + 1) % n
        joined = z[:, i] == z[:, j]
        pair = x[:, i] * x[:, j]
        tests[f"{i} with {j}"] = (joined[numbers], p @ joined)
        tests[f"x{i} x{j}"] = (pair, p @ product(i, j))
        tests[f"x{i} x{j} at one dish"] = (pair * joined[numbers], p @ (product(i, j) * joined))
    scores = {name: float(chains.z_score(*test)) for name, test in tests.items()}
    assert max(np.abs(list(scores.values()))) < LARGEST, scores
    frequencies, distance = chains.indicator_scores(numbers, p)
    assert np.abs(frequencies).max() < LARGEST
    assert distance < 0.03
