"""Dependence in order of arrival: pairs of neighbours, the test, the fitted process, the effective number."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from stream_osr.model import autocorrelation
from stream_osr.model import dependence as inside

CLASSES, FEATURES, MANY = 5, 8, 2000


def slow_pairs(
    z: np.ndarray, group: np.ndarray, at: np.ndarray, n_classes: int, first: int, middle: np.ndarray
) -> autocorrelation.Pairs:
    """Look at all pairs of instances, one after the other."""
    d = z.shape[1]
    products, number, correlation = autocorrelation.no_pairs(n_classes, d)
    for b in range(first, len(z)):
        j = group[b]
        if j < 0:
            continue
        products[0] += np.outer(z[b], z[b])
        number[0] += 1
        for a in range(b):
            for place, lag in enumerate(autocorrelation.LAGS.tolist(), start=1):
                if at[b] - at[a] == lag and group[a] == j:
                    products[place] += 0.5 * (np.outer(z[a], z[b]) + np.outer(z[b], z[a]))
                    number[place] += 1
        earlier = [a for a in range(b) if group[a] == j]
        if earlier and at[b] - at[earlier[-1]] <= autocorrelation.LAGS[-1] and not np.isnan(middle[j]).any():
            value = sum((z[earlier[-1], k] - middle[j, k]) * z[b, k] for k in range(d)) / d
            correlation[j] += 1.0, value, value**2
    return autocorrelation.Pairs(products, number, correlation)


@pytest.fixture
def arrived() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Residuals, classes (-1: none) and positions with gaps; the last class comes too rarely to have neighbours."""
    rng = np.random.default_rng(0)
    at = np.sort(rng.choice(900, size=500, replace=False))
    group = rng.integers(-1, 3, size=500)
    group[[20, 400]] = 3
    return rng.normal(size=(500, 3)), group, at


def assert_same(found: autocorrelation.Pairs, expected: autocorrelation.Pairs) -> None:
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("first", [0, 300])
def test_pairs_are_those_of_a_slow_count(arrived, first):
    z, group, at = arrived
    expected = slow_pairs(z, group, at, 4, first, np.zeros((4, 3)))
    assert expected.number[1:].min() > 0
    assert expected.correlation[3, 0] == 0.0
    assert_same(autocorrelation.count_pairs(autocorrelation.no_pairs(4, 3), z, group, at, first), expected)
    middle = np.array([[0.3, -0.2, 0.5], [np.nan] * 3, [0.0, 1.0, 0.0], [0.0] * 3])  # means of the stream
    found = autocorrelation.count_pairs(
        autocorrelation.no_pairs(4, 3), z, group, at, first, middle=middle, products=False
    )
    expected = slow_pairs(z, group, at, 4, first, middle)
    np.testing.assert_allclose(found.correlation, expected.correlation, rtol=1e-12)
    assert found.correlation[1].tolist() == [0.0, 0.0, 0.0]
    assert found.number.sum() == 0.0


def test_a_stream_in_parts_has_the_pairs_of_the_whole_which_do_not_change_and_fade(arrived):
    z, group, at = arrived
    whole, before = (
        autocorrelation.count_pairs(autocorrelation.no_pairs(4, 3), z, group, at),
        autocorrelation.no_pairs(4, 3),
    )
    for begin in range(0, 500, 100):
        kept = slice(max(begin - int(autocorrelation.LAGS[-1]), 0), begin + 100)
        before = autocorrelation.count_pairs(before, z[kept], group[kept], at[kept], begin - kept.start)
    assert_same(before, whole)
    copy = autocorrelation.Pairs(*(each.copy() for each in whole))
    after = autocorrelation.count_pairs(whole, z, group, at)
    assert_same(whole, copy)
    assert_same(autocorrelation.faded_pairs(after, 0.5), whole)


def test_the_mean_correlation_has_the_standard_error_of_its_own_values():
    pairs = autocorrelation.no_pairs(2, 1)._replace(correlation=np.array([[3.0, 1.5, 2.0], [1.0, 0.5, 7.0]]))
    assert autocorrelation.correlation_of(pairs) == (0.5, pytest.approx(2.0 / 3.0), 4.0)
    np.testing.assert_allclose(autocorrelation.correlation_by_class(pairs), [0.5, 0.5])
    assert autocorrelation.correlation_of(autocorrelation.no_pairs(2, 1)) == (0.0, 0.0, 0.0)


Rows = tuple[np.ndarray, np.ndarray]


def autoregressive(rng: np.random.Generator) -> Rows:
    group = np.arange(MANY) // 60 % CLASSES
    noise = rng.normal(size=(CLASSES, MANY, FEATURES)) * math.sqrt(1.0 - 0.95**2)
    return scipy.signal.lfilter([1.0], [1.0, -0.95], noise, axis=1)[group, np.arange(MANY)], group


def offsets(rng: np.random.Generator) -> Rows:
    group = rng.integers(CLASSES, size=MANY)
    return rng.normal(size=(MANY, FEATURES)) + 0.6 * rng.normal(size=(8, FEATURES))[np.arange(MANY) // 250], group


def in_any_order(rng: np.random.Generator) -> Rows:
    rows, group = autoregressive(rng)
    turn = rng.permutation(MANY)
    return rows[turn], group[turn]


def heavy_tails(rng: np.random.Generator) -> Rows:
    return rng.standard_t(2.0, size=(MANY, FEATURES)), rng.integers(CLASSES, size=MANY)


def sorted_by_class(rng: np.random.Generator) -> Rows:
    group = np.sort(rng.integers(CLASSES, size=MANY))
    return 10.0 * rng.normal(size=(CLASSES, FEATURES))[group] + rng.normal(size=(MANY, FEATURES)), group


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))])
def test_neighbours_are_dependent_where_they_resemble_each_other(seed: int) -> None:
    for process in (autoregressive, offsets, in_any_order, heavy_tails, sorted_by_class):
        rows, group = process(np.random.default_rng(seed))
        found, dependent = inside.find_order(rows, group, np.arange(MANY)), process in (autoregressive, offsets)
        assert (found.process is not None) == dependent, process
        mean, errors, n = autocorrelation.correlation_of(found.pairs)
        assert n >= autocorrelation.LEAST_PAIRS
        assert dependent or (abs(mean) < 0.5 * autocorrelation.CORRELATED and abs(errors) < 4.0), process


def test_far_pairs_are_no_dependence():
    rng = np.random.default_rng(6)
    rows, at = rng.normal(size=(MANY, FEATURES)), rng.choice(MANY // 2, size=25, replace=False) * 2
    rows[at] = rows[at + 1] = 30.0 * rng.normal(size=(25, FEATURES))
    assert inside.find_order(rows, np.zeros(MANY, int), np.arange(MANY)).process is None
    z = np.random.default_rng(1).normal(size=(MANY, FEATURES))
    z[[700, 701]] = 1e3
    short, usual = autocorrelation.shortened(z), (z**2).sum(axis=1) < 16.0
    pairs = autocorrelation.count_pairs(
        autocorrelation.no_pairs(1, FEATURES), short, np.zeros(MANY, int), np.arange(MANY)
    )
    assert autocorrelation.correlation_of(pairs)[0] < 0.5 * autocorrelation.CORRELATED
    assert np.sqrt((short**2).sum(axis=1)).max() == pytest.approx(4.0)
    np.testing.assert_array_equal(short[usual], z[usual])


def test_the_order_is_that_of_the_positions_and_not_of_the_rows():
    rows, group = autoregressive(np.random.default_rng(0))
    turn = np.argsort(group, kind="stable")  # as a training set is stored: class by class
    straight = inside.find_order(rows, group, np.arange(MANY))
    stored = inside.find_order(rows[turn], group[turn], turn)
    assert straight.process is not None
    assert stored.process is not None
    np.testing.assert_allclose(stored.pairs.correlation, straight.pairs.correlation)
    assert stored.pairs.number.tolist() == straight.pairs.number.tolist()
    assert inside.find_order(rows, group, None) is None
    assert inside.find_order(rows[:, :0], group, np.arange(MANY)) is None


def test_few_pairs_are_no_evidence_and_what_was_found_lasts():
    def is_dependent(total, square, least=256, threshold=0.05, was=False):
        pairs = autocorrelation.no_pairs(1, 1)._replace(correlation=np.array([[256.0, total, square]]))
        return autocorrelation.is_dependent(pairs, least, threshold, was=was)

    assert is_dependent(25.6, 10.0)
    assert not is_dependent(25.6, 10.0, least=257)
    assert not is_dependent(25.6, 10.0, threshold=0.11)
    assert not is_dependent(25.6, 50.0)
    assert not is_dependent(256 * 0.02, 10.0)
    assert is_dependent(256 * 0.02, 10.0, was=True)
    assert not is_dependent(256 * 0.01, 10.0, was=True)


def simulated(rng: np.random.Generator, n: int, slow: np.ndarray, step: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """One class whose residuals are a slowly varying part and an independent one, in its own axes."""
    drive = rng.normal(size=(n, len(slow))) * np.sqrt(slow * (1.0 - step**2))
    drive[0] = rng.normal(size=len(slow)) * np.sqrt(slow)
    directions = zip(step, drive.T, strict=True)
    wandering = np.column_stack([scipy.signal.lfilter([1.0], [1.0, -phi], own) for phi, own in directions])
    return wandering + rng.normal(size=wandering.shape) * np.sqrt(noise)


def fitted(z: np.ndarray) -> inside.Process:
    n, d = z.shape
    return inside.fit_process(
        autocorrelation.count_pairs(autocorrelation.no_pairs(1, d), z, np.zeros(n, int), np.arange(n))
    )


def test_the_fit_recovers_a_simulated_process_up_to_a_bound():
    rng, n = np.random.default_rng(2), 40_000
    slow, step, noise = np.array([0.8, 0.4, 0.0]), np.array([0.95, 0.8, 0.5]), np.array([0.2, 0.6, 1.0])
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    found = fitted(simulated(rng, n, slow, step, noise) @ axes.T)
    np.testing.assert_allclose(np.abs((found.axes * axes).sum(axis=0)), 1.0, atol=0.02)
    np.testing.assert_allclose(found.slow, slow, atol=0.08)
    np.testing.assert_allclose(found.noise, noise, atol=0.08)
    np.testing.assert_allclose(found.step[:2], step[:2], atol=0.051)
    assert found.slow[2] == 0.0
    bounded = fitted(simulated(np.random.default_rng(3), 20_000, np.array([9.0]), np.array([0.9]), np.array([1.0])))
    assert bounded.slow.tolist() == [4.0]
    assert bounded.noise[0] == pytest.approx(1.0, abs=0.7)


def test_short_episodes_are_fitted_without_what_their_means_take_away():
    """Each of 100 classes is one episode of 60 instances: its mean follows the episode."""
    group, at = np.repeat(np.arange(100), 60), np.arange(6000)
    noise = np.random.default_rng(0).normal(size=(100, 260, 1)) * math.sqrt(1.0 - 0.9**2)
    rows = scipy.signal.lfilter([1.0], [1.0, -0.9], noise, axis=1)[:, -60:].reshape(-1, 1)
    order = inside.find_order(rows, group, at)
    found = inside.refit(order, group, at)
    assert found.step[0] >= order.process.step[0]
    assert found.slow[0] > 1.1 * order.process.slow[0]
    assert inside.effective_share(order.pairs, found) < inside.effective_share(order.pairs, order.process)
    longer = inside.find_order(rows, np.zeros(6000, int), at)
    assert inside.refit(longer, np.zeros(6000, int), at).slow == pytest.approx(longer.process.slow, rel=0.02)


def effective_share(phi: float, noise: tuple[float, ...], slow: tuple[float, ...] = (1.0,), pairs: float = 1000.0):
    """Share for a single class with 1000 instances and so many pairs at each lag."""
    d = len(slow)
    counted = autocorrelation.no_pairs(1, d)._replace(number=np.array([1000.0] + [pairs] * len(autocorrelation.LAGS)))
    process = inside.Process(np.eye(d), np.array(slow), np.full(d, phi), np.array(noise))
    return inside.effective_share(counted, process)


@pytest.mark.parametrize("phi", [0.5, 0.9, 0.98])
def test_instances_count_by_their_autocorrelation_time(phi):
    def share(factor: float):
        return pytest.approx(1.0 / (1.0 + factor * phi / (1.0 - phi)), rel=1e-6)

    assert effective_share(phi, (1.0, 1.0), slow=(0.0, 0.0)) == 1.0, "independent instances count in full"
    assert effective_share(phi, (1e-12,)) == share(2.0)
    assert effective_share(phi, (1.0,)) == share(1.0), "noise makes instances count more"
    assert effective_share(phi, (1e-12, 1.0), slow=(1.0, 0.0)) == share(1.0), "so do other directions"
    assert effective_share(phi, (1e-12,), pairs=200.0) == share(0.4), "and missing partners"


def test_residuals_are_white_and_a_class_of_few_instances_has_mostly_the_pooled_covariance():
    rng, d = np.random.default_rng(5), 2
    group = np.repeat([0, 2], [3000, 5])  # class 1 has no instance
    rows = rng.normal(size=(3005, d)) * [3.0, 0.5]
    residuals = autocorrelation.residuals_of(rows, group)
    z = autocorrelation.whitened(residuals, rows, group)[group == 0]
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(np.cov(z.T), np.eye(d), atol=0.01)
    off = rows - np.stack([rows[group == j].mean(axis=0) if j != 1 else np.zeros(d) for j in range(3)])[group]
    pooled = off.T @ off / (3005 - 3)
    for j, n in enumerate((3000, 0, 5)):
        own = off[group == j]
        expected = (own.T @ own + d * pooled) / (n + d)
        np.testing.assert_allclose(residuals.whitener[j], residuals.whitener[j].T, atol=1e-12)
        assert np.linalg.slogdet(residuals.whitener[j])[1] == pytest.approx(residuals.log_volume[j])
        found = np.linalg.inv(residuals.whitener[j] @ residuals.whitener[j])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_strongest_class_is_left_out():
    pairs = autocorrelation.no_pairs(3, 2)
    pairs.correlation[:] = [[500.0, 5.0, 250.0], [100.0, 40.0, 50.0], [100.0, -1.0, 50.0]]
    mean, errors, n = autocorrelation.correlation_of(autocorrelation.without_strongest(pairs))
    assert (mean, errors, n) == pytest.approx((4.0 / 600.0, 4.0 / 300.0**0.5, 600.0))
    assert pairs.correlation[1, 0] == 100.0
