"""The shift of the odds of unknown: where it starts, where it goes, and what it does to probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.trust import prior_odds
from stream_osr.trust.prior_odds import PriorOdds, learn_odds, shift_odds, start_odds
from tests.tiers import examples

HALF_LIFE = 200.0


def called_known(n: int, p_known: float = 0.9) -> np.ndarray:
    return np.tile([0.7 * p_known, 0.3 * p_known, 1 - p_known], (n, 1))


def learnt(batches: list[tuple[np.ndarray, np.ndarray]], half_life: float = HALF_LIFE) -> PriorOdds:
    odds = start_odds(True)
    for probabilities, rank in batches:
        odds = learn_odds(odds, probabilities, rank, half_life)
    return odds


def test_starts_at_the_prior_or_at_nothing_and_few_instances_move_it_little():
    odds = start_odds(True)
    assert odds.shift == prior_odds.PRIOR_SHIFT
    assert start_odds(False).shift == 0.0
    untouched = called_known(3)
    assert shift_odds(start_odds(False), untouched) is untouched
    assert learn_odds(odds, np.zeros((0, 3)), np.zeros(0), HALF_LIFE).shift == prior_odds.PRIOR_SHIFT
    before = odds.excess.copy()
    later = learn_odds(odds, called_known(4), np.zeros(4), HALF_LIFE)
    assert prior_odds.PRIOR_SHIFT < later.shift < prior_odds.PRIOR_SHIFT + 0.1
    np.testing.assert_array_equal(odds.excess, before)


def test_known_instances_of_which_the_odd_ones_are_doubted_leave_it_near_nothing():
    for seed in range(5):
        rng, odds = np.random.default_rng(seed), start_odds(True)
        for _ in range(80):
            rank = rng.random(256)
            unknown = 0.5 * np.exp(-20 * rank)
            odds = learn_odds(odds, np.stack([1 - unknown, unknown], axis=1), rank, HALF_LIFE)
        assert odds.shift < 0.3, seed


def test_accepted_instances_of_low_rank_raise_it():
    n = 4000
    shifts = [learnt([(called_known(n), np.linspace(0, highest, n))]).shift for highest in (1.0, 0.9, 0.3)]
    assert shifts[0] < 0.1
    assert shifts[1] == shifts[2] > 0.95 * prior_odds.SHIFTS[-1]
    odds = learnt([(np.array([[0.5, 0.5, 0.0]] * n), np.zeros(n))])
    assert odds.shift <= prior_odds.SHIFTS[-1]


def test_takes_the_smallest_shift_that_is_enough():
    # 70 instances of high rank that are surely known, 100 of rank 0 that are known with odds of 4 to 1
    probabilities = np.concatenate([np.tile([1.0, 0.0], (70, 1)), np.tile([0.8, 0.2], (100, 1))])
    rank = np.repeat([1.0, 0.0], [70, 100])
    odds = learnt([(probabilities, rank)] * 60, half_life=1e9)
    # enough: 100 * 4 / (4 + e^s) <= 70, e^s >= 12 / 7
    enough = prior_odds.SHIFTS[np.exp(prior_odds.SHIFTS) * 7 > 12][0]
    assert 0 < enough < prior_odds.SHIFTS[-1]
    assert odds.shift == pytest.approx((odds.seen * enough + 64 * prior_odds.PRIOR_SHIFT) / (odds.seen + 64))
    assert odds.shift == pytest.approx(enough, abs=0.01)


def test_what_was_learnt_fades():
    low, uniform = np.zeros(1000), np.linspace(0.01, 1, 1000)
    odds = learnt([(called_known(1000), low)])
    assert odds.shift > 0.9 * prior_odds.SHIFTS[-1]
    for _ in range(100):  # 100 000 instances: 25 half-lives of the sums
        odds = learn_odds(odds, called_known(1000), uniform, HALF_LIFE)
    assert odds.shift < 0.1
    assert odds.seen < 1000 / (1 - 0.5 ** (1000 / (prior_odds.FADES_SLOWER * HALF_LIFE)))


def test_fading_does_not_depend_on_the_size_of_the_batches():
    rng = np.random.default_rng(0)
    rank = rng.random(512)
    one = learnt([(called_known(512), rank)] * 4, half_life=1e9)
    many = learnt([(called_known(64), part) for part in np.split(np.tile(rank, 4), 32)], half_life=1e9)
    np.testing.assert_allclose(one.excess, many.excess, rtol=1e-4, atol=1e-3)
    assert one.seen == pytest.approx(many.seen, rel=1e-4)


ROW = st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)).filter(lambda row: sum(row) > 1e-6)


@examples(60)
@given(rows=st.lists(ROW, min_size=1), seed=st.integers(0, 1000), n=st.integers(1, 40))
def test_shift_is_within_its_bounds_and_probabilities_stay_probabilities(rows, seed, n):
    probabilities = np.array(rows) / np.sum(rows, axis=1, keepdims=True)
    rng = np.random.default_rng(seed)
    odds = start_odds(True)
    for _ in range(n):
        odds = learn_odds(odds, probabilities, rng.random(len(rows)), HALF_LIFE)
        assert 0 <= odds.shift <= prior_odds.SHIFTS[-1]
    shifted = shift_odds(odds, probabilities)
    np.testing.assert_allclose(shifted.sum(axis=1), 1, atol=1e-12)
    assert (shifted[:, -1] >= probabilities[:, -1] - 1e-12).all()  # unknown never loses
    known, before = shifted[:, :-1], probabilities[:, :-1]
    assert (known <= before + 1e-12).all()
    np.testing.assert_allclose(known[:, 0] * before[:, 1], known[:, 1] * before[:, 0], atol=1e-12)  # nor ratios


def test_probabilities_are_monotone_in_the_shift():
    probabilities = np.random.default_rng(1).dirichlet([1, 1, 1], size=50)
    unknown = [shift_odds(PriorOdds(np.zeros(0), 0.0, shift), probabilities)[:, -1] for shift in (0.0, 0.5, 1.0, 4.0)]
    assert (np.diff(unknown, axis=0) > 0).all()
    odds = unknown[2] / (1 - unknown[2])
    np.testing.assert_allclose(odds, np.e * probabilities[:, -1] / (1 - probabilities[:, -1]), rtol=1e-9)
