from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from stream_osr.errors import InvalidLabel, InvalidParameter
from stream_osr.evaluation import OpenSetReport, openness

KNOWN = ["a", "b", "c"]


def report_of(*pairs: tuple[str, str]) -> OpenSetReport:
    report = OpenSetReport(KNOWN, "unknown")
    for y_true, y_pred in pairs:
        report.update(y_true, y_pred)
    return report


@pytest.mark.parametrize(
    ("pair", "kind", "positives"),
    [
        (("a", "a"), "known_right", (1, 0, 0)),
        (("a", "b"), "known_confused", (0, 1, 1)),
        (("a", "unknown"), "known_rejected", (0, 0, 1)),
        (("z", "b"), "unknown_accepted", (0, 1, 0)),
        (("z", "unknown"), "unknown_rejected", (0, 0, 0)),
        (("unknown", "unknown"), "unknown_rejected", (0, 0, 0)),
        (("unknown", "a"), "unknown_accepted", (0, 1, 0)),
    ],
)
def test_each_kind_of_decision_is_charged_as_defined(pair, kind, positives):
    report = report_of(pair)
    assert (report.true_positives, report.false_positives, report.false_negatives) == positives
    assert report.counts == dict.fromkeys(report.counts, 0) | {kind: 1}


def test_shares_of_a_report():
    right, confused, rejected = [("a", "a")] * 6, [("b", "c")] * 2, [("c", "unknown")] * 3
    report = report_of(*right, *confused, *rejected, *[("y", "unknown")] * 4, *[("z", "a")] * 5)
    assert report.precision == pytest.approx(6 / 13)
    assert report.recall == report.known_accuracy == pytest.approx(6 / 11)
    assert report.unknown_recall == pytest.approx(4 / 9)
    np.testing.assert_array_equal(report.confusion, [[8, 3], [5, 4]])
    assert (report.n, report.n_known, report.n_unknown) == (20, 11, 9)
    assert repr(report) == "OpenSetReport(micro_f=0.500, recall=0.545, unknown_recall=0.444, n=20)"
    of_numbers = OpenSetReport(known=range(3), unknown=-1)
    of_numbers.update_many(np.array([0, 1, 7]), np.array([0, -1, 2]))
    found = [kind for kind, n in of_numbers.counts.items() if n]
    assert found == ["known_right", "known_rejected", "unknown_accepted"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([*KNOWN, "unknown"]), st.sampled_from([*KNOWN, "unknown"])), min_size=1))
def test_micro_f_is_that_of_scikit_learn_over_the_known_labels(pairs):
    report = OpenSetReport(KNOWN, "unknown")
    y_true, y_pred = zip(*pairs, strict=True)
    report.update_many(y_true, y_pred)
    expected = f1_score(y_true, y_pred, labels=KNOWN, average="micro", zero_division=np.nan)
    assert report.micro_f == pytest.approx(expected, nan_ok=True)
    assert report.accuracy == pytest.approx(accuracy_score(y_true, y_pred))
    assert report.confusion.sum() == report.n == len(pairs)


def test_shares_of_nothing_are_nan():
    report = OpenSetReport(KNOWN, "unknown")
    for value in (report.micro_f, report.precision, report.recall, report.unknown_recall, report.accuracy):
        assert math.isnan(value)
    rejecting = report_of(("a", "unknown"))
    assert math.isnan(rejecting.precision)
    assert (rejecting.recall, rejecting.micro_f) == (0, 0)


@pytest.mark.parametrize("prediction", [None, "z", "Unknown"])
def test_prediction_outside_the_vocabulary_is_refused_and_not_counted(prediction):
    report = report_of(("a", "a"))
    with pytest.raises(InvalidLabel, match="neither a known class nor the unknown label 'unknown'"):
        report.update("a", prediction)
    assert report.n == 1


def test_unknown_label_must_not_be_a_known_class():
    with pytest.raises(InvalidLabel, match="'a' is one of the known classes"):
        OpenSetReport(KNOWN, "a")
    with pytest.raises(InvalidParameter, match="known is empty"):
        OpenSetReport([], "unknown")


def test_sequences_of_different_length_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        OpenSetReport(KNOWN, "unknown").update_many(["a", "b"], ["a"])


@pytest.mark.parametrize(
    ("n_known", "n_unknown", "percent"),
    [(10, 10, 18.35), (5, 3, 12.29), (10, 6, 12.29), (10, 0, 0.0)],
    ids=["LETTER and YALEB", "USPS and PENDIGITS", "COIL20", "closed"],
)
def test_openness_has_the_values_that_the_paper_prints(n_known, n_unknown, percent):
    assert round(100 * openness(n_known, n_known, n_known + n_unknown), 2) == percent


@pytest.mark.parametrize("numbers", [(0, 1, 1), (5, 0, 5), (5, 5, 0), (5, 5, 4)])
def test_openness_refuses_what_it_is_not_defined_for(numbers):
    with pytest.raises(InvalidParameter):
        openness(*numbers)
