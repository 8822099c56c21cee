"""Labelled instances for training: a bounded, uniform reservoir for each class."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from stream_osr.instances.absent import Absent, zero_features
from stream_osr.instances.features import Features
from stream_osr.instances.kinds import CategoryValues, Kinds, Name, TypedColumns, decide, numbers_of
from stream_osr.parameters import Label

DRAWS = 1024
"""Number of random numbers of a class that are drawn together."""

Group = str | float | None


class KeptRow(NamedTuple):
    """A row of the reservoir.

    Attributes
    ----------
    values
        Values of the features that had come until then, NaN = missing, in the order of their first occurrence.
    arrived
        Position among all training rows.
    group
        Person, device, day or the like, or ``None``.
    """

    values: np.ndarray
    arrived: int
    group: Group


class TrainingSet:
    """Labelled rows over all features seen so far.

    Parameters
    ----------
    capacity
        Largest number of rows of each class. Beyond it, each further row replaces a random one with the probability
        that keeps the sample uniform (Vitter's algorithm R).
    seed
        Seed of the reservoirs. The row to replace depends only on the seed, the class and the number of the row.
    """

    def __init__(self, capacity: int, seed: int, missing: frozenset[str] = frozenset()) -> None:
        self.capacity, self.seed = capacity, seed
        self.features = Features((), Kinds(missing=missing))
        self.places: dict[Name, int] = {}
        self.labels: list[Label] = []
        self.seen: list[int] = []
        self.rows: list[list[KeptRow]] = []
        self.group_name = "group"
        self.written: frozenset[Name] = frozenset()
        """Features that an instance named without a value."""

    def __copy__(self) -> TrainingSet:
        """Return an independent copy, which is consistent even while another thread adds rows."""
        out = TrainingSet(self.capacity, self.seed)  # its features have the markers
        out.labels = list(self.labels)
        out.seen, out.rows = self.seen[: len(out.labels)], [list(rows) for rows in self.rows[: len(out.labels)]]
        out.features, out.written, out.group_name = self.features, self.written, self.group_name
        out.places = dict(self.places)
        return out

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.rows)

    def add(
        self,
        features: Features,
        X: np.ndarray,
        labels: Sequence[Label],
        written: Collection[Name] = (),
        groups: Sequence[Group] | None = None,
    ) -> None:
        """Add rows, shape (n, p), as the values of some features, NaN = missing.

        ``written`` are the features that a row names without a value, ``groups`` the person, device or day of each.
        The result does not depend on the division of the rows into calls.
        """
        if not self.written.issuperset(written):
            self.written = self.written.union(written)
        own = self.features
        settled = [name for name in own.kinds.values if name not in features.kinds.values]
        for name in settled:
            self._settle(name, own.kinds.values[name], features.kinds)
        places = [self.places.setdefault(name, len(self.places)) for name in features.names]
        self.features = features if own.names == features.names else own.extended(features.names)
        if self.features.kinds is not features.kinds:
            self.features = Features(self.features.names, features.kinds)
        rows = np.full((len(X), len(self.places)), np.nan)
        rows[:, places] = X
        first, of_class = sum(self.seen), defaultdict[Label, list[int]](list)
        for at, label in enumerate(labels):
            of_class[label].append(at)
        for label, its in of_class.items():
            if label not in self.labels:
                self.seen.append(0)
                self.rows.append([])
                self.labels.append(label)  # last, for a copy in another thread
            j = self.labels.index(label)
            for place, at in self._places_of(j, its):
                kept = KeptRow(rows[at].copy(), first + at, None if groups is None else groups[at])
                self.rows[j][place : place + 1] = [kept]

    def _places_of(self, j: int, its: list[int]) -> list[tuple[int, int]]:
        """Count further rows of a class. Return the places in its reservoir and the rows that they take."""
        first, room = self.seen[j], self.capacity - len(self.rows[j])
        self.seen[j] += len(its)
        filled = len(self.rows[j])
        taken = [(filled + n, at) for n, at in enumerate(its[: max(room, 0)])]
        if room < len(its):
            number = np.arange(first + len(taken), first + len(its))
            place = (_draws(self.seed, j, number[0].item(), len(number)) * (number + 1)).astype(np.int64)
            for n in np.flatnonzero(place < self.capacity).tolist():
                taken.append((place[n].item(), its[number[n].item() - first]))
        return taken

    @property
    def units(self) -> np.ndarray | None:
        """Number of the group of each row, in the order of :meth:`matrix`. ``None``: no row has a group.

        Rows without a group are one group together.
        """
        groups = [row.group for own in self.rows for row in own]
        number = {group: at for at, group in enumerate(dict.fromkeys(groups))}
        return np.array([number[group] for group in groups]) if number.keys() - {None} else None

    def count_absent(self, zero: Collection[Name]) -> tuple[int, int]:
        """Count missing values that turned out to be zero, and the rows with no other missing values."""
        chosen = np.array([name in zero for name in self.places], bool)
        cells = bad = 0
        for row, _, _ in itertools.chain.from_iterable(self.rows) if zero else ():
            missing, own = np.isnan(row), chosen[: len(row)]
            cells += int((missing & own).sum())
            bad += bool((missing & own).any() and not (missing & ~own).any())
        return cells, bad

    def _settle(self, name: Name, values: tuple[str, ...], kinds: Kinds) -> None:
        """Convert a text feature that became numeric after very many values to numbers in all rows."""
        at = self.places[name]

        def settled(row: KeptRow) -> KeptRow:
            if at >= len(row.values):
                return row
            new = row.values.copy()  # a copy of this training set may have the row too
            new[at : at + 1] = numbers_of(new[at : at + 1], values, kinds.commas.get(name, ""))[0]
            return row._replace(values=new)

        self.rows = [[*map(settled, rows)] for rows in self.rows]

    def as_state(self) -> tuple[Any, ...]:
        """Return the whole set as plain values and one array for each class, for :meth:`from_state`."""
        width = len(self.places)
        arrays = tuple(
            np.array([np.pad(row, (0, width - len(row)), constant_values=np.nan) for row, _, _ in rows])
            for rows in self.rows
        )
        own = self.features.kinds
        values = {name: tuple(its) for name, its in own.values.items()}
        kinds = tuple(() if name in own.undecided else values.get(name) for name in self.places)
        arrived = tuple(np.array([row.arrived for row in rows], np.int64) for rows in self.rows)
        state = self.capacity, self.seed, tuple(self.places), tuple(self.labels), tuple(self.seen), arrays
        commas = tuple((name, own.commas[name]) for name in own.commas)
        reading: tuple[Any, ...] = tuple(own.fixed), commas, tuple(own.left_out.items())
        written = tuple(name in self.written for name in self.places)
        if self.units is not None:
            reading += self.group_name, tuple(tuple(row.group for row in rows) for rows in self.rows)
        return *state, kinds, arrived, written, *(reading if any(reading) else ())

    @classmethod
    def from_state(cls, state: tuple[Any, ...], missing: frozenset[str] = frozenset()) -> TrainingSet:
        """Build the training set from :meth:`as_state`, with the markers of missing values in ``missing``."""
        capacity, seed, names, labels, seen, arrays, kinds, arrived, written, *reading = state
        fixed, commas, left_out, *grouped = reading or ((), (), ())
        out, own = cls(capacity, seed), dict(zip(names, kinds, strict=True))
        values = {name: CategoryValues(its) for name, its in own.items() if its}
        undecided = frozenset(name for name, its in own.items() if its == ())
        kinds = Kinds(values, undecided, frozenset(fixed), dict(commas), missing, dict(left_out))
        out.features, out.places = Features(names, kinds), {name: i for i, name in enumerate(names)}
        out.labels, out.seen = list(labels), list(seen)
        groups: Any = [itertools.repeat(None, len(own)) for own in arrays]
        if grouped:
            out.group_name, groups = grouped
        its = zip(arrays, (own.tolist() for own in arrived), groups, strict=True)
        out.rows = [[*map(KeptRow, *columns)] for columns in its]
        out.written = frozenset(name for name, there in zip(names, written, strict=True) if there)
        return out

    def decided(
        self, numeric: Collection[Name] = (), absent: Absent = "missing"
    ) -> tuple[TypedColumns, Features, np.ndarray, np.ndarray]:
        """Return the training set class by class, after deciding the kind of each feature from all values.

        Parameters
        ----------
        numeric
            Features that the caller declared numeric.
        absent
            As for :meth:`matrix`.

        Returns
        -------
        Decided rows, the features, and class numbers and positions as in :meth:`matrix`.
        """
        features, X, group, arrived = self.matrix(absent)
        turn = np.argsort(arrived, kind="stable")
        decided = decide(X, features.names, features.kinds, turn, numeric)
        zero = tuple(name for name in features.zero if name in decided.names)
        return decided, Features(decided.names, decided.kinds, zero), group, arrived

    def matrix(self, absent: Absent = "missing") -> tuple[Features, np.ndarray, np.ndarray, np.ndarray]:
        """Return the training set class by class, as it was given.

        Parameters
        ----------
        absent
            Value of features that an instance does not name (:func:`stream_osr.instances.absent.zero_features`).

        Returns
        -------
        Features, and rows with NaN for missing values, shape (n, p). Then class numbers, shape (n,), and the position
        of each row in the order of arrival, shape (n,).
        """
        features = self.features
        order = [self.places[name] for name in features.names]
        wide = np.full((len(self), len(self.places)), np.nan)
        for i, (row, _, _) in enumerate(itertools.chain.from_iterable(self.rows)):
            wide[i, : len(row)] = row
        group = np.repeat(np.arange(len(self.labels)), [len(rows) for rows in self.rows])
        arrived = np.array([row.arrived for own in self.rows for row in own], np.int64)
        X = wide[:, order]
        zero = zero_features(features, X, group, self.written, absent)
        if zero:
            came = np.array([len(row) for rows in self.rows for row, _, _ in rows])[:, None]
            later = np.array(order) >= came  # than the row
            named = np.array([name in self.written for name in features.names]) & ~later
            chosen = np.array([name in zero for name in features.names]) & ~named
            X = np.where(chosen & np.isnan(X), 0.0, X)
            features = Features(features.names, features.kinds, zero)
        return features, X, group, arrived


def _draws(seed: int, j: int, first: int, n: int) -> np.ndarray:
    """Draw a uniform number for each of n rows of a class, from its row number ``first`` on, counted from 0."""
    parts = [_drawn(seed, j, part) for part in range(first // DRAWS, (first + n - 1) // DRAWS + 1)]
    begin = first % DRAWS
    return np.concatenate(parts)[begin : begin + n] if len(parts) > 1 else parts[0][begin : begin + n]


@lru_cache(1024)
def _drawn(seed: int, j: int, part: int) -> np.ndarray:
    return np.random.default_rng([seed, j, part, 1]).random(DRAWS)
