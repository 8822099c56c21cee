"""Labelled instances for training: a bounded, uniform reservoir for each class."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

import numpy as np

from stream_osr.instances.absent import Absent, zero_features
from stream_osr.instances.features import Features
from stream_osr.instances.kinds import CategoryValues, Kinds, Name, TypedColumns, decide, numbers_of
from stream_osr.parameters import Label


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
        self.rows: list[list[np.ndarray]] = []
        self.arrived: list[list[int]] = []
        self.groups: list[list[Any]] = []
        self.group_name = "group"
        self.written: frozenset[Name] = frozenset()
        """Features that an instance named without a value."""

    def __copy__(self) -> TrainingSet:
        out = TrainingSet(self.capacity, self.seed)  # its features have the markers
        out.features, out.places = self.features, dict(self.places)
        out.labels, out.seen, out.rows = list(self.labels), list(self.seen), [list(rows) for rows in self.rows]
        out.arrived, out.written = [list(each) for each in self.arrived], self.written
        out.groups, out.group_name = [list(each) for each in self.groups], self.group_name
        return out

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.rows)

    def add(
        self,
        features: Features,
        values: np.ndarray,
        label: Label,
        written: Collection[Name] = (),
        group: str | float | None = None,
    ) -> None:
        """Add one row, as the values of some features.

        ``written`` are the features that it names without a value, ``group`` is the person, device or day.
        """
        if not self.written.issuperset(written):
            self.written = self.written.union(written)
        own = self.features
        settled = [name for name in own.kinds.values if name not in features.kinds.values]
        for name in settled:
            self._settle(name, own.kinds.values[name], features.kinds)
        self.features = features if own.names == features.names else own.extended(features.names)
        if self.features.kinds is not features.kinds:
            self.features = Features(self.features.names, features.kinds)
        places = [self.places.setdefault(name, len(self.places)) for name in features.names]
        row = np.full(len(self.places), np.nan)
        row[places] = values
        if label not in self.labels:
            self.labels.append(label)
            self.seen.append(0)
            self.rows.append([])
            self.arrived.append([])
            self.groups.append([])
        j, position = self.labels.index(label), sum(self.seen)
        self.seen[j] += 1
        if len(self.rows[j]) < self.capacity:
            self.rows[j].append(row)
            self.arrived[j].append(position)
            self.groups[j].append(group)
            return
        at = int(np.random.default_rng([self.seed, j, self.seen[j]]).integers(self.seen[j]))
        if at < self.capacity:
            self.rows[j][at], self.arrived[j][at], self.groups[j][at] = row, position, group

    @property
    def units(self) -> np.ndarray | None:
        """Number of the group of each row, in the order of :meth:`matrix`. ``None``: no row has a group.

        Rows without a group are one group together.
        """
        groups = [group for own in self.groups for group in own]
        number = {group: at for at, group in enumerate(dict.fromkeys(groups))}
        return np.array([number[group] for group in groups]) if number.keys() - {None} else None

    def count_absent(self, zero: Collection[Name]) -> tuple[int, int]:
        """Count missing values that turned out to be zero, and the rows with no other missing values."""
        chosen = np.array([name in zero for name in self.places], bool)
        cells = bad = 0
        for row in itertools.chain.from_iterable(self.rows) if zero else ():
            missing, own = np.isnan(row), chosen[: len(row)]
            cells += int((missing & own).sum())
            bad += bool((missing & own).any() and not (missing & ~own).any())
        return cells, bad

    def _settle(self, name: Name, values: tuple[str, ...], kinds: Kinds) -> None:
        """Convert a text feature that became numeric after very many values to numbers in all rows."""
        at = self.places[name]
        for row in (row for rows in self.rows for row in rows if at < len(row)):
            row[at] = numbers_of(row[at : at + 1], values, kinds.commas.get(name, ""))[0][0]

    def as_state(self) -> tuple[Any, ...]:
        """Return the whole set as plain values and one array for each class, for :meth:`from_state`."""
        width = len(self.places)
        arrays = tuple(
            np.array([np.pad(row, (0, width - len(row)), constant_values=np.nan) for row in rows])
            for rows in self.rows
        )
        own = self.features.kinds
        values = {name: tuple(its) for name, its in own.values.items()}
        kinds = tuple(() if name in own.undecided else values.get(name) for name in self.places)
        arrived = tuple(np.array(each, np.int64) for each in self.arrived)
        state = self.capacity, self.seed, tuple(self.places), tuple(self.labels), tuple(self.seen), arrays
        commas = tuple((name, own.commas[name]) for name in own.commas)
        reading: tuple[Any, ...] = tuple(own.fixed), commas, tuple(own.left_out.items())
        written = tuple(name in self.written for name in self.places)
        if self.units is not None:
            reading += self.group_name, tuple(map(tuple, self.groups))
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
        out.labels, out.seen, out.rows = list(labels), list(seen), [list(array) for array in arrays]
        out.arrived = [array.tolist() for array in arrived]
        out.groups = [[None] * len(own) for own in out.arrived]
        if grouped:
            out.group_name, out.groups = grouped[0], [list(groups) for groups in grouped[1]]
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
        for i, row in enumerate(row for rows in self.rows for row in rows):
            wide[i, : len(row)] = row
        group = np.repeat(np.arange(len(self.labels)), [len(rows) for rows in self.rows])
        arrived = np.array([position for own in self.arrived for position in own], np.int64)
        X = wide[:, order]
        zero = zero_features(features, X, group, self.written, absent)
        if zero:
            came = np.repeat([len(row) for rows in self.rows for row in rows], X.shape[1]).reshape(X.shape)
            later = np.array(order) >= came  # than the row
            named = np.array([name in self.written for name in features.names]) & ~later
            chosen = np.array([name in zero for name in features.names]) & ~named
            X = np.where(chosen & np.isnan(X), 0.0, X)
            features = Features(features.names, features.kinds, zero)
        return features, X, group, arrived
