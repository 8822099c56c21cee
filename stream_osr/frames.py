"""Decisions and subclasses as data frames of pandas or polars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from stream_osr.decision import Decision
from stream_osr.errors import InvalidParameter, MissingExtra
from stream_osr.stream.discovery_table import SubclassRow

Library: TypeAlias = Literal["pandas", "polars"]

_WHOLE = frozenset({"subclass_id", "batch", "seq", "size", "first_seen", "last_seen", "new_class"})
"""Integer columns, some of which may have missing values."""

_LABELS = frozenset({"label", "first_label", "nearest_class"})
"""Columns of labels, whose type stays unchanged."""


def decisions_frame(
    decisions: Iterable[Decision], *, probabilities: bool = False, library: Library = "pandas"
) -> Any:
    """Return decisions as a data frame.

    Parameters
    ----------
    decisions
        Decisions from :meth:`stream_osr.OpenSetRecognizer.drain`.
    probabilities
        Add a column ``P(label)`` for each known class. The probability of unknown is always in ``p_unknown``.
    library
        ``"pandas"`` or ``"polars"``.

    Returns
    -------
    A row for each decision, and a column for each field of :class:`stream_osr.Decision` except ``probabilities``.

    Raises
    ------
    MissingExtra
        If the library is not installed.

    Examples
    --------
    >>> from stream_osr import OpenSetRecognizer
    >>> from stream_osr.frames import decisions_frame
    >>> model = OpenSetRecognizer(batch_size=2)
    >>> for i in range(40):
    ...     model.learn_one({"a": i % 7, "b": i % 5}, "left")
    ...     model.learn_one({"a": 20 + i % 7, "b": i % 5}, "right")
    >>> for a in (2, 90):
    ...     model.learn_one({"a": a, "b": 2})
    >>> decisions_frame(model.drain())[["label", "nearest_class", "seq"]]
         label nearest_class  seq
    0     left          left    0
    1  unknown         right    1
    """
    decisions = list(decisions)
    texts = [name for name in Decision._fields if name != "probabilities"]
    columns = {name: [getattr(decision, name) for decision in decisions] for name in texts}
    columns["odd_columns"] = [", ".join(map(str, decision.odd_columns)) for decision in decisions]
    if probabilities:
        known = dict.fromkeys(label for decision in decisions for label in [*decision.probabilities][:-1])
        for label in known:  # a class may have been opened after the first of them
            columns[f"P({label})"] = [decision.probabilities.get(label, 0.0) for decision in decisions]
    return _frame(columns, library)


def subclasses_frame(lines: Sequence[SubclassRow], *, library: Library = "pandas") -> Any:
    """Return the rows of the discovery table as a data frame, with a column for each field."""
    return _frame({name: [getattr(line, name) for line in lines] for name in SubclassRow._fields}, library)


def _frame(columns: Mapping[str, list[Any]], library: Library) -> Any:
    if library not in ("pandas", "polars"):
        raise InvalidParameter(f"library is {library!r}: expected 'pandas' or 'polars'")
    try:
        if library == "polars":
            import polars as pl

            return pl.DataFrame(columns, strict=False)
        import pandas as pd
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"a data frame of {library} needs {library}. Install pandas with pip install 'stream-osr[frames]', "
            "or polars with pip install polars"
        ) from error
    kinds = {**dict.fromkeys(_WHOLE, "Int64"), **dict.fromkeys(_LABELS, object)}
    return pd.DataFrame({name: pd.Series(its, dtype=kinds.get(name)) for name, its in columns.items()})
