"""The oracles against definitions, known numbers and each other: the judge of the kernels must be right."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from tests.oracles import concentration, crf, niw, stream


def full(d: int) -> niw.BaseMeasure:
    return niw.Full(d, psi=1.7, nu=d + 1.5, beta=0.3)


# Base measures


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_closed_form_marginal_is_the_chain_of_predictives(d, n):
    base = full(d)
    rows = np.random.default_rng(n).normal(1.0, 2.0, size=(n, d))
    assert base.log_marginal(rows) == pytest.approx(base.log_marginal_chained(rows), rel=0, abs=1e-10)


def test_predictive_of_hand_worked_cases():
    # nu = psi = beta = 1 and no rows: Cauchy with squared scale psi (beta + 1) / (beta nu) = 2.
    base = niw.Full(1, 1.0, 1.0, 1.0)
    assert base.log_predictive([0.0], []) == pytest.approx(-np.log(np.pi * np.sqrt(2)))
    assert base.log_predictive([2.0], []) == pytest.approx(-np.log(np.pi * np.sqrt(2) * (1 + 4 / 2)))
    # One row at 2 with sigma = beta = 1: mean ~ N(1, 1/2), predictive N(1, 3/2).
    tied = niw.Tied([[1.0]], 1.0)
    assert tied.log_predictive([1.0], [[2.0]]) == pytest.approx(-0.5 * np.log(2 * np.pi * 1.5))


def test_marginal_is_the_likelihood_integrated_over_the_prior():
    rows = np.array([0.3, -1.1])
    psi, nu, beta = 1.7, 2.5, 0.6

    def given_variance(log_variance):
        variance = np.exp(log_variance)
        # The mean integrated out of N(mean, variance) for both rows.
        joint = variance * (np.eye(2) + 1 / beta)
        density = stats.multivariate_normal.pdf(rows, np.zeros(2), joint)
        return density * stats.invgamma.pdf(variance, nu / 2, scale=psi / 2) * variance

    expected = integrate.quad(given_variance, -10, 25, epsabs=1e-13, limit=200)[0]
    base = niw.Full(1, psi, nu, beta)
    assert np.exp(base.log_marginal(rows)) == pytest.approx(expected, rel=1e-8)


@pytest.mark.thorough
def test_drawn_blocks_follow_the_predictives():
    base = full(2)
    rng = np.random.default_rng(7)
    uniforms = []
    for _ in range(1500):
        first, second = base.draw_rows(2, rng)
        posterior = base.posterior([first])
        mean, beta, nu, scale_matrix = posterior
        shape = scale_matrix * (beta + 1) / (beta * (nu - 1))
        squares = (second - mean) @ np.linalg.inv(shape) @ (second - mean)
        uniforms.append(stats.f.cdf(squares / 2, 2, nu - 1))
    assert stats.kstest(uniforms, "uniform").pvalue > 0.001


# Concentration parameters


@pytest.mark.parametrize("prior", [(10.0, 1.0), (100.0, 1.0), (2.0, 0.5)])
@pytest.mark.parametrize(("count", "sizes"), [(0, []), (2, [2, 1]), (7, [3.5, 40]), (60, [900])])
def test_concentration_integrals_agree_with_adaptive_quadrature(prior, count, sizes):
    shape, rate = prior
    edges = np.array([1e-9, 1, 2, 4, 7, 11, 16, 23, 32, 45, 60, 80, 100, 130, 180, 300])

    def log_terms(a):
        log_rising = sum(special.gammaln(a + n) - special.gammaln(a) for n in sizes)
        return stats.gamma.logpdf(a, shape, scale=1 / rate) + count * np.log(a) - log_rising

    height = max(log_terms(edges))

    def integral(power):
        return sum(
            integrate.quad(lambda a: a**power * np.exp(log_terms(a) - height), low, high, epsabs=0, limit=200)[0]
            for low, high in pairwise(edges)
        )

    assert concentration.log_mass(prior, count, sizes) == pytest.approx(np.log(integral(0)) + height, abs=1e-9)
    assert concentration.mean(prior, count, sizes) == pytest.approx(integral(1) / integral(0), rel=1e-9)


@pytest.mark.thorough
def test_concentration_draws_have_the_posterior_mean_and_a_fixed_value_stays():
    rng = np.random.default_rng(3)
    draws = [concentration.draw((10.0, 1.0), 4, [5, 3], rng) for _ in range(2000)]
    expected = concentration.mean((10.0, 1.0), 4, [5, 3])
    assert abs(np.mean(draws) - expected) < 4 * np.std(draws) / np.sqrt(len(draws))
    # With as many tables as instances, all groups of one, the counts cancel: the posterior is the prior.
    prior_draws = [concentration.draw((3.0, 2.0), 2, [1, 1], rng) for _ in range(1000)]
    assert stats.kstest(prior_draws, stats.gamma(3.0, scale=0.5).cdf).pvalue > 0.001
    assert concentration.draw(2.5, 4, [5], rng) == concentration.mean(2.5, 4, [5]) == 2.5


# Seatings


@settings(deadline=None)
@given(st.data())
def test_canonical_of_a_batch_keeps_old_numbers_and_undoes_new_ones(data):
    n_tables, n_dishes = 2, 2
    seating = data.draw(st.sampled_from(stream.enumerate_stream_seatings(3, n_tables, n_dishes)))
    new_tables = data.draw(st.permutations(range(n_tables, 8)))
    new_dishes = data.draw(st.permutations(range(n_dishes, 8)))
    table_names = [0, 1, *new_tables]
    dish_names = [0, 1, *new_dishes]
    dish_of_table = np.full(8, -1)
    for t, k in enumerate(seating.dishes, start=n_tables):
        dish_of_table[table_names[t]] = dish_names[k]
    tables = [table_names[t] for t in seating.tables]
    assert crf.canonical([0] * 3, tables, dish_of_table, n_tables, n_dishes) == seating


# The franchise


def seat_one_by_one(seating, groups, alpha0, gamma, order) -> float:
    """Log prior by equations (8) and (9) of the paper, the instances entering in the given order."""
    guests: dict[int, int] = {}
    total = 0.0
    for step, i in enumerate(order):
        table = seating.tables[i]
        before = sum(groups[j] == groups[i] for j in order[:step])
        if table in guests:
            total += np.log(guests[table] / (before + alpha0))
        else:
            served = [seating.dishes[t] for t in guests]
            dish = seating.dishes[table]
            weight = served.count(dish) or gamma
            total += np.log(alpha0 / (before + alpha0)) + np.log(weight / (len(served) + gamma))
        guests[table] = guests.get(table, 0) + 1
    return total


@pytest.mark.parametrize("seating", crf.enumerate_seatings([0, 1, 0, 1], ownership=False))
def test_seating_prior_is_the_sequential_rule_in_any_order(seating):
    groups, alpha0, gamma = [0, 1, 0, 1], 1.7, 0.6
    expected = crf.log_prior(seating, groups, alpha0, gamma)
    for order in permutations(range(4)):
        assert seat_one_by_one(seating, groups, alpha0, gamma, order) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("groups", [[0], [0, 0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 1, 2]])
def test_seating_prior_sums_to_one(groups):
    seatings = crf.enumerate_seatings(groups, ownership=False)
    total = sum(np.exp(crf.log_prior(seating, groups, 1.7, 0.6)) for seating in seatings)
    assert total == pytest.approx(1, abs=1e-12)


def test_integrated_seating_prior_sums_to_one_unrestricted_and_to_less_restricted():
    free = crf.Franchise([0, 0, 1, 1], (10.0, 1.0), (5.0, 1.0), ownership=False)
    owned = crf.Franchise([0, 0, 1, 1], (10.0, 1.0), (5.0, 1.0), ownership=True)
    assert special.logsumexp(free.log_weights) == pytest.approx(0, abs=1e-9)
    assert special.logsumexp(owned.log_weights) < -0.05
    allowed = dict(zip(free.seatings, free.log_weights, strict=True))
    np.testing.assert_allclose(owned.log_weights, [allowed[s] for s in owned.seatings], rtol=1e-12)


def test_joint_target_agrees_with_two_dimensional_quadrature():
    groups, base = [0, 0, 1], full(1)
    rows = np.array([[0.2], [1.5], [0.4]])
    exact = crf.Franchise(groups, (3.0, 1.0), (4.0, 2.0), ownership=True).posterior(rows, base)
    alphas, alpha_weights = special.roots_genlaguerre(60, 2.0)
    gammas, gamma_weights = special.roots_genlaguerre(60, 3.0)
    gammas = gammas / 2
    prior = np.array([[[crf.log_prior(s, groups, a, g) for g in gammas] for a in alphas] for s in exact.seatings])
    likelihood = np.array([crf.log_likelihood(s, rows, base) for s in exact.seatings])
    joint = np.exp(prior + likelihood[:, None, None]) * alpha_weights[:, None] * gamma_weights
    joint /= joint.sum()
    np.testing.assert_allclose(exact.probabilities, joint.sum(axis=(1, 2)), rtol=1e-7)
    assert exact.mean_alpha == pytest.approx(joint.sum(axis=(0, 2)) @ alphas, rel=1e-7)
    assert exact.mean_gamma == pytest.approx(joint.sum(axis=(0, 1)) @ gammas, rel=1e-7)


@pytest.mark.thorough
def test_draws_from_the_restricted_prior_follow_it():
    franchise = crf.Franchise([0, 0, 1, 1], (10.0, 1.0), (5.0, 1.0), ownership=True)
    rng = np.random.default_rng(17)
    draws = [franchise.draw(rng) for _ in range(2000)]
    exact = franchise.prior()
    seen = [sum(seating == s for _, _, seating in draws) for s in exact.seatings]
    assert stats.chisquare(seen, exact.probabilities * len(draws)).pvalue > 0.001
    for values, mean in (
        ([alpha for alpha, _, _ in draws], exact.mean_alpha),
        ([gamma for _, gamma, _ in draws], exact.mean_gamma),
    ):
        assert abs(np.mean(values) - mean) < 4 * np.std(values) / np.sqrt(len(values))


# The stream step


def example_state(**changes: object) -> stream.StreamState:
    arguments: dict = {
        "base": full(1),
        "alpha": (10.0, 1.0),
        "gamma": 3.0,
        "known_weights": [4.0, 2.5],
        "emerging_rows": [np.array([[5.0], [5.5], [4.8]])],
        "emerging_weights": [1.3],
        "tables": [(0, 2.7), (2, 1.1)],
    }
    return stream.StreamState(**(arguments | changes))


BATCH = np.array([[0.1], [5.2], [-7.0]])
LOG_KNOWN = np.array([[-0.9, -4.0], [-12.0, -9.0], [-30.0, -20.0]])


def test_batch_prior_sums_to_one_and_does_not_depend_on_the_order():
    state = example_state()
    seatings = stream.enumerate_stream_seatings(3, 2, 3)
    assert sum(np.exp(stream.log_prior(s, state, 1.7)) for s in seatings) == pytest.approx(1, abs=1e-12)
    dish_of_table = {t: k for t, (k, _) in enumerate(state.tables)}
    for seating in seatings:
        names = dish_of_table | dict(enumerate(seating.dishes, start=2))
        for order in permutations(range(3)):
            tables = [seating.tables[i] for i in order]
            moved = crf.canonical([0] * 3, tables, names, 2, 3)
            expected = stream.log_prior(seating, state, 1.7)
            assert stream.log_prior(moved, state, 1.7) == pytest.approx(expected, abs=1e-12)


def test_batch_prior_of_a_hand_worked_seating():
    state = example_state(alpha=2.0)
    # An old table, a new one with known class 0, the same again, seats 3.8 and menu 7.8 to begin with.
    seating = crf.Seating((1, 2, 2), (0,))
    expected = 1.1 / (3.8 + 2) * (2 / (4.8 + 2) * 4.0 / (7.8 + 3)) * (1 / (5.8 + 2))
    assert np.exp(stream.log_prior(seating, state, 2.0)) == pytest.approx(expected)
    # Two new tables with one new dish: the second finds the dish on the menu with weight 1.
    seating = crf.Seating((2, 3), (3, 3))
    expected = (2 / (3.8 + 2) * 3 / (7.8 + 3)) * (2 / (4.8 + 2) * 1 / (8.8 + 3))
    assert np.exp(stream.log_prior(seating, state, 2.0)) == pytest.approx(expected)


def test_batch_likelihood_of_a_hand_worked_seating():
    state = example_state()
    base = state.base
    # The second instance at the emerging subclass's table, the others: known class 1, and a dish of its own.
    seating = crf.Seating((2, 1, 3), (1, 3))
    expected = LOG_KNOWN[0, 1]
    expected += base.log_predictive(BATCH[1], state.emerging_rows[0])
    expected += base.log_predictive(BATCH[2], [])
    assert stream.log_likelihood(seating, state, BATCH, LOG_KNOWN) == pytest.approx(expected)


def test_one_instance_is_seated_by_the_predictive_rule():
    state = example_state(alpha=2.0)
    exact = stream.target(state, BATCH[:1], LOG_KNOWN[:1])
    emerging, new = (state.base.log_predictive(BATCH[0], rows) for rows in (state.emerging_rows[0], []))
    seats = np.array([2.7, 0.0, 1.1, 0.0]) / (3.8 + 2)
    menu = 2 / (3.8 + 2) * np.array([4.0, 2.5, 1.3, 3.0]) / (7.8 + 3)
    expected = (seats + menu) * np.exp([*LOG_KNOWN[0], emerging, new])
    assert exact.log_evidence == pytest.approx(np.log(expected.sum()))
    np.testing.assert_allclose(exact.dish_probabilities[0], expected / expected.sum(), rtol=1e-10)
    assert exact.mean_alpha == pytest.approx(2.0)


@pytest.mark.parametrize("alpha", [(10.0, 1.0), 0.8], ids=["gamma prior", "fixed"])
def test_stream_with_nothing_seated_is_the_plain_franchise(alpha):
    base = full(2)
    rows = np.random.default_rng(9).normal(size=(4, 2))
    plain = crf.Franchise([0] * 4, alpha, 3.0, ownership=True).posterior(rows, base)
    exact = stream.target(stream.StreamState(base, alpha, 3.0), rows)
    assert exact.as_dict() == pytest.approx(plain.as_dict(), abs=1e-10)
    assert exact.mean_alpha == pytest.approx(plain.mean_alpha)
    assert exact.log_evidence == pytest.approx(plain.log_evidence)
    np.testing.assert_allclose(exact.dish_probabilities, 1)


def test_batch_after_batch_is_the_two_batches_at_once():
    # With whole seats and no data, seating 2 and then 2 more is seating 4: alpha0's law must carry over.
    flat = niw.Tied([[1.0]], beta=1e9)
    alpha, gamma = (3.0, 1.0), 2.0
    at_once = stream.target(stream.StreamState(flat, alpha, gamma), np.zeros((3, 1))).as_dict()
    first = crf.Seating((0, 0), (0,))
    state = stream.StreamState(
        flat, alpha, gamma, emerging_rows=[np.zeros((2, 1))], emerging_weights=[1.0], tables=[(0, 2.0)]
    )
    later = stream.target(state, np.zeros((1, 1)))
    begun = {s: p for s, p in at_once.items() if s.tables[:2] == first.tables}
    total = sum(begun.values())
    for seating, probability in later.as_dict().items():
        whole = crf.Seating((0, 0, *seating.tables), (0, *seating.dishes))
        assert probability == pytest.approx(begun[whole] / total, rel=1e-6)


def test_past_seats_are_evidence_about_alpha_unless_told_otherwise():
    informed = example_state()
    fresh = example_state(evidence=(0, 0))
    values, log_mass = fresh.alpha_grid()
    assert np.exp(log_mass) @ values == pytest.approx(10)
    values, log_mass = informed.alpha_grid()
    assert np.exp(log_mass) @ values == pytest.approx(concentration.mean((10.0, 1.0), 2, [3.8]))
    assert stream.target(fresh, BATCH[:1], LOG_KNOWN[:1]).mean_alpha != pytest.approx(
        stream.target(informed, BATCH[:1], LOG_KNOWN[:1]).mean_alpha
    )


@pytest.mark.parametrize(
    "broken", [{"tables": [(3, 1.0)]}, {"emerging_weights": [1.0, 2.0]}], ids=["dish", "weights"]
)
def test_state_that_contradicts_itself_is_refused(broken):
    with pytest.raises(ValueError, match=r"menu"):
        example_state(**broken)
