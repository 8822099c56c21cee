"""Every field of every record of an archive, and all that is done to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from stream_osr.support.rules import RecordForm


class Place(NamedTuple):
    """A field: its record, its name, the steps to it from the content, and how many of this record came before."""

    record: str
    field: str
    steps: tuple[Any, ...]
    number: int

    def __str__(self) -> str:
        return f"{self.record}.{self.field}#{self.number}"


class Change(NamedTuple):
    """What is done to a field."""

    place: Place
    name: str

    def __str__(self) -> str:
        return f"{self.place} {self.name}"


def places(content: Any) -> list[Place]:
    """Find all fields: of records, and (as a record ``dict``) of the outer mappings whose keys are text."""
    out: list[Place] = []
    counts: dict[str, int] = {}
    seen: set[int] = set()
    outer = [(), *((key,) for key in list(content)[:2])] if isinstance(content, dict) else [()]

    def walk(value: Any, steps: tuple[Any, ...]) -> None:
        if isinstance(value, list | tuple):
            for at, each in enumerate(value):
                walk(each, (*steps, at))
        elif isinstance(value, RecordForm) and id(value) not in seen:
            seen.add(id(value))
            counts[value.name] = number = counts.get(value.name, -1) + 1
            for field, each in value.values.items():
                out.append(Place(value.name, field, (*steps, field), number))
                walk(each, (*steps, field))
        elif isinstance(value, dict):
            for key, each in value.items():
                if isinstance(key, str) and steps in outer:
                    out.append(Place("dict", key, (*steps, key), 0))
                walk(each, (*steps, key))

    walk(content, ())
    return out


def found(content: Any, place: Place) -> Any:
    """What stands in a field."""
    for step in place.steps:
        content = content[step]
    return content


def with_value(content: Any, steps: Sequence[Any], change: Callable[[Any], Any]) -> Any:
    """Replace what stands somewhere; tuples on the way are made anew, all else is changed in place."""
    if not steps:
        return change(content)
    first, *rest = steps
    if isinstance(content, tuple):
        return tuple(with_value(each, rest, change) if at == first else each for at, each in enumerate(content))
    inside = content.values if isinstance(content, RecordForm) else content
    inside[first] = with_value(inside[first], rest, change)
    return content


def _element(value: Any) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        out = array.copy()
        out.flat[len(out.flat) // 2] = value
        return out

    return change


def _scaled(array: np.ndarray) -> np.ndarray:
    out = array.copy()
    out.flat[:1] = out.flat[:1] * 1.5 + 1
    return out


OF_ARRAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "of half the precision": lambda a: a.astype(np.float32 if a.dtype.kind == "f" else np.int32),
    "of the other kind": lambda a: a.astype(np.int64 if a.dtype.kind == "f" else np.float64),
    "of text": lambda a: a.astype("U8"),
    "of bytes in the other order": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "with a dimension more": lambda a: a[None],
    "with a dimension less": lambda a: a.reshape(-1) if a.ndim > 1 else a.sum(),
    "shorter": lambda a: a[:-1],
    "longer": lambda a: np.concatenate([a, a[:1]]) if len(a) else np.zeros((1, *a.shape[1:]), a.dtype),
    "narrower": lambda a: a[..., :-1],
    "empty": lambda a: a[:0],
    "turned round": lambda a: np.ascontiguousarray(a[::-1]),
    "with another first": _scaled,
}
OF_ELEMENTS: dict[str, Any] = {"enormous": 1 << 40, "negative": -7, "large": 99}
OF_FLOATS: dict[str, Any] = {
    "missing numbers": np.nan,
    "infinite": np.inf,
    "-inf": -np.inf,
    "beyond": 1e300,
    "a little more": None,
}
OF_PLAIN: dict[str, Any] = {
    "None": None,
    "text": "\x1b[31mtext",
    "a number": 0.375,
    "minus one": -1,
    "a hundred": 100,
    "huge": 1 << 62,
    "larger than any": 10**400,
    "nan": math.nan,
    "inf": math.inf,
    "true": True,
    "a list": [1],
    "a tuple": (),
    "a mapping": {1: 2},
    "a record": RecordForm("Seat", {}),
    "an unknown record": RecordForm("Popen", {}),
}


def changes(content: Any) -> Iterator[Change]:
    """All changes of all fields."""
    for place in places(content):
        value = found(content, place)
        names = [*OF_PLAIN, "missing", "another name"]
        if isinstance(value, np.ndarray):
            names = ["missing", "another name", "None", "a number", "a tuple", *OF_ARRAYS]
            if value.size:
                names += OF_ELEMENTS
                names += OF_FLOATS if value.dtype.kind == "f" else ()
        elif isinstance(value, tuple | list):
            names += ["shorter", "longer", "turned round"]
        yield from (Change(place, name) for name in names)


def changed(content: Any, change: Change) -> Any:
    """Make a change, in place where that can be; ``None``: it changes nothing."""
    *steps, last = change.place.steps
    value, name = found(content, change.place), change.name
    if name in ("missing", "another name"):

        def other(parent: Any) -> Any:
            inside = parent.values if isinstance(parent, RecordForm) else parent
            inside |= {f"{last}_": inside[last]} if name == "another name" else {}
            del inside[last]
            return parent

        return with_value(content, steps, other)
    if isinstance(value, np.ndarray) and name not in OF_PLAIN:
        with np.errstate(all="ignore"):
            new = _of_array(value, name).copy(order="A")  # contiguous, as what an archive holds
        if new.dtype == value.dtype and new.shape == value.shape and new.tobytes() == value.tobytes():
            return None
    elif isinstance(value, tuple | list) and name in ("shorter", "longer", "turned round"):
        new = {
            "shorter": value[:-1],
            "longer": value + (value[-1:] or type(value)([1])),
            "turned round": value[::-1],
        }[name]
        if list(map(id, new)) == list(map(id, value)):
            return None
    else:
        new = OF_PLAIN[name]
        if type(value) is type(new) and not isinstance(value, RecordForm) and value == new:
            return None
    return with_value(content, change.place.steps, lambda _: deepcopy(new))


def _of_array(array: np.ndarray, name: str) -> np.ndarray:
    if name in OF_ARRAYS:
        return np.asarray(OF_ARRAYS[name](array))
    value = {**OF_ELEMENTS, **OF_FLOATS}[name]
    return _element(np.array(value).astype(array.dtype) if array.dtype.kind != "b" else True)(array)
