"""Columns: a value in the form of archives as a schema and a block of numbers, and back.

Values at the same place of a state form a column: the sizes of all subclasses, or the keys of all instances. The
numbers of a column are adjacent in the block, in the narrowest type that keeps their bits. The schema is plain JSON
and contains the kind of each column, so it hardly grows with the state.

An array or record that occurs twice is stored once. Values of the surroundings, which the reader has too, are stored
as their numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from stream_osr.archive.records import PREDICTED
from stream_osr.errors import PersistenceError
from stream_osr.model.jit import Array
from stream_osr.support.rules import RecordForm, need

INLINE = 2
"""Largest number of plain values in the schema itself. More are in the block."""
_PLAIN = {type(None): "n", bool: "b", int: "i", float: "f", str: "s", tuple: "t", list: "l", dict: "d"}
_SEQUENCES = {"t": tuple, "l": list}
_INTEGERS = ("i1", "i2", "i4", "i8")
_BITS = {"b": "u1", "u": "u8", "f": "f8"}
_WHOLE = ("u1", "f8")
_CODES = {"b": ("u1",), "u": ("u8",), "f": ("f4", "f8")}
_TYPES = {"b": bool, "i": np.int64, "u": np.uint64, "f": np.float64}
_LITERALS = {"b": bool, "i": int, "f": float, "s": str}


def in_order(values: Array) -> Array:
    """Whole numbers in the order of floating-point numbers, whose difference counts the numbers between them.

    >>> in_order(np.array([1.0, np.nextafter(1.0, 2.0)])).tolist()
    [4607182418800017408, 4607182418800017409]
    """
    bits = np.ascontiguousarray(values).view(np.int64)
    return np.where(bits < 0, np.int64(-(1 << 63)) - bits, bits)


def _of_order(bits: Array) -> Array:
    return np.where(bits < 0, np.int64(-(1 << 63)) - bits, bits).view(np.float64)


class Packer:
    """Converter of a form to a schema and the parts of a block.

    Parameters
    ----------
    around
        Forms and arrays of the surroundings.

    Attributes
    ----------
    parts
        Parts of the block.
    count
        Number of values in all columns.
    """

    def __init__(self, around: Iterable[Any]) -> None:
        self.parts: list[bytes] = []
        self.count = 0
        self._numbers = {id(value): number for number, value in enumerate(around)}

    def column(self, values: list[Any]) -> Any:
        """Append a column to the block, and return its schema."""
        self.count += len(values)
        if len(types := set(map(type, values))) == 1 and (kind := _PLAIN.get(types.pop())):
            return self._group(kind, values)
        groups: dict[str, list[Any]] = {}
        tags = []
        for value in values:
            kind = _PLAIN.get(type(value)) or self._numbered(value)
            if kind not in groups:
                groups[kind] = []
            groups[kind].append(value)
            tags.append(kind)
        if len(groups) == 1:
            return self._group(*next(iter(groups.items())))
        order = sorted(groups, key=lambda kind: "ar".find(kind[0]) % 3)  # first what the others may refer to
        places = {kind: at for at, kind in enumerate(order)}
        which = self._integers(np.array([places[kind] for kind in tags], np.int64))
        return ["|", which, [self._group(kind, groups[kind]) for kind in order]]

    def _numbered(self, value: Any) -> str:
        if id(value) in self._numbers:
            return "x"
        self._numbers[id(value)] = len(self._numbers)
        if isinstance(value, Array) and value.dtype != _TYPES.get(value.dtype.kind, object):
            raise PersistenceError(f"an array of {value.dtype} cannot be saved. Use float64, int64, uint64 or bool")
        if isinstance(value, RecordForm):
            return f"r{value.name}"
        fortran = value.flags.f_contiguous and not value.flags.c_contiguous
        return f"a{value.dtype.kind}{value.ndim}{'F' if fortran else ''}"

    def _group(self, kind: str, values: list[Any]) -> Any:
        short = len(values) <= INLINE
        if kind == "n":
            return kind
        if kind in "bif":
            wide = kind == "i" and not all(-(1 << 63) <= value < 1 << 63 for value in values)
            return [kind, values if short or wide else self._numbers_of(np.array(values, _TYPES[kind]))]
        if kind == "x":
            return ["x", self._integers(np.array([self._numbers[id(value)] for value in values], np.int64))]
        if kind == "s":
            return [kind, values] if short else [kind, *self._text(values)]
        if kind in _SEQUENCES:
            return [kind, self._sizes(values), self.column([each for value in values for each in value])]
        if kind == "d":
            keys, its = [key for value in values for key in value], [v for value in values for v in value.values()]
            return [kind, self._sizes(values), self.column(keys), self.column(its)]
        if kind[0] == "a":
            return [kind, *self._arrays(values, "F" if kind.endswith("F") else "C")]
        fields = {name: self._field(kind[1:], name, values) for name in values[0].values}
        return ["r", kind[1:], fields]

    def _field(self, record: str, name: str, values: list[RecordForm]) -> Any:
        column = [value.values[name] for value in values]
        predict = PREDICTED.get((record, name))
        if predict is None:
            return self.column(column)
        for own in column:
            self._numbered(own)
        apart = [in_order(own) - in_order(predict(form)) for form, own in zip(values, column, strict=True)]
        return ["p", apart[0].ndim, *self._arrays(apart)]

    def _sizes(self, values: list[Any]) -> str:
        return self._integers(np.array([len(value) for value in values], np.int64))

    def _text(self, values: list[str]) -> tuple[str, int]:
        parts = [value.encode("utf-8", "surrogatepass") for value in values]
        self.parts.append(b"".join(parts))
        size = len(self.parts[-1])
        return self._integers(np.array([len(part) for part in parts], np.int64)), size

    def _arrays(self, values: list[Array], order: Any = "C") -> list[Any]:
        """Append arrays of a kind. Return their shape or shapes, and the type of their numbers.

        Square matrices that are almost symmetric are stored as lower triangles and differences of the upper ones.
        """
        shapes = np.array([value.shape for value in values], np.int64)
        alike = bool((shapes == shapes[0]).all())
        shape: list[Any] = shapes[0].tolist() if alike else [self._integers(shapes.ravel())]
        whole = np.concatenate([value.ravel(order) for value in values])
        if alike and len(shape) > 1 and shape[-1] == shape[-2] > 1 and whole.dtype.kind in "fi":
            lower, upper = np.tril_indices(shape[-1], -1)
            whole = whole.reshape(-1, *shape[-2:])
            bits = in_order(whole) if whole.dtype.kind == "f" else whole
            apart = bits[:, upper, lower] - bits[:, lower, upper]
            if (apart.astype("i2") == apart).all():
                rows, columns = np.tril_indices(shape[-1])
                return [shape, self._numbers_of(whole[:, rows, columns].ravel()), self._integers(apart.ravel())]
        return [shape, self._numbers_of(whole.ravel())]

    def _numbers_of(self, values: Array) -> str:
        """Append numbers, and return the name of their type."""
        if values.dtype.kind == "i":
            return self._integers(values)
        code = _BITS[values.dtype.kind]
        if code == "f8":
            with np.errstate(over="ignore", under="ignore"):
                code = "f4" if (values.astype("f4") == values).all() else code
        return self._append(values, code)

    def _integers(self, values: Array) -> str:
        """Append whole numbers, or their differences (``d``) if these are narrower."""
        if (own := _width(values)) != "i1":
            steps = values.copy()
            steps[1:] -= values[:-1]
            if (apart := _width(steps)) < own:
                return f"d{self._append(steps, apart)}"
        return self._append(values, own)

    def _append(self, values: Array, code: str) -> str:
        narrow = values.astype(f"<{code}")
        if code not in _WHOLE:  # byte by byte: the high bytes are alike
            narrow = narrow.view(np.uint8).reshape(len(narrow), narrow.itemsize).T
        self.parts.append(narrow.tobytes())
        return code


def _width(values: Array) -> str:
    """Return the narrowest type of whole numbers that has these values."""
    largest = max(-int(values.min()) - 1, int(values.max())) if len(values) else 0
    return "i1" if largest < 1 << 7 else "i2" if largest < 1 << 15 else "i4" if largest < 1 << 31 else "i8"


class Unpacker:
    """Converter of a schema and its block to forms.

    Parameters
    ----------
    block
        All numbers.
    around
        Forms and arrays of the surroundings, in the order of the writer.
    most
        Largest number of values in all columns. Missing values take no space in the block.
    """

    def __init__(self, block: bytes, around: Iterable[Any], most: int) -> None:
        self._block = np.frombuffer(block, np.uint8)
        self._at = 0
        self._left = most
        self._values = list(around)

    def column(self, schema: Any, n: int) -> list[Any]:
        """Read the next ``n`` values."""
        self._left -= n
        need(n >= 0 and self._left >= 0, "the file", f"too small for {n} values", "as many as fit")
        if schema[0] != "|":
            return self._group(schema, n, self._slots(n if schema[0][0] in "ar" else 0))
        _, code, groups = schema
        which, out = self._integers(code, n), np.empty(n, object)
        numbered = np.isin(which, [at for at, group in enumerate(groups) if group[0][0] in "ar"])
        slots = np.zeros(n, np.int64)
        slots[numbered] = self._slots(int(numbered.sum()))
        for at, group in enumerate(groups):
            own = np.flatnonzero(which == at)
            for place, value in zip(own.tolist(), self._group(group, len(own), slots[own]), strict=True):
                out[place] = value
        return out.tolist()

    def finish(self) -> None:
        """Refuse numbers that the schema does not have."""
        need(self._at == len(self._block), "the block", f"of {len(self._block)} bytes", f"{self._at}")

    def _slots(self, count: int) -> Sequence[int] | Array:
        self._values += [None] * count
        return np.arange(len(self._values) - count, len(self._values))

    def _group(self, schema: Any, n: int, slots: Any) -> list[Any]:
        kind, *rest = schema
        if kind == "n":
            return [None] * n
        if kind in _LITERALS and isinstance(rest[0], list):
            need(len(rest[0]) == n, "a column", f"of {len(rest[0])} values", f"{n}")
            need(all(type(value) is _LITERALS[kind] for value in rest[0]), "a column", "of others", f"{kind} only")
            return list(rest[0])
        if kind in "bif":
            return list(self._numbers(rest[0], n, kind).tolist())
        if kind == "x":
            return [self._values[number] for number in self._integers(rest[0], n).tolist()]
        if kind == "s":
            return self._text(rest[0], rest[1], n)
        if kind == "d":
            sizes = self._sizes(rest[0], n)
            keys, values = self.column(rest[1], sum(sizes)), self.column(rest[2], sum(sizes))
            return [dict(pairs) for pairs in _cut(list(zip(keys, values, strict=True)), sizes)]
        if kind in _SEQUENCES:
            sizes = self._sizes(rest[0], n)
            return [_SEQUENCES[kind](part) for part in _cut(self.column(rest[1], sum(sizes)), sizes)]
        if kind[0] == "a":
            return self._keep(slots, self._arrays(n, int(kind[2]), rest, kind[1], "F" if kind[3:] else "C"))
        name, fields = rest
        forms = self._keep(slots, [RecordForm(name, {}) for _ in range(n)])
        for field, its in fields.items():
            for form, value in zip(forms, self._field(name, field, its, forms), strict=True):
                form.values[field] = value
        return forms

    def _field(self, record: str, name: str, schema: Any, forms: list[RecordForm]) -> list[Any]:
        if schema[0] != "p":
            return self.column(schema, len(forms))
        slots = self._slots(len(forms))
        apart = self._arrays(len(forms), int(schema[1]), schema[2:], "i")
        predict = PREDICTED[record, name]
        found = [(in_order(predict(form)), own) for form, own in zip(forms, apart, strict=True)]
        fits = all(near.shape == own.shape for near, own in found)
        need(fits, f"{record}.{name}", "of another shape", "the predicted")
        return self._keep(slots, [_of_order(near + own) for near, own in found])

    def _keep(self, slots: Any, values: list[Any]) -> list[Any]:
        for slot, value in zip(slots, values, strict=True):
            self._values[slot] = value
        return values

    def _sizes(self, code: str, n: int) -> list[int]:
        sizes = self._integers(code, n)
        need((sizes >= 0).all(), "a column", "of negative sizes", "sizes from 0")
        return list(sizes.tolist())

    def _text(self, code: str, size: int, n: int) -> list[str]:
        whole = self._take(size, 1).tobytes()
        sizes = self._sizes(code, n)
        need(sum(sizes) == size, "a column", f"of {size} bytes", f"{sum(sizes)}")
        return [part.decode("utf-8", "surrogatepass") for part in _cut(whole, sizes)]

    def _arrays(self, n: int, dimensions: int, schema: Sequence[Any], kind: str, order: Any = "C") -> list[Array]:
        shape, code, *apart = schema
        alike = not any(isinstance(size, str) for size in shape)
        shapes = [shape] * n if alike else self._integers(shape[0], n * dimensions).reshape(n, dimensions).tolist()
        fits = all(len(each) == dimensions and min(each, default=0) >= 0 for each in shapes)
        need(fits, "an array", "odd", "shaped")
        sizes = [math.prod(each) for each in shapes]
        if not apart:
            whole = self._numbers(code, sum(sizes), kind)
        else:
            side = shapes[0][-1]
            rows, columns = np.tril_indices(side)
            count = sum(sizes) // (side * side)
            half = self._numbers(code, count * len(rows), kind).reshape(count, len(rows))
            square = np.empty((count, side, side), half.dtype)
            square[:, rows, columns] = half
            lower, upper = np.tril_indices(side, -1)
            steps = self._integers(apart[0], count * len(lower)).reshape(count, len(lower))
            bits = square[:, lower, upper]
            square[:, upper, lower] = _of_order(in_order(bits) + steps) if kind == "f" else bits + steps
            whole = square.ravel()
        return [part.reshape(each, order=order) for part, each in zip(_cut(whole, sizes), shapes, strict=True)]

    def _numbers(self, code: str, n: int, kind: str) -> Array:
        if kind == "i":
            return self._integers(code, n)
        need(code in _CODES[kind], "numbers", f"of {code}", " or ".join(_CODES[kind]))
        return self._plain(code, n).astype(_TYPES[kind])

    def _integers(self, code: str, n: int) -> Array:
        steps = code.startswith("d")
        need(code[steps:] in _INTEGERS, "numbers", f"of {code}", " or ".join(_INTEGERS))
        values = self._plain(code[steps:], n).astype(np.int64)
        return np.cumsum(values) if steps else values

    def _plain(self, code: str, n: int) -> Array:
        size = int(code[1])
        part = self._take(n, size)
        return (part if code in _WHOLE else part.reshape(size, n).T.copy()).view(f"<{code}").reshape(n)

    def _take(self, n: int, size: int) -> Array:
        at, self._at = self._at, self._at + n * size
        need(self._at <= len(self._block), "the block", f"of {len(self._block)} bytes", f"{self._at} at least")
        return self._block[at : self._at]


def _cut(values: Any, sizes: list[int]) -> Iterator[Any]:
    at = 0
    for size in sizes:
        yield values[at : at + size]
        at += size
