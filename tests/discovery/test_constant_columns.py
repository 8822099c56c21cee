"""Columns that are constant in training: they are monitored, and not modelled."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from stream_osr import ColumnFailed, Event, ModelOptions, OpenSetRecognizer
from stream_osr.discovery.data_quality import RETURNED, follow_columns, start_columns, usual_columns

N = 600


def table(seed: int, value: float | np.ndarray | None) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=N)
    X = np.random.default_rng(9).normal(0.0, 3.0, (3, 4))[y] + rng.normal(size=(N, 4))
    frame = pd.DataFrame(X).add_prefix("x")
    return (frame if value is None else frame.assign(year=value)), pd.Series([f"c{v}" for v in y])


def decided(before: float | None, after: float | np.ndarray | None) -> OpenSetRecognizer:
    """Decide a stream in which the constant has another value."""
    model = OpenSetRecognizer(seed=1, chains=2, model=ModelOptions(training_sweeps=10))
    model.learn_many(*table(0, before))
    model.freeze()
    model.learn_many(table(1, after)[0])
    model.flush()
    return model


def stream(before: float | None, after: float | np.ndarray | None) -> tuple[list[str], list[float], list[Event]]:
    """Labels, P(unknown) and events of such a stream."""
    model = decided(before, after)
    decisions = list(model.drain())
    labels, unknown = [str(each.label) for each in decisions], [each.p_unknown for each in decisions]
    return labels, unknown, list(model.drain_events())


@pytest.mark.parametrize(("before", "after"), [(5.0, 6.0), (2025.0, 2026.0), (0.0, 1e9)])
def test_a_changed_constant_does_not_affect_decisions_and_is_named_at_once(before: float, after: float) -> None:
    labels, unknown, events = stream(before, after)
    without, usual, other = stream(None, None)  # rounding differs, and with it some draws
    assert np.mean(np.array(labels) == np.array(without)) > 0.99
    assert np.abs(np.array(unknown) - np.array(usual)).mean() < 0.01
    (event,) = [each for each in events if isinstance(each, ColumnFailed)]
    assert (event.column, event.kind, event.low, event.high, event.value) == (
        "year",
        "changed",
        before,
        before,
        after,
    )
    assert (event.batch, event.since, event.size) == (0, 0, 1)
    assert [type(each) for each in events if each is not event] == [type(each) for each in other]


def test_a_constant_that_changes_in_one_instance_is_named() -> None:
    year = np.full(N, 5.0)
    year[400] = 7.0
    (event,) = [each for each in stream(5.0, year)[2] if isinstance(each, ColumnFailed)]
    assert (event.value, event.since) == (7.0, 400)


def test_the_signals_name_a_changed_constant_with_both_values() -> None:
    signals = decided(5.0, 6.0).signals
    assert (signals.changed_columns, signals.faulty_columns, signals.data_faults) == ({"year": (5.0, 6.0)}, (), 1)
    assert ", columns that were constant in training: year 5, now 6" in str(signals)


def test_rounding_and_missing_values_are_no_change() -> None:
    year = np.full(N, 0.1) * (1.0 + 1e-15)
    year[::7] = np.nan
    assert not [each for each in stream(0.1, year)[2] if isinstance(each, ColumnFailed)]


def test_a_later_change_is_reported_again_after_the_constant_has_returned() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), np.full(200, 3.0)])
    usual = usual_columns(X, np.arange(200) % 2, np.array([True, False]), np.array([False, True]))
    assert usual.constant.tolist()[1] == 3.0
    assert np.isnan(usual.constant[0])
    columns, found = start_columns(2), []
    for position, value in enumerate([4.0, *[3.0] * (RETURNED - 1), 4.0, *[3.0] * RETURNED, 4.0]):
        columns, hidden, faults = follow_columns(usual, columns, np.array([[rng.normal(), value]]), position)
        assert not hidden.any()
        found += [fault.since for fault in faults]
    assert found == [0, 2 * RETURNED + 1]
