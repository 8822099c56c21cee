"""Kinds of features (numeric or categorical), and values of categories as text and numbers.

During training, a feature whose first value is text or a boolean is a category with all its values. When training
ends, :func:`decide` uses the whole training data to find those that are numbers. The caller's settings take
precedence. All values of a category are text: ``3``, ``3.0`` and ``"3"`` are the same, and ``True`` is ``"true"``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from stream_osr.errors import InvalidFeature
from stream_osr.instances.entries import TIMES, is_blank, is_index, is_marked
from stream_osr.instances.missing_values import is_missing
from stream_osr.instances.reading import TRUTHS, Comma, Tally, Unreadable, number, spelled
from stream_osr.support.limits import MOST_CATEGORY_BYTES, MOST_VALUES, trouble_with

Name = Hashable

OTHER = float(1 << 30)
"""Code of all values that training did not have."""

SETTLED = 1000
"""Number of different values after which a text feature that reads as numbers becomes numeric during training."""

_EXPECTED = "expected text, a number, true or false (None or NaN if missing): the feature is a category"


class CategoryValues(tuple[str, ...]):
    """Values of a category in training: a tuple with a fast lookup that grows cheaply.

    Tuples that grew from the same one share a dictionary, which may have values of later ones.
    """

    codes: dict[str, int]

    def __new__(cls, texts: Iterable[str] = ()) -> CategoryValues:
        """Make the values from texts, numbered in their order."""
        out = super().__new__(cls, texts)
        out.codes = {text: code for code, text in enumerate(out)}
        return out

    def extended(self, text: str) -> CategoryValues:
        """Return these values plus a new one."""
        codes = self.codes if len(self.codes) == len(self) else {each: code for code, each in enumerate(self)}
        out = tuple.__new__(CategoryValues, (*self, text))
        codes[text] = len(self)
        out.codes = codes
        return out

    def code(self, text: str) -> int | None:
        """Return the code of a value. ``None``: it is not among these."""
        code = self.codes.get(text)
        return code if code is not None and code < len(self) else None


class Kinds(NamedTuple):
    """Kinds of features.

    Attributes
    ----------
    values
        Values of each category by name, in the order of their codes. All other features are numeric.
    undecided
        Features without any value so far.
    fixed
        Features that are categories whatever their values look like.
    commas
        Meaning of a comma in the numbers of a feature, where training had some.
    missing
        Texts and numbers that the caller named as missing, as :func:`stream_osr.instances.reading.spelled` returns
        them.
    left_out
        Features that are left out, with the reason.
    """

    values: Mapping[Name, tuple[str, ...]] = {}
    undecided: frozenset[Name] = frozenset()
    fixed: frozenset[Name] = frozenset()
    commas: Mapping[Name, Comma] = {}
    missing: frozenset[str] = frozenset()
    left_out: Mapping[Name, str] = {}

    def extended(self, x: Mapping[Any, Any], new: Iterable[Name], declared: Collection[Name]) -> Kinds:
        """Return these kinds extended by an instance. Without changes, return the same object.

        Parameters
        ----------
        x
            Instance to add.
        new
            Names of new features.
        declared
            Features that are categories whatever their values look like.

        Raises
        ------
        InvalidFeature
            If a value cannot be one of a category.

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
        """Check whether a value counts as missing."""
        return is_blank(value) or (bool(self.missing) and is_marked(value, self.missing))

    def places(self, names: Iterable[Name]) -> np.ndarray:
        """Return the places of each feature, shape (p,).

        It is 0 for a number, and the number of values plus two for a category.
        """
        return np.array([len(self.values[name]) + 2 if name in self.values else 0 for name in names], np.int64)


NUMERIC = Kinds()


def category_of(name: Name, value: object, number: int | None = None) -> str:
    """Convert a value of a category to text.

    Raises
    ------
    InvalidFeature
        If it cannot be such a value, or is too long.

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
        raise InvalidFeature(name, value, f"{trouble}. Shorten it, or leave the feature out", number)
    return plain


class Coder:
    """Converter from values of categories to their codes.

    Parameters
    ----------
    names, kinds
        Features in the order of a row, and their kinds.
    """

    def __init__(self, names: Iterable[Name], kinds: Kinds) -> None:
        self._codes = [
            (at, name, codes_of(kinds.values[name])) for at, name in enumerate(names) if name in kinds.values
        ]
        self._lacks = kinds.lacks

    def __bool__(self) -> bool:
        return bool(self._codes)

    def knows(self, name: Name, value: object) -> bool:
        """Check whether training had a value of a category."""
        codes = next(codes for _, its, codes in self._codes if its == name)
        return not self._lacks(value) and codes(category_of(name, value)) is not None

    def plain(self, found: tuple[Any, ...]) -> tuple[Any, ...]:
        """Replace plain text values that training had by their codes, and other values by ``None``."""
        row = list(found)
        for at, _, codes in self._codes:
            value = row[at]
            row[at] = codes(value) if type(value) is str else None
        return tuple(row)

    def of(self, found: tuple[Any, ...], number: int | None = None) -> tuple[Any, ...]:
        """Replace values by their codes, and missing values by NaN."""
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
    """Return a function that finds the code of a value.

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
    """Count the values of a feature, each with its number of occurrences."""
    tally = Tally()
    for text, count in zip(values, [1] * len(values) if counts is None else counts, strict=True):
        tally.take(text, count)
    return tally


def numbers_of(code: np.ndarray, values: tuple[str, ...], comma: Comma) -> tuple[np.ndarray, list[str]]:
    """Convert codes to the numbers that their texts represent. Return the unreadable texts too, which become NaN.

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
    """Final features of the training data.

    Attributes
    ----------
    names, X, kinds
        Features that are used, their columns, and their kinds.
    looks_numeric
        Categories that the caller did not declare and most of whose values read as numbers. Each has its commonest
        other value.
    odd
        Values of numeric features that are not numbers and count as missing.
    """

    names: tuple[Name, ...]
    X: np.ndarray
    kinds: Kinds
    looks_numeric: Mapping[Name, str]
    odd: Mapping[Name, tuple[str, ...]]


def decide(
    X: np.ndarray, names: tuple[Name, ...], kinds: Kinds, order: np.ndarray, numeric: Collection[Name] = ()
) -> TypedColumns:
    """Decide the kind of each feature, from all values in training.

    Parameters
    ----------
    X
        Rows, categories as codes, shape (n, p).
    names, kinds
        Names and kinds of the columns.
    order
        Rows in the order of arrival, shape (n,).
    numeric
        Features that the caller declared numeric.
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
            left_out[name] = "null before the first list" if f"{name}[0]" in names else "no value in training"
    kept = [at for at, name in enumerate(names) if name not in left_out]
    if len(kept) < len(names):
        names, out = tuple(names[at] for at in kept), out[:, kept]
        values = {name: its for name, its in values.items() if name not in left_out}
    decided = Kinds(values, frozenset(), kinds.fixed, commas, kinds.missing, left_out)
    return TypedColumns(names, out, decided, looks, odd)


def _merged(X: np.ndarray, names: tuple[Name, ...], kinds: Kinds) -> tuple[np.ndarray, Kinds]:
    """Replace 1 and 0 by true and false where a category has both spellings."""
    values, out = dict(kinds.values), X
    for at, name in enumerate(names):
        known = {*values.get(name, ())}
        if known & {"true", "false"} and known & {"1", "0"} and known <= {"true", "false", "1", "0"}:
            out = out.copy() if out is X else out
            out[:, at] = recoded(X[:, at], tuple(TRUTHS[text] for text in values[name]), ("false", "true"))
            values[name] = ("false", "true")
    return out, kinds._replace(values=values)


def recoded(code: np.ndarray, values: tuple[str, ...], now: tuple[str, ...]) -> np.ndarray:
    """Convert codes of values to their codes in another list. NaN stays.

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
    """Keep the values that occur, at most a given number of the commonest. Others count as never seen.

    Parameters
    ----------
    X
        Rows, categories as codes, shape (n, p).
    names, kinds
        Names and kinds of the columns.
    most
        Largest number of values of a category.
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
