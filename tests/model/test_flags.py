"""Numbers that are categories in disguise: what is found in training, and what a row of the stream says of them."""

from __future__ import annotations

import numpy as np

from stream_osr.model.feature_space import binary_features as inside
from stream_osr.model.feature_space import mixed_whitening, whitening
from stream_osr.model.feature_space.mixed_whitening import fit_mixed
from stream_osr.model.feature_space.whitening import Whitening, whiten
from stream_osr.model.transfer import origins, passage
from tests.oracles import flags as oracle

N = 60


def find(X: np.ndarray) -> inside.BinaryFeatures:
    """Find the flags of a table of numbers."""
    return inside.find_binary_features(X, np.zeros(X.shape[1], np.int64))


def table(seed: int = 0) -> np.ndarray:
    """Columns: a block of three, a flag, its opposite, a number, a constant, a block of four."""
    rng = np.random.default_rng(seed)
    kind, other, flag = rng.integers(3, size=N), rng.integers(4, size=N), rng.random(N) < 0.4
    number = rng.normal(size=N)
    return np.column_stack([np.eye(3)[kind], 5.0 * flag + 1.0, 2.0 - flag, number, np.full(N, 4.0), np.eye(4)[other]])


def groups(flags: inside.BinaryFeatures) -> set[tuple[frozenset[int], int]]:
    return {(frozenset(members.tolist()), len(low)) for members, low, _ in inside.each_flag(flags)}


EXPECTED = {(frozenset(c), size) for c, size in (((0, 1, 2), 3), ((3, 4), 2), ((7, 8, 9, 10), 4))}


def test_flags_are_found_in_any_units_and_order() -> None:
    X, new = table(), np.random.default_rng(1).permuted(table(), axis=0)  # new: rows that training had not
    flags = find(X)
    assert groups(flags) == EXPECTED
    for factor, shift in ((1e-9, 3.0), (7.0, 0.0), (1e9, 3.0)):
        scale = np.where(np.arange(11) % 2, factor, 1.0)
        move = np.where(np.arange(11) == 6, 0.0, shift * scale)
        other = find(X * scale + move)
        assert groups(other) == EXPECTED, factor
        np.testing.assert_array_equal(read(flags, new), read(other, new * scale + move))
    order = np.random.default_rng(2).permutation(11)
    assert {(frozenset(order[list(own)].tolist()), size) for own, size in groups(find(X[:, order]))} == EXPECTED
    X[5, 3] = np.nan  # a missing number hides no flag
    assert {(frozenset({3}), 2), (frozenset({4}), 2)} <= groups(find(X))


def test_a_column_that_is_there_twice_belongs_to_its_category() -> None:
    X = table()
    assert {(frozenset({0, 1, 2, 11}), 3), (frozenset({3, 4, 12}), 2)} <= groups(
        find(np.column_stack([X, X[:, 1], -X[:, 3]]))
    )


def test_numbers_stay_numbers() -> None:
    rng = np.random.default_rng(3)
    rare = np.where(np.arange(N) == 7, 1.5, 0.0)  # its second value was there once
    three = rng.integers(3, size=N).astype(float)
    few, empty, missing = table()[:19], np.zeros((0, 3)), np.full((N, 2), np.nan)
    for X in (np.column_stack([rng.normal(size=(N, 4)), rare, three, np.full(N, 2.0)]), few, empty, missing):
        assert find(X) is inside.NO_BINARY_FEATURES


def test_a_category_that_is_given_is_no_flag() -> None:
    X = np.column_stack([np.arange(N) % 2, np.full(N, 3.0), np.linspace(0, 1, N)])
    assert inside.find_binary_features(X, np.array([4, 0, 0])) is inside.NO_BINARY_FEATURES


def test_covers_against_all_sets() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n, parts = int(rng.integers(3, 12)), [int(rng.integers(2, 4)) for _ in range(2)]
        blocks = [np.eye(k, dtype=bool)[rng.integers(k, size=n)] for k in parts]
        on = np.unique(np.hstack([*blocks, rng.random((n, 2)) < 0.5]), axis=1)
        on = on[:, on.any(axis=0)]
        assert inside.exact_covers(on) == oracle.exact_covers(on), seed


def test_a_search_that_takes_too_long_finds_nothing() -> None:
    on = np.eye(16, dtype=bool)[:, None].repeat(2, axis=1).reshape(32, 16)
    assert inside.exact_covers(on) == [list(range(16))]
    pairs = np.repeat(np.eye(16, dtype=bool), 2, axis=1)  # two ways for each row: 2^16 covers
    assert inside.MOST_STEPS < 2**16
    assert inside.exact_covers(pairs) == []


def of_column(flags: inside.BinaryFeatures, column: int) -> int:
    """Find the category that a column belongs to."""
    return next(number for number, (members, _, _) in enumerate(inside.each_flag(flags)) if column in members)


def read(flags: inside.BinaryFeatures, X: np.ndarray) -> np.ndarray:
    """Places of rows within each category."""
    out = np.empty((len(X), len(flags.sizes)), np.int64)
    sizes = flags.sizes + 2
    for row, own in zip(X, out, strict=True):
        whitening.write_places(row, np.zeros(0, np.int64), sizes, flags, own, np.zeros(0, np.int64))
    return out - (np.cumsum(sizes) - sizes)


def test_what_a_row_says_against_the_slow_way() -> None:
    flags, rng = find(table()), np.random.default_rng(4)
    X = rng.permuted(np.vstack([table(seed) for seed in range(5)]), axis=0)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[rng.random(X.shape) < 0.1] += 0.5
    found, expected = read(flags, X), np.empty((len(X), len(flags.sizes)), int)
    for own, (members, low, high) in zip(expected.T, inside.each_flag(flags), strict=True):
        bounds = [list(zip(*each, strict=True)) for each in zip(low, high, strict=True)]
        own[:] = [oracle.place(row[members].tolist(), bounds) for row in X]
    np.testing.assert_array_equal(found, expected)
    assert all(len(np.unique(own)) >= 3 for own in found.T), "missing, a value, a new one"


def test_rounding_is_no_new_value_and_a_third_one_is() -> None:
    flags = find(table())
    row = np.array([1.0, 0.0, 0.0, 6.0, 1.0, 0.3, 4.0, 1.0, 0.0, 0.0, 0.0])
    known = read(flags, row[None])
    assert read(flags, (row * (1.0 + 1e-9))[None]).tolist() == known.tolist()
    for at in (0, 3):
        category, other = of_column(flags, at), row.copy()
        other[at] += 0.5
        assert read(flags, other[None])[0, category] == flags.sizes[category] + 1
    both = row.copy()
    both[1] = 1.0
    assert read(flags, both[None])[0, of_column(flags, 0)] == 4, "two of a block are set: a new value"


def space_of(X: np.ndarray, group: np.ndarray) -> Whitening:
    flags, places = find(X), np.zeros(X.shape[1], np.int64)
    places[flags.members] = inside.OF_FLAG
    places[mixed_whitening.find_constant(X, places)] = inside.OF_CONSTANT
    return fit_mixed(X, group, places, binary_features=flags)


def test_the_coordinates_are_those_of_the_numbers_alone() -> None:
    X, group = table(), np.arange(N) % 3
    space = space_of(X, group)
    assert sorted(space.places.tolist()) == [4, 5, 6]
    assert np.flatnonzero(whitening.numeric(space)).tolist() == [5, 6]
    assert np.flatnonzero(space.constant).tolist() == [6]
    alone = fit_mixed(X[:, 5:6], group, np.zeros(1, np.int64))
    np.testing.assert_allclose(whiten(space, X)[:, 3:], whiten(alone, X[:, 5:6]), rtol=1e-12)


def test_flags_are_named_by_what_is_set() -> None:
    texts = inside.texts_of(find(table()), [f"x{at}" for at in range(11)])
    assert {name: sorted(values) for name, values in texts} == {
        "x0 and 2 more": ["x0", "x1", "x2"],
        "x3": ["1", "6"],
        "x7 and 3 more": ["x10", "x7", "x8", "x9"],
    }


def test_the_way_to_a_model_with_other_flags() -> None:
    """The same ones are carried over value by value; of others, and of numbers that were flags, nothing is known."""
    X, group = table(), np.arange(N) % 3
    old = space_of(X, group)
    later = table(1)
    later[0, 3], later[:, 6] = 3.5, 9.0
    later[1::2, 4] = np.linspace(0.0, 1.0, N // 2)  # the second flag is a number by now, the first has three values
    new = space_of(later, group)
    names = list("abcdefghijk")
    found = origins(old.binary_features, names, new.binary_features, names, 0)
    for column in (0, 7):
        assert found[of_column(new.binary_features, column)].category == of_column(old.binary_features, column)
    way = passage(old, new, range(11), found)
    rows = way.of(whiten(old, X))
    own = whiten(new, X)
    np.testing.assert_array_equal(rows[:, :2], own[:, :2])
    assert len(way.missing) == new.forward.shape[1]
    back = passage(new, old, range(11), origins(new.binary_features, names, old.binary_features, names, 0))
    flag = of_column(old.binary_features, 3)
    assert (back.columns < 0).tolist() == [number == flag for number in range(3)]
    first = old.places[:flag].sum()
    np.testing.assert_array_equal(back.of(whiten(new, later))[:, flag], first)  # it is missing
