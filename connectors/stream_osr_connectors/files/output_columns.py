"""Columns of typed tables: decisions, events, and records that were set aside."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from stream_osr.errors import ConnectorError
from stream_osr.printable_text import brief

from ..values import plain
from .json_lines import json_text

Kind: TypeAlias = Literal["text", "whole", "number", "truth", "figures", "json"]
"""Text, whole numbers, numbers, booleans, numbers by name, and all other values as JSON text."""

SET_ASIDE: Final[Mapping[str, Kind]] = {"row": "whole", "reason": "text", "raw": "text"}
"""Columns of records that were set aside."""


def columns_of(record: type) -> dict[str, Kind]:
    """Return the columns of records, from the types of their fields.

    Labels and keys are text, because a person may name a class later, and any name can be text.

    Examples
    --------
    >>> from stream_osr import Decision
    >>> columns = columns_of(Decision)
    >>> columns["key"], columns["label"], columns["p_unknown"], columns["probabilities"], columns["subclass_id"]
    ('text', 'text', 'number', 'figures', 'whole')
    """
    return {name: _kind(hint) for name, hint in get_type_hints(record).items()}


def columns_of_events() -> dict[str, Kind]:
    """Return the columns of a table of all events. A field is empty in events that lack it.

    >>> columns = columns_of_events()
    >>> list(columns)[:3], columns["subclass_id"], columns["explanation"], columns["label"]
    (['type', 'batch', 'seq'], 'whole', 'json', 'text')
    """
    from stream_osr import Event

    out: dict[str, Kind] = {"type": "text"}
    waiting = [Event]
    while waiting:
        event = waiting.pop(0)
        waiting += event.__subclasses__()
        for name, kind in columns_of(event).items():
            both = {kind, out.get(name, kind)}
            out[name] = kind if len(both) == 1 else "number" if both == {"whole", "number"} else "json"
    return out


def kind_of(value: object) -> Kind:
    """Return the kind of a column from a value. For ``None`` it is text.

    >>> kind_of(1), kind_of(True), kind_of({"red": 0.5}), kind_of([1, 2])
    ('whole', 'truth', 'figures', 'json')
    """
    value = plain(value)
    if isinstance(value, Mapping):
        return "figures" if value and all(isinstance(each, float) for each in value.values()) else "json"
    kinds: list[tuple[type, Kind]] = [(bool, "truth"), (int, "whole"), (float, "number"), (list, "json")]
    return next((kind for its, kind in kinds if isinstance(value, its)), "text")


def fitted(value: object, kind: Kind, name: str) -> object:
    """Convert a value to the type of a column.

    Raises
    ------
    ConnectorError
        If the value does not fit. The message names the column.

    Examples
    --------
    >>> fitted(7, "text", "key"), fitted({"a": None}, "json", "movement"), fitted(float("inf"), "number", "distance")
    ('7', '{"a":null}', None)
    >>> fitted("a7", "whole", "key")
    Traceback (most recent call last):
        ...
    stream_osr.errors.ConnectorError: column 'key' holds whole numbers, and 'a7' is none. Write JSON Lines, where ...
    """
    try:
        value = plain(value)
    except TypeError as error:
        raise ConnectorError(f"cannot write column {name!r}: {error}") from None
    if value is None:
        return None
    if kind == "text":
        # bytes that are no text stand there as Python writes them, as in a table
        return (value if isinstance(value, str) else json_text(value)).encode("utf-8", "backslashreplace").decode()
    if kind == "json":
        return json_text(value)
    if kind == "figures" and isinstance(value, Mapping):
        return [(str(key), fitted(each, "number", name)) for key, each in value.items()]
    if kind == "truth" and isinstance(value, bool):
        return value
    if not isinstance(value, bool):
        if kind == "number" and isinstance(value, int | float):
            return float(value)
        if kind == "whole" and isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
            return value
    words = {"whole": "whole numbers", "number": "numbers", "truth": "true or false", "figures": "numbers by name"}
    raise ConnectorError(
        f"column {name!r} holds {words[kind]}, and {brief(value)} is none. Write JSON Lines, where values may differ"
    )


def _kind(hint: Any) -> Kind:
    """Return the kind of a column for a type of values."""
    if get_origin(hint) in (Union, UnionType):
        kinds = {_kind(each) for each in get_args(hint) if each is not type(None)}
        return kinds.pop() if len(kinds) == 1 else "text"
    if get_origin(hint) is dict:
        return "figures" if get_args(hint)[1] is float else "json"
    if get_origin(hint) is tuple or (isinstance(hint, type) and issubclass(hint, tuple)):
        return "json"
    known: dict[Any, Kind] = {bool: "truth", int: "whole", float: "number"}
    return known.get(hint, "text")
