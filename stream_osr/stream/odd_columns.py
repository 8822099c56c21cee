"""Columns that alone carry the difference between an instance and the known classes.

A value is *foreign* to its column if it is a category value that training did not have, or a number that repeats
exactly, a whole range or more outside the training range. If an instance has one foreign value, and the other columns
alone make it known under the frozen classes, the value is a fact about its column and no evidence of a new class. It
counts as missing, and the decision names the column (``Decision.odd_columns``). Three conditions protect new classes:

- Most instances with the value are known without it.
- Training classes do not have category values of their own in the column (:func:`_separates`).
- A number is an error code: it is more frequent than a value in the tails of a class can be, and one of a few such
  values in the column.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import cached_property

import numpy as np
from scipy.special import betainc

from stream_osr.discovery.data_quality import CODE, KINDS, OFF, OUTERMOST, RETURNED, Fault
from stream_osr.model.categories import EXCLUSIVE
from stream_osr.model.feature_space.yeo_johnson import bend
from stream_osr.model.known import Known
from stream_osr.model.missing_features import NOTHING, missing_of, with_open_directions
from stream_osr.model.prior import NO_COLUMN
from stream_osr.model.responsibilities import View, look, view
from stream_osr.stream.batch_seating import mean_of
from stream_osr.stream.chain import PRIOR_SEATS, open_chain
from stream_osr.stream.frame import features_at_training
from stream_osr.stream.state import ForeignValue, Stream
from stream_osr.training.trained import TrainedModel

KNOWN = 0.5
"""Probability of unknown below which the other columns make an instance known."""
MOST = 0.8
"""Least share of the instances with a value that are known without it. One is excused, as the first of a code is."""
LEAST_CODES, BY_CHANCE = 5.0, 1e-4
"""Least number of instances with an error code, and the probability that a value in the tails of a class, at most
``OUTERMOST`` of the class, is as frequent."""
MOST_CODES = 3.0
"""Most error codes of a column. With more values, the column measures something that training does not have."""
FADING = 256.0
"""Number of instances of a value at which its counts are halved."""
REMEMBERED = 64
"""Most foreign values that are remembered."""
OWN, BELONGS, EVIDENT = 0.1, 0.9, math.log(100.0)
"""A column separates the classes if more than the first share of the instances have a value that belongs to a class.
A value belongs to a class with the second share of the instances that have the value. The log likelihood ratio
against the share of the class in training must be above the third number."""


class ForeignColumns:
    """Foreign values in raw rows of a stream, in its present state.

    Parameters
    ----------
    trained, stream
        The model, with its usual columns, and the stream.
    """

    def __init__(self, trained: TrainedModel, stream: Stream) -> None:
        self._trained, self._stream, usual, space = trained, stream, trained.usual, trained.whitening
        self._found = {(e.column, e.value): e for e in (() if stream.faults is None else stream.faults.foreign)}
        self._separate = dict[int, bool]()
        self._low, self._high = np.full((2, len(space.center)), np.inf)
        self._low *= -1.0
        if usual is None:
            return
        ranged, reach = usual.low < usual.high, OFF * (usual.high - usual.low)
        self._low[ranged], self._high[ranged] = (usual.low - reach)[ranged], (usual.high + reach)[ranged]
        self._high[space.columns] = space.places[: len(space.columns)] - 3.0
        self._high[space.columns[space.open]] = np.inf

    def follow(self, values: np.ndarray) -> tuple[tuple[ForeignValue, ...], np.ndarray, list[Fault]]:
        """Update the foreign values with the raw rows of a batch, NaN = missing, shape (b, p).

        Returns
        -------
        The foreign values after the batch, the mask of those that count as missing, shape (b, p), and new codes.
        """
        seen, found = self._stream.state.seen, self._found.copy()
        odd, faults = np.zeros(values.shape, bool), list[Fault]()
        rows, columns = self._single(values)
        which = list(zip(columns.tolist(), values[rows, columns].tolist(), strict=True))
        given = np.array([self._is_category(key[0]) or key in found or which.count(key) > 1 for key in which], bool)
        known = np.zeros(len(rows), bool)
        known[given] = self._known_without(values, rows[given], columns[given])
        for i, key, certain in zip(rows.tolist(), which, known.tolist(), strict=True):
            own = found.pop(key, ForeignValue(*key, 0.0, 0.0, seen + i, seen + i))
            if own.size >= FADING:
                own = own._replace(size=own.size / 2, certain=own.certain / 2, since=(own.since + own.latest) // 2)
            found[key] = own._replace(size=own.size + 1.0, certain=own.certain + certain, latest=seen + i)
        for i, key, certain in zip(rows.tolist(), which, known.tolist(), strict=True):
            own = found[key]
            if certain and self._explains(own, found.values()):
                odd[i, own.column] = True
                if not own.reported and not self._is_category(own.column):
                    found[key] = own._replace(reported=True)
                    faults.append(Fault(own.column, KINDS[CODE], own.since, round(own.size), own.value))
        kept = [each for each in found.values() if seen + len(values) - each.latest <= RETURNED]
        return tuple(kept[-REMEMBERED:]), odd, faults

    def without(self, values: np.ndarray) -> np.ndarray:
        """Set the values that alone carry the difference to missing, in raw rows, NaN = missing, shape (n, p)."""
        rows, columns = self._single(values)
        if not len(rows):
            return values
        which = zip(columns.tolist(), values[rows, columns].tolist(), strict=True)
        found = [self._found.get(key) or ForeignValue(*key, 0.0, 0.0, 0, 0) for key in which]
        there = np.array([self._explains(own, self._found.values()) for own in found])
        rows, columns = rows[there], columns[there]
        at, out = self._known_without(values, rows, columns), values.copy()
        out[rows[at], columns[at]] = np.nan
        return out

    def _single(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find the rows with one foreign value, and its column."""
        foreign = (values < self._low) | (values > self._high)
        if not foreign.any():
            return NO_COLUMN, NO_COLUMN
        for c in np.flatnonzero(foreign.any(axis=0)).tolist():
            if self._is_category(c) and not self._may_be_odd(c):
                foreign[:, c] = False
        rows = np.flatnonzero(foreign.sum(axis=1) == 1)
        return rows, foreign[rows].argmax(axis=1)

    def _is_category(self, column: int) -> bool:
        return column in self._trained.whitening.columns

    def _may_be_odd(self, column: int) -> bool:
        """Return whether a new value in a category is no evidence of a new class by itself.

        It is evidence in alarm columns (``Input.alarms``), if the classes have values of their own, and after a late
        label has taught a class new values.
        """
        if column not in self._separate:
            space, known = self._trained.whitening, self._stream.known
            at = int(np.flatnonzero(space.columns == column)[0])
            first = int(space.places[:at].sum())
            counts = known.dishes.counts[:, first : first + space.places[at]]
            alarm = known.prior.pseudo[first] == EXCLUSIVE
            self._separate[column] = bool(alarm or counts[:, -1].any() or _separates(known, counts))
        return not self._separate[column]

    def _explains(self, own: ForeignValue, found: Collection[ForeignValue]) -> bool:
        """Return whether a foreign value is a fact about its column, among all that were found."""
        number = not self._is_category(own.column)
        of_column = sum(each.size for each in found if each.column == own.column and each.latest >= own.since)
        if own.certain + 1.0 < MOST * own.size or (number and own.size * MOST_CODES < of_column):
            return False
        count = own.latest - own.since + 1
        return not number or bool(
            own.size >= LEAST_CODES and betainc(own.size, max(count - own.size, 0.0) + 1.0, OUTERMOST) < BY_CHANCE
        )

    @cached_property
    def _views(self) -> list[View]:
        """Terms of the frozen classes of a new stream, in each chain."""
        new = [open_chain(each.known, each.frozen, PRIOR_SEATS) for each in self._stream.chains]
        return [view(each.known, each.frozen, each.state, self._trained.whitening) for each in new]

    def _known_without(self, values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return whether each of some rows is known, under the frozen classes, without its value in a column."""
        without, space = values[rows], self._trained.whitening
        without[np.arange(len(rows)), columns] = np.nan
        unknown, missing, bent = np.ones(len(rows)), missing_of(space, without), bend(space.yeo_johnson, without)
        bent = features_at_training(self._trained, self._stream.frame, bent)
        for pattern in np.unique(missing.pattern).tolist():
            at, views = np.flatnonzero(missing.pattern == pattern), self._views
            if pattern != NOTHING:
                views = [with_open_directions(each, missing, pattern) for each in views]
            unknown[at] = mean_of([look(bent[at], each) for each in views])[:, -1]
        return np.asarray(unknown < KNOWN)


def without_codes(stream: Stream, values: np.ndarray) -> np.ndarray:
    """Set the reported error codes in raw rows, shape (n, p), to missing."""
    out = values.copy()
    for each in () if stream.faults is None else stream.faults.foreign:
        if each.reported:
            out[values[:, each.column] == each.value, each.column] = np.nan
    return out


def _separates(known: Known, counts: np.ndarray) -> bool:
    """Return whether the known classes have values of their own in a category.

    A new class would then have such values as well, so a value that training did not have indicates a new class.
    ``counts`` are those of the subclasses at the places of the category, shape (K, places).
    """
    share = known.seated / np.maximum(known.seated.sum(axis=0), 1.0)
    of_class = (share @ counts)[:, 1:]
    size, whole = of_class.sum(axis=0), max(of_class.sum(), 1.0)
    base = of_class.sum(axis=1) / whole
    own, most = of_class.argmax(axis=0), of_class.max(axis=0) / np.maximum(size, 1.0)
    evident = size * np.log(np.maximum(most, 1e-300) / np.maximum(base[own], 1e-300)) > EVIDENT
    return bool(size[(most >= BELONGS) & evident].sum() > OWN * whole)
