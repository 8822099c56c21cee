"""Mass balance: which share of a cell is known, which classes own it, and which counts this follows from."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.trust import density_levels, known_shares, reference_counts
from tests.blobs import further
from tests.oracles import balance as oracle
from tests.tiers import examples

EVEN = np.full(2, 0.5)
RATES = np.array([[0.9, 0.0, 0.1, 0.0, 0.0], [0.0, 0.9, 0.02, 0.08, 0.0]])
"""Two classes; the third cell is a refinement of the first, the fourth of the second; then something new."""


def shares_of(counts, distinct=500, classes=EVEN, *, kappa=np.nan, before=None, spread=None, due=None):
    """Shares of cells; by default nothing was known before, and all references weigh the same."""
    spread = np.ones((len(classes), counts.stream.shape[1])) if spread is None else spread
    before = np.full(len(counts.stream) - len(classes) - 1, -1.0) if before is None else before
    due = np.isnan(kappa) if due is None else due
    return known_shares.cell_shares(counts, classes, np.full(len(classes), distinct), spread, kappa, before, due)


def known_share(stream: float, taken: float, per_reference: float, before: float) -> tuple[float, float]:
    """Posterior mean of the known share of a cell, and the log evidence."""
    return known_shares.known_share(np.empty((2, len(known_shares.T_GRID))), stream, taken, per_reference, before)


def share(stream: float, taken: float, per_reference: float = 1.0, before: float = 0.5) -> float:
    return known_share(stream, taken, per_reference, before)[0]


def drawn_counts(n: int, kappa: float, fresh: np.ndarray, references: int, seed: object, rates=RATES, classes=EVEN):
    """Counts of a stream whose known instances fall into the cells at ``rates`` (J, C), the new ones at ``fresh``."""
    rng, (n_classes, count) = np.random.default_rng(seed), rates.shape
    stream, taken = np.zeros((count, density_levels.N_LEVELS)), np.zeros((n_classes, count, density_levels.N_LEVELS))
    stream[:, -1] = rng.multinomial(round(n * kappa), classes @ rates)
    stream[:, -1] += rng.multinomial(n - round(n * kappa), fresh)
    for j in range(n_classes):
        taken[j, :, -1] = rng.multinomial(references, rates[j])
    total = np.full((n_classes, count), float(references))
    return reference_counts.ReferenceCounts(stream, np.full(count, float(n)), taken, total, n * kappa * classes)


def test_search_for_kappa_from_any_estimate_ends_at_the_same_value() -> None:
    fresh = np.array([0.0, 0.0, 0.3, 0.3, 0.4])
    for kappa, n in ((0.04, 400), (0.3, 4000), (0.7, 40), (1.0, 400)):
        counts = drawn_counts(n, kappa, fresh, 200, n)
        anywhere = shares_of(counts, 200).kappa
        for before in (0.0, 0.5, 1.0):
            found = shares_of(counts, 200, kappa=before, due=True).kappa
            assert found == pytest.approx(anywhere, abs=1e-6), (kappa, n, before)


def test_known_share_is_the_posterior_mean_by_numerical_integration() -> None:
    few = [(each, 0.03, 0.35) for each in product((0, 0.5, 4, 30), (0, 4, 30), (0.5, 2.0, 20.0), (0.3, 0.5))]
    many = [((1400.0, 1000.0, 0.3, 0.5), 0.01, 1.0), ((700.0, 500.0, 0.5, 0.5), 0.01, 1.0)]
    for arguments, of_mean, of_evidence in few + many:
        mean, evidence = known_share(*arguments)
        exact, log_evidence = oracle.known_share(*arguments, known_shares.MIXED)
        assert mean == pytest.approx(exact, abs=of_mean), arguments
        assert evidence == pytest.approx(log_evidence, abs=of_evidence), arguments
    for before in (known_shares.EXTREME, 0.1, 0.9, 1.0 - known_shares.EXTREME):
        prior = 0.5 * known_shares.MIXED + (1.0 - known_shares.MIXED) * before
        assert share(0.0, 0.0, before=before) == pytest.approx(prior, abs=0.01), "nothing was seen"


@pytest.mark.parametrize("seed", [0, *further(*range(1, 6))])
def test_class_shares_are_the_mode_of_their_posterior(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(2, 6))
    confusion = 0.7 * np.eye(n_classes) + 0.3 * rng.dirichlet(np.ones(n_classes), size=n_classes)
    trained = rng.dirichlet(5.0 * np.ones(n_classes))
    votes = rng.gamma(1.0, 100.0, size=n_classes)
    found = known_shares.class_shares(votes, confusion, trained, rng.dirichlet(np.ones(n_classes)))
    assert found.sum() == pytest.approx(1)
    np.testing.assert_allclose(
        found, oracle.class_shares(votes, confusion, trained, known_shares.PRIOR_SHARES), atol=0.005
    )


def test_class_shares_that_nothing_has_come_for_are_those_of_training() -> None:
    trained = np.array([0.2, 0.3, 0.5])
    np.testing.assert_allclose(
        known_shares.class_shares(np.zeros(3), np.full((3, 3), 1 / 3), trained, trained), trained
    )
    blurred = known_shares.class_shares(np.full(3, 1e4), np.full((3, 3), 1 / 3), trained, trained)
    np.testing.assert_allclose(blurred, trained, atol=1e-6, err_msg="votes that tell nothing change nothing")


@pytest.mark.parametrize("kappa", [0.5, *further(1.0, 0.75, 0.25)])
def test_the_known_share_of_the_stream_is_found(kappa: float) -> None:
    """On the low side: a known class's own cell counts as known in part, as far as its counts leave it open."""
    rates, fresh = np.insert(RATES, 4, 0.0, axis=1), np.eye(6)[4]
    found = []
    for seed in range(8):
        shares = shares_of(drawn_counts(1400, kappa, fresh, 700, seed, rates))
        found.append(shares.kappa)
        known = shares.known[:, -1]
        np.testing.assert_array_equal(known[:2], 1.0)
        assert known[2] > 0.55, "a refinement of the first class"
        assert known[3] > 0.55, "a refinement of the second class"
        assert kappa == 1.0 or known[4] < 0.05, "the new class"
    assert 0.8 * kappa < np.mean(found) < kappa + 0.02


def test_owners_are_the_classes_whose_references_are_taken() -> None:
    owner = shares_of(drawn_counts(1400, 1.0, np.eye(5)[4], 700, 0)).owner
    assert owner.shape == (2, 3)
    np.testing.assert_allclose(owner.sum(axis=0), 1)
    assert owner[0, 0] > 0.6
    assert owner[1, 1] > 0.9
    np.testing.assert_allclose(owner[:, 2], EVEN, err_msg="what has taken no reference")


def test_asking_the_same_references_again_tells_nothing_new() -> None:
    counts = drawn_counts(1000, 0.8, np.eye(5)[4], 50, 3)
    twenty_times = counts._replace(taken=20 * counts.taken, total=20 * counts.total)
    once, again, more = shares_of(counts, 50), shares_of(twenty_times, 50), shares_of(twenty_times, 1000)
    np.testing.assert_allclose(again.known, once.known, rtol=1e-9)
    assert again.kappa == pytest.approx(once.kappa)
    assert more.known[2, -1] > once.known[2, -1], "as many different ones tell more"
    assert more.known[4].max() <= once.known[4].max() + 1e-9


def test_a_recent_estimate_is_used_as_it_is() -> None:
    counts = drawn_counts(1000, 0.8, np.eye(5)[4], 500, 1)
    free, low = shares_of(counts), shares_of(counts, kappa=0.3)
    np.testing.assert_array_equal(shares_of(counts, kappa=free.kappa).known, free.known)
    assert low.kappa == 0.3
    assert (low.known[2:] <= free.known[2:] + 1e-9).all(), "a reference stands for fewer known instances"


def test_empty_counts_say_nothing() -> None:
    cells = (4, density_levels.N_LEVELS)
    shares = shares_of(reference_counts.ReferenceCounts(*map(np.zeros, (cells, 4, (2, *cells), (2, 4), 2))), 100)
    assert np.isfinite(shares.known).all()
    np.testing.assert_array_equal(shares.known[:2], 1.0)
    np.testing.assert_allclose(shares.known[2:, 1:], 0.5)
    np.testing.assert_allclose(shares.known[2:, 0], known_shares.EXTREME, err_msg="beyond all references: new")
    np.testing.assert_allclose(shares.owner, 0.5)


def test_levels_hold_their_shares_of_the_references_and_are_left_out_where_those_are_few() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(4), 400)
    score = rng.normal(size=1600)
    bounds = density_levels.level_bounds(
        score, group, density_levels.references_below(score[:, None].repeat(4, axis=1), group)
    )
    below = np.searchsorted(bounds, score)
    np.testing.assert_allclose(
        np.bincount(below, minlength=density_levels.N_LEVELS) / 1600,
        [0, *np.diff([0, *density_levels.LEVELS, 1])],
        atol=2e-3,
    )
    assert np.searchsorted(bounds, -12.0) == 0, "beyond all references"
    few = density_levels.level_bounds(
        score[:40], np.repeat(np.arange(4), 10), np.outer(np.full(4, 10), density_levels.LEVELS)
    )
    assert (few[:4] == few[0]).all()
    assert few[4] > few[0]
    alone = density_levels.level_bounds(score[:4], np.arange(4), np.outer(np.ones(4), density_levels.LEVELS))
    assert (alone == alone[0]).all(), "one of each class"
    assert alone[0] < score[:4].min()


def test_levels_hold_their_shares_of_what_weighted_references_stand_for() -> None:
    rng = np.random.default_rng(0)
    whole = np.sort(rng.normal(size=8000))
    drawn = np.concatenate([rng.permutation(whole[:400])[:200], rng.permutation(whole[400:])[:200]])
    weight, group = np.repeat([0.1, 1.9], 200), np.zeros(400, int)
    below = density_levels.references_below(drawn[:, None], group, weight)
    np.testing.assert_allclose(below[0, :2], [40, 200], atol=1)
    bounds = density_levels.level_bounds(drawn, group, below, weight)
    passed = (whole < bounds[1:, None]).mean(axis=1)
    np.testing.assert_allclose(passed[:2], density_levels.LEVELS[:2], atol=2e-3)
    np.testing.assert_allclose(passed, density_levels.LEVELS, atol=0.05)
    assert bounds[0] < whole.min()


def test_references_that_weigh_little_stand_for_few_instances() -> None:
    stream, taken = np.zeros((2, density_levels.N_LEVELS)), np.zeros((1, 2, density_levels.N_LEVELS))
    stream[1, 1], taken[0, 1, 1] = 40.0, 4.0
    counts = reference_counts.ReferenceCounts(stream, np.full(2, 1000.0), taken, np.full((1, 2), 100.0), np.ones(1))
    one = np.ones((1, density_levels.N_LEVELS))
    plain, equal, light = (
        shares_of(counts, 100, np.ones(1), kappa=1.0, spread=spread).known[1, 1] for spread in (None, one, 0.1 * one)
    )
    assert plain == equal == pytest.approx(share(40.0, 4.1, 10.0), abs=0.03)  # a cell has a tenth of a reference
    assert light == pytest.approx(share(40.0, 40.0), abs=0.03), "forty references that stand for one instance each"


def test_scores_are_excesses_over_the_mean_of_the_others() -> None:
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(3), [5, 4, 1])
    log_density, fresh = rng.normal(size=(10, 3)), rng.normal(size=(4, 3))
    for weight in (rng.random(10), np.ones(10)):
        count = np.bincount(group, weight)
        total = np.array([weight[group == j] @ log_density[group == j, j] for j in range(3)])
        near, found = density_levels.nearest(log_density, count, total, group, weight)
        for i in range(10):
            excess = np.full(3, -np.inf)
            for j in range(3):
                others = (group == j) & (np.arange(10) != i)
                if others.any():
                    excess[j] = log_density[i, j] - np.average(log_density[others, j], weights=weight[others])
            assert found[i] == pytest.approx(excess.max())
            assert near[i] == excess.argmax()
    expected = (fresh - total / count).max(axis=1)
    np.testing.assert_allclose(density_levels.nearest(fresh, count, total)[1], expected)
    nothing = density_levels.nearest(np.full((2, 1), -np.inf), np.ones(1), np.zeros(1), np.zeros(2, int))[1]
    assert np.isneginf(nothing).all()
    bounds = np.sort(rng.normal(size=density_levels.N_LEVELS - 1))
    enough = np.full((3, len(density_levels.LEVELS)), density_levels.LEAST_BELOW)
    found = density_levels.levels_of(fresh, count, total, bounds, enough)
    np.testing.assert_array_equal(found, np.searchsorted(bounds, expected))


def test_levels_near_a_class_of_few_references_are_as_coarse_as_these_allow() -> None:
    count, total, bounds = np.array([1000.0, 20.0, 5.0]), np.zeros(3), np.arange(-4.0, 1.0)
    below = density_levels.references_below(np.zeros((1025, 3)), np.repeat(np.arange(3), [1000, 20, 5]))

    def levels_at(scores: list[float], j: int, group: int | None = None) -> list[int]:
        log_density = np.full((len(scores), 3), -99.0)
        log_density[:, j] = scores
        own = None if group is None else np.full(len(scores), group)
        return density_levels.levels_of(log_density, count, total, bounds, below, own).tolist()

    every = [-4.5, -3.5, -2.5, -1.5, -0.5, 0.5]
    assert levels_at(every, 0) == [0, 1, 2, 3, 4, 5]
    assert levels_at(every, 1) == [0, 3, 3, 3, 4, 5], "a twentieth of 20 is one reference"
    assert levels_at(every, 2) == [0, 5, 5, 5, 5, 5]
    assert levels_at(every, 0, 2) == [5] * 6, "made without a fifth of the class"
    assert levels_at(every, 1, 1) == [0, 3, 3, 3, 4, 5]


@examples(40)
@given(
    seed=st.integers(0, 10_000),
    n_classes=st.integers(1, 4),
    emerging=st.integers(0, 5),
    references=st.integers(0, 20),
    n=st.integers(0, 9),
    others=st.integers(0, 3),
    fade=st.sampled_from([0.5, 1.0]),
)
def test_references_and_instances_are_counted(
    seed: int, n_classes: int, emerging: int, references: int, n: int, others: int, fade: float
) -> None:
    rng = np.random.default_rng(seed)
    count = n_classes + emerging + 1
    shapes = (
        (count, density_levels.N_LEVELS),
        (count,),
        (n_classes, count, density_levels.N_LEVELS),
        (n_classes, count),
        (n_classes,),
    )
    counts = reference_counts.ReferenceCounts(*(rng.random(shape) for shape in shapes))
    before = reference_counts.ReferenceCounts(*(each.copy() for each in counts))
    expected = reference_counts.ReferenceCounts(*(fade * each for each in counts))
    cells = rng.dirichlet(np.ones(count), size=references + n + others)
    level, group = rng.integers(density_levels.N_LEVELS, size=len(cells)), rng.integers(n_classes, size=references)
    weight = rng.random(references)
    for i in range(references):
        expected.taken[group[i], :, level[i]] += weight[i] * cells[i]
        expected.total[group[i]] += weight[i]
    for i in range(references, references + n):
        expected.stream[:, level[i]] += cells[i]
        expected.seen[:] += 1.0
    found = reference_counts.counted(counts, cells, level, group, weight, n, fade)
    for one, right, argument, was in zip(found, expected, counts, before, strict=True):
        np.testing.assert_allclose(one, right, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(argument, was, "the argument stays as it is")
