"""Values in the form of archives: plain values, arrays, and named records with fields."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from stream_osr.errors import PersistenceError
from stream_osr.model.jit import Array
from stream_osr.printable_text import brief
from stream_osr.support.rules import RecordForm, Rule


class RecordKind(NamedTuple):
    """Record of archives.

    Attributes
    ----------
    name
        Permanent name of the record in archives.
    type
        Present type in memory.
    rules
        Rules of the fields, by their names.
    fields, make
        Functions from memory to the fields of the archive, and back.
    optional
        Fields that are not written if they are None.
    """

    name: str
    type: type[Any]
    rules: Mapping[str, Rule]
    fields: Callable[[Any], dict[str, Any]]
    make: Callable[..., Any]
    optional: Collection[str]


_AS_THEY_ARE = {type(None), bool, int, float, str, Array}


def form_of(value: Any, kinds: Mapping[type[Any], RecordKind], known: dict[int, tuple[Any, Any]]) -> Any:
    """Convert a value in memory to its written form. Shared objects stay shared.

    Parameters
    ----------
    value
        Plain values, arrays, and records of the given kinds.
    kinds
        Kinds by their types in memory.
    known
        Previous results with their sources, by identity. The source must stay alive to keep its identity.

    Raises
    ------
    PersistenceError
        If the value has another type.
    """
    if type(value) in _AS_THEY_ARE:
        return value
    kind = kinds.get(type(value))
    if kind is not None:
        if id(value) not in known:
            fields = kind.fields(value)
            form = {
                name: each if type(each) in _AS_THEY_ARE else form_of(each, kinds, known)
                for name, each in fields.items()
            }
            known[id(value)] = (RecordForm(kind.name, form), value)
        return known[id(value)][0]
    if isinstance(value, tuple | list):
        made = [each if type(each) in _AS_THEY_ARE else form_of(each, kinds, known) for each in value]
        return made if isinstance(value, list) else tuple(made)
    if isinstance(value, Mapping):
        return {form_of(key, kinds, known): form_of(each, kinds, known) for key, each in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Array):
        return np.asarray(value)
    for plain in (int, float, str):  # their subclasses, for example members of enumerations
        if isinstance(value, plain):
            return plain(value)
    raise PersistenceError(
        f"{brief(value)} of type {type(value).__name__} cannot be saved. Use str, int or float for keys, times and "
        "feature names"
    )


def in_memory(value: Any, kinds: Mapping[str, RecordKind], built: dict[int, Any]) -> Any:
    """Convert a written form to values in memory. ``built`` has existing values by the identity of their forms."""
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, RecordForm):
        if id(value) not in built:
            kind = kinds[value.name]
            fields = value.values.items()
            made = {name: it if type(it) in _AS_THEY_ARE else in_memory(it, kinds, built) for name, it in fields}
            built[id(value)] = kind.make(**made)
        return built[id(value)]
    if isinstance(value, tuple | list):
        return type(value)([each if type(each) in _AS_THEY_ARE else in_memory(each, kinds, built) for each in value])
    if isinstance(value, dict):
        return {in_memory(key, kinds, built): in_memory(each, kinds, built) for key, each in value.items()}
    return value


def numbered(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the path and value of each array and record once, parts before the whole."""
    seen: set[int] = set()

    def walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
        parts: Iterable[tuple[object, Any]] = ()
        if id(value) in seen:
            return
        if isinstance(value, RecordForm):
            parts = value.values.items()
        elif isinstance(value, tuple | list):
            parts = enumerate(value)
        elif isinstance(value, dict):
            parts = ((at, part) for at, pair in enumerate(value.items()) for part in pair)
        for name, each in parts:
            yield from walk(each, f"{path}.{name}" if path else str(name))
        if isinstance(value, RecordForm | Array):
            seen.add(id(value))
            yield path, value

    return walk(value, "")
