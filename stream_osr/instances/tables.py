"""Tables of instances (data frames, arrays, lists of dicts) as records or as rows of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from stream_osr.errors import InvalidFeature, InvalidInstance
from stream_osr.instances.entries import LARGEST, is_marked, number_of
from stream_osr.instances.features import _PLAIN, Features
from stream_osr.instances.kinds import Name
from stream_osr.instances.labels import label_array
from stream_osr.instances.missing_values import is_missing, without_mask
from stream_osr.instances.reading import spelled
from stream_osr.printable_text import brief, listed, typed


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


def ignored_columns(X: Any, features: Features) -> list[Name]:
    """Return the columns of a data frame that are not features, in their order."""
    names = getattr(X, "column_names", getattr(X, "columns", ()))
    return features.unexpected(dict.fromkeys(name for name in names if name not in features.widths))


def frame_like(X: Any, names: Sequence[Any], values: np.ndarray) -> Any:
    """Return columns, shape (n, c), as a data frame of the kind of X. They stay an array for an array or a list."""
    if isinstance(X, np.ndarray | list):
        return values
    from river.utils.dataframe import to_native_frame  # slow to import

    return to_native_frame(dict(zip(names, values.T.copy(), strict=True)), like=data_frame(X))


def series_like(X: Any, labels: list[Any]) -> Any:
    """Return the labels of rows as a series of the kind of X. They become an array for an array or a list."""
    if isinstance(X, np.ndarray | list):
        return label_array(labels)
    from river.utils.dataframe import to_native_series  # slow to import

    return to_native_series(labels, name=None, like=data_frame(X))
