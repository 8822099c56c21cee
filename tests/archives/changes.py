"""Every field of every record of an archive, and all that is done to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from tests.doors.archive import Archive


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


def places(archive: Archive) -> list[Place]:
    """Find all fields: of records, and (as a record ``dict``) of mappings whose keys are text."""
    out: list[Place] = []
    counts: dict[str, int] = {}

    def walk(tree: Any, steps: tuple[Any, ...]) -> None:
        if isinstance(tree, list):
            for at, each in enumerate(tree):
                walk(each, (*steps, at))
        elif isinstance(tree, dict) and "record" in tree:
            name = tree["record"]
            counts[name] = number = counts.get(name, -1) + 1
            for field, each in tree["values"].items():
                out.append(Place(name, field, (*steps, "values", field), number))
                walk(each, (*steps, "values", field))
        elif isinstance(tree, dict) and "dict" in tree:
            for at, (key, each) in enumerate(tree["dict"]):
                if isinstance(key, str) and steps in ((), ("dict", 0, 1), ("dict", 1, 1)):
                    out.append(Place("dict", key, (*steps, "dict", at, 1), 0))
                walk(each, (*steps, "dict", at, 1))
        elif isinstance(tree, dict):
            for name, each in tree.items():
                walk(each, (*steps, name))

    walk(archive.manifest["content"], ())
    return out


def found(archive: Archive, place: Place) -> Any:
    """What stands in a field, as JSON."""
    return _inside(archive.manifest["content"], place.steps)


def _inside(tree: Any, steps: Iterable[Any]) -> Any:
    for step in steps:
        tree = tree[step]
    return tree


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
    "a list": {"list": [1]},
    "a tuple": {"tuple": []},
    "a mapping": {"dict": [[1, 2]]},
    "a record": {"record": "Seat", "values": {}, "number": 1 << 30},
    "an unknown record": {"record": "Popen", "values": {}, "number": 1 << 30},
}


def changes(archive: Archive) -> Iterator[Change]:
    """All changes of all fields."""
    for place in places(archive):
        tree = found(archive, place)
        names = [*OF_PLAIN, "missing", "another name"]
        if isinstance(tree, dict) and "array" in tree:
            names = ["missing", "another name", "None", "a number", "a tuple", *OF_ARRAYS]
            array = archive.arrays[tree["array"]]
            if array.size:
                names += OF_ELEMENTS
                names += OF_FLOATS if array.dtype.kind == "f" else ()
        elif isinstance(tree, dict) and ("tuple" in tree or "list" in tree):
            names += ["shorter", "longer", "turned round"]
        yield from (Change(place, name) for name in names)


def changed(archive: Archive, change: Change) -> Archive | None:
    """Make a change; ``None``: it changes nothing."""
    manifest, arrays = deepcopy(archive.manifest), dict(archive.arrays)
    *steps, last = change.place.steps
    parent = _inside(manifest["content"], steps)
    tree, name = parent[last], change.name
    if name == "missing":
        if isinstance(last, str):
            del parent[last]
        else:
            del _inside(manifest["content"], steps[:-1])[steps[-1]]
    elif name == "another name":
        if isinstance(last, str):
            parent[f"{last}_"] = parent.pop(last)
        else:
            parent[0] = f"{parent[0]}_"
    elif isinstance(tree, dict) and "array" in tree and name not in OF_PLAIN:
        array = arrays[tree["array"]]
        with np.errstate(all="ignore"):
            new = _of_array(array, name)
        if new.dtype == array.dtype and new.shape == array.shape and new.tobytes() == array.tobytes():
            return None
        arrays[tree["array"]] = new
    elif isinstance(tree, dict) and name in ("shorter", "longer", "turned round"):
        ((kind, parts),) = tree.items()
        other = {"shorter": parts[:-1], "longer": [*parts, *(parts[-1:] or [1])], "turned round": parts[::-1]}
        if (after := other[name]) == parts:
            return None
        tree[kind] = after
    else:
        if tree == OF_PLAIN[name] and type(tree) is type(OF_PLAIN[name]):
            return None
        parent[last] = OF_PLAIN[name]
    return Archive(manifest, arrays)


def _of_array(array: np.ndarray, name: str) -> np.ndarray:
    if name in OF_ARRAYS:
        return np.asarray(OF_ARRAYS[name](array))
    value = {**OF_ELEMENTS, **OF_FLOATS}[name]
    return _element(np.array(value).astype(array.dtype) if array.dtype.kind != "b" else True)(array)
