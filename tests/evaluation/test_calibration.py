from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.errors import InvalidParameter
from stream_osr.evaluation import auroc, expected_calibration_error, fpr_at_recall, oscr, reliability_curve
from tests.oracles import ranking
from tests.tiers import examples

answers = st.lists(st.tuples(st.integers(0, 8).map(lambda n: n / 8), st.booleans()), min_size=1, max_size=60)
scored = st.lists(st.tuples(st.integers(0, 8), st.booleans(), st.booleans()), min_size=2, max_size=60).filter(
    lambda rows: len({unknown for _, unknown, _ in rows}) == 2
)
"""Score, whether unknown, whether rightly named; of both known and unknown instances."""


@pytest.mark.thorough
@examples(100)
@given(answers)
def test_auroc_is_that_of_sklearn_ties_included(pairs):
    from sklearn.metrics import roc_auc_score

    score, truth = zip(*pairs, strict=True)
    expected = math.nan if len(set(truth)) == 1 else roc_auc_score(truth, score)
    assert auroc(score, truth) == pytest.approx(expected, nan_ok=True)


def test_auroc_takes_scores_of_any_scale():
    assert auroc([-math.inf, -700.0, 3e9, math.inf], [False, False, True, True]) == 1.0
    assert auroc([5.0, 4.0], [False, True]) == 0.0


@examples(100)
@given(answers, st.integers(1, 20), st.randoms())
def test_bins_contain_each_instance_and_the_order_of_instances_does_not_matter(pairs, n_bins, random):
    curve = reliability_curve(*zip(*pairs, strict=True), n_bins)
    assert len(curve.size) == min(n_bins, len(pairs))
    assert curve.size.sum() == len(pairs)
    assert np.ptp(curve.size) <= 1
    assert (np.diff(curve.predicted) >= -1e-12).all()
    assert curve.size @ curve.predicted == pytest.approx(sum(p for p, _ in pairs))
    assert curve.size @ curve.observed == pytest.approx(sum(true for _, true in pairs))
    shuffled = random.sample(pairs, len(pairs))
    for one, other in zip(curve, reliability_curve(*zip(*shuffled, strict=True), n_bins), strict=True):
        np.testing.assert_allclose(one, other)


def test_calibration_error_of_calibrated_overconfident_and_certain_predictions():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=20_000)
    truth = rng.uniform(size=len(p)) < p
    assert expected_calibration_error(p, truth) < 0.02
    assert expected_calibration_error(np.round(p), truth) == pytest.approx(0.25, abs=0.02)
    assert expected_calibration_error([0.0, 1.0, 1.0], [False, True, True]) == 0.0
    assert expected_calibration_error([0.0, 1.0], [True, False]) == 1.0
    # with equal predictions every bin has the same share of true instances
    assert expected_calibration_error([0.5] * 40, [True, False] * 20) == 0.0


def test_measures_are_nan_without_instances_or_without_known_or_unknown_ones():
    assert math.isnan(expected_calibration_error([], []))
    assert math.isnan(auroc([], []))
    assert [len(part) for part in reliability_curve([], [])] == [0, 0, 0]
    for truth in ([], [True, True], [False, False]):
        assert math.isnan(fpr_at_recall([0.5] * len(truth), truth))
        assert math.isnan(oscr([0.5] * len(truth), truth, truth))


@pytest.mark.parametrize(
    ("measure", "arguments", "message"),
    [
        (expected_calibration_error, ([0.5, 1.2], [True, False]), "holds 1.2"),
        (expected_calibration_error, ([0.5, -0.1], [True, False]), "holds -0.1"),
        (expected_calibration_error, ([0.5, math.nan], [True, False]), "prediction 1 is nan"),
        (expected_calibration_error, ([0.5], [True, False]), "shape"),
        (expected_calibration_error, ([[0.5]], [[True]]), "shape"),
        (expected_calibration_error, ([0.5], [True], 0), "n_bins is 0"),
        (auroc, ([0.1, math.nan], [False, True]), "is nan"),
        (fpr_at_recall, ([0.1, math.nan], [True, False]), "prediction 1 is nan"),
        (fpr_at_recall, ([0.1], [True, False]), "shape"),
        *(
            (fpr_at_recall, ([0.1, 0.2], [False, True], recall), "recall is")
            for recall in (0.0, -0.1, 1.01, math.nan)
        ),
        (oscr, ([0.1, math.nan], [True, False], [True, True]), "prediction 1 is nan"),
        (oscr, ([0.1, 0.2], [True, False], [True]), "right is of shape"),
    ],
)
def test_invalid_arguments_of_a_measure_are_refused(measure, arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        measure(*arguments)


@examples(200)
@given(scored, st.integers(1, 100))
def test_fpr_at_recall_is_that_of_the_smallest_threshold_that_accepts_enough(rows, percent):
    score, unknown, _ = zip(*rows, strict=True)
    expected = ranking.fpr_at_recall(score, unknown, Fraction(percent, 100))
    assert fpr_at_recall(score, unknown, percent / 100) == pytest.approx(expected)


@pytest.mark.parametrize("n_known", [20, 100, 1000, 4100])
def test_a_share_of_the_known_is_not_rounded_up_to_one_instance_more(n_known):
    score, truth = [*range(n_known), *range(n_known)], [False] * n_known + [True] * n_known
    for percent in range(1, 101):  # 0.07 * 100 is above 7: the eighth must not be accepted for that
        if percent * n_known % 100 == 0:
            assert fpr_at_recall(score, truth, percent / 100) == percent * n_known // 100 / n_known


@examples(200)
@given(scored)
def test_oscr_is_the_area_under_its_curve_and_within_its_bounds(rows):
    assert oscr(*zip(*rows, strict=True)) == pytest.approx(ranking.oscr(*zip(*rows, strict=True)))
    score, unknown, right = map(np.array, zip(*rows, strict=True))
    area, accuracy = auroc(score, unknown), right[~unknown].mean()
    assert oscr(score, unknown, np.ones(len(rows))) == oscr(score, unknown, ~unknown) == area
    assert oscr(score, unknown, np.zeros(len(rows))) == oscr(score, unknown, unknown) == 0.0
    assert area - (1 - accuracy) - 1e-12 <= oscr(score, unknown, right) <= min(area, accuracy) + 1e-12
    assert oscr(score, unknown, right | unknown) == oscr(score, unknown, right & ~unknown)
