"""Typicality: levels of density within the nearest class, and the share of a cell that is known by them alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stream_osr.trust import levels
from stream_osr.trust.references import References

TAIL = np.array([0.002, *levels.LEVELS, 1.0])
"""Share of known instances up to each level, the lowest below all of 500 references."""


def references(seed: int = 0, *, gain: bool = True, effective: float = 0.0) -> References:
    """References of two classes in two models, the first twice as many."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat([0, 1], [200, 100]))
    log_density = tuple(rng.normal(size=(300, 2)) for _ in range(2))
    weight = rng.random(300) + 0.5
    gains = rng.normal(size=300) if gain else np.zeros(0)
    return References(np.zeros((300, 2)), group, log_density, weight, gains, effective)


def slow_level(values: list[float], weight: list[float], value: float) -> int:
    """Count the shares of the references that a value lies above, each reference in the middle of its weight."""
    order, passed, middles = sorted(range(len(values)), key=values.__getitem__), 0.0, []
    for at in order:
        middles.append((passed + 0.5 * weight[at]) / sum(weight))
        passed += weight[at]
    level = int(value > min(values))
    for share in levels.LEVELS.tolist():
        above = next((k for k, middle in enumerate(middles) if middle >= share), len(order) - 1)
        below = max(above - 1, 0)
        low, high = values[order[below]], values[order[above]]
        way = 1.0 if above == below else (share - middles[below]) / (middles[above] - middles[below])
        level += value > low + way * (high - low)
    return level


@pytest.mark.parametrize("with_gain", [True, False])
def test_the_level_is_the_higher_of_those_by_the_frozen_density_and_by_that_in_order(with_gain):
    of, rng = references(gain=with_gain), np.random.default_rng(1)
    log_density, gain = 1.5 * rng.normal(size=(600, 2)), rng.normal(size=600) * with_gain
    found = levels.levels_within(log_density, gain, levels.typical_of(of).bounds)
    own = np.mean(of.log_density, axis=0)
    for i in range(600):
        near = int(log_density[i].argmax())
        theirs = of.group == near
        weight = of.weights[theirs].tolist()
        frozen = slow_level(own[theirs, near].tolist(), weight, float(log_density[i, near] - gain[i]))
        given = slow_level((own[theirs, near] + of.gains[theirs]).tolist(), weight, float(log_density[i, near]))
        assert found[i] == max(frozen, given), i
    assert set(found.tolist()) == set(range(len(levels.LEVELS) + 2))


def test_a_class_without_references_has_no_typical_instances():
    of = references()
    bounds = levels.typical_of(of._replace(group=np.zeros(300, int))).bounds
    level = levels.levels_within(np.array([[0.0, 50.0], [50.0, 0.0]]), np.zeros(2), bounds)
    assert level.tolist() == [0, len(levels.LEVELS) + 1]


def test_few_references_cannot_show_a_rare_tail():
    np.testing.assert_allclose(levels.typical_of(references()).tail, [1 / 151, *levels.LEVELS, 1.0])
    np.testing.assert_allclose(levels.typical_of(references(effective=9.0)).tail, [0.1, 0.1, 0.1, 0.2, 0.5, 1.0])


def known(shares: np.ndarray, count: float = 1000.0, independent: float = 1.0) -> np.ndarray:
    """Share of known instances, level by level, in a cell of which these shares reach each level."""
    cell = count * np.diff(np.append(0.0, shares))[None]
    return levels.known_by_typicality(cell, TAIL, independent)[0]


def test_a_cell_of_typical_instances_is_known():
    for shares in (TAIL, np.array([0.0, 0.0, 0.0, 0.05, 0.3, 1.0])):
        np.testing.assert_allclose(known(shares), 1.0, atol=0.01)


def test_a_cell_with_a_heavy_tail_is_new_and_its_typical_instances_are_not():
    heavy = np.array([0.3, 0.5, 0.6, 0.7, 0.85, 1.0])  # half of the cell lies beyond the references
    found = known(heavy)
    for level, share in enumerate(TAIL[:-1]):
        expected = share * (1000.0 + levels.USUAL) / (1000.0 * heavy[level] + levels.USUAL * share)
        assert found[level] == pytest.approx(expected, rel=1e-6)
    assert found[0] < 0.01
    assert found[-1] == pytest.approx(1.0)
    assert (np.diff(found) >= 0.0).all()


def test_few_instances_are_no_evidence():
    assert known(np.zeros(6), 0.0).min() > 0.9
    one, two, many = (known(np.ones(6), count)[0] for count in (1.0, 2.0, 50.0))
    assert one > two > many
    assert many < 0.05
    faint = np.concatenate([TAIL[:1], TAIL[1:-1] + 0.02, TAIL[-1:]])
    assert known(faint, 100.0).min() > 0.9, "a tail within the noise of its count"


def test_evidence_counts_in_independent_instances():
    heavy = np.array([0.01, 0.05, 0.12, 0.3, 0.6, 1.0])
    np.testing.assert_allclose(known(heavy, independent=0.1), known(heavy, 100.0), rtol=1e-12)
    assert known(heavy)[1] < 0.3
    assert known(heavy, independent=0.02)[1] > 0.9


def test_odds_that_a_cell_holds_a_new_class_grow_with_the_likelihood_ratio():
    """At the level where the evidence is as large as is demanded, a new class is as probable as not."""
    tail, share = np.array([0.01, 1.0]), 0.5
    ratio = share * math.log(share / 0.01) + (1.0 - share) * math.log((1.0 - share) / 0.99)
    count = levels.DEMANDED / ratio
    found = levels.known_by_typicality(np.array([[share * count, (1.0 - share) * count]]), tail, 1.0)[0, 0]
    alone = 0.01 * (count + levels.USUAL) / (share * count + levels.USUAL * 0.01)
    assert found == pytest.approx(0.5 + 0.5 * alone)


def test_frozen_classes_add_odds_within_bounds():
    log_density, new = np.array([[0.0, -1.0], [-3.0, -50.0], [-50.0, -60.0]]), np.array([-1.5, -40.0, -4.0])
    seats = np.log([2.0, 1.0, 0.5])
    exact = 0.5 * math.exp(-1.5) / (2.0 + math.exp(-1.0))
    assert exact < 1.0 / levels.FROZEN
    found = levels.odds_of_new(log_density, new, seats, False)
    np.testing.assert_allclose(found, [1.0 / levels.FROZEN, 1.0 / levels.FROZEN, levels.FROZEN])
    wide = levels.odds_of_new(log_density, new, seats, True)
    np.testing.assert_allclose(wide, [exact, 1.0 / levels.TEMPERED, levels.TEMPERED])
    between = levels.odds_of_new(log_density[:1], np.ones(1), seats, False)
    np.testing.assert_allclose(between, 0.5 * math.e / (2.0 + math.exp(-1.0)), rtol=1e-12)
    for share, odds, expected in ((0.5, 1.0, 0.5), (0.5, 3.0, 0.25), (1.0, 9.0, 1), (0.0, 9.0, 0)):
        assert levels.with_odds(share, odds) == expected
