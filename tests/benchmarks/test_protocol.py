from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.paper.protocol import split, validation_split
from stream_osr.errors import InvalidParameter
from tests.tiers import examples


def numbered(sizes: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes of the given sizes, mixed; the only feature of an instance is its row number."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    return np.arange(len(y))[:, None], np.random.default_rng(seed).permutation(y)


problems = st.tuples(st.lists(st.integers(2, 12), min_size=2, max_size=8), st.integers(0, 2**32), st.data())


@examples(50)
@given(problems)
def test_split_uses_each_instance_of_the_chosen_classes_once(problem):
    sizes, seed, data = problem
    n_known = data.draw(st.integers(1, len(sizes)))
    n_unknown = data.draw(st.integers(0, len(sizes) - n_known))
    X, y = numbered(sizes)
    parts = split(X, y, n_known, n_unknown, seed)
    assert (len(parts.known), len(parts.unknown)) == (n_known, n_unknown)
    assert not set(parts.known) & set(parts.unknown)
    used = np.flatnonzero(np.isin(y, [*parts.known, *parts.unknown]))
    assert sorted(np.vstack([parts.X_train, parts.X_test])[:, 0].tolist()) == used.tolist()
    for part_X, part_y in ((parts.X_train, parts.y_train), (parts.X_test, parts.y_test)):
        np.testing.assert_array_equal(y[part_X[:, 0]], part_y)
    for label in parts.known:
        n = int((y == label).sum())
        assert int((parts.y_train == label).sum()) == math.floor(0.6 * n + 0.5)
    assert not set(parts.y_train.tolist()) & set(parts.unknown)


@examples(50)
@given(problems)
def test_more_unknown_classes_change_nothing_but_what_they_add(problem):
    sizes, seed, data = problem
    n_known = data.draw(st.integers(1, len(sizes)))
    X, y = numbered(sizes)
    widest = split(X, y, n_known, len(sizes) - n_known, seed)
    for n_unknown in range(len(sizes) - n_known):
        parts = split(X, y, n_known, n_unknown, seed)
        assert parts.known == widest.known
        assert parts.unknown == widest.unknown[:n_unknown]
        np.testing.assert_array_equal(parts.X_train, widest.X_train)
        stays = np.isin(widest.y_test, [*parts.known, *parts.unknown])
        np.testing.assert_array_equal(parts.X_test, widest.X_test[stays])


def test_instances_are_chosen_and_ordered_at_random():
    # Sorted by class, as some of the files are: order must not leak into the split.
    parts = split(np.arange(400)[:, None], np.repeat([0, 1], 200), 1, 1, seed=0)
    assert abs((parts.X_train[:, 0] % 200).mean() - 99.5) < 15
    assert (np.diff(parts.y_test) != 0).sum() > 80


def test_labels_are_returned_as_python_objects():
    X, y = numbered([4, 4, 4])
    assert all(type(label) is int for label in split(X, y, 2, 1, 0).known)
    names = np.array(["a", "b", "c"])[y]
    assert all(type(label) is str for label in split(X, names, 2, 1, 0).unknown)


def test_a_split_into_more_classes_than_there_are_is_refused():
    X, y = numbered([4] * 4)
    with pytest.raises(InvalidParameter, match="2 known and 3 unknown classes were requested, but y has 4"):
        split(X, y, n_known=2, n_unknown=3, seed=0)


def test_half_of_the_classes_are_known_in_a_validation_split():
    for n_classes, n_known in ((1, 1), (2, 1), (3, 2), (5, 3), (10, 5)):
        X, y = numbered([10] * n_classes)
        parts = validation_split(X, y, seed=3)
        assert (len(parts.known), len(parts.unknown)) == (n_known, n_classes - n_known)
        assert set(parts.y_train.tolist()) == set(parts.known)
        assert set(parts.y_test.tolist()) == set(range(n_classes))
        assert (len(parts.X_train), np.isin(parts.y_test, parts.known).sum()) == (6 * n_known, 4 * n_known)
        fit, opened = (X[:, 0].tolist() for X in (parts.X_train, parts.X_test))
        assert sorted(fit + opened) == list(range(10 * n_classes))
        np.testing.assert_array_equal(y[opened], parts.y_test)


def test_validation_split_may_share_the_seed_of_the_split():
    # If both drew from one stream, the classes first drawn as known would always play known again.
    X, y = numbered([4] * 6)
    same = [split(X, y, 3, 0, seed).known == validation_split(X, y, seed).known for seed in range(20)]
    assert sum(same) < 5


def test_given_classes_are_the_known_ones():
    X, y = numbered([6, 7, 8, 9])
    part = split(X, y, 2, 2, seed=3, known=[3, 1])
    assert part.known == (3, 1)
    assert set(part.unknown) == {0, 2}
    assert set(part.y_train.tolist()) == {3, 1}
    one = split(X, y, 2, 1, seed=3, known=[3, 1])
    assert one.unknown == part.unknown[:1]
    np.testing.assert_array_equal(one.X_train, part.X_train)
