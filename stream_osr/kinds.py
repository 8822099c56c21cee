"""Kinds of features, numeric or categorical, and the values of categories as text and as numbers.

While training goes on, features whose first value is text or a boolean are kept as categories, with every value. When
it ends, the whole training part decides which of them are numbers (:func:`decide`). What a caller has named is what
the caller says. All values of a category are text: ``3``, ``3.0`` and ``"3"`` are the same one, and ``True`` is
``"true"``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from stream_osr.entries import TIMES, is_blank, is_index, is_marked
from stream_osr.errors import InvalidFeature
from stream_osr.limits import MOST_CATEGORY_BYTES, MOST_VALUES, trouble_with
from stream_osr.missing import is_missing
from stream_osr.reading import TRUTHS, Comma, Tally, Unreadable, number, spelled

Name = Hashable

OTHER = float(1 << 30)
"""Number of all values that training did not have."""

SETTLED = 1000
"""After so many different values a text feature that reads as numbers is one, before training ends."""

_EXPECTED = "expected text, a number, true or false (None or NaN if missing): the feature is a category"


class CategoryValues(tuple[str, ...]):
    """Values of a category in training: a tuple that finds a value at once, and grows at no cost.

    All that grew from one share a dictionary, in which later ones have more.
    """

    codes: dict[str, int]

    def __new__(cls, texts: Iterable[str] = ()) -> CategoryValues:
        """Make them of values that are numbered in their order."""
        out = super().__new__(cls, texts)
        out.codes = {text: code for code, text in enumerate(out)}
        return out

    def extended(self, text: str) -> CategoryValues:
        """Return these values and a new one."""
        codes = self.codes if len(self.codes) == len(self) else {each: code for code, each in enumerate(self)}
        out = tuple.__new__(CategoryValues, (*self, text))
        codes[text] = len(self)
        out.codes = codes
        return out

    def code(self, text: str) -> int | None:
        """Return the number of a value; ``None``: it is none of these."""
        code = self.codes.get(text)
        return code if code is not None and code < len(self) else None


class Kinds(NamedTuple):
    """The kinds of features.

    Attributes
    ----------
    values
        Values of each category by its name, in the order of their numbers. Whatever is not in it is numeric.
    undecided
        Features that have had no value yet.
    fixed
        Categories that are so whatever their values look like.
    commas
        What a comma is in the numbers of a feature, where training had some.
    missing
        Texts and numbers, as :func:`stream_osr.reading.spelled` has them, that a caller has named as missing.
    left_out
        Features that are left out, and why.
    """

    values: Mapping[Name, tuple[str, ...]] = {}
    undecided: frozenset[Name] = frozenset()
    fixed: frozenset[Name] = frozenset()
    commas: Mapping[Name, Comma] = {}
    missing: frozenset[str] = frozenset()
    left_out: Mapping[Name, str] = {}

    def extended(self, x: Mapping[Any, Any], new: Iterable[Name], declared: Collection[Name]) -> Kinds:
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
        >>> kinds = Kinds().extended({"a": 1.5, "b": "red", "c": 3}, "abc", ["c"])
        >>> kinds.values
        {'b': ('red',), 'c': ('3',)}
        >>> kinds.extended({"a": 2.5, "b": "blue", "c": 3.0}, (), ["c"]).values["b"]
        ('red', 'blue')
        """
        values, undecided, fixed = dict[Name, tuple[str, ...]](), set(self.undecided), set(self.fixed)
        left_out, settled = dict(self.left_out), set[Name]()
        for name in (*new, *self.undecided):
            value = x.get(name)
            if self.lacks(value):
                undecided.add(name)
                continue
            undecided.discard(name)
            if isinstance(value, TIMES):
                left_out[name] = "a date or time"
            elif name in declared or isinstance(value, str | bool | np.bool_):
                values[name] = CategoryValues([category_of(name, value)])
                fixed.update({name} & {*declared})
        for name, known in self.values.items():
            value = x.get(name)
            if self.lacks(value):
                continue
            text = category_of(name, value)
            texts = known if isinstance(known, CategoryValues) else CategoryValues(known)
            if texts.code(text) is None:
                if len(known) == SETTLED and name not in fixed and tally_of(texts).kind == "number":
                    settled.add(name)
                elif len(known) < MOST_VALUES:
                    values[name] = texts.extended(text)
        if not values and not settled and undecided == self.undecided and len(left_out) == len(self.left_out):
            return self
        both = {name: its for name, its in {**self.values, **values}.items() if name not in settled}
        commas = {**self.commas, **{name: comma for name in settled if (comma := tally_of(self.values[name]).comma)}}
        return Kinds(both, frozenset(undecided), frozenset(fixed), commas, self.missing, left_out)

    def lacks(self, value: object) -> bool:
        """Say whether a value is a missing one."""
        return is_blank(value) or (bool(self.missing) and is_marked(value, self.missing))

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
    if not isinstance(value, str | int | float | np.number | np.bool_):
        raise InvalidFeature(name, value, _EXPECTED, number)
    plain = spelled(value)
    trouble = trouble_with(plain, MOST_CATEGORY_BYTES)
    if trouble:
        raise InvalidFeature(name, value, f"{trouble}; shorten it, or leave the feature out", number)
    return plain


class Coder:
    """Turns the values of categories into their numbers.

    Parameters
    ----------
    names, kinds
        Features, in the order of a row.
    """

    def __init__(self, names: Iterable[Name], kinds: Kinds) -> None:
        self._codes = [
            (at, name, codes_of(kinds.values[name])) for at, name in enumerate(names) if name in kinds.values
        ]
        self._lacks = kinds.lacks

    def __bool__(self) -> bool:
        return bool(self._codes)

    def knows(self, name: Name, value: object) -> bool:
        """Say whether training had a value of a category."""
        codes = next(codes for _, its, codes in self._codes if its == name)
        return not self._lacks(value) and codes(category_of(name, value)) is not None

    def plain(self, found: tuple[Any, ...]) -> tuple[Any, ...]:
        """Put numbers in the place of values that are plain text and were there in training, ``None`` of others."""
        row = list(found)
        for at, _, codes in self._codes:
            value = row[at]
            row[at] = codes(value) if type(value) is str else None
        return tuple(row)

    def of(self, found: tuple[Any, ...], number: int | None = None) -> tuple[Any, ...]:
        """Put numbers in the place of values, NaN of missing ones."""
        row = list(found)
        for at, name, codes in self._codes:
            value = row[at]
            code = codes(value) if type(value) is str else None
            if code is None and not is_missing(value):
                code = np.nan if self._lacks(value) else codes(category_of(name, value, number))
                code = OTHER if code is None else code
            row[at] = np.nan if code is None else code
        return tuple(row)


def codes_of(values: tuple[str, ...]) -> Callable[[str], float | None]:
    """Return what finds the number of a value.

    >>> find = codes_of(("true", "false"))
    >>> find("true"), find("0"), find("No"), find("maybe")
    (0.0, 1.0, 1.0, None)
    """
    if isinstance(values, CategoryValues):
        return values.code
    codes = {text: float(code) for code, text in enumerate(values)}
    truths = {TRUTHS.get(text.lower()): code for text, code in codes.items()}
    two = len(codes) == 2 and truths.keys() == {"true", "false"}
    if two or (values and (codes.keys() <= {"true", "false"} or codes.keys() <= {"1", "0"})):
        for word, truth in TRUTHS.items():
            if truth in truths:
                codes = dict.fromkeys((word, word.capitalize(), word.upper()), truths[truth]) | codes
    return codes.get


def tally_of(values: tuple[str, ...], counts: Iterable[int] | None = None) -> Tally:
    """Look at the values of a feature, each of which came so many times."""
    tally = Tally()
    for text, count in zip(values, [1] * len(values) if counts is None else counts, strict=True):
        tally.take(text, count)
    return tally


def numbers_of(code: np.ndarray, values: tuple[str, ...], comma: Comma) -> tuple[np.ndarray, list[str]]:
    """Turn the numbers of values into what the values say; those that are no numbers are missing, and listed.

    >>> numbers_of(np.array([0.0, 1.0, 2.0, np.nan]), ("1.5", "?", "1.2.3"), "")
    (array([1.5, nan, nan, nan]), ['1.2.3'])
    """
    meant, odd = np.full(len(values) + 1, np.nan), list[str]()
    for at, text in enumerate(values):
        try:
            found = number(text, comma)
        except Unreadable:
            odd.append(text)
        else:
            meant[at] = np.nan if found is None else found
    out, there = np.full(code.shape, np.nan), ~np.isnan(code)
    out[there] = meant[np.minimum(code[there], len(values)).astype(np.int64)]
    return out, odd


class TypedColumns(NamedTuple):
    """Final features of the training part.

    Attributes
    ----------
    names, X, kinds
        Features that are used, their columns, and their kinds.
    looks_numeric
        Categories most of whose values read as numbers, and which nobody has named, with their commonest other value.
    odd
        Values of numeric features that are no numbers, and are missing.
    """

    names: tuple[Name, ...]
    X: np.ndarray
    kinds: Kinds
    looks_numeric: Mapping[Name, str]
    odd: Mapping[Name, tuple[str, ...]]


def decide(
    X: np.ndarray, names: tuple[Name, ...], kinds: Kinds, order: np.ndarray, numeric: Collection[Name] = ()
) -> TypedColumns:
    """Decide what each feature is, by all of its values in training.

    Parameters
    ----------
    X
        Rows, categories as numbers, shape (n, p).
    names, kinds
        Features of the columns.
    order
        Rows in the order of arrival, shape (n,).
    numeric
        Features that are numbers, as a caller says.
    """
    X, kinds = _merged(X, names, kinds)
    values, commas, left_out = dict(kinds.values), dict(kinds.commas), dict(kinds.left_out)
    looks, odd, out = dict[Name, str](), dict[Name, tuple[str, ...]](), X.copy() if values else X
    for at, name in enumerate(names):
        known = values.get(name)
        if known is not None and name not in kinds.fixed:
            code = X[:, at]
            counts = np.bincount(code[code < len(known)].astype(np.int64), minlength=len(known))
            tally = tally_of(known, counts.tolist())
            if tally.kind == "number" or name in numeric:
                del values[name]
                out[:, at], strange = numbers_of(code, known, tally.comma)
                odd |= {name: tuple(strange)} if strange else {}
                commas |= {name: tally.comma} if tally.comma else {}
            elif tally.kind == "time":
                left_out[name] = "a date or time"
            elif tally.looks_numeric:
                _, strange = numbers_of(code, known, tally.comma)
                looks[name] = max(strange, key=lambda text: counts[known.index(text)], default="")
        if name not in values and name not in numeric and is_index(name, out[order, at]):
            left_out[name] = "the index of a data frame"
        elif len(X) and name not in left_out and np.isnan(out[:, at]).all():
            left_out[name] = "no value in training"
    kept = [at for at, name in enumerate(names) if name not in left_out]
    if len(kept) < len(names):
        names, out = tuple(names[at] for at in kept), out[:, kept]
        values = {name: its for name, its in values.items() if name not in left_out}
    decided = Kinds(values, frozenset(), kinds.fixed, commas, kinds.missing, left_out)
    return TypedColumns(names, out, decided, looks, odd)


def _merged(X: np.ndarray, names: tuple[Name, ...], kinds: Kinds) -> tuple[np.ndarray, Kinds]:
    """Make 1 and 0 true and false where a category has both ways of writing."""
    values, out = dict(kinds.values), X
    for at, name in enumerate(names):
        known = {*values.get(name, ())}
        if known & {"true", "false"} and known & {"1", "0"} and known <= {"true", "false", "1", "0"}:
            out = out.copy() if out is X else out
            out[:, at] = recoded(X[:, at], tuple(TRUTHS[text] for text in values[name]), ("false", "true"))
            values[name] = ("false", "true")
    return out, kinds._replace(values=values)


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
    return out, kinds._replace(values=values)
