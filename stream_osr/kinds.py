"""Which features are numbers and which are categories, and the values of these as text and as numbers.

A feature is what its first value in training is: text and booleans are categories, and so is whatever a caller has
named. All values of a category are text: ``3``, ``3.0`` and ``"3"`` are the same one, and ``True`` is ``"true"``.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from stream_osr.errors import InvalidFeature
from stream_osr.limits import MOST_CATEGORY_BYTES, MOST_VALUES, trouble_with
from stream_osr.missing import is_missing

Name = Hashable

OTHER = float(1 << 30)
"""Number of all values that training did not have."""

_EXPECTED = "expected text, a number, true or false (None or NaN if missing): the feature is a category"


class Kinds(NamedTuple):
    """The kinds of features.

    Attributes
    ----------
    values
        Values of each category by its name, in the order of their numbers. Whatever is not in it is numeric.
    undecided
        Features that have had no value yet.
    """

    values: Mapping[Name, tuple[str, ...]] = {}
    undecided: frozenset[Name] = frozenset()

    def joined(self, x: Mapping[Any, Any], new: Iterable[Name], declared: Collection[Name]) -> Kinds:
        """Return these kinds and what an instance adds to them; themselves when that is nothing.

        Parameters
        ----------
        x
            The instance.
        new
            Names that come anew.
        declared
            Names of features that are categories whatever their values look like.

        Raises
        ------
        InvalidFeature
            If a category has a value that is none.

        Examples
        --------
        >>> kinds = Kinds().joined({"a": 1.5, "b": "red", "c": 3}, "abc", ["c"])
        >>> kinds.values
        {'b': ('red',), 'c': ('3',)}
        >>> kinds.joined({"a": 2.5, "b": "blue", "c": 3.0}, (), ["c"]).values["b"]
        ('red', 'blue')
        """
        values, undecided = dict[Name, tuple[str, ...]](), set(self.undecided)
        for name in (*new, *self.undecided):
            value = x.get(name)
            if is_missing(value):
                undecided.add(name)
                continue
            undecided.discard(name)
            if name in declared or isinstance(value, str | bool | np.bool_):
                values[name] = (category_of(name, value),)
        for name, known in self.values.items():
            value = x.get(name)
            if not is_missing(value) and len(known) < MOST_VALUES:
                text = category_of(name, value)
                if text not in known:
                    values[name] = (*known, text)
        if not values and undecided == self.undecided:
            return self
        return Kinds({**self.values, **values}, frozenset(undecided))

    def places(self, names: Iterable[Name]) -> np.ndarray:
        """Count the places of each feature: 0 for a number, two more than its values for a category, shape (p,)."""
        return np.array([len(self.values[name]) + 2 if name in self.values else 0 for name in names], np.int64)


NUMERIC = Kinds()


def category_of(name: Name, value: object, number: int | None = None) -> str:
    """Read a value of a category as text.

    Raises
    ------
    InvalidFeature
        If it is none, or longer than a value may be.

    Examples
    --------
    >>> category_of("a", 3.0), category_of("a", np.int64(3)), category_of("a", True), category_of("a", "tcp")
    ('3', '3', 'true', 'tcp')
    """
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, float) and plain.is_integer() and abs(plain) < 1e15:
        plain = int(plain)
    if isinstance(plain, int | float):
        plain = str(plain)
    if not isinstance(plain, str):
        raise InvalidFeature(name, value, _EXPECTED, number)
    trouble = trouble_with(plain, MOST_CATEGORY_BYTES)
    if trouble:
        raise InvalidFeature(name, value, f"{trouble}; shorten it, or leave the feature out", number)
    return str(plain)


class Coder:
    """Turns the values of categories into their numbers.

    Parameters
    ----------
    names, kinds
        Features, in the order of a row.
    """

    def __init__(self, names: Iterable[Name], kinds: Kinds) -> None:
        self._codes = [
            (at, name, {text: float(code) for code, text in enumerate(kinds.values[name])})
            for at, name in enumerate(names)
            if name in kinds.values
        ]

    def __bool__(self) -> bool:
        return bool(self._codes)

    def plain(self, found: tuple[Any, ...]) -> tuple[Any, ...]:
        """Put numbers in the place of values that are plain text and were there in training, ``None`` of others."""
        row = list(found)
        for at, _, codes in self._codes:
            value = row[at]
            row[at] = codes.get(value) if type(value) is str else None
        return tuple(row)

    def of(self, found: tuple[Any, ...], number: int | None = None) -> tuple[Any, ...]:
        """Put numbers in the place of values, NaN of missing ones."""
        row = list(found)
        for at, name, codes in self._codes:
            value = row[at]
            row[at] = np.nan if is_missing(value) else codes.get(category_of(name, value, number), OTHER)
        return tuple(row)


def recoded(code: np.ndarray, values: tuple[str, ...], now: tuple[str, ...]) -> np.ndarray:
    """Turn the numbers of values into those that they have among others; NaN stays.

    >>> recoded(np.array([0.0, 1.0, np.nan]), ("red", "blue"), ("blue",))
    array([1.07374182e+09, 0.00000000e+00,            nan])
    """
    numbers = {text: float(at) for at, text in enumerate(now)}
    known = np.array([*(numbers.get(text, OTHER) for text in values), OTHER])
    there = ~np.isnan(code)
    out = np.full(code.shape, np.nan)
    out[there] = known[np.minimum(code[there], len(values)).astype(np.int64)]
    return out


def commonest(X: np.ndarray, names: Iterable[Name], kinds: Kinds, most: int) -> tuple[np.ndarray, Kinds]:
    """Keep the values that occur, and of very many the commonest; all others are like those never seen.

    Parameters
    ----------
    X
        Rows, categories as numbers, shape (n, p).
    names, kinds
        Features of the columns.
    most
        Values that a category may have.
    """
    values, out = dict(kinds.values), X
    for at, name in enumerate(names):
        known = kinds.values.get(name)
        if known is None:
            continue
        code = X[:, at]
        count = np.bincount(code[code < len(known)].astype(np.int64), minlength=len(known))
        kept = np.sort(np.argsort(-count, kind="stable")[:most])
        values[name] = tuple(known[code] for code in kept[count[kept] > 0].tolist())
        if values[name] != known:
            out = out.copy() if out is X else out
            out[:, at] = recoded(code, known, values[name])
    return out, Kinds(values)
