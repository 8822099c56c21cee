from __future__ import annotations

import math

import numpy as np
import pytest

from stream_osr.errors import InvalidLabel, InvalidParameter
from stream_osr.evaluation import OpenSetReport, openness

KNOWN = ["a", "b", "c"]


def report_of(*pairs: tuple[str, str]) -> OpenSetReport:
    report = OpenSetReport(KNOWN, "unknown")
    for y_true, y_pred in pairs:
        report.update(y_true, y_pred)
    return report


def test_each_kind_of_decision_is_counted_as_defined():
    for pair, kind, positives in (
        (("a", "a"), "known_right", (1, 0, 0)),
        (("a", "b"), "known_confused", (0, 1, 1)),
        (("a", "unknown"), "known_rejected", (0, 0, 1)),
        (("z", "b"), "unknown_accepted", (0, 1, 0)),
        (("z", "unknown"), "unknown_rejected", (0, 0, 0)),
        (("unknown", "unknown"), "unknown_rejected", (0, 0, 0)),
        (("unknown", "a"), "unknown_accepted", (0, 1, 0)),
    ):
        report = report_of(pair)
        assert (report.true_positives, report.false_positives, report.false_negatives) == positives, pair
        assert report.counts == dict.fromkeys(report.counts, 0) | {kind: 1}, pair


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


def test_shares_of_nothing_are_nan():
    for name in ("micro_f", "precision", "recall", "unknown_recall", "accuracy"):
        assert math.isnan(getattr(report_of(), name)), name
    rejecting = report_of(("a", "unknown"))
    assert math.isnan(rejecting.precision)
    assert (rejecting.recall, rejecting.micro_f) == (0, 0)


def test_invalid_predictions_and_labels_are_refused_and_not_counted():
    report = report_of(("a", "a"))
    for prediction in (None, "z", "Unknown"):
        with pytest.raises(InvalidLabel, match="neither a known class nor the unknown label 'unknown'"):
            report.update("a", prediction)
    assert report.n == 1
    with pytest.raises(InvalidLabel, match="'a' is one of the known classes"):
        OpenSetReport(KNOWN, "a")
    with pytest.raises(InvalidParameter, match="known is empty"):
        OpenSetReport([], "unknown")
    with pytest.raises(ValueError, match="shorter"):
        report.update_many(["a", "b"], ["a"])


def test_openness_has_the_values_that_the_paper_prints():
    # LETTER and YALEB, USPS and PENDIGITS, COIL20, closed
    for n_known, n_unknown, percent in ((10, 10, 18.35), (5, 3, 12.29), (10, 6, 12.29), (10, 0, 0.0)):
        assert round(100 * openness(n_known, n_known, n_known + n_unknown), 2) == percent
    for numbers in ((0, 1, 1), (5, 0, 5), (5, 5, 0), (5, 5, 4)):
        with pytest.raises(InvalidParameter):
            openness(*numbers)
