"""Distances, tree, learnt threshold and number of classes, against slow oracles and where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.discovery import class_count, grouping
from tests.oracles import grouping as oracle
from tests.tiers import examples


def some(count: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ids, sizes, means and covariances of subclasses of all shapes."""
    rng = np.random.default_rng([count, d, seed])
    root = rng.normal(size=(count, d, d + 2))
    covariance = np.einsum("kab,kcb->kac", root, root) * rng.uniform(0.1, 3, size=(count, 1, 1))
    return np.arange(10, 10 + count), rng.integers(1, 60, count), rng.normal(0, 3, size=(count, d)), covariance


def on_a_line(places: list[float], sizes: list[int]) -> grouping.Distances:
    """Subclasses of unit variance; two at a distance r are r^2 / 8 apart."""
    mean = np.array(places, float)[:, None]
    return grouping.compare(np.arange(len(places)), np.array(sizes), mean, np.ones((len(places), 1, 1)))


def partition(group: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(group == number).tolist()) for number in np.unique(group)}


def test_distances_are_those_of_the_oracle_and_minus_the_logarithm_of_the_overlap():
    for d in (1, 2, 5):
        _, _, mean, covariance = gaussians = some(7, d)
        each = list(zip(mean, covariance, strict=True))
        slow = [[oracle.bhattacharyya(*one, *other) for other in each] for one in each]
        np.testing.assert_allclose(grouping.compare(*gaussians).pairwise, slow, rtol=1e-9, atol=1e-10)
    x = np.linspace(-10, 10, 200_001)
    mean, deviation = np.array([[0.3], [2.0]]), np.array([[1.2], [0.4]])
    densities = np.exp(-(((x - mean) / deviation) ** 2) / 2) / (deviation * np.sqrt(2 * np.pi))
    overlap = np.trapezoid(np.sqrt(densities.prod(axis=0)), x)
    found = grouping.compare(np.arange(2), np.ones(2, int), mean, deviation[:, :, None] ** 2).pairwise
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
        before = grouping.compare(*parts, before)
        for remembered, fresh in zip(before, grouping.compare(*parts), strict=True):
            np.testing.assert_array_equal(remembered, fresh)


@given(st.integers(0, 10_000), st.floats(0, 20))
@examples(60)
def test_groups_and_threshold_are_those_of_the_oracle(seed, threshold):
    ids, size, mean, covariance = some(9, 2, seed)
    found = grouping.compare(ids, np.full(9, grouping.LEAST_SIZE), mean, covariance)
    assert partition(grouping.gather(found, threshold)) == {*map(frozenset, oracle.cut(found.pairwise, threshold))}
    known, owner = grouping.compare(ids, size + grouping.LEAST_SIZE, mean, covariance), np.arange(9) % 3
    slow = oracle.threshold(known.pairwise, known.size.tolist(), owner.tolist(), grouping.NEARLY_BEST)
    assert grouping.learn_threshold(known, owner) == pytest.approx(slow, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("places", "sizes", "owner", "threshold"),
    [
        # gaps of 2 and 3 within the classes, of 10 between them: distances 2^2/8, 3^2/8, more than 10^2/8
        ([0, 2, 12, 15], [50] * 4, [0, 0, 1, 1], 9 / 8),
        # the nearest are of different classes: none is to be gathered
        ([0, 1, 20, 21], [50] * 4, [0, 1, 0, 1], 0),
        # the last one is five instances in five thousand of its class: it comes in at 5^2/8 only, and is not worth it
        ([0, 2, 40, 45], [5000, 5000, 5000, grouping.LEAST_SIZE], [0, 0, 1, 1], 0.5),
        ([0, 2, 40, 45], [5000, 5000, 5000, 500], [0, 0, 1, 1], 25 / 8),
        # tiny ones teach nothing
        ([0, 2, 12, 90], [50, 50, 50, grouping.LEAST_SIZE - 1], [0, 0, 1, 1], 0.5),
        ([0, 90], [50, grouping.LEAST_SIZE - 1], [0, 1], 0),
    ],
)
def test_threshold_joins_what_is_one_class_and_no_more(places, sizes, owner, threshold):
    assert grouping.learn_threshold(on_a_line(places, sizes), np.array(owner)) == pytest.approx(threshold)


def test_small_subclasses_join_the_nearest_larger_one_and_bridge_nothing():
    large, places = grouping.LEAST_SIZE, [0.0, 2.0, 4.0, 6.0]
    emerging = on_a_line(places, [large, large - 1, large - 1, large])
    assert partition(grouping.gather(emerging, 2.3)) == {frozenset({0, 1}), frozenset({2, 3})}
    assert len(partition(grouping.gather(on_a_line(places, [large] * 4), 2.3))) == 1
    for places, sizes in (([], []), ([0.0, 0.1], [1, 1]), ([0.0], [90])):  # nothing to join
        assert grouping.gather(on_a_line(places, sizes), 1.0).tolist() == list(range(len(places)))


@pytest.mark.thorough
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=12))
@examples(80)
def test_mutual_information_is_that_of_scikit_learn(things):
    from sklearn.metrics import normalized_mutual_info_score

    first, second, weight = map(np.array, zip(*things, strict=True))
    expected = normalized_mutual_info_score(np.repeat(first, weight), np.repeat(second, weight))
    assert grouping.mutual_information(first, second, weight.astype(float)) == pytest.approx(expected, abs=1e-9)


def test_chains_outvote_one_that_gathers_too_much_or_too_little():
    """Two classes of two subclasses. Every chain seats the instances alike; one chain gathers in its own way."""
    seats = np.tile(np.repeat(np.arange(4), 5), (4, 1))
    right = np.array([0, 0, 1, 1])
    for wrong in (np.arange(4), np.zeros(4, int)):
        for place in range(4):
            groups = [*[right] * place, wrong, *[right] * (3 - place)]
            assert grouping.agree(groups, seats).tolist() == [0, 0, 1, 1]
    assert grouping.agree([np.arange(4)], seats[:1]).tolist() == [0, 1, 2, 3]


def test_instances_that_other_chains_call_known_or_do_not_remember():
    # subclass 1 is known to the others: they do not put it together with subclass 0
    seats = np.array([[0, 0, 1, 1], *[[0, 0, -1, -1]] * 3])
    assert grouping.agree([np.array([0, 0]), *[np.array([0])] * 3], seats).tolist() == [0, 1]
    # without remembered instances the groups are those of the first chain
    unremembered = np.zeros((3, 0), int)
    groups = [np.array([0, 0, 1]), np.array([0, 1]), np.zeros(0, int)]
    assert grouping.agree(groups, unremembered).tolist() == [0, 0, 1]
    assert grouping.agree([np.zeros(0, int)] * 3, unremembered).shape == (0,)


def test_number_of_classes_by_hand():
    group, size = np.array([0, 0, 1, 2, 3]), np.array([60, 20, 70, 30, 14])
    # groups of 80, 70, 30 and 14, of which those from .25 * 60 on count: 3; subclasses of 10 and more: 5
    assert class_count.count_classes(group, size, np.array([40] * 4), 2) == (3, 2.5)
    assert class_count.count_classes(group, size, np.array([40] * 5), 2) == (3, 2)
    none_known, none_emerging = np.array([3, 3]), np.array([8])  # which are large enough to count
    assert class_count.count_classes(group, size, none_known, 2) == (3, 3)
    assert class_count.count_classes(np.array([0]), none_emerging, np.array([40]), 1) == (1, 1)
    # pieces of a large subclass do not count as classes
    size = np.array([400, 400, 12, 12, 12, 12])
    share = size / size.sum()
    effective = np.exp(-(share * np.log(share)).sum())
    assert class_count.count_classes(np.arange(6), size, np.array([80, 80]), 2) == (2, pytest.approx(effective))
    assert effective < 3 < 6  # which is J E / K
    assert class_count.count_classes(np.arange(6), np.full(6, 70), np.array([80, 80]), 2) == (6, pytest.approx(6))


@pytest.mark.parametrize(
    ("counts", "estimate"),
    [
        ([(2.0, 2.0), (8.0, 8.0)], (4, 2, 8)),  # the chains disagree
        ([(4.0, 3.0), (3.0, 4.0)], (3, 3, 4)),  # the counts do, in each of them
        ([(4.0, 3.0)], (3, 3, 4)),  # a single chain has two counts
        ([(9.0, 4.0), (9.0, 4.0)], (6, 4, 9)),
        ([(2.6, 2.6), (2.6, 2.6)], (3, 3, 3)),
        ([(0.3, 0.2)], (1, 1, 1)),  # at least one
        ([], (0, 0, 0)),
    ],
)
def test_estimate_is_between_the_counts_of_the_chains(counts, estimate):
    assert class_count.estimate_number([class_count.ClassCounts(*count) for count in counts]) == estimate
