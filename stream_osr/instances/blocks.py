"""Blocks of instances: columns of numbers and text, which are read together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from stream_osr.instances.embedding import is_vector, names_of, stacked
from stream_osr.instances.entries import LARGEST, TIMES
from stream_osr.instances.features import Features
from stream_osr.instances.kinds import Name
from stream_osr.instances.missing_values import is_missing, without_mask
from stream_osr.instances.reading import spelled
from stream_osr.instances.tables import array_names, data_frame, ignored_columns, is_list_of_dicts
from stream_osr.support.limits import MOST_FEATURES

Column: TypeAlias = np.ndarray | list[Any]
"""Numbers, NaN = missing, shape (n,), or texts, or times."""

_NUMBERS = frozenset((float, int))
_EMPTY = frozenset((type(None),))
_SCALARS = _NUMBERS | {np.float64, np.float32, np.int64}


class Block(NamedTuple):
    """Rows as columns.

    Attributes
    ----------
    columns
        Columns by name.
    n
        Number of rows.
    written
        Whether a row names the features that it has no value of.
    widths
        Fields of lists, and the length of each list.
    """

    columns: Mapping[Name, Column]
    n: int
    written: bool = True
    widths: Mapping[str, int] = {}

    def record(self, at: int) -> dict[Name, object]:
        """Return a row as a record.

        >>> Block({"a": np.array([1.0, np.nan]), "b": ["x", None]}, 2, written=False).record(1)
        {}
        """
        row = {name: column[at] for name, column in self.columns.items()}
        return row if self.written else {name: value for name, value in row.items() if not is_missing(value)}


def block_of(
    columns: Mapping[Any, Sequence[Any]], n: int, texts: Collection[Name] = (), *, written: bool = True
) -> Block | None:
    """Make a block of columns of plain values. ``None``: the rows must be read one by one.

    Parameters
    ----------
    columns
        Arrays of numbers, or lists of numbers, texts, booleans or vectors, ``None`` = missing.
    n
        Number of rows.
    texts
        Columns whose numbers are categories.
    written
        Whether a row names the features that it has no value of.

    Examples
    --------
    >>> block_of({"a": [1, None], "b": ["x", "y"], "c": [1, 2], "d": [[1, 2], [3, 4]]}, 2, ["c"]).columns
    {'a': array([ 1., nan]), 'b': ['x', 'y'], 'c': ['1', '2'], 'd[0]': array([1., 3.]), 'd[1]': array([2., 4.])}
    >>> block_of({"a": [1, "x"]}, 2) is None
    True
    """
    out: dict[Any, Column] = {}
    widths: dict[str, int] = {}
    for name, values in columns.items():
        if isinstance(values, list) and is_vector(next(iter(values), None)):
            rows = stacked(values) if all(map(_is_numbers, values)) else None
            if rows is None or not isinstance(name, str) or not 0 < rows.shape[1] <= MOST_FEATURES:
                return None
            widths[name] = rows.shape[1]
            new: dict[Any, Column] = dict(zip(names_of(name, rows.shape[1]), rows.T.astype(np.float64), strict=True))
        else:
            column = _column(values, as_text=name in texts)
            if column is None:
                return None
            new = {name: column}
        if not out.keys().isdisjoint(new):
            return None
        out |= new
    numbers = [column for column in out.values() if isinstance(column, np.ndarray)]
    with np.errstate(invalid="ignore"):
        if any((np.abs(column) > LARGEST).any() for column in numbers):
            return None
    return Block(out, n, written, widths)


def _is_numbers(value: object) -> bool:
    """Check for a list or an array of numbers alone."""
    if isinstance(value, list | tuple):
        return _SCALARS.issuperset(map(type, value))
    return type(value) is np.ndarray and value.dtype.kind in "fiu"


def _column(values: Sequence[Any], *, as_text: bool) -> Column | None:
    """Read a column of plain values. ``None``: a value is of another kind."""
    if isinstance(values, np.ndarray):
        if values.dtype.kind in "fiu" and values.dtype.itemsize <= 8 and not as_text:
            return values.astype(np.float64)
        values = values.tolist()
    kinds = set(map(type, values))
    if as_text:
        plain = kinds <= {str, int, float, bool, type(None)}
        return [None if is_missing(value) else spelled(value) for value in values] if plain else None
    if kinds <= _NUMBERS | _EMPTY:
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:
            return None
    if str in kinds and kinds <= {str, float, type(None)}:
        texts = [None if is_missing(value) else value for value in values] if len(kinds) > 1 else [*values]
        return texts if float not in kinds or not any(type(each) is float for each in texts) else None
    if kinds <= {bool, type(None)}:
        return [None if value is None else spelled(value) for value in values]
    return [*values] if all(isinstance(value, TIMES) or is_missing(value) for value in values) else None


def block_of_frame(
    X: Any, expected: Sequence[Name], texts: Collection[Name] = (), only: Collection[Name] | None = None
) -> Block | None:
    """Read a data frame, an array of two dimensions, or a list of dicts with the same names.

    ``None``: the rows must be read one by one. ``expected`` are the features so far, ``texts`` the columns whose
    numbers are categories, and ``only`` the columns to read of a data frame (default: all).
    """
    if isinstance(X, np.ndarray):
        if X.dtype.names or X.ndim != 2 or (expected and [*expected] != [*range(X.shape[1])]):
            return None
        return block_of(dict(enumerate(np.asarray(without_mask(X)).T)), len(X), texts)
    if is_list_of_dicts(X):
        if not X or any(type(x) is not dict or x.keys() != X[0].keys() for x in X):
            return None
        return block_of({name: [x[name] for x in X] for name in X[0]}, len(X), texts)
    frame = data_frame(X)
    chosen = [(at, name) for at, name in enumerate(frame.columns) if only is None or name in only]
    columns = {name: _values(frame[:, at], as_text=name in texts) for at, name in chosen}
    return block_of(columns, len(frame), texts)


def frame_matrix(X: Any, features: Features) -> tuple[np.ndarray, list[Name]] | None:
    """Read a whole data frame or array at once, if all values are plain finite numbers.

    Otherwise return ``None``, and read it row by row.

    Returns
    -------
    Rows of shape (n, p) in the order of the features, and the columns that are not features.
    """
    if isinstance(X, np.ndarray) and not X.dtype.names:
        array_names(X, features.names)
    if not features.names or not features.takes_rows or is_list_of_dicts(X):
        return None
    try:
        block = block_of_frame(X, features.names, (), {*features.names, *features.widths})
    except (TypeError, ValueError):
        return None
    columns = [] if block is None else [block.columns.get(name) for name in features.names]
    if block is None or any(features.widths[field] != width for field, width in block.widths.items()):
        return None
    numbers = [column for column in columns if isinstance(column, np.ndarray) and np.isfinite(column).all()]
    rows = np.column_stack(numbers) if len(numbers) == len(columns) else None
    return None if rows is None else (rows, ignored_columns(X, features))


def _values(column: Any, *, as_text: bool) -> Sequence[Any]:
    """Return the values of a column of a data frame: an array of numbers, or a list."""
    from narwhals.dtypes import Int128, UInt128  # slow to import

    whole = isinstance(column.dtype, Int128 | UInt128)
    values = column.to_numpy() if not as_text and column.dtype.is_numeric() and not whole else None
    found: Sequence[Any] = column.to_list() if values is None or values.dtype.kind not in "fiu" else values
    return found
