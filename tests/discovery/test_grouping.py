"""Distances, tree, learnt threshold and number of classes, against slow twins and where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from stream_osr.discovery import new_classes as law
from stream_osr.model.dishes import add, empty_dishes
from stream_osr.model.prior import make_prior
from tests.oracles import grouping as oracle
from tests.tiers import examples


def some(count: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ids, sizes, means and covariances of subclasses of all shapes."""
    rng = np.random.default_rng([count, d, seed])
    root = rng.normal(size=(count, d, d + 2))
    covariance = np.einsum("kab,kcb->kac", root, root) * rng.uniform(0.1, 3, size=(count, 1, 1))
    return np.arange(10, 10 + count), rng.integers(1, 60, count), rng.normal(0, 3, size=(count, d)), covariance


def on_a_line(places: list[float], sizes: list[int]) -> law.Distances:
    """Subclasses of unit variance; two at a distance r are r^2 / 8 apart."""
    mean = np.array(places, float)[:, None]
    return law.compare(np.arange(len(places)), np.array(sizes), mean, np.ones((len(places), 1, 1)))


def partition(group: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(group == number).tolist()) for number in np.unique(group)}


@pytest.mark.parametrize("d", [1, 2, 5])
def test_distances_are_those_of_the_twin(d):
    _, _, mean, covariance = gaussians = some(7, d)
    found = law.compare(*gaussians).pairwise
    each = list(zip(mean, covariance, strict=True))
    slow = [[oracle.bhattacharyya(*one, *other) for other in each] for one in each]
    np.testing.assert_allclose(found, slow, rtol=1e-9, atol=1e-10)


def test_distance_is_minus_the_logarithm_of_the_overlap():
    a, b = stats.norm(0.3, 1.2), stats.norm(2.0, 0.4)
    overlap = integrate.quad(lambda x: np.sqrt(a.pdf(x) * b.pdf(x)), -10, 10, points=[2.0])[0]
    mean, covariance = np.array([[0.3], [2.0]]), np.array([[[1.2**2]], [[0.4**2]]])
    found = law.compare(np.arange(2), np.ones(2, int), mean, covariance).pairwise
    assert found[0, 1] == pytest.approx(-np.log(overlap), rel=1e-6)


@given(st.integers(0, 10_000))
@examples(40)
def test_memory_does_not_change_a_bit(seed):
    rng = np.random.default_rng(seed)
    ids, size, mean, covariance = some(8, 3, seed)
    before = None
    for _ in range(4):
        kept = np.sort(rng.choice(8, rng.integers(0, 9), replace=False))
        mean[rng.integers(8)] += rng.normal(size=3)
        covariance[rng.integers(8)] *= 1.5
        parts = [v[kept] for v in (ids, size, mean, covariance)]
        before = law.compare(*parts, before)
        for remembered, fresh in zip(before, law.compare(*parts), strict=True):
            np.testing.assert_array_equal(remembered, fresh)


def test_a_subclass_that_exchanged_an_instance_has_changed():
    # the same identity and the same size
    prior = make_prior(1, nu=3, scale=1, beta=1)
    dishes = empty_dishes(2, prior)
    for slot, places in enumerate(([0.0, 1.0], [9.0, 11.0])):
        for x in places:
            add(dishes, slot, np.array([x, 1.0]), prior)
    before = law.measure(np.arange(2), dishes, prior)
    changed = empty_dishes(2, prior)
    for slot, places in enumerate(([0.0, 1.0], [9.0, 5.0])):
        for x in places:
            add(changed, slot, np.array([x, 1.0]), prior)
    after = law.measure(np.arange(2), changed, prior, before)
    assert after.pairwise[0, 1] != pytest.approx(before.pairwise[0, 1], rel=0.1)
    np.testing.assert_array_equal(after.pairwise, law.measure(np.arange(2), changed, prior).pairwise)


@given(st.integers(0, 10_000), st.floats(0, 20))
@examples(60)
def test_groups_are_those_of_the_twin(seed, threshold):
    ids, _, mean, covariance = some(9, 2, seed)
    found = law.compare(ids, np.full(9, law.LEAST_SIZE), mean, covariance)
    assert partition(law.gather(found, threshold)) == set(map(frozenset, oracle.cut(found.pairwise, threshold)))


@given(st.integers(0, 10_000))
@examples(60)
def test_threshold_is_that_of_the_twin(seed):
    ids, size, mean, covariance = some(9, 2, seed)
    known, owner = law.compare(ids, size + law.LEAST_SIZE, mean, covariance), np.arange(9) % 3
    slow = oracle.threshold(known.pairwise, known.size.tolist(), owner.tolist(), law.NEARLY_BEST)
    assert law.learn_threshold(known, owner) == pytest.approx(slow, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("places", "sizes", "owner", "threshold"),
    [
        # gaps of 2 and 3 within the classes, of 10 between them: distances 2^2/8, 3^2/8, more than 10^2/8
        ([0, 2, 12, 15], [50] * 4, [0, 0, 1, 1], 9 / 8),
        # the nearest are of different classes: none is to be gathered
        ([0, 1, 20, 21], [50] * 4, [0, 1, 0, 1], 0),
        # the last one is five instances in five thousand of its class: it comes in at 5^2/8 only, and is not worth it
        ([0, 2, 40, 45], [5000, 5000, 5000, law.LEAST_SIZE], [0, 0, 1, 1], 0.5),
        ([0, 2, 40, 45], [5000, 5000, 5000, 500], [0, 0, 1, 1], 25 / 8),
        # tiny ones teach nothing
        ([0, 2, 12, 90], [50, 50, 50, law.LEAST_SIZE - 1], [0, 0, 1, 1], 0.5),
        ([0, 90], [50, law.LEAST_SIZE - 1], [0, 1], 0),
    ],
)
def test_threshold_joins_what_is_one_class_and_no_more(places, sizes, owner, threshold):
    assert law.learn_threshold(on_a_line(places, sizes), np.array(owner)) == pytest.approx(threshold)


def test_small_subclasses_join_the_nearest_larger_one_and_bridge_nothing():
    few = law.LEAST_SIZE - 1
    emerging = on_a_line([0.0, 2.0, 4.0, 6.0], [law.LEAST_SIZE, few, few, law.LEAST_SIZE])
    assert partition(law.gather(emerging, 2.3)) == {frozenset({0, 1}), frozenset({2, 3})}
    full = on_a_line([0.0, 2.0, 4.0, 6.0], [law.LEAST_SIZE] * 4)
    assert len(partition(law.gather(full, 2.3))) == 1


def test_nothing_and_only_small_subclasses():
    assert law.gather(on_a_line([], []), 1.0).shape == (0,)
    assert law.gather(on_a_line([0.0, 0.1], [1, 1]), 1.0).tolist() == [0, 1]
    assert law.gather(on_a_line([0.0], [90]), 1.0).tolist() == [0]


@given(st.integers(0, 10_000), st.permutations(range(8)))
@examples(30)
def test_groups_do_not_depend_on_the_order(seed, order):
    parts = some(8, 2, seed)
    group = law.gather(law.compare(*parts), 2.0)
    shuffled = law.gather(law.compare(*(v[list(order)] for v in parts)), 2.0)
    assert partition(group) == {frozenset(order[k] for k in members) for members in partition(shuffled)}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=12))
@examples(80)
def test_mutual_information_is_that_of_scikit_learn(things):
    from sklearn.metrics import normalized_mutual_info_score

    first, second, weight = map(np.array, zip(*things, strict=True))
    expected = normalized_mutual_info_score(np.repeat(first, weight), np.repeat(second, weight))
    assert law.mutual_information(first, second, weight.astype(float)) == pytest.approx(expected, abs=1e-9)


@given(st.integers(0, 10_000))
@examples(60)
def test_agreement_is_that_of_the_twin(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, 7, 4)
    groups = [rng.integers(0, 3, count) for count in counts]
    groups = [np.unique(group, return_inverse=True)[1] for group in groups]
    seats = np.array([rng.integers(-1, count, 12) for count in counts])
    found, slow = law.agreement(groups, seats), oracle.agreement(groups, seats)
    off = ~np.eye(counts[0], dtype=bool)
    np.testing.assert_allclose(found[off], slow[off], atol=1e-12)


def test_chains_outvote_one_that_gathers_too_much_or_too_little():
    # two classes of two subclasses; every chain seats the instances alike, one chain gathers in its own way
    seats = np.tile(np.repeat(np.arange(4), 5), (4, 1))
    right = np.array([0, 0, 1, 1])
    for wrong in (np.arange(4), np.zeros(4, int)):
        for place in range(4):
            groups = [right] * 4
            groups[place] = wrong
            assert law.agree(groups, seats).tolist() == [0, 0, 1, 1]
    assert law.agree([np.arange(4)], seats[:1]).tolist() == [0, 1, 2, 3]


def test_instances_that_a_chain_takes_for_known_speak_against():
    # subclass 1 is known to the others: they do not put it together with subclass 0
    seats = np.array([[0, 0, 1, 1], [0, 0, -1, -1], [0, 0, -1, -1], [0, 0, -1, -1]])
    groups = [np.array([0, 0]), *[np.array([0])] * 3]
    assert law.agree(groups, seats).tolist() == [0, 1]


def test_subclasses_that_nobody_remembers_stay_as_the_first_chain_has_them():
    nobody = np.zeros((3, 0), int)
    groups = [np.array([0, 0, 1]), np.array([0, 1]), np.zeros(0, int)]
    assert law.agree(groups, nobody).tolist() == [0, 0, 1]
    assert law.agree([np.zeros(0, int)] * 3, nobody).shape == (0,)


def test_number_of_classes_by_hand():
    group, size = np.array([0, 0, 1, 2, 3]), np.array([60, 20, 70, 30, 14])
    # groups of 80, 70, 30 and 14, of which those from .25 * 60 on count: 3; subclasses of 10 and more: 5
    assert law.count_classes(group, size, np.array([40] * 4), 2) == law.ClassCounts(3, 2.5)
    assert law.count_classes(group, size, np.array([40] * 5), 2) == law.ClassCounts(3, 2)
    none_known, none_emerging = np.array([3, 3]), np.array([8])  # which are large enough to count
    assert law.count_classes(group, size, none_known, 2) == law.ClassCounts(3, 3)
    assert law.count_classes(np.array([0]), none_emerging, np.array([40]), 1) == law.ClassCounts(1, 1)


def test_pieces_of_a_large_subclass_are_no_classes_by_their_number():
    size = np.array([400, 400, 12, 12, 12, 12])
    share = size / size.sum()
    effective = np.exp(-(share * np.log(share)).sum())
    found = law.count_classes(np.arange(6), size, np.array([80, 80]), 2)
    assert found == (2, pytest.approx(effective))
    assert effective < 3 < 6  # which is J E / K
    assert law.count_classes(np.arange(6), np.full(6, 70), np.array([80, 80]), 2) == (6, pytest.approx(6))


@pytest.mark.parametrize(
    ("counts", "estimate"),
    [
        ([(2.0, 2.0), (8.0, 8.0)], (4, 2, 8)),  # the chains disagree
        ([(4.0, 3.0), (3.0, 4.0)], (3, 3, 4)),  # the counts do, in each of them
        ([(4.0, 3.0)], (3, 3, 4)),  # a single chain has two counts
        ([(9.0, 4.0), (9.0, 4.0)], (6, 4, 9)),
        ([(2.6, 2.6), (2.6, 2.6)], (3, 3, 3)),
        ([(0.3, 0.2)], (1, 1, 1)),  # something is there
        ([], (0, 0, 0)),
    ],
)
def test_estimate_is_between_what_chains_and_counts_say(counts, estimate):
    assert law.estimate_number([law.ClassCounts(*count) for count in counts]) == law.Estimate(*estimate)


@given(st.lists(st.tuples(st.floats(1, 60), st.floats(0.1, 60)), min_size=1, max_size=6))
@examples(60)
def test_the_number_is_in_its_interval(counts):
    found = law.estimate_number([law.ClassCounts(*count) for count in counts])
    assert 1 <= found.low <= found.number <= found.high
    assert found.high <= max(max(count) for count in counts) + 1
