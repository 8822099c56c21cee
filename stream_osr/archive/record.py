"""Values as archives hold them: plain ones, arrays, and records that have a name and fields of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.errors import PersistenceError
from stream_osr.model.jit import Array
from stream_osr.printable_text import brief


class RefusedValue(Exception):  # what is refused is a value, and the caller makes an error of it
    """A value that no archive of ours holds.

    Parameters
    ----------
    where
        Record and field, or whatever it is called.
    found
        What stands there.
    expected
        What should.
    """

    def __init__(self, where: str, found: str, expected: str) -> None:
        super().__init__(f"{where} is {found}; expected {expected}")


class RecordForm:
    """A record as it is written.

    Attributes
    ----------
    name
        Its stable name.
    values
        Its fields.
    sizes
        The sizes that others have to agree with, once they are known.
    """

    __slots__ = ("name", "sizes", "values")

    def __init__(self, name: str, values: dict[str, Any]) -> None:
        self.name = name
        self.values = values
        self.sizes: tuple[int, ...] | None = None

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __getattr__(self, name: str) -> Any:
        if name in RecordForm.__slots__ or name not in self.values:
            raise AttributeError(name)
        return self.values[name]


class RecordKind(NamedTuple):
    """An entry of the table of records.

    Attributes
    ----------
    name
        What the record is called in archives, for ever.
    type
        What it is in memory, now.
    rules
        Of its fields, by their names.
    to, of
        From memory to the fields of the archive, and back; ``None``: they are the same, field by field.
    letters
        Of the sizes that others have to agree with.
    """

    name: str
    type: type[Any]
    rules: Mapping[str, Callable[..., None]]
    to: Callable[[Any], dict[str, Any]] | None = None
    of: Callable[..., Any] | None = None
    letters: Sequence[str] = ()

    def fields(self, value: Any) -> dict[str, Any]:
        """Fields of a value in memory, as archives have them."""
        return {name: getattr(value, name) for name in self.rules} if self.to is None else self.to(value)


def form_of(value: Any, kinds: Mapping[type[Any], RecordKind], known: dict[int, tuple[Any, Any]]) -> Any:
    """Turn a value in memory into what is written; what occurs twice there is the same twice here.

    Parameters
    ----------
    value
        Plain values, arrays, and records of these kinds.
    kinds
        By their types in memory.
    known
        What was turned so far, by identity, with what it was: an identity is only good while its object lives.

    Raises
    ------
    PersistenceError
        If it is anything else.
    """
    if value is None or isinstance(value, bool | int | float | str | Array):
        return value
    if isinstance(value, np.generic):
        return value.item()
    kind = kinds.get(type(value))
    if kind is not None:
        if id(value) not in known:
            known[id(value)] = (RecordForm(kind.name, form_of(kind.fields(value), kinds, known)), value)
        return known[id(value)][0]
    if isinstance(value, tuple | list):
        return (tuple if isinstance(value, tuple) else list)(form_of(each, kinds, known) for each in value)
    if isinstance(value, Mapping):
        return {form_of(key, kinds, known): form_of(each, kinds, known) for key, each in value.items()}
    raise PersistenceError(
        f"{brief(value)} of type {type(value).__name__} cannot be saved; use str, int or float for keys, times and "
        "feature names"
    )


def in_memory(value: Any, kinds: Mapping[str, RecordKind], built: dict[int, Any]) -> Any:
    """Turn what was written into values in memory; ``built`` has what is there, by the identity of its form."""
    if isinstance(value, RecordForm):
        if id(value) not in built:
            kind = kinds[value.name]
            built[id(value)] = (kind.of or kind.type)(**in_memory(value.values, kinds, built))
        return built[id(value)]
    if isinstance(value, tuple | list):
        return type(value)(in_memory(each, kinds, built) for each in value)
    if isinstance(value, dict):
        return {in_memory(key, kinds, built): in_memory(each, kinds, built) for key, each in value.items()}
    return value


def numbered(value: Any) -> Iterator[tuple[str, Any]]:
    """Walk through arrays and records, each once, parts before the whole: their paths, and they themselves."""
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
