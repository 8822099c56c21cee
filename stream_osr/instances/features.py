"""Conversion of the callers' input (dicts, data frames) to rows of numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from copy import copy
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from stream_osr.errors import InvalidFeature, InvalidInstance
from stream_osr.instances.embedding import expanded, names_of, stacked, widths_of
from stream_osr.instances.entries import LARGEST, is_marked, number_of
from stream_osr.instances.kinds import NUMERIC, Coder, Kinds, Name
from stream_osr.instances.missing import is_missing, without_mask
from stream_osr.instances.reading import spelled
from stream_osr.printable_text import brief, listed, typed

_PLAIN = frozenset((float, int, np.float64))
_MASKED = frozenset((np.ma.MaskedArray, np.ma.core.MaskedConstant))


class FeatureRow(NamedTuple):
    """One instance as numbers.

    Attributes
    ----------
    values
        Values of shape (p,). NaN where the feature is missing, categories as numbers of their values.
    missing
        Number of expected features that are missing.
    extra
        Number of features that are not expected.
    """

    values: np.ndarray
    missing: int
    extra: int


class Features:
    """Expected features, in a fixed order.

    Parameters
    ----------
    names, kinds
        Names of the features, and their kinds.
    zero
        Features that are zero in an instance that does not name them.
    left_out
        Features that training left out, as parts of lists.

    Attributes
    ----------
    widths
        Fields that lists can be in, and the length of each list (:mod:`stream_osr.instances.embedding`).

    Examples
    --------
    >>> features = Features(["b", "a"])
    >>> features.names
    ('a', 'b')
    >>> features.row({"a": 1, "b": 2.5, "c": 7})
    FeatureRow(values=array([1. , 2.5]), missing=0, extra=1)
    >>> features.row({"a": 1, "b": "high"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    stream_osr.errors.InvalidFeature: feature 'b' is 'high' (str): expected a finite number (None or NaN if ...
    """

    def __init__(
        self,
        names: Iterable[Name],
        kinds: Kinds = NUMERIC,
        zero: Collection[Name] = (),
        left_out: Collection[Name] = (),
    ) -> None:
        self.names: tuple[Name, ...] = _in_order(names)
        self.kinds = kinds
        self.zero = frozenset(zero)
        self._absent = [0.0 if name in self.zero else None for name in self.names]
        self._coder = Coder(self.names, kinds)
        self._expected = frozenset(self.names)
        self._get: Any = itemgetter(*self.names) if len(self.names) > 1 else None
        self._single = self._expected - kinds.undecided if kinds.undecided else self._expected
        self.widths = widths_of(self._expected.union(left_out, kinds.left_out))

    def extended(self, names: Iterable[Name]) -> Features:
        """Return these features plus the given ones. Without new names, return the same object."""
        new = [name for name in names if name not in self._expected]
        return Features([*self.names, *new], self.kinds) if new else self

    def extended_by(self, x: Mapping[Any, Any], declared: Collection[Name] = ()) -> Features:
        """Return these features plus those of a training instance, including category values.

        Parameters
        ----------
        x
            Training instance.
        declared
            Features that are categories whatever their values look like.

        Raises
        ------
        InvalidFeature
            If a value cannot be one of a category.
        """
        new = [name for name in x if name not in self._expected]
        kinds = self.kinds
        if new or kinds.values or kinds.undecided:
            kinds = kinds.extended(x, new, declared)
            new = [name for name in new if name not in kinds.left_out]
        return Features([*self.names, *new], kinds) if new or kinds is not self.kinds else self

    def unexpected(self, x: Mapping[Any, Any]) -> list[Name]:
        """Return the names in an instance that are not expected, in their order."""
        return [name for name in x if name not in self._expected]

    def expanded(self, x: Mapping[Any, Any], number: int | None = None, *, new: bool = False) -> Mapping[Any, Any]:
        """Replace each list in an instance by its numbers (:func:`stream_osr.instances.embedding.expanded`)."""
        return expanded(x, self.widths, self._single, number, new=new)

    def lack(self, columns: Collection[Name]) -> bool:
        """Check whether columns lack a feature, which may be a number in a list.

        >>> Features(["emb[0]", "emb[1]"]).lack(["emb"]), Features(["a"]).lack(["emb"])
        (False, True)
        """
        lists = (names_of(field, width) for field, width in self.widths.items() if field in columns)
        return not self._expected <= {*columns, *chain.from_iterable(lists)}

    def knows(self, name: Name, value: object) -> bool:
        """Check whether training had a value of a category."""
        return self._coder.knows(name, value)

    @property
    def places(self) -> np.ndarray:
        """Places of each feature, shape (p,): 0 for a number, the number of values plus two for a category."""
        return self.kinds.places(self.names)

    @property
    def takes_rows(self) -> bool:
        """Whether rows of numbers can represent all instances: without categories, and without markers to replace."""
        return not (self.kinds.values or self.kinds.missing)

    def plain(self, x: Mapping[Any, Any]) -> tuple[float, ...] | None:
        """Read a dict quickly, if it has every feature with plain finite numbers and known values.

        Otherwise return ``None``, and use :meth:`row`.

        Examples
        --------
        >>> Features(["b", "a"]).plain({"a": 1, "b": 2.5, "c": 7})
        (1, 2.5)
        >>> Features(["b", "a"]).plain({"a": 1, "b": math.nan}) is None
        True
        """
        if self._get is None or type(x) is not dict or self.kinds.missing:
            return None
        try:
            found: tuple[Any, ...] = self._coder.plain(self._get(x)) if self._coder else self._get(x)
            if _PLAIN.issuperset(map(type, found)) and math.hypot(*found) <= LARGEST:
                return found
        except (KeyError, OverflowError):
            pass
        return None

    def row(self, x: Mapping[Any, object], number: int | None = None) -> FeatureRow:
        """Read one instance. Error messages use ``number`` as its place in a data frame or file.

        Raises
        ------
        InvalidFeature
            If a value is infinite, too large, or neither a number nor a value of a category.
        """
        source = copy(x) if hasattr(type(x), "__missing__") else x  # looking up makes a defaultdict grow
        complete = source is x
        try:
            found = self._get(source) if self._get is not None else tuple(source[name] for name in self.names)
        except KeyError:
            found = tuple(map(x.get, self.names, self._absent))
            complete = False
        absent = 0 if complete else sum(name not in x for name in self.names)
        extra = len(x) - (len(self.names) - absent)
        kinds = self.kinds
        if kinds.missing:
            found = tuple(None if is_marked(value, kinds.missing) else value for value in found)
        if kinds.left_out:
            found = tuple(None if n in kinds.left_out else v for n, v in zip(self.names, found, strict=True))
        if self._coder:
            found = self._coder.of(found, number)
        if not _MASKED.isdisjoint(map(type, found)):
            found = tuple(None if is_missing(value) else value for value in found)
        try:
            values = np.array(found)
        except (TypeError, ValueError, OverflowError):
            values = np.array(None)
        if values.dtype.kind in "fiub" and values.shape == (len(self.names),):
            values = values.astype(np.float64)
        else:
            read = zip(self.names, found, strict=True)
            values = np.array([number_of(name, v, number, kinds.commas.get(name, "")) for name, v in read], float)
        with np.errstate(invalid="ignore"):
            beyond = np.abs(values) > LARGEST
        for at in np.flatnonzero(beyond):
            number_of(self.names[at], found[at], number, kinds.commas.get(self.names[at], ""))
        out = sum(name in kinds.left_out for name in self.names) if kinds.left_out else 0
        return FeatureRow(values, int(np.isnan(values).sum()) - out, extra)


def _in_order(names: Iterable[Name]) -> tuple[Name, ...]:
    names = list(names)
    try:
        return tuple(sorted(names, key=lambda name: (type(name).__name__, name)))
    except TypeError:  # tuples of different kinds of things
        return tuple(sorted(names, key=lambda name: (type(name).__name__, repr(name))))


def check_mapping(x: object) -> Mapping[Any, object]:
    """Return ``x`` if it is a mapping of features.

    Raises
    ------
    InvalidInstance
        If it is anything else.
    """
    if not isinstance(x, Mapping):
        raise InvalidInstance(
            f"an instance is a dict of feature names and numbers: this is {type(x).__name__}. "
            "Data frames go to learn_many"
        )
    return x


def data_frame(X: Any) -> Any:
    """Wrap a data frame of pandas, polars or pyarrow.

    Raises
    ------
    TypeError
        If it is something else.
    ValueError
        If two columns have the same name.
    """
    from river.utils.dataframe import into_frame  # slow to import

    return into_frame(X)


def _is_categorical(column: Any) -> bool:
    from narwhals.dtypes import Categorical, Enum  # slow to import

    return isinstance(column.dtype, Categorical | Enum)


def frame_rows(X: Any, expected: Sequence[Name] = ()) -> tuple[list[Name], list[dict[Name, object]]]:
    """Read a data frame (pandas, polars, pyarrow), an array or a list of dicts as columns and rows.

    Parameters
    ----------
    X
        Data frame, or array of two dimensions. The columns of an array are named by their numbers. An array with
        named fields is like a data frame. A column may contain lists.
    expected
        Features so far. The columns of an array must be the same.

    Raises
    ------
    InvalidInstance
        If it is neither, or an array with other features.
    """
    if isinstance(X, np.ndarray) and X.dtype.names and X.ndim == 1:
        names = X.dtype.names
        fields = zip(*(without_mask(X[name]).tolist() for name in names), strict=True)
        return [*names], [dict(zip(names, values, strict=True)) for values in fields]
    if isinstance(X, np.ndarray):
        places = array_names(X, expected)
        return places, [dict(zip(places, values, strict=True)) for values in without_mask(X).tolist()]
    if is_list_of_dicts(X):
        for number, x in enumerate(X):
            if not isinstance(x, Mapping):
                raise InvalidInstance(f"row {number} of the list is {typed(x)}, and row 0 a dict. Give dicts only")
        return [*dict.fromkeys(chain.from_iterable(X))], [*map(dict, X)]
    try:
        frame = data_frame(X)
    except TypeError:
        raise InvalidInstance(
            "expected a pandas, polars or pyarrow data frame, a numpy array, or a list of dicts: this is "
            f"{type(X).__name__}. A dict goes to learn_one"
        ) from None
    except ValueError as error:  # two columns of one name
        raise InvalidInstance(f"the data frame cannot be used: {' '.join(str(error).split())}") from None
    columns: list[Name] = list(frame.columns)
    arrays = [_column_list(frame[:, at]) for at in range(len(columns))]
    rows = zip(*arrays, strict=True) if columns else [()] * len(frame)
    return columns, [dict(zip(columns, values, strict=True)) for values in rows]


def is_list_of_dicts(X: object) -> bool:
    """Check whether rows are a list of dicts. Only the first row counts, and a list may be empty."""
    return isinstance(X, list) and (not X or isinstance(X[0], Mapping))


def array_names(X: np.ndarray, expected: Sequence[Name] = ()) -> list[Name]:
    """Return the names of an array's columns: 0 to p - 1.

    Raises
    ------
    InvalidInstance
        If the array does not have two dimensions, or does not match the features so far.

    Examples
    --------
    >>> array_names(np.zeros((5, 2)))
    [0, 1]
    >>> array_names(np.zeros((5, 2)), ["width", "height"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    stream_osr.errors.InvalidInstance: the columns of an array are the features 0 to 1, and training had 'width', ...
    """
    if X.dtype.names:
        raise InvalidInstance(
            f"the array has named fields and the shape {X.shape}: expected one dimension. Give X.ravel()"
        )
    if X.ndim != 2:
        raise InvalidInstance(
            f"the array has the shape {X.shape}: expected two dimensions, rows and features. "
            "Reshape it: X.reshape(1, -1) for a single instance, X.reshape(-1, 1) for a single feature"
        )
    names: list[Name] = list(range(X.shape[1]))
    if not expected or [*expected] == names:
        return names
    if len(expected) != len(names) and all(type(name) is int for name in expected):
        raise InvalidInstance(
            f"the array has {len(names)} columns, and training had {len(expected)} features. "
            "Give the columns of training, in their order"
        )
    raise InvalidInstance(
        f"the columns of an array are the features 0 to {len(names) - 1}, and training had "
        f"{listed(map(brief, expected), 3)}. "
        "Give a data frame with these columns: pandas.DataFrame(X, columns=[...])"
    )


def _column_list(column: Any) -> list[Any]:
    """Read a column of a data frame. All values become text if some are text or its type is categorical."""
    values: list[Any] = column.to_list()
    kinds = {str if isinstance(value, str) else type(value) for value in values if not is_missing(value)}
    if _is_categorical(column):
        return [None if is_missing(value) else spelled(value) for value in values]
    if str in kinds and len(kinds) > 1:  # numbers and booleans that stand beside text
        plain = int | float | np.number | np.bool_
        return [None if is_missing(v) else spelled(v) if isinstance(v, plain) else v for v in values]
    return values


def categorical_columns(X: Any) -> list[Name]:
    """Return the columns of a data frame whose type is categorical."""
    if isinstance(X, np.ndarray | list):
        return []
    frame = data_frame(X)
    return [name for at, name in enumerate(frame.columns) if _is_categorical(frame[:, at])]


def check_rows(features: Features, rows: np.ndarray) -> np.ndarray:
    """Check rows of numbers, and return a copy as 64-bit floats."""
    names = features.names
    if features.kinds.values:
        text = ", ".join(map(repr, features.kinds.values))
        raise InvalidInstance(f"rows of numbers cannot represent categories ({text}). Give dicts or frames")
    if not isinstance(rows, np.ndarray) or rows.dtype.kind != "f" or rows.shape[1:] != (len(names),):
        raise InvalidInstance(
            f"rows are {typed(rows)}: expected an array of floats with {len(names)} columns, a feature each, "
            "in the order of model.trained.names. Dicts go to learn_one, data frames to learn_many"
        )
    rows = without_mask(rows).astype(np.float64)
    usable = np.abs(rows) <= LARGEST
    if features.kinds.missing:
        usable &= ~np.vectorize(partial(is_marked, markers=features.kinds.missing), otypes=[bool])(rows)
    if not usable.all():
        at, column = np.argwhere(~usable)[0].tolist()
        number_of(names[column], rows[at, column], at)
        value = None if np.isnan(rows[at, column]) else rows[at, column].item()
        raise InvalidFeature(names[column], value, "it is missing. Use learn_one for such instances", at)
    return rows


def frame_matrix(X: Any, features: Features) -> tuple[np.ndarray, int] | None:
    """Read a whole data frame or array at once, if all values are plain finite numbers.

    Otherwise return ``None``, and read it row by row.

    Returns
    -------
    Rows of shape (n, p) in the order of the features, and the number of columns that are not features.
    """
    if isinstance(X, np.ndarray) and X.dtype.names:
        return None
    if isinstance(X, np.ndarray):
        array_names(X, features.names)
        return _finite(without_mask(X)) if features.takes_rows else None
    try:
        frame = data_frame(X)
    except (TypeError, ValueError):
        return None
    place: dict[Name, int] = {name: at for at, name in enumerate(frame.columns)}
    if not features.names or not features.takes_rows:
        return None
    lists: dict[Name, np.ndarray] = {}
    if any(name not in place for name in features.names):
        for field, width in features.widths.items():
            rows = stacked(frame[:, place.pop(field)].to_list()) if field in place else np.empty((0, width))
            if rows is None or rows.shape[1] != width:
                return None
            lists |= zip(names_of(field, width), rows.T, strict=True) if len(rows) else ()
        names = {*features.names}
        if not lists.keys() <= names <= place.keys() | lists.keys() or not place.keys().isdisjoint(lists):
            return None
    columns: list[np.ndarray] = [
        lists[name] if name in lists else np.asarray(frame[:, place[name]].to_numpy()) for name in features.names
    ]
    if any(column.dtype.kind not in "fiu" for column in columns):
        return None
    return _finite(np.column_stack(columns), len(place) + len(lists) - len(features.names))


def _finite(rows: np.ndarray, extra: int = 0) -> tuple[np.ndarray, int] | None:
    """Return rows as 64-bit floats and the number of further columns, if all values are usable numbers."""
    if rows.dtype.kind not in "fiu":
        return None
    rows = rows.astype(np.float64)
    return (rows, extra) if (np.abs(rows) <= LARGEST).all() else None


def plain_rows(instances: Sequence[Sequence[object]], p: int) -> tuple[np.ndarray, Sequence[int]]:
    """Read all instances at once whose p values are plain finite numbers.

    Returns
    -------
    Rows of those instances, shape (n, p), and their places. The others must be read one by one.

    Examples
    --------
    >>> plain_rows([(1, 2.5), (1, None), (True, 1.0), (1e200, 1.0), (3.0, 4)], 2)
    (array([[1. , 2.5],
           [3. , 4. ]]), [0, 4])
    """
    places: Sequence[int] = range(len(instances))
    if not _PLAIN.issuperset(map(type, chain.from_iterable(instances))):
        places = [place for place in places if _PLAIN.issuperset(map(type, instances[place]))]
        instances = [instances[place] for place in places]
    rows = np.array(instances, dtype=float).reshape(len(instances), p)
    usable = np.abs(rows) <= LARGEST
    if not usable.all():
        whole = usable.all(axis=1)
        rows, places = rows[whole], [place for place, use in zip(places, whole, strict=True) if use]
    return rows, places


def column_values(values: Any, n: int, name: str) -> Sequence[Any]:
    """Read a series, array or list that belongs to the rows of a frame. ``None`` gives None for each row.

    Raises
    ------
    InvalidInstance
        If it has another type, or its length differs from that of the frame.
    """
    if values is None:
        return [None] * n
    if isinstance(shape := getattr(values, "shape", None), tuple) and len(shape) > 1:
        raise InvalidInstance(
            f"{name} has the shape {shape}: expected one entry for each of the {n} rows. Give one column"
        )
    methods = ("to_list", "to_pylist", "tolist")  # pandas and polars, pyarrow, numpy
    out = next((getattr(values, name)() for name in methods if hasattr(values, name)), values)
    if isinstance(out, str | bytes | Mapping | Set) or not isinstance(out, Iterable):
        raise InvalidInstance(
            f"{name} is {typed(values)}: expected a series, array or list with one entry for each of the {n} rows"
        )
    out = list(out)
    if len(out) != n:
        raise InvalidInstance(f"{name} has {len(out)} entries for {n} rows. Give one for each row")
    return [None if is_missing(v) else v for v in out]


def split_columns(X: Any, names: Sequence[Name | None]) -> tuple[Any, list[Any]]:
    """Remove columns from a data frame. Return the other columns, and a series or None for each name.

    Raises
    ------
    InvalidInstance
        If it is no data frame, or a column is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> rest, (label, key) = split_columns(pd.DataFrame({"a": [1.5], "y": ["left"]}), ["y", None])
    >>> [*rest.columns], label.to_list(), key
    (['a'], ['left'], None)
    """
    given = [name for name in names if name is not None]
    if not given:
        return X, [None for _ in names]
    try:
        frame = data_frame(X)
    except TypeError:
        raise InvalidInstance(
            f"the rows are {type(X).__name__} and have no column {given[0]!r}. Give data frames"
        ) from None
    columns: list[Name] = list(frame.columns)
    for name in given:
        if name not in columns:
            raise InvalidInstance(f"there is no column {brief(name)} among {listed(map(brief, columns))}")
    rest = [at for at, name in enumerate(columns) if name not in given]
    found = [None if name is None else frame[:, columns.index(name)] for name in names]
    return frame[:, rest].to_native(), found
