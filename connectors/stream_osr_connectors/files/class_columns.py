"""Columns of a table of decisions: one for each known class, in place of the mapping of probabilities."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

FIELD: Final = "probabilities"
"""Field of a decision with the probability of each known class, and of unknown at the end."""

UNKNOWN: Final = "p_unknown"
"""Field of a decision, and the column of the probability of unknown."""

_RESERVED = re.compile("unknown_*")
_CLASS = re.compile("p_(.*)", re.DOTALL)


def class_column(label: object) -> str:
    """Return the name of the column of a class. A class ``unknown`` has an underscore more than ``p_unknown``.

    >>> class_column("sky"), class_column(3), class_column("unknown"), class_column("unknown_")
    ('p_sky', 'p_3', 'p_unknown_', 'p_unknown__')
    """
    return f"p_{label}{'_' if _RESERVED.fullmatch(str(label)) else ''}"


def class_of(column: str) -> str | None:
    """Return the class of a column, or ``None`` for another column.

    >>> class_of("p_sky"), class_of("p_unknown_"), class_of("p_unknown"), class_of("probability")
    ('sky', 'unknown', None, None)
    """
    found = _CLASS.fullmatch(column)
    if found is None or column == UNKNOWN:
        return None
    return found[1][:-1] if _RESERVED.fullmatch(found[1]) else found[1]


LATER: Final = "odd_columns"
"""Field that only some decisions have, and that files of earlier versions lack."""


def without_later(record: Mapping[str, object], fields: Mapping[str, object] | None) -> Mapping[str, object]:
    """Leave out the field :data:`LATER` if the columns of a table, if known, lack it.

    >>> without_later({"key": 1, "odd_columns": ["node"]}, {"key": None})
    {'key': 1}
    """
    if fields is None or LATER not in record or LATER in fields:
        return record
    return {name: value for name, value in record.items() if name != LATER}


def header(fields: Iterable[str], classes: Iterable[object]) -> list[str]:
    """Return the header of a table of decisions.

    >>> header(["key", "p_unknown", "probabilities", "seq"], ["sky", "grass"])
    ['key', 'p_unknown', 'p_sky', 'p_grass', 'seq']
    """
    columns = [class_column(label) for label in classes]
    return [each for name in fields for each in (columns if name == FIELD else [name])]


def spread(decision: Mapping[str, object], fields: Mapping[str, None] | None) -> Mapping[str, object]:
    """Give each class of a decision its column. Any other record stays as it is.

    Parameters
    ----------
    decision
        Fields of a decision.
    fields
        Header, or ``None`` if there is none yet. A class that it lacks is left out: a user named it later. A header
        with the field of probabilities keeps the mapping.

    Examples
    --------
    >>> decision = {"key": 1, "p_unknown": 0.1, "probabilities": {"sky": 0.6, "path": 0.3, "unknown": 0.1}, "seq": 0}
    >>> spread(decision, None)
    {'key': 1, 'p_unknown': 0.1, 'p_sky': 0.6, 'p_path': 0.3, 'seq': 0}
    >>> spread(decision, dict.fromkeys(["key", "p_unknown", "p_sky", "seq"]))
    {'key': 1, 'p_unknown': 0.1, 'p_sky': 0.6, 'seq': 0}
    """
    probabilities = decision.get(FIELD)
    if not isinstance(probabilities, Mapping) or UNKNOWN not in decision or (fields is not None and FIELD in fields):
        return decision
    columns = {class_column(label): p for label, p in [*probabilities.items()][:-1]}
    if fields is not None:
        columns = {name: p for name, p in columns.items() if name in fields}
    out: dict[str, object] = {}
    for name, value in decision.items():
        out |= columns if name == FIELD else {name: value}
    return out


class ClassColumns:
    """Reader of the columns of classes in a table of decisions.

    A class that a user named later has no column. The reader adds it from the first decision with its label on.

    Parameters
    ----------
    names
        Header. A table without columns of classes is read as it is.

    Examples
    --------
    >>> columns = ClassColumns(["key", "label", "probability", "p_unknown", "p_sky"])
    >>> row = {"key": "a", "label": "unknown", "probability": "0.9", "p_unknown": "0.9", "p_sky": "0.1"}
    >>> columns.gather(row)["probabilities"]
    {'sky': '0.1', 'unknown': '0.9'}
    >>> columns.gather({**row, "label": "path", "probability": "0.7", "p_unknown": "0.2"})["probabilities"]
    {'sky': '0.1', 'path': '0.7', 'unknown': '0.2'}
    """

    def __init__(self, names: Sequence[str]) -> None:
        spreads = UNKNOWN in names and FIELD not in names
        self._classes = {name: label for name in names if spreads and (label := class_of(name)) is not None}
        self._known = {*self._classes.values()}
        self._later: dict[str, None] = {}
        self._unknown = ""  # until a decision shows it

    def gather(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row with the mapping of probabilities in place of the columns of classes."""
        if not self._classes:
            return row
        probabilities = {label: row[name] for name, label in self._classes.items()}
        out = {name: value for name, value in row.items() if name not in self._classes}
        label, p = out.get("label"), out.get("probability")
        if label is not None and label not in self._known:
            if p == out[UNKNOWN]:
                self._unknown = label
            else:
                self._later[label] = None
        probabilities |= {name: p if name == label else None for name in self._later}
        return {**out, FIELD: {**probabilities, self._unknown: out[UNKNOWN]}}
