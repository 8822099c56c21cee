"""Conversion of the callers' input (dicts, data frames) to rows of numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from stream_osr.errors import InvalidInstance
from stream_osr.instances.embedding import expanded, names_of, widths_of
from stream_osr.instances.entries import LARGEST, is_marked, number_of
from stream_osr.instances.kinds import NUMERIC, Coder, Kinds, Name
from stream_osr.instances.missing_values import is_missing

_PLAIN = frozenset((float, int, np.float64))
_MASKED = frozenset((np.ma.MaskedArray, np.ma.core.MaskedConstant))


class FeatureRow(NamedTuple):
    """One instance as numbers.

    Attributes
    ----------
    values
        Values of shape (p,). NaN where the feature is missing, categories as numbers of their values.
    missing
        Number of expected features that are missing.
    extra
        Number of features that are not expected.
    """

    values: np.ndarray
    missing: int
    extra: int


class Features:
    """Expected features, in a fixed order.

    Parameters
    ----------
    names, kinds
        Names of the features, and their kinds.
    zero
        Features that are zero in an instance that does not name them.
    left_out
        Features that training left out, as parts of lists.

    Attributes
    ----------
    widths
        Fields that lists can be in, and the length of each list (:mod:`stream_osr.instances.embedding`).

    Examples
    --------
    >>> features = Features(["b", "a"])
    >>> features.names
    ('a', 'b')
    >>> features.row({"a": 1, "b": 2.5, "c": 7})
    FeatureRow(values=array([1. , 2.5]), missing=0, extra=1)
    >>> features.row({"a": 1, "b": "high"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    stream_osr.errors.InvalidFeature: feature 'b' is 'high' (str): expected a finite number (None or NaN if ...
    """

    def __init__(
        self,
        names: Iterable[Name],
        kinds: Kinds = NUMERIC,
        zero: Collection[Name] = (),
        left_out: Collection[Name] = (),
    ) -> None:
        self.names: tuple[Name, ...] = _in_order(names)
        self.kinds = kinds
        self.zero = frozenset(zero)
        self._absent = [0.0 if name in self.zero else None for name in self.names]
        self._coder = Coder(self.names, kinds)
        self._expected = frozenset(self.names)
        self._get: Any = itemgetter(*self.names) if len(self.names) > 1 else None
        self._single = self._expected - kinds.undecided if kinds.undecided else self._expected
        self.widths = widths_of(self._expected.union(left_out, kinds.left_out))

    def extended(self, names: Iterable[Name]) -> Features:
        """Return these features plus the given ones. Without new names, return the same object."""
        new = [name for name in names if name not in self._expected]
        return Features([*self.names, *new], self.kinds) if new else self

    def extended_by(self, x: Mapping[Any, Any], declared: Collection[Name] = ()) -> Features:
        """Return these features plus those of a training instance, including category values.

        Parameters
        ----------
        x
            Training instance.
        declared
            Features that are categories whatever their values look like.

        Raises
        ------
        InvalidFeature
            If a value cannot be one of a category.
        """
        kinds = self.kinds
        new = [name for name in x if name not in self._expected and name not in kinds.left_out]
        if new or kinds.values or kinds.undecided:
            kinds = kinds.extended(x, new, declared)
            new = [name for name in new if name not in kinds.left_out]
        return Features([*self.names, *new], kinds) if new or kinds is not self.kinds else self

    def unexpected(self, x: Mapping[Any, Any]) -> list[Name]:
        """Return the names in an instance that are not expected, in their order."""
        return [name for name in x if name not in self._expected]

    def expanded(self, x: Mapping[Any, Any], number: int | None = None, *, new: bool = False) -> Mapping[Any, Any]:
        """Replace each list in an instance by its numbers (:func:`stream_osr.instances.embedding.expanded`)."""
        return expanded(x, self.widths, self._single, number, new=new)

    def lack(self, columns: Collection[Name]) -> bool:
        """Check whether columns lack a feature, which may be a number in a list.

        >>> Features(["emb[0]", "emb[1]"]).lack(["emb"]), Features(["a"]).lack(["emb"])
        (False, True)
        """
        lists = (names_of(field, width) for field, width in self.widths.items() if field in columns)
        return not self._expected <= {*columns, *chain.from_iterable(lists)}

    def knows(self, name: Name, value: object) -> bool:
        """Check whether training had a value of a category."""
        return self._coder.knows(name, value)

    @property
    def places(self) -> np.ndarray:
        """Places of each feature, shape (p,): 0 for a number, the number of values plus two for a category."""
        return self.kinds.places(self.names)

    @property
    def takes_rows(self) -> bool:
        """Whether rows of numbers can represent all instances: without categories, and without markers to replace."""
        return not (self.kinds.values or self.kinds.missing)

    def plain(self, x: Mapping[Any, Any]) -> tuple[float, ...] | None:
        """Read a dict quickly, if it has every feature with plain finite numbers and known values.

        Otherwise return ``None``, and use :meth:`row`.

        Examples
        --------
        >>> Features(["b", "a"]).plain({"a": 1, "b": 2.5, "c": 7})
        (1, 2.5)
        >>> Features(["b", "a"]).plain({"a": 1, "b": math.nan}) is None
        True
        """
        if self._get is None or type(x) is not dict or self.kinds.missing:
            return None
        try:
            found: tuple[Any, ...] = self._coder.plain(self._get(x)) if self._coder else self._get(x)
            if _PLAIN.issuperset(map(type, found)) and math.hypot(*found) <= LARGEST:
                return found
        except (KeyError, OverflowError):
            pass
        return None

    def row(self, x: Mapping[Any, object], number: int | None = None) -> FeatureRow:
        """Read one instance. Error messages use ``number`` as its place in a data frame or file.

        Raises
        ------
        InvalidFeature
            If a value is infinite, too large, or neither a number nor a value of a category.
        """
        source = copy(x) if hasattr(type(x), "__missing__") else x  # looking up makes a defaultdict grow
        complete = source is x
        try:
            found = self._get(source) if self._get is not None else tuple(source[name] for name in self.names)
        except KeyError:
            found = tuple(map(x.get, self.names, self._absent))
            complete = False
        absent = 0 if complete else sum(name not in x for name in self.names)
        extra = len(x) - (len(self.names) - absent)
        kinds = self.kinds
        if kinds.missing:
            found = tuple(None if is_marked(value, kinds.missing) else value for value in found)
        if kinds.left_out:
            found = tuple(None if n in kinds.left_out else v for n, v in zip(self.names, found, strict=True))
        if self._coder:
            found = self._coder.of(found, number)
        if not _MASKED.isdisjoint(map(type, found)):
            found = tuple(None if is_missing(value) else value for value in found)
        try:
            values = np.array(found)
        except (TypeError, ValueError, OverflowError):
            values = np.array(None)
        if values.dtype.kind in "fiub" and values.shape == (len(self.names),):
            values = values.astype(np.float64)
        else:
            read = zip(self.names, found, strict=True)
            values = np.array([number_of(name, v, number, kinds.commas.get(name, "")) for name, v in read], float)
        with np.errstate(invalid="ignore"):
            beyond = np.abs(values) > LARGEST
        for at in np.flatnonzero(beyond):
            number_of(self.names[at], found[at], number, kinds.commas.get(self.names[at], ""))
        out = sum(name in kinds.left_out for name in self.names) if kinds.left_out else 0
        return FeatureRow(values, int(np.isnan(values).sum()) - out, extra)


def _in_order(names: Iterable[Name]) -> tuple[Name, ...]:
    names = list(names)
    try:
        return tuple(sorted(names, key=lambda name: (type(name).__name__, name)))
    except TypeError:  # tuples of different kinds of things
        return tuple(sorted(names, key=lambda name: (type(name).__name__, repr(name))))


def check_mapping(x: object) -> Mapping[Any, object]:
    """Return ``x`` if it is a mapping of features.

    Raises
    ------
    InvalidInstance
        If it is anything else.
    """
    if not isinstance(x, Mapping):
        raise InvalidInstance(
            f"an instance is a dict of feature names and numbers: this is {type(x).__name__}. "
            "Data frames go to learn_many"
        )
    return x
