"""Numeric features that encode categories: flags and one-hot columns.

A feature with two values in training takes one or the other, and a Gaussian fits neither. One-hot columns, of which
exactly one is set in each instance, encode a single category. This module finds such categories and identifies their
values by the numbers in the columns. In the input the columns stay numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.model.jit import Array, borrowing_kernel
from stream_osr.support import rules

LEAST_ROWS, LEAST_OF_VALUE = 20, 2
"""Least number of training instances, and least count of the rarer value. With fewer, two values may be chance."""
ROUNDING = 1e-6
"""Tolerance around a value, as a share of the distance between the two values."""
OF_FLAG, OF_CONSTANT = -1, -2
"""Markers in place of a number of places: the feature belongs to a flag, or is constant and not modelled."""
MOST_STEPS = 20_000
"""Most steps of the search for one-hot columns. Beyond that, each column becomes a flag by itself."""


class BinaryFeatures(NamedTuple):
    """Categories that are given as numbers: columns with few distinct rows of values.

    Attributes
    ----------
    members
        Raw columns, category by category, shape (M,).
    spans
        Number of columns of each category, shape (F,).
    sizes
        Number of values of each category, shape (F,).
    low, high
        Bounds of each member for each value, category by category.
    """

    members: Annotated[Array, rules.array("i", "*", low=0), rules.distinct]
    spans: Annotated[Array, rules.array("i", "s", low=1, high=1000000)]
    sizes: Annotated[Array, rules.array("i", "s", low=1, high=1000000)]
    low: Annotated[Array, rules.array("f", "*", low=-1e101, high=1e101)]
    high: Annotated[Array, rules.array("f", "*", low=-1e101, high=1e101)]


NO_BINARY_FEATURES = BinaryFeatures(*np.zeros((3, 0), np.int64), *np.zeros((2, 0)))


class _Found(NamedTuple):
    """A category: its columns, shape (k,), and which of their two numbers each value has, shape (values, k)."""

    columns: list[int]
    upper: Array


def find_binary_features(X: Array, places: Array) -> BinaryFeatures:
    """Find the categories among the numeric features of training rows, NaN = missing, shape (n, p).

    Columns with equal or opposite values form one category.

    Parameters
    ----------
    X
        Training rows.
    places
        Places of each feature: 0 for a number, shape (p,).

    Examples
    --------
    A one-hot block of three, a flag that is there twice, and a number:

    >>> kind, flag = np.arange(40) % 3, np.arange(40) % 5 < 2
    >>> X = np.column_stack([np.eye(3)[kind], 7.0 * flag, ~flag, np.linspace(0.0, 1.0, 40)])
    >>> flags = find_binary_features(X, np.zeros(6, int))
    >>> np.split(np.sort(flags.members), [3]), flags.spans, flags.sizes
    ([array([0, 1, 2]), array([3, 4])], array([3, 2]), array([3, 2]))
    """
    there = ~np.isnan(X) & (places == 0)
    low = np.where(there, X, np.inf).min(axis=0, initial=np.inf)
    high = np.where(there, X, -np.inf).max(axis=0, initial=-np.inf)
    if len(X) < LEAST_ROWS:
        return NO_BINARY_FEATURES
    upper = there & (high == X)
    two = (low < high) & (~there | upper | (low == X)).all(axis=0)
    found = _categories(np.flatnonzero(two), upper, there)
    if not found:
        return NO_BINARY_FEATURES
    near = ROUNDING * (np.where(two, high, 0.0) - np.where(two, low, 0.0))
    middle = [np.where(each.upper, high[each.columns], low[each.columns]) for each in found]
    return BinaryFeatures(
        np.concatenate([each.columns for each in found]),
        np.array([len(each.columns) for each in found]),
        np.array([len(each.upper) for each in found]),
        np.concatenate([(own - near[each.columns]).ravel() for each, own in zip(found, middle, strict=True)]),
        np.concatenate([(own + near[each.columns]).ravel() for each, own in zip(found, middle, strict=True)]),
    )


def category_of(column: int, values: Array) -> BinaryFeatures:
    """Make the category of a column that has some numbers as values, in ascending order, shape (v,).

    Examples
    --------
    >>> lamp = category_of(3, np.array([0.0, 1.0]))
    >>> place_of_flag(np.array([7.0, 7.0, 7.0, 1.0]), lamp.members, lamp.low, lamp.high)
    2
    """
    near = ROUNDING * np.diff(values).min(initial=max(np.abs(values).max(initial=0.0), 1.0) * ROUNDING)
    return BinaryFeatures(np.array([column]), np.array([1]), np.array([len(values)]), values - near, values + near)


def with_categories(binary_features: BinaryFeatures, others: Sequence[BinaryFeatures]) -> BinaryFeatures:
    """Append categories."""
    return BinaryFeatures(*(np.concatenate(each) for each in zip(binary_features, *others, strict=True)))


def _categories(two: Array, upper: Array, there: Array) -> list[_Found]:
    """Find the categories among columns that have two values each."""
    alike: dict[bytes, list[int]] = {}
    turned = {at: bool(upper[there[:, at].argmax(), at]) for at in two.tolist()}
    for at in two.tolist():
        state = np.where(there[:, at], (upper[:, at] != turned[at]).astype(np.int8), -1)
        alike.setdefault(state.tobytes(), []).append(at)
    units = [alike[state] for state in sorted(alike)]  # whatever the order of the columns
    plain = [unit for unit in units if there[:, unit[0]].all() and len({turned[at] for at in unit}) == 1]
    blocks = exact_covers(upper[:, [unit[0] for unit in plain]])
    found = list[_Found]()
    for block in blocks:
        of = np.repeat(np.arange(len(block)), [len(plain[at]) for at in block])
        found.append(_Found([at for number in block for at in plain[number]], of == np.arange(len(block))[:, None]))
    taken = {plain[at][0] for block in blocks for at in block}
    for unit in units:
        count = there[:, unit[0]].sum(), upper[:, unit[0]].sum()
        if unit[0] not in taken and min(count[1], count[0] - count[1]) >= LEAST_OF_VALUE:
            first = np.array([turned[at] for at in unit])
            found.append(_Found(unit, np.array([first, ~first])))
    return found


def exact_covers(on: Array) -> list[list[int]]:
    """Find the sets of columns of which exactly one is set in each row, shape (n, q).

    Returns
    -------
    The sets that share no column with another set: where two sets disagree about a column, neither is returned. The
    list is empty if the search takes too long.

    Examples
    --------
    >>> exact_covers(np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0]], bool))
    [[0, 1, 2]]
    >>> exact_covers(np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 0]], bool))
    []
    """
    rows = np.unique(on, axis=0) if on.shape[1] else on
    rows = rows[np.argsort(rows.sum(axis=1), kind="stable")]
    apart = (rows.T.astype(float) @ rows) == 0.0
    open_ = [(np.ones(len(rows), bool), np.ones(on.shape[1], bool), list[int]())]
    covers = list[list[int]]()
    for _ in range(MOST_STEPS):
        if not open_:
            break
        left, allowed, chosen = open_.pop()
        if not left.any():
            covers.append(sorted(chosen))
            continue
        for at in np.flatnonzero(allowed & rows[left.argmax()]).tolist():
            open_.append((left & ~rows[:, at], allowed & apart[at], [*chosen, at]))
    if open_:
        return []
    uses = np.bincount(np.array([at for cover in covers for at in cover], np.int64), minlength=on.shape[1])
    return sorted(cover for cover in covers if (uses[cover] == 1).all())


def texts_of(binary_features: BinaryFeatures, names: Sequence[Hashable]) -> list[tuple[Hashable, tuple[str, ...]]]:
    """Name each category and its values for people to read, given the names of all raw features.

    Values are the numbers of the first column. For one-hot columns, the values are the names of the columns.

    Examples
    --------
    >>> kind, flag = np.arange(40) % 3, np.arange(40) % 5 < 2
    >>> X = np.column_stack([np.eye(3)[kind], 7.0 * flag])
    >>> texts_of(find_binary_features(X, np.zeros(4, int)), ["red", "green", "blue", "late"])
    [('red and 2 more', ('blue', 'green', 'red')), ('late', ('7', '0'))]
    """
    announced = list[tuple[Hashable, tuple[str, ...]]]()
    for members, low, high in each_flag(binary_features):
        own, middle = [names[at] for at in members.tolist()], 0.5 * (low + high)
        if len(middle) > 2:
            on = (middle == middle.max(axis=0)).argmax(axis=1)
            name = f"{names[members.min()]} and {len(own) - 1} more"
            announced.append((name, tuple(str(own[at]) for at in on.tolist())))
        else:
            announced.append((own[0], tuple(f"{value:.6g}" for value in middle[:, 0].tolist())))
    return announced


def each_flag(binary_features: BinaryFeatures) -> Iterator[tuple[Array, Array, Array]]:
    """Iterate over the categories: members, shape (k,), and low and high of each value, shape (values, k)."""
    member = bound = 0
    for span, size in zip(binary_features.spans.tolist(), binary_features.sizes.tolist(), strict=True):
        end = bound + span * size
        low, high = (of[bound:end].reshape(size, span) for of in (binary_features.low, binary_features.high))
        yield binary_features.members[member : member + span], low, high
        member, bound = member + span, end


@borrowing_kernel
def place_of_flag(raw: Array, members: Array, low: Array, high: Array) -> int:
    """Place of a raw row's value among those of a category with k members, ``low`` and ``high`` of shape (values k,).

    A missing value has the first place, and a value that is not in training has the last. The members that are
    present must leave one value.
    """
    count, place, fitting, known = len(members), 1 + len(low) // len(members), 0, False
    for value in range(len(low) // count):
        fits = True
        for m in range(count):
            x = raw[members[m]]
            if not np.isnan(x):
                known = True
                if x < low[value * count + m] or x > high[value * count + m]:
                    fits = False
                    break
        if fits:
            place = 1 + value
            fitting += 1
    return place if known and fitting < 2 else 0
