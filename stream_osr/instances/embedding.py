"""Lists of numbers in one field of an instance, such as embeddings: each number is a feature.

The numbers of a field ``emb`` are the features ``emb[0]``, ``emb[1]``, ... The first list in training sets the
length. The result is the same as from fields with these names.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

import numpy as np

from stream_osr.errors import InvalidFeature
from stream_osr.instances.kinds import Name
from stream_osr.instances.missing_values import is_missing, without_mask
from stream_osr.printable_text import typed
from stream_osr.support.limits import MOST_FEATURES

_SINGLE = frozenset((float, int, str, bool, type(None), np.float64))
_NUMBERS = _SINGLE - {str}


def is_vector(value: object) -> bool:
    """Check whether a value is a list, a tuple, or an array or tensor with dimensions.

    >>> is_vector([0.5]), is_vector(np.zeros(2)), is_vector(np.array(2.0)), is_vector("ab"), is_vector({"a": 1})
    (True, True, False, False, False)
    """
    if isinstance(value, list | tuple):
        return True
    array = hasattr(value, "tolist") and hasattr(value, "__len__") and not isinstance(value, str | bytes)
    return array and getattr(value, "ndim", 1) != 0


@lru_cache(32)
def names_of(field: str, width: int) -> tuple[str, ...]:
    """Return the names of the numbers of a field.

    >>> names_of("emb", 2)
    ('emb[0]', 'emb[1]')
    """
    return tuple(f"{field}[{number}]" for number in range(width))


def widths_of(names: Set[Name]) -> dict[str, int]:
    """Return the fields that lists can be in, and the length of each list.

    >>> widths_of({"emb[0]", "emb[1]", "size", "x[1]"})
    {'emb': 2}
    """
    out: dict[str, int] = {}
    for name in names:
        if isinstance(name, str) and name.endswith("[0]"):
            field, width = name[:-3], 1
            while f"{field}[{width}]" in names:
                width += 1
            out[field] = width
    return out


@lru_cache(32)
def _fields_of(names: tuple[str, ...]) -> frozenset[str]:
    """Return the fields in whose lists some features may be."""
    return frozenset(name.rpartition("[")[0] for name in names if name.endswith("]"))


def folded(names: Sequence[str], there: Collection[str]) -> Sequence[str]:
    """Replace the names of numbers by the name of their field, if the field is there and the numbers are not.

    >>> folded(["emb[0]", "emb[1]", "size"], ["emb", "size"]), folded(["x[0]", "size"], ["x[0]", "x"])
    (['emb', 'size'], ['x[0]', 'size'])
    """
    fields = _fields_of(tuple(names))
    if fields.isdisjoint(there):
        return names
    lists = ((name, name.rpartition("[")[0]) for name in names)
    return list(
        {field if field in fields and field in there and name not in there else name: 0 for name, field in lists}
    )


def expanded(
    x: Mapping[Any, Any],
    widths: Mapping[str, int],
    single: Container[Name],
    number: int | None = None,
    *,
    new: bool = False,
) -> Mapping[Any, Any]:
    """Replace each list in an instance by its numbers. Without lists, return the same mapping.

    Parameters
    ----------
    x
        Instance.
    widths
        Known fields of lists with their lengths. ``None`` in such a field is a list of missing numbers.
    single
        Features that have single values.
    number
        Its row in a data frame or file.
    new
        Whether lists in other fields are features too. Otherwise they stay in the result.

    Raises
    ------
    InvalidFeature
        If a list has another length than in training or more than 10 000 numbers, or contains text or lists. Also if
        a field has lists and single values.

    Examples
    --------
    >>> expanded({"size": 3, "emb": np.array([0.5, 1.5], np.float16)}, {}, (), new=True)
    {'size': 3, 'emb[0]': 0.5, 'emb[1]': 1.5}
    >>> expanded({"size": 3, "emb": None}, {"emb": 2}, ("size",))
    {'size': 3, 'emb[0]': None, 'emb[1]': None}
    >>> expanded({"emb": [1.5]}, {"emb": 2}, ())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    stream_osr.errors.InvalidFeature: feature 'emb' is [1.5] (list): it has 1 number, and the lists of training ...
    """
    if _SINGLE.issuperset(map(type, x.values())) and not any(field in x for field in widths):
        return x
    out = dict[Any, Any]()
    for name, value in x.items():
        width = widths.get(name)
        if is_vector(value):
            if name in single:
                raise InvalidFeature(
                    name, value, "training had single values in this field. Give lists a field of their own", number
                )
            if width is None and not new:
                out[name] = value
                continue
            items = _items(name, value, width, number)
        elif width is None or f"{name}[0]" in x:
            out[name] = value
            continue
        elif is_missing(value):
            items = [None] * width
        else:
            raise InvalidFeature(
                name,
                value,
                f"training had lists of {width} numbers in this field (None if all are missing). "
                "Give single values a field of their own",
                number,
            )
        names = names_of(name, len(items))
        if not x.keys().isdisjoint(names):
            raise InvalidFeature(
                name, value, f"the instance also has the field '{names[0]}'. Rename one of the two", number
            )
        out.update(zip(names, items, strict=True))
    return out


def flat(x: Mapping[Any, Any]) -> dict[Any, Any]:
    """Replace each list of numbers in an instance by its numbers, to show them. All other values stay.

    >>> flat({"emb": [0.5, 1.5], "tags": ["a"]})
    {'emb[0]': 0.5, 'emb[1]': 1.5, 'tags': ['a']}
    """
    out = dict[Any, Any]()
    for name, value in x.items():
        try:
            out |= expanded({name: value}, {}, (), new=True)
        except InvalidFeature:
            out[name] = value
    return out


def _items(name: Name, value: Any, width: int | None, number: int | None) -> list[Any]:
    """Return the numbers of a list, and check its length."""
    count = len(value)
    if not isinstance(name, str):
        raise InvalidFeature(name, value, "a field with a list has text as its name. Rename it", number)
    if width is None and not 0 < count <= MOST_FEATURES:
        remedy = "Reduce it, for instance to principal components" if count else "Give None if it is missing"
        raise InvalidFeature(name, value, f"expected a list of 1 to {MOST_FEATURES} numbers, found {count}. {remedy}",
                             number)  # fmt: skip
    if width is not None and count != width:
        raise InvalidFeature(
            name,
            value,
            f"it has {count} {'number' if count == 1 else 'numbers'}, and the lists of training have {width}. "
            f"Give {width}, or train a model on lists of {count}",
            number,
        )
    if isinstance(value, np.ndarray):
        value = without_mask(value)
    items = list(value) if isinstance(value, list | tuple) else value.tolist()
    dtype = getattr(getattr(value, "dtype", None), "kind", "O")
    if not _NUMBERS.issuperset(map(type, items)) or dtype in "Mm":
        strange = (at for at, item in enumerate(items) if isinstance(item, str | bytes | Mapping) or is_vector(item))
        at = next(strange, 0 if dtype in "Mm" else None)
        if at is not None:
            raise InvalidFeature(
                name,
                value,
                f"expected numbers alone in a list, and item {at} is {typed(items[at])}. "
                "Give a list of numbers, or leave the field out",
                number,
            )
    return items


def stacked(lists: Sequence[object]) -> np.ndarray | None:
    """Read the lists of a column at once, if all are finite or NaN numbers of one length.

    Returns
    -------
    Array of shape (n, width), or ``None``.

    Examples
    --------
    >>> stacked([[1, 2], np.array([3.5, 4.0], np.float32)])
    array([[1. , 2. ],
           [3.5, 4. ]])
    >>> stacked([[1, 2], [3]]), stacked([[1, 2], None]), stacked([[1.0, None]]), stacked([])
    (None, None, None, None)
    """
    try:
        rows = np.array(lists)
    except ValueError:
        return None
    return rows if rows.ndim == 2 and rows.dtype.kind in "fiu" else None
