"""Features that rise or fall with the order of arrival are left out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr.model import subspace
from stream_osr.model.subspace import follow, is_clock, make_plan

N = 120


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three classes in turns, two features that tell them apart, and their order of arrival; stored by class."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(3), N // 3)
    order = np.concatenate([np.arange(j, N, 3) for j in range(3)])
    return 6.0 * rng.normal(size=(3, 2))[group] + rng.normal(size=(N, 2)), group, order


def with_column(rows: tuple[np.ndarray, np.ndarray, np.ndarray], column: np.ndarray) -> list[bool]:
    X, group, order = rows
    found: list[bool] = is_clock(np.column_stack([X, column]), group, order).tolist()
    return found


@pytest.mark.parametrize(
    "clock",
    [
        lambda t: 1.7e9 + 60.0 * t,
        lambda t: -1.0 * t,
        np.exp,
        lambda t: t + np.random.default_rng(1).normal(size=N),
        lambda t: np.floor(t / 3.0),
    ],
)
def test_dates_countdowns_and_counters_are_clocks(clock, rows):
    assert with_column(rows, clock(rows[2].astype(float))) == [False, False, True]


@pytest.mark.parametrize(
    "column",
    [
        lambda order: order % 30.0,
        lambda order: np.abs(order - N / 2.0),
        lambda order: order + 30.0 * np.random.default_rng(1).normal(size=N),
        lambda order: np.ones(N),
        lambda order: np.where(order % 3 == 0, order, 0.0),
        lambda order: np.where(order % 3 == 0, order, -order),
        lambda order: np.full(N, np.nan),
    ],
)
def test_what_returns_or_rises_in_one_class_only_is_no_clock(column, rows):
    assert with_column(rows, column(rows[2].astype(float))) == [False, False, False]


def test_a_feature_that_tells_classes_apart_is_no_clock_where_one_comes_after_the_other():
    """It rises with the order of arrival among all rows, and not within a class."""
    group, order = np.repeat(np.arange(20), 20), np.arange(400)
    telling = 100.0 * group + np.random.default_rng(2).normal(size=400)
    returning, drifting = 100.0 * group - order, 100.0 * group + order
    assert min(spearmanr(own, order).statistic for own in (telling, returning)) > 0.99
    assert is_clock(np.column_stack([telling, returning, drifting]), group, order).tolist() == [False, False, True]


def test_what_rises_within_each_class_but_not_from_class_to_class_is_no_clock():
    group, since = np.repeat(np.arange(4), 50), np.tile(np.arange(50.0), 4)
    assert is_clock(since[:, None], group, np.arange(200)).tolist() == [False]


def test_missing_values_are_passed_over(rows):
    _, group, order = rows
    clock = np.where(np.random.default_rng(3).random(N) < 0.3, np.nan, order)
    assert with_column(rows, clock) == [False, False, True]
    assert with_column(rows, np.where(group == 1, np.nan, order)) == [False, False, False]


def test_few_rows_show_no_clock():
    for n, n_classes, found in ((16, 1, True), (15, 1, False), (64, 4, True), (64, 8, False)):
        order = np.arange(n)
        assert is_clock(order[:, None] * 1.0, order % n_classes, order).tolist() == [found], (n, n_classes)


def test_a_clock_carries_no_direction_and_its_values_change_nothing(rows):
    X, group, order = rows
    timed = np.column_stack([X[:, :1], order, X[:, 1:]])
    plan = make_plan(timed, group, order)
    assert plan.clocks.tolist() == [1]
    assert not plan.everything
    basis = follow(plan, timed).basis
    np.testing.assert_array_equal(basis[1], 0.0)
    assert basis.shape == (3, 2)
    assert not len(make_plan(timed, group).clocks)
    assert not len(make_plan(X, group, order).clocks)


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
    X, *_ = rows
    model = trained(rows, order="shuffled")
    assert model.freeze().clock_features == ()
    assert model.predict_one({"a": X[0, 0], "b": X[0, 1], "row number": 1e6}) == "unknown"


@pytest.mark.parametrize("n", [0, 1, 2, 200])
def test_ranks_are_those_of_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    for values in (rng.normal(size=n), rng.integers(0, 9, n).astype(float), np.zeros(n)):
        assert np.array_equal(subspace._ranks(values), rankdata(values))
