"""Features that rise or fall with the order of arrival are left out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr.model.feature_space.subspace import is_clock

N = 120


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three classes in turns, two features that separate them, and their order of arrival; stored by class."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(3), N // 3)
    order = np.concatenate([np.arange(j, N, 3) for j in range(3)])
    return 6.0 * rng.normal(size=(3, 2))[group] + rng.normal(size=(N, 2)), group, order


def with_column(rows: tuple[np.ndarray, np.ndarray, np.ndarray], column: np.ndarray) -> list[bool]:
    X, group, order = rows
    found: list[bool] = is_clock(np.column_stack([X, column]), group, order).tolist()
    return found


def test_dates_countdowns_and_counters_are_clocks_and_other_columns_are_not(rows):
    _, group, order = rows
    t, rng, third = order.astype(float), np.random.default_rng(1), order % 3 == 0
    noise = rng.normal(size=N)
    missing = np.where(np.random.default_rng(3).random(N) < 0.3, np.nan, order)
    for clock in (1.7e9 + 60.0 * t, -t, np.exp(t), t + noise, np.floor(t / 3.0), missing):
        assert with_column(rows, clock) == [False, False, True], clock
    returning = (t % 30.0, np.abs(t - N / 2.0), t + 30.0 * noise, np.ones(N), np.full(N, np.nan))
    in_one_class = (np.where(third, t, 0.0), np.where(third, t, -t), np.where(group == 1, np.nan, t))
    for column in (*returning, *in_one_class):
        assert with_column(rows, column) == [False, False, False], column


def test_what_rises_between_classes_or_within_each_class_only_is_no_clock():
    group, order = np.repeat(np.arange(20), 20), np.arange(400)
    between = 100.0 * group + np.random.default_rng(2).normal(size=400)
    returning, drifting = 100.0 * group - order, 100.0 * group + order
    assert min(scipy.stats.spearmanr(own, order).statistic for own in (between, returning)) > 0.99
    assert is_clock(np.column_stack([between, returning, drifting]), group, order).tolist() == [False, False, True]
    group, since = np.repeat(np.arange(4), 50), np.tile(np.arange(50.0), 4)
    assert is_clock(since[:, None], group, np.arange(200)).tolist() == [False]


def test_few_rows_show_no_clock():
    for n, n_classes, found in ((16, 1, True), (15, 1, False), (64, 4, True), (64, 8, False)):
        order = np.arange(n)
        assert is_clock(order[:, None] * 1.0, order % n_classes, order).tolist() == [found], (n, n_classes)


def trained(rows: tuple[np.ndarray, np.ndarray, np.ndarray], **arguments: str) -> OpenSetRecognizer:
    X, group, order = rows
    model = OpenSetRecognizer(**grouped(seed=0, chains=1, training_sweeps=3, **arguments))
    for at in np.argsort(order):
        model.learn_one({"a": X[at, 0], "b": X[at, 1], "row number": float(order[at])}, f"c{group[at]}")
    return model


def test_a_date_is_named_in_the_training_report_and_does_not_make_later_instances_unknown(rows):
    X, group, _ = rows
    model = trained(rows)
    report = model.freeze()
    assert report.clock_features == ("row number",)
    assert "rise or fall with the order of arrival, and are left out: 'row number'" in str(report)
    later = [{"a": a, "b": b, "row number": 1e6} for a, b in X.tolist()]
    called = [model.predict_one(x) for x in later]
    assert np.mean([own == f"c{j}" for own, j in zip(called, group, strict=True)]) > 0.9


def test_a_date_is_a_feature_like_any_other_where_the_order_carries_no_information(rows):
    model = trained(rows, order="shuffled")
    assert model.freeze().clock_features == ()
    assert model.predict_one({"a": rows[0][0, 0], "b": rows[0][0, 1], "row number": 1e6}) == "unknown"
