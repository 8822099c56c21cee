"""Typicality: levels and odds of instances by the references, and the known share of a cell by its levels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, logit

from stream_osr.trust import density_levels
from stream_osr.trust.references import NO_GAIN, NO_PART, References

TAIL = np.array([0.002, *density_levels.LEVELS, 1.0])
"""Share of known instances up to each level, the lowest below all of 500 references."""


def references(seed: int = 0, *, gain: bool = True, effective: float = 0.0) -> References:
    """References of two classes in two models, the first twice as many."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat([0, 1], [200, 100]))
    log_density = tuple(rng.normal(size=(300, 2)) for _ in range(2))
    weight = rng.random(300) + 0.5
    gains = rng.normal(size=300) if gain else np.zeros(0)
    return References(np.zeros((300, 2)), group, log_density, weight, gains, effective)


def evenly(log_odds: np.ndarray, *, effective: float = 0.0, part: np.ndarray = NO_PART) -> density_levels.Typical:
    """Derive typicality from references of one class with equal weights."""
    n = len(log_odds)
    nothing = np.zeros((n, 1))
    return density_levels.typical_of(
        References(nothing, np.zeros(n, int), (nothing,), None, NO_GAIN, effective, part=part), log_odds
    )


def odds_of(log_odds: np.ndarray, typical: density_levels.Typical) -> np.ndarray:
    """Odds of a new class of instances of one class with the given frozen log odds."""
    n = len(log_odds)
    return density_levels.typicality(np.zeros((n, 1)), log_odds, np.zeros(n), typical)[1]


def slow_level(values: list[float], weight: list[float], value: float) -> int:
    """Count the shares of the references that a value lies above, each reference in the middle of its weight."""
    order, passed, middles = sorted(range(len(values)), key=values.__getitem__), 0.0, []
    for at in order:
        middles.append((passed + 0.5 * weight[at]) / sum(weight))
        passed += weight[at]
    level = int(value > min(values))
    for share in density_levels.LEVELS.tolist():
        above = next((k for k, middle in enumerate(middles) if middle >= share), len(order) - 1)
        below = max(above - 1, 0)
        low, high = values[order[below]], values[order[above]]
        way = 1.0 if above == below else (share - middles[below]) / (middles[above] - middles[below])
        level += value > low + way * (high - low)
    return level


@pytest.mark.parametrize("with_gain", [True, False])
def test_the_level_is_the_higher_of_those_by_the_frozen_odds_and_by_those_in_order(with_gain):
    of, rng = references(gain=with_gain), np.random.default_rng(1)
    log_density, gain = 1.5 * rng.normal(size=(600, 2)), rng.normal(size=600) * with_gain
    own, log_odds = rng.normal(size=300), 1.5 * rng.normal(size=600)
    found = density_levels.typicality(log_density, log_odds, gain, density_levels.typical_of(of, own))[0]
    for i in range(600):
        near = int(log_density[i].argmax())
        theirs = of.group == near
        weight = of.weights[theirs].tolist()
        frozen = slow_level((-own[theirs]).tolist(), weight, -float(log_odds[i]))
        given = slow_level((of.gains - own)[theirs].tolist(), weight, float(gain[i] - log_odds[i]))
        assert found[i] == max(frozen, given), i
    assert set(found.tolist()) == set(range(len(density_levels.LEVELS) + 2))


def test_a_class_without_references_has_no_typical_instances():
    of = references()
    typical = density_levels.typical_of(of._replace(group=np.zeros(300, int)), np.linspace(-1.0, 1.0, 300))
    log_density = np.array([[0.0, 50.0], [50.0, 0.0]])
    level = density_levels.typicality(log_density, np.full(2, -50.0), np.zeros(2), typical)[0]
    assert level.tolist() == [0, len(density_levels.LEVELS) + 1]


def test_few_references_cannot_show_a_rare_tail():
    own = np.random.default_rng(2).normal(size=300)
    np.testing.assert_allclose(
        density_levels.typical_of(references(), own).tail, [1 / 151, *density_levels.LEVELS, 1.0]
    )
    few = density_levels.typical_of(references(effective=9.0), own)
    np.testing.assert_allclose(few.tail, [0.1, 0.1, 0.1, 0.2, 0.5, 1.0])
    assert few.effective == 9.0


def test_the_block_of_arrival_with_most_instances_in_the_tail_counts():
    """The first of four blocks has half of the rarest fifth and a quarter of all references."""
    log_odds = -np.arange(1000.0)
    part = np.arange(1000) % 4
    even = evenly(log_odds, part=part)
    np.testing.assert_allclose(even.tail[1:-1], density_levels.LEVELS, atol=0.005)
    part[:200] = np.where(np.arange(200) % 2, 0, 1 + np.arange(200) % 3)
    part[200:] = np.where(np.arange(800) < 150, 0, 1 + np.arange(800) % 3)  # 250 instances in block 0
    worst = evenly(log_odds, part=part)
    np.testing.assert_allclose(worst.tail[1:4], 2.0 * density_levels.LEVELS[:3], atol=0.005)
    assert (worst.tail >= even.tail).all()


@pytest.mark.parametrize("effective", [4.0, 50.0, 5000.0])
@pytest.mark.parametrize("centre", [-3.0, -20.0])
def test_odds_follow_the_rank_among_the_references(centre, effective):
    own = np.random.default_rng(3).normal(centre, 3.0, size=500)
    typical, at = evenly(own, effective=effective), np.linspace(centre - 30.0, centre + 60.0, 4000)
    odds = odds_of(at, typical)
    assert (np.diff(odds) >= 0.0).all(), "an instance that the frozen classes find newer is not less new"
    above = at >= max(own.max(), 0.0)
    assert (np.diff(odds[above]) > 0.0).all(), "and its odds grow without end where the frozen classes favour it"
    np.testing.assert_allclose(odds_of(np.array([np.median(own)]), typical), 1.0, rtol=1e-9)
    for value, share in zip(typical.quantiles, density_levels.SHARES, strict=True):
        known = share * effective + 0.5
        expected = min((effective + 1.0 - known) / known, (1.0 - density_levels.RARE) / density_levels.RARE)
        np.testing.assert_allclose(odds_of(np.array([-value]), typical), expected, rtol=1e-9)
    end = -typical.quantiles[0]
    inside, outside = odds_of(np.array([end, end + 1e-7]), typical)
    assert outside == pytest.approx(inside, rel=1e-4)


def test_beyond_the_references_log_odds_grow_as_within_them_and_then_like_frozen_ones():
    own = np.random.default_rng(4).normal(-30.0, 3.0, size=500)
    typical = evenly(own, effective=20.0)
    end = own.max()
    assert end < -10.0
    before = np.log(odds_of(np.linspace(end, 0.0, 200), typical))
    least = math.log((1.0 - density_levels.RARE) / density_levels.RARE)
    assert before.max() == pytest.approx(least), "known by the frozen classes: alone it is at most as probably new"
    rising = before[before < least - 1e-9]
    np.testing.assert_allclose(np.diff(rising, 2), 0.0, atol=1e-9)
    within = np.log(odds_of(np.array([end]), typical)[0]) / (end - np.median(own))
    slope = (rising[1] - rising[0]) / (-end / 199.0)
    assert within / 2.0 < slope < 2.0 * within
    np.testing.assert_allclose(np.diff(np.log(odds_of(np.linspace(0.0, 40.0, 9), typical))), 5.0, rtol=1e-9)
    assert np.isfinite(odds_of(np.array([1e6]), typical)).all()


def known(shares: np.ndarray, count: float = 1000.0, independent: float = 1.0, effective: float = 500.0) -> float:
    """Known share of a cell of which these shares reach each level."""
    cell = count * np.diff(np.append(0.0, shares))[None]
    typical = density_levels.Typical(
        np.zeros((2, 1, len(TAIL) - 1)), TAIL, np.zeros(len(density_levels.SHARES)), effective
    )
    return float(density_levels.mean_known(density_levels.known_by_typicality(cell, typical, independent))[0])


def test_a_cell_without_evidence_has_the_prior_share():
    for shares in (TAIL, np.array([0.0, 0.0, 0.0, 0.05, 0.3, 1.0])):
        assert known(shares) == pytest.approx(1.0 - density_levels.RARE)
    assert known(np.zeros(6), 0.0) == pytest.approx(1.0 - density_levels.RARE)
    faint = np.concatenate([TAIL[:1], TAIL[1:-1] + 0.02, TAIL[-1:]])
    assert known(faint, 100.0) > 0.95, "a tail within the noise of its count"


def test_the_excess_in_a_heavy_tail_is_new():
    for new in (0.2, 0.5, 0.9):
        assert known(new + (1.0 - new) * TAIL) == pytest.approx(1.0 - new, abs=0.01)
    assert known(np.ones(6)) == pytest.approx(density_levels.RARE)


def test_few_instances_and_few_independent_ones_are_little_evidence():
    heavy = np.array([0.3, 0.5, 0.6, 0.7, 0.85, 1.0])
    one, two, many = (known(heavy, count) for count in (1.0, 4.0, 100.0))
    assert one > two > many
    assert one > 0.95
    assert known(heavy, independent=0.1) == pytest.approx(known(heavy, 100.0), rel=1e-12)
    assert known(heavy, independent=0.001) > 0.95


def test_few_effective_references_limit_the_evidence_of_any_number_of_instances():
    slight = np.array([0.0, 0.0, 0.1, 0.4, 0.7, 1.0])
    assert known(slight) < 0.9
    few = [known(slight, count, effective=5.0) for count in (1e3, 1e6, 1e9)]
    assert min(few) > 0.95


def test_evidence_is_a_likelihood_ratio_of_two_samples_against_the_prior_odds():
    """At the demanded evidence a new class is as probable as not."""

    def divergence(share: float, other: float) -> float:
        return share * math.log(share / other) + (1.0 - share) * math.log((1.0 - share) / (1.0 - other))

    def evidence(count: float) -> float:
        both = (0.5 * count + 0.01 * 300.0) / (count + 300.0)
        return count * divergence(0.5, both) + 300.0 * divergence(0.01, both)

    count = brentq(lambda n: evidence(n) - density_levels.DEMANDED, 0.1, 1000.0)
    typical = density_levels.Typical(
        np.zeros((2, 1, 1)), np.array([0.01, 1.0]), np.zeros(len(density_levels.SHARES)), 300.0
    )
    found = density_levels.known_by_typicality(np.full((1, 2), 0.5 * count), typical, 1.0)
    assert found[0] == pytest.approx([0.5, 1.0 - (0.5 - 0.01) / 0.99])


def test_frozen_log_odds_and_their_mean_over_chains():
    log_density, new = np.array([[0.0, -1.0], [-3.0, -50.0], [-50.0, -60.0]]), np.array([-1.5, -40.0, -4.0])
    found = density_levels.log_odds_of_new(log_density, new, np.log([2.0, 1.0, 0.5]))
    expected = np.log(0.5 * np.exp(new) / (np.exp(log_density) @ [2.0, 1.0]))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    chains = np.random.default_rng(5).normal(0.0, 3.0, size=(4, 50))
    mean = expit(chains).mean(axis=0)
    np.testing.assert_allclose(density_levels.mean_log_odds(list(chains)), logit(mean), rtol=1e-9)
    far = density_levels.mean_log_odds([np.array([-900.0, 900.0]), np.array([-901.0, 901.0])])
    np.testing.assert_allclose(far, [-900.0, 900.0], atol=0.7)
    np.testing.assert_allclose(far[0], -900.0 + math.log(0.5 * (1.0 + math.exp(-1.0))))


def test_the_odds_of_an_instance_and_of_its_cell_are_multiplied():
    for share, odds, expected in ((0.5, 1.0, 0.5), (0.5, 3.0, 0.25), (0.8, 4.0, 0.5), (1.0, 9.0, 1), (0.0, 9.0, 0)):
        assert density_levels.with_odds(np.array([1.0, share]), odds) == pytest.approx(expected)


def test_two_hypotheses_on_a_cell_are_averaged():
    alone = 1.0 / (1.0 + density_levels.RARE / (1.0 - density_levels.RARE) * 30.0)
    assert density_levels.with_odds(np.array([0.0, 0.1]), 30.0) == pytest.approx(alone)
    both = [density_levels.with_odds(np.array([holds_new, 0.1]), 30.0) for holds_new in (0.0, 0.3, 1.0)]
    assert both[1] == pytest.approx(0.7 * both[0] + 0.3 * both[2])
