from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from stream_osr.errors import InvalidParameter
from stream_osr.evaluation import auroc, expected_calibration_error, reliability_curve

answers = st.lists(st.tuples(st.integers(0, 8).map(lambda n: n / 8), st.booleans()), min_size=1, max_size=60)


@settings(max_examples=100, deadline=None)
@given(answers)
def test_auroc_is_that_of_sklearn_ties_included(pairs):
    score, truth = zip(*pairs, strict=True)
    if len(set(truth)) == 1:
        assert math.isnan(auroc(score, truth))
    else:
        assert auroc(score, truth) == pytest.approx(roc_auc_score(truth, score))


def test_auroc_takes_scores_of_any_scale():
    assert auroc([-math.inf, -700.0, 3e9, math.inf], [False, False, True, True]) == 1.0
    assert auroc([5.0, 4.0], [False, True]) == 0.0


@settings(max_examples=100, deadline=None)
@given(answers, st.integers(1, 20), st.randoms())
def test_bins_hold_everything_and_the_order_of_instances_does_not_matter(pairs, n_bins, random):
    curve = reliability_curve(*zip(*pairs, strict=True), n_bins)
    assert len(curve.size) == min(n_bins, len(pairs))
    assert curve.size.sum() == len(pairs)
    assert np.ptp(curve.size) <= 1
    assert (np.diff(curve.predicted) >= -1e-12).all()
    assert curve.size @ curve.predicted == pytest.approx(sum(p for p, _ in pairs))
    assert curve.size @ curve.observed == pytest.approx(sum(true for _, true in pairs))
    shuffled = list(pairs)
    random.shuffle(shuffled)
    for one, other in zip(curve, reliability_curve(*zip(*shuffled, strict=True), n_bins), strict=True):
        np.testing.assert_allclose(one, other)


def test_a_calibrated_prediction_has_hardly_any_error_and_an_overconfident_one_has():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=20_000)
    truth = rng.uniform(size=len(p)) < p
    assert expected_calibration_error(p, truth) < 0.02
    overconfident = np.where(p > 0.5, 1.0, 0.0)
    assert expected_calibration_error(overconfident, truth) == pytest.approx(0.25, abs=0.02)


def test_certain_predictions():
    assert expected_calibration_error([0.0, 1.0, 1.0], [False, True, True]) == 0.0
    assert expected_calibration_error([0.0, 1.0], [True, False]) == 1.0
    # all of one prediction: its share of the truth is what counts, in every bin
    assert expected_calibration_error([0.5] * 40, [True, False] * 20) == 0.0


def test_nothing_predicted_is_nan():
    assert math.isnan(expected_calibration_error([], []))
    assert math.isnan(auroc([], []))
    assert [len(part) for part in reliability_curve([], [])] == [0, 0, 0]


@pytest.mark.parametrize(
    ("p", "truth", "n_bins", "message"),
    [
        ([0.5, 1.2], [True, False], 15, "holds 1.2"),
        ([0.5, -0.1], [True, False], 15, "holds -0.1"),
        ([0.5, math.nan], [True, False], 15, "prediction 1 is nan"),
        ([0.5], [True, False], 15, "shape"),
        ([[0.5]], [[True]], 15, "shape"),
        ([0.5], [True], 0, "n_bins is 0"),
    ],
)
def test_what_is_no_prediction_is_refused(p, truth, n_bins, message):
    with pytest.raises(InvalidParameter, match=message):
        expected_calibration_error(p, truth, n_bins)


def test_auroc_refuses_what_cannot_be_ranked():
    with pytest.raises(InvalidParameter, match="is nan"):
        auroc([0.1, math.nan], [True, False])
