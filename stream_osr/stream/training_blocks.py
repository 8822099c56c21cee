"""Training on blocks of labelled instances: rows with plain values are stored together, others one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from stream_osr.errors import InvalidInstance, InvalidLabel
from stream_osr.instances.blocks import Block, block_of_frame
from stream_osr.instances.features import Features
from stream_osr.instances.kinds import CategoryValues, Name
from stream_osr.instances.labels import spelled_alike
from stream_osr.instances.missing_values import is_missing
from stream_osr.instances.reading import canonical, spelled
from stream_osr.instances.tables import categorical_columns, column_values
from stream_osr.instances.times_and_keys import group_of, keys_of, times_of
from stream_osr.parameters import Label
from stream_osr.stream import intake
from stream_osr.stream.recognizer_state import RecognizerState
from stream_osr.training.training_set import Group

LARGEST_EXACT = 1e15
"""Magnitude from which a whole number and its float may have different spellings."""

AT_ONCE = 1024
"""Most rows of a block with categories that are coded together."""


def learn_frame(
    state: RecognizerState, X: Any, y: Any, t: Any = None, key: Any = None, group: Any = None
) -> RecognizerState | None:
    """Store the rows of a data frame, an array, or a list of dicts, if all have plain values and a label.

    Returns
    -------
    The next state. ``None``: the rows must be learnt one by one (:func:`learn_block`).
    """
    if state.training is None or y is None or any(isinstance(each, Iterator) for each in (y, t, key, group)):
        return None
    categories = {*state.training.features.kinds.values, *(state.parameters.categorical or ())}
    try:
        declared = categorical_columns(X)
        block = block_of_frame(X, state.features, {*categories, *declared})
        if block is None:
            return None
        labels = column_values(y, block.n, "y")
        groups = None if group is None else [*map(group_of, column_values(group, block.n, "group"))]
        _ = t is None or times_of(t, block.n), key is None or keys_of(key, block.n)
    except (TypeError, ValueError, InvalidInstance):  # the rows are learnt again, and the error says why
        return None
    learnt = None if any(label is None for label in labels) else learn_block(state, block, labels, groups, declared)
    if learnt is not None and learnt.training is not None and isinstance(name := getattr(group, "name", None), str):
        learnt.training.group_name = name
    return learnt


def learn_block(
    state: RecognizerState,
    block: Block,
    labels: Sequence[Any],
    groups: Sequence[Group] | None = None,
    declared: Collection[Name] = (),
) -> RecognizerState | None:
    """Store the rows of a block. The result is that of :func:`stream_osr.stream.training_phase.learn` for each.

    A provisional model is dropped if the instances double.

    Parameters
    ----------
    state
        A recognizer in training, which does not change.
    block
        The rows.
    labels, groups
        Label and checked group of each row.
    declared
        Features that are categories whatever their values look like, in addition to those in the parameters.

    Returns
    -------
    The next state. ``None``: the rows must be learnt one by one, because one has to be refused or skipped, updates a
    provisional model, or lacks a feature.
    """
    before = state.training
    if before is None or not _fits(before.features, block):
        return None
    if state.trained is not None:
        seen = sum(before.seen)
        if seen.bit_length() == (seen + block.n).bit_length():
            return None
        state = replace(state, trained=None, stream=None, evidence=[])
    now = replace(state, training=copy(before), counters=Counter())
    try:
        if not _Learner(now, block, labels, groups, declared).learn():
            return None
    except (InvalidInstance, InvalidLabel, TypeError, ValueError):  # the rows are learnt again, with the same error
        return None
    state.counters.update(now.counters)
    return replace(now, counters=state.counters)


def _fits(features: Features, block: Block) -> bool:
    """Return whether a block has lists of the same lengths as the features, and names all of them."""
    alike = all(features.widths.get(field, width) == width for field, width in block.widths.items())
    return (
        alike
        and {*features.names}.isdisjoint(block.widths)
        and (not block.written or block.columns.keys() >= {*features.names})
    )


class _Learner:
    """The rows of a block on their way into the training set of a state."""

    def __init__(
        self,
        state: RecognizerState,
        block: Block,
        labels: Sequence[Any],
        groups: Sequence[Group] | None,
        declared: Collection[Name],
    ) -> None:
        assert state.training is not None
        self.state, self.training, self.block, self.declared = state, state.training, block, declared
        self.labels, self.groups = labels, groups
        self.cleaned: dict[tuple[type, Any], Label] = {}
        numbers, markers = _numbers_among(state.parameters.markers), state.parameters.markers
        self.exact = not any(abs(number) >= LARGEST_EXACT for number in numbers)
        self.markers = [number for number in numbers if spelled(number) in markers]
        self.lacks = state.training.features.kinds.lacks if block.written else None

    def learn(self) -> bool:
        """Store the rows. Return false if they must be learnt one by one."""
        at, n = 0, self.block.n
        if not self.exact:
            return False
        texts = any(isinstance(column, list) for column in self.block.columns.values())
        while at < n:
            end = min(at + AT_ONCE, n) if texts else n
            X = self._plain_rows(at, end)
            if X is None or (len(X) and not self._add(X, at)):
                return False
            at += len(X)
            if at < end:
                if not self._add_one(at):
                    return False
                at += 1
        return True

    def _plain_rows(self, at: int, end: int) -> np.ndarray | None:
        """Return the rows from a number on that change no kind of a feature, shape (n, p).

        ``None``: the rows must be learnt one by one.
        """
        features, columns = self.training.features, self.block.columns
        kinds = features.kinds
        new = [name for name in columns if name not in self.training.places and name not in kinds.left_out]
        if not kinds.left_out.keys().isdisjoint(features.names):
            return None
        if new and self.block.written:
            end = at
        for name in (*new, *kinds.undecided):
            lacks = is_missing if name in new else kinds.lacks
            if name in columns and end > at:
                its = columns[name]
                end = next((n for n in range(at, end) if not lacks(its[n])), end)
        X = np.full((end - at, len(features.names)), np.nan)
        for place, name in enumerate(features.names):
            column, values = columns.get(name), kinds.values.get(name)
            if column is None or name in kinds.undecided:
                continue
            if isinstance(column, np.ndarray):
                if values is not None:
                    return None
                X[: end - at, place] = column[at:end]
            elif values is None:
                return None
            elif end > at:
                codes = _codes(values, column[at:end], self.lacks)
                X[: len(codes), place] = codes
                end = at + len(codes)
        return X[: end - at]

    def _add(self, X: np.ndarray, at: int) -> bool:
        """Store rows with plain values. Return false if one must be refused or skipped."""
        state, columns, features, empty = self.state, self.block.columns, self.training.features, np.isnan(X)
        if self.markers:
            numeric = np.array([name not in features.kinds.values for name in features.names], bool)
            X = np.where(numeric & np.isin(X, self.markers), np.nan, X)
        missing = np.isnan(X)
        count = int(missing.sum())
        if count and (state.parameters.on_missing != "impute" or state.parameters.absent == "zero"):
            return False
        labels = [self._label(label) for label in self.labels[at : at + len(X)]]
        named = missing if self.block.written else missing & ~empty
        written = [features.names[place] for place in np.flatnonzero(named.any(axis=0))]
        groups = None if self.groups is None else self.groups[at : at + len(X)]
        self.training.add(features, X, labels, written, groups)
        others = [column[at : at + len(X)] for name, column in columns.items() if name in features.kinds.left_out]
        extra = sum(self.block.written or not is_missing(value) for column in others for value in column)
        state.counters.update(missing=count, bad_rows=int(missing.any(axis=1).sum()), extra=extra)
        return True

    def _label(self, label: Any) -> Label:
        key = type(label), label
        if key not in self.cleaned:
            known = [*self.training.labels, *self.cleaned.values()]
            if label not in known and spelled_alike(label, known) is not None:
                raise InvalidLabel("the row that opens the class warns")
            self.cleaned[key] = intake.label_of(self.state, label, known)
        return self.cleaned[key]

    def _add_one(self, at: int) -> bool:
        """Store a row whose values may change the kinds of features. Return false if it is skipped."""
        x, label = self.block.record(at), self._label(self.labels[at])
        features, row, *_ = intake.read(self.state, x, label, None, None, at, [label], declared=self.declared)
        if row is not None:
            lacking = [features.names[place] for place in np.flatnonzero(np.isnan(row.values))]
            groups = None if self.groups is None else [self.groups[at]]
            self.training.add(features, row.values[None], [label], [name for name in lacking if name in x], groups)
            intake.count(self.state, row)
        return row is not None


def _numbers_among(markers: Collection[str]) -> list[float]:
    """Return the markers of a missing value that read as numbers.

    >>> _numbers_among({"-999", "none"})
    [-999.0]
    """
    found = []
    for marker in markers:
        with suppress(ValueError):
            found.append(float(marker))
    return found


def _codes(values: tuple[str, ...], column: Sequence[Any], lacks: Callable[[object], bool] | None) -> list[float]:
    """Return the codes of texts up to the first one that training has not had, NaN = missing."""
    its = values if isinstance(values, CategoryValues) else CategoryValues(values)
    codes: list[float] = []
    for text in column:
        code = np.nan if text is None else its.code(text)
        if code is None and lacks is not None and isinstance(text, str):
            code = np.nan if lacks(text) else its.code(canonical(text))
        if code is None:
            break
        codes.append(code)
    return codes
