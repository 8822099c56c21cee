"""Mass balance: what share of a cell is known, whose it is, and what the books have to say for it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.trust import balance as law
from stream_osr.trust import levels
from tests.oracles import balance as oracle
from tests.tiers import examples


def share_out(books, classes, distinct, kappa=np.nan, before=None, spread=None, due=None):
    """Shares of cells; by default nothing was known before, and all references weigh the same."""
    spread = np.ones((len(classes), books.stream.shape[1])) if spread is None else spread
    before = np.full(len(books.stream) - len(classes) - 1, -1.0) if before is None else before
    return law.cell_shares(books, classes, distinct, spread, kappa, before, np.isnan(kappa) if due is None else due)


def known_share(stream: float, taken: float, stands_for: float, before: float) -> tuple[float, float]:
    """Posterior mean of the known share of a cell, and the log evidence."""
    return law.known_share(np.empty((2, len(law.T_GRID))), stream, taken, stands_for, before)


def share(stream: float, taken: float, stands_for: float = 1.0, before: float = 0.5) -> float:
    return known_share(stream, taken, stands_for, before)[0]


def drawn_books(
    n_stream: int,
    kappa: float,
    classes: np.ndarray,
    rates: np.ndarray,
    fresh: np.ndarray,
    asked: int,
    rng: np.random.Generator,
) -> law.ReferenceCounts:
    """Books of a stream whose known instances fall into the cells at ``rates`` (J, C), the new ones at ``fresh``."""
    n_classes, count = rates.shape
    known = rng.multinomial(round(n_stream * kappa), classes @ rates)
    stream, taken = np.zeros((count, levels.N_LEVELS)), np.zeros((n_classes, count, levels.N_LEVELS))
    stream[:, -1] = known + rng.multinomial(n_stream - round(n_stream * kappa), fresh)
    for j in range(n_classes):
        taken[j, :, -1] = rng.multinomial(asked, rates[j])
    return law.ReferenceCounts(
        stream,
        np.full(count, float(n_stream)),
        taken,
        np.full((n_classes, count), float(asked)),
        n_stream * kappa * classes,
    )


EVEN = np.full(2, 0.5)
RATES = np.array([[0.9, 0.0, 0.1, 0.0, 0.0], [0.0, 0.9, 0.02, 0.08, 0.0]])
"""Two classes; the third cell is a refinement of the first, the fourth of the second; then something new."""


@pytest.mark.parametrize("kappa", [0.04, 0.3, 0.7, 1.0])
def test_search_for_kappa_from_any_estimate_ends_at_the_same_value(kappa: float) -> None:
    fresh = np.array([0.0, 0.0, 0.3, 0.3, 0.4])
    for seed, n in product(range(3), (40, 400, 4000)):
        books = drawn_books(n, kappa, EVEN, RATES, fresh, 200, np.random.default_rng(seed))
        anywhere = share_out(books, EVEN, np.full(2, 200.0)).kappa
        for before in (0.0, 0.1, 0.5, 1.0):
            found = share_out(books, EVEN, np.full(2, 200.0), before, due=True).kappa
            assert found == pytest.approx(anywhere, abs=1e-6), (seed, n, before)


def test_known_share_is_the_posterior_mean_by_numerical_integration() -> None:
    for stream, taken, stands_for, before in product((0, 0.5, 4, 30), (0, 4, 30), (0.5, 2.0, 20.0), (0.3, 0.5)):
        mean, evidence = known_share(stream, taken, stands_for, before)
        exact, log_evidence = oracle.known_share(stream, taken, stands_for, before, law.MIXED)
        assert mean == pytest.approx(exact, abs=0.03), (stream, taken, stands_for, before)
        assert evidence == pytest.approx(log_evidence, abs=0.35), (stream, taken, stands_for, before)
    for stream, taken, stands_for in ((1400.0, 1000.0, 0.3), (700.0, 500.0, 0.5)):
        mean, evidence = known_share(stream, taken, stands_for, 0.5)
        exact, log_evidence = oracle.known_share(stream, taken, stands_for, 0.5, law.MIXED)
        assert mean == pytest.approx(exact, abs=0.01), "of many instances"
        assert evidence == pytest.approx(log_evidence, abs=1.0)
    for before in (law.EXTREME, 0.1, 0.9, 1.0 - law.EXTREME):
        prior = 0.5 * law.MIXED + (1.0 - law.MIXED) * before
        assert share(0.0, 0.0, before=before) == pytest.approx(prior, abs=0.01), "nothing was seen"


def test_known_share_at_its_limits() -> None:
    for stands_for in (0.5, 1.0, 5.0):
        taken = 200.0
        assert share(taken * stands_for, taken, stands_for) > 0.9, "as many references as of the stream"
        assert share(4.0 * taken * stands_for, taken, stands_for) == pytest.approx(0.25, abs=0.05), "in proportion"
        assert share(200.0, 0.0, stands_for) < 0.02 * max(stands_for, 1.0), "none of many references"
    assert share(0.0, 50.0) > 0.9, "references alone: whatever comes there is known"


@examples(60)
@given(
    stream=st.floats(0, 500),
    taken=st.floats(0, 500),
    more=st.floats(0.1, 100),
    stands_for=st.floats(0.05, 50),
    before=st.floats(law.EXTREME, 1 - law.EXTREME),
)
def test_more_references_say_more_known_and_more_of_the_stream_less(
    stream: float, taken: float, more: float, stands_for: float, before: float
) -> None:
    here = share(stream, taken, stands_for, before)
    assert 0.0 < here < 1.0
    assert share(stream, taken + more, stands_for, before) >= here - 1e-12
    assert share(stream + more, taken, stands_for, before) <= here + 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_class_shares_are_the_mode_of_their_posterior(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(2, 6))
    confusion = 0.7 * np.eye(n_classes) + 0.3 * rng.dirichlet(np.ones(n_classes), size=n_classes)
    trained = rng.dirichlet(5.0 * np.ones(n_classes))
    votes = rng.gamma(1.0, 100.0, size=n_classes)
    found = law.class_shares(votes, confusion, trained, rng.dirichlet(np.ones(n_classes)))
    assert found.sum() == pytest.approx(1)
    np.testing.assert_allclose(found, oracle.class_shares(votes, confusion, trained, law.PRIOR_SHARES), atol=0.005)


def test_class_shares_that_nothing_has_come_for_are_those_of_training() -> None:
    trained = np.array([0.2, 0.3, 0.5])
    np.testing.assert_allclose(law.class_shares(np.zeros(3), np.full((3, 3), 1 / 3), trained, trained), trained)
    blurred = law.class_shares(np.full(3, 1e4), np.full((3, 3), 1 / 3), trained, trained)
    np.testing.assert_allclose(blurred, trained, atol=1e-6, err_msg="votes that tell nothing change nothing")


@pytest.mark.parametrize("kappa", [1.0, 0.75, 0.5, 0.25])
def test_the_known_share_of_the_stream_is_found(kappa: float) -> None:
    """On the low side: a known class's own cell counts as known in part, as far as its counts leave it open."""
    rates, fresh = np.insert(RATES, 4, 0.0, axis=1), np.eye(6)[4]
    found = []
    for seed in range(8):
        books = drawn_books(1400, kappa, EVEN, rates, fresh, 700, np.random.default_rng(seed))
        shares = share_out(books, EVEN, np.full(2, 500))
        found.append(shares.kappa)
        known = shares.known[:, -1]
        np.testing.assert_array_equal(known[:2], 1.0)
        assert known[2] > 0.55, "a refinement of the first class"
        assert known[3] > 0.55, "a refinement of the second class"
        assert kappa == 1.0 or known[4] < 0.05, "the new class"
    assert 0.8 * kappa < np.mean(found) < kappa + 0.02


def test_all_is_known_though_every_class_sits_in_a_subclass_of_its_own() -> None:
    shares = np.full(8, 1 / 8)
    rates = np.hstack([np.zeros((8, 8)), np.eye(8), np.zeros((8, 1))])
    found = []
    for seed in range(6):
        books = drawn_books(1400, 1.0, shares, rates, np.eye(17)[16], 5, np.random.default_rng(seed))
        found.append(share_out(books, shares, np.full(8, 5)))
    assert np.mean([each.kappa for each in found]) > 0.9
    assert np.mean([each.known[8:-1, -1] for each in found]) > 0.9


def test_a_subclass_that_takes_both_is_known_in_proportion() -> None:
    """Of some hundred instances, and drawn a little to one kind."""
    found = []
    for part in (0.1, 0.2, 0.5, 0.8, 0.95):
        of = []
        for seed in range(6):
            rates = np.array([[0.7, 0.0, 0.3, 0.0], [0.0, 1.0, 0.0, 0.0]])
            known, within = 1000, 150
            n = round(known + within * (1 - part) / part)
            rng = np.random.default_rng([seed, 5])
            books = drawn_books(n, known / n, EVEN, rates, np.eye(4)[2], 700, rng)
            of.append(share_out(books, EVEN, np.full(2, 500)).known[2, -1])
        assert part - 0.2 < np.mean(of) < part + 0.1
        found.append(np.mean(of))
    assert (np.diff(found) > 0.05).all()


def test_owners_are_the_classes_whose_references_are_taken() -> None:
    books = drawn_books(1400, 1.0, EVEN, RATES, np.eye(5)[4], 700, np.random.default_rng(0))
    owner = share_out(books, EVEN, np.full(2, 500)).owner
    assert owner.shape == (2, 3)
    np.testing.assert_allclose(owner.sum(axis=0), 1)
    assert owner[0, 0] > 0.6
    assert owner[1, 1] > 0.9
    np.testing.assert_allclose(owner[:, 2], EVEN, err_msg="what has taken no reference")


def test_asking_the_same_references_again_tells_nothing_new() -> None:
    rng = np.random.default_rng(3)
    books = drawn_books(1000, 0.8, EVEN, RATES, np.eye(5)[4], 50, rng)
    once = share_out(books, EVEN, np.full(2, 50))
    again = share_out(books._replace(taken=20 * books.taken, total=20 * books.total), EVEN, np.full(2, 50))
    np.testing.assert_allclose(again.known, once.known, rtol=1e-9)
    assert again.kappa == pytest.approx(once.kappa)
    more = share_out(books._replace(taken=20 * books.taken, total=20 * books.total), EVEN, np.full(2, 1000))
    assert more.known[2, -1] > once.known[2, -1], "as many different ones tell more"
    assert more.known[4].max() <= once.known[4].max() + 1e-9


def test_an_estimate_of_lately_is_taken_as_it_is() -> None:
    books = drawn_books(1000, 0.8, EVEN, RATES, np.eye(5)[4], 500, np.random.default_rng(1))
    free = share_out(books, EVEN, np.full(2, 500))
    held = share_out(books, EVEN, np.full(2, 500), kappa=free.kappa)
    np.testing.assert_array_equal(held.known, free.known)
    low = share_out(books, EVEN, np.full(2, 500), kappa=0.3)
    assert low.kappa == 0.3
    assert (low.known[2:] <= free.known[2:] + 1e-9).all(), "a reference stands for fewer known instances"


def test_empty_books_say_nothing() -> None:
    cells = (4, levels.N_LEVELS)
    books = law.ReferenceCounts(np.zeros(cells), np.zeros(4), np.zeros((2, *cells)), np.zeros((2, 4)), np.zeros(2))
    shares = share_out(books, EVEN, np.full(2, 100))
    assert isinstance(shares, law.KnownShares)
    assert np.isfinite(shares.known).all()
    np.testing.assert_array_equal(shares.known[:2], 1.0)
    np.testing.assert_allclose(shares.known[2:, 1:], 0.5)
    np.testing.assert_allclose(shares.known[2:, 0], law.EXTREME, err_msg="beyond all references: new")
    np.testing.assert_allclose(shares.owner, 0.5)


def test_levels_hold_their_shares_of_the_references_and_are_left_out_where_those_are_few() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(4), 400)
    score = rng.normal(size=1600)
    bounds = levels.level_bounds(score, group, levels.references_below(score[:, None].repeat(4, axis=1), group))
    below = np.searchsorted(bounds, score)
    np.testing.assert_allclose(
        np.bincount(below, minlength=levels.N_LEVELS) / 1600, [0, *np.diff([0, *levels.LEVELS, 1])], atol=2e-3
    )
    assert np.searchsorted(bounds, -12.0) == 0, "beyond all references"
    few = levels.level_bounds(score[:40], np.repeat(np.arange(4), 10), np.outer(np.full(4, 10), levels.LEVELS))
    assert (few[:4] == few[0]).all()
    assert few[4] > few[0]
    alone = levels.level_bounds(score[:4], np.arange(4), np.outer(np.ones(4), levels.LEVELS))
    assert (alone == alone[0]).all(), "one of each class"
    assert alone[0] < score[:4].min()


def test_levels_hold_their_shares_of_what_weighted_references_stand_for() -> None:
    rng = np.random.default_rng(0)
    whole = np.sort(rng.normal(size=8000))
    drawn = np.concatenate([rng.permutation(whole[:400])[:200], rng.permutation(whole[400:])[:200]])
    weight, group = np.repeat([0.1, 1.9], 200), np.zeros(400, int)
    below = levels.references_below(drawn[:, None], group, weight)
    np.testing.assert_allclose(below[0, :2], [40, 200], atol=1)
    bounds = levels.level_bounds(drawn, group, below, weight)
    passed = (whole < bounds[1:, None]).mean(axis=1)
    np.testing.assert_allclose(passed[:2], levels.LEVELS[:2], atol=2e-3)
    np.testing.assert_allclose(passed, levels.LEVELS, atol=0.05)
    assert bounds[0] < whole.min()


def test_references_that_weigh_little_stand_for_few_instances() -> None:
    stream, taken = np.zeros((2, levels.N_LEVELS)), np.zeros((1, 2, levels.N_LEVELS))
    stream[1, 1], taken[0, 1, 1] = 40.0, 4.0
    books = law.ReferenceCounts(stream, np.full(2, 1000.0), taken, np.full((1, 2), 100.0), np.ones(1))
    of_each, one = [], np.ones((1, levels.N_LEVELS))
    for spread in (None, one, 0.1 * one):
        of_each.append(share_out(books, np.ones(1), np.full(1, 100), 1.0, spread=spread).known[1, 1])
    assert of_each[0] == of_each[1]
    alone = known_share(40.0, 4.1, 10.0, 0.5)[0]  # a cell has a tenth of a reference in any case
    assert of_each[1] == pytest.approx(alone, abs=0.03)
    sure = known_share(40.0, 40.0, 1.0, 0.5)[0]
    assert of_each[2] == pytest.approx(sure, abs=0.03), "forty references that stand for one instance each"


def test_scores_are_excesses_over_the_mean_of_the_others() -> None:
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(3), [5, 4, 1])
    log_density, fresh = rng.normal(size=(10, 3)), rng.normal(size=(4, 3))
    for weight in (rng.random(10), np.ones(10)):
        count = np.bincount(group, weight)
        total = np.array([weight[group == j] @ log_density[group == j, j] for j in range(3)])
        near, found = levels.nearest(log_density, count, total, group, weight)
        for i in range(10):
            excess = np.full(3, -np.inf)
            for j in range(3):
                others = (group == j) & (np.arange(10) != i)
                if others.any():
                    excess[j] = log_density[i, j] - np.average(log_density[others, j], weights=weight[others])
            assert found[i] == pytest.approx(excess.max())
            assert near[i] == excess.argmax()
    expected = (fresh - total / count).max(axis=1)
    np.testing.assert_allclose(levels.nearest(fresh, count, total)[1], expected)
    nothing = levels.nearest(np.full((2, 1), -np.inf), np.ones(1), np.zeros(1), np.zeros(2, int))[1]
    assert np.isneginf(nothing).all()
    bounds = np.sort(rng.normal(size=levels.N_LEVELS - 1))
    enough = np.full((3, len(levels.LEVELS)), levels.LEAST_BELOW)
    found = levels.levels_of(fresh, count, total, bounds, enough)
    np.testing.assert_array_equal(found, np.searchsorted(bounds, expected))


def test_levels_near_a_class_of_few_references_are_as_coarse_as_these_allow() -> None:
    count, total, bounds = np.array([1000.0, 20.0, 5.0]), np.zeros(3), np.arange(-4.0, 1.0)
    below = levels.references_below(np.zeros((1025, 3)), np.repeat(np.arange(3), [1000, 20, 5]))

    def levels_at(scores: list[float], j: int, group: int | None = None) -> list[int]:
        log_density = np.full((len(scores), 3), -99.0)
        log_density[:, j] = scores
        own = None if group is None else np.full(len(scores), group)
        return levels.levels_of(log_density, count, total, bounds, below, own).tolist()

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
    asked=st.integers(0, 20),
    n=st.integers(0, 9),
    others=st.integers(0, 3),
    fade=st.sampled_from([0.5, 1.0]),
)
def test_books_take_in_references_and_instances(
    seed: int, n_classes: int, emerging: int, asked: int, n: int, others: int, fade: float
) -> None:
    rng = np.random.default_rng(seed)
    count = n_classes + emerging + 1
    shapes = (count, levels.N_LEVELS), (count,), (n_classes, count, levels.N_LEVELS), (n_classes, count), (n_classes,)
    books = law.ReferenceCounts(*(rng.random(shape) for shape in shapes))
    expected = law.ReferenceCounts(*(fade * counts for counts in books))
    cells = rng.dirichlet(np.ones(count), size=asked + n + others)
    level, group = rng.integers(levels.N_LEVELS, size=len(cells)), rng.integers(n_classes, size=asked)
    weight = rng.random(asked)
    for i in range(asked):
        expected.taken[group[i], :, level[i]] += weight[i] * cells[i]
        expected.total[group[i]] += weight[i]
    for i in range(asked, asked + n):
        expected.stream[:, level[i]] += cells[i]
        expected.seen[:] += 1.0
    before = law.ReferenceCounts(*(counts.copy() for counts in books))
    for found, right in zip(law.counted(books, cells, level, group, weight, n, fade), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-12)
    for one, other in zip(books, before, strict=True):
        np.testing.assert_array_equal(one, other, "the argument stays as it is")
