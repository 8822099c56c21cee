"""Which features and categories of training a stream has not had, and which columns it has besides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from stream_osr.features import Features
from stream_osr.kinds import Name
from stream_osr.missing import is_missing
from stream_osr.showing import printable

MOST_IGNORED = 20
"""Ignored columns whose names are kept."""
SHOWN = 6
"""Names in a line."""


class Unmet(NamedTuple):
    """Where the records of a stream and those of training do not meet.

    Attributes
    ----------
    features
        Features of training of which no record had a value.
    categories
        Categories of which no record had a value that training had.
    ignored
        Columns that the model does not use, the first ``MOST_IGNORED``.

    Examples
    --------
    >>> unmet = begin(Features(["flow", "heat"]))
    >>> unmet = unmet.met_by({"Flow": 1.5, "heat": 2.0}, Features(["flow", "heat"]))
    >>> unmet.told()
    ['feature of training that no record has had: flow', 'column that the model does not use: Flow']
    """

    features: frozenset[Name] = frozenset()
    categories: frozenset[Name] = frozenset()
    ignored: tuple[Name, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether every feature and category has been met: only ignored columns may still come."""
        return not self.features and not self.categories

    def met_by(self, x: Mapping[Any, Any], features: Features) -> Unmet:
        """Take in a record that could be read; itself if nothing changes."""
        came = {name for name in self.features & x.keys() if not is_missing(x[name])}
        read = {name for name in self.categories & x.keys() if features.knows(name, x[name])}
        met = self if not came and not read else Unmet(self.features - came, self.categories - read, self.ignored)
        return met.besides(features.unexpected(x)) if len(met.ignored) < MOST_IGNORED else met

    def besides(self, names: Iterable[Name]) -> Unmet:
        """Take in names of columns that the model does not use; itself if there is nothing new among them."""
        new = [name for name in names if name not in self.ignored][: MOST_IGNORED - len(self.ignored)]
        return self._replace(ignored=(*self.ignored, *new)) if new else self

    def in_order(self) -> tuple[tuple[Name, ...], ...]:
        """Write it as plain values, the same ones in the same order."""
        return (_ordered(self.features), _ordered(self.categories), self.ignored)

    def told(self) -> list[str]:
        """Say it, a line for each kind; nothing if all is as in training."""
        strange = self.categories - self.features
        lines = (
            ("feature of training", "features of training", "that no record has had", self.features),
            ("category", "categories", "none of whose values training had", strange),
            ("column", "columns", "that the model does not use", self.ignored),
        )
        return [
            f"{one if len(names) == 1 else f'{len(names)} {many}'} {what}: {_listed(names)}"
            for one, many, what, names in lines
            if names
        ]


def _ordered(names: Iterable[Name]) -> tuple[Name, ...]:
    return tuple(sorted(names, key=lambda name: (type(name).__name__, repr(name))))


ALL_MET = Unmet()
"""Nothing is missing, and nothing came besides."""


def begin(features: Features) -> Unmet:
    """Begin a stream: nothing has been met."""
    return Unmet(frozenset(features.names), frozenset(features.kinds.values))


def _listed(names: Collection[Name]) -> str:
    told = sorted(printable(str(name), 60) for name in names)
    return ", ".join(told[:SHOWN]) + (f" and {len(told) - SHOWN} more" if len(told) > SHOWN else "")
