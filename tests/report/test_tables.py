"""The discovery table, and decisions against labels."""

from __future__ import annotations

import math

import pytest

from stream_osr.evaluation import AUROC, OpenSetReport
from stream_osr_connectors.page.report import class_summary
from stream_osr_connectors.page.report.decisions_table import read_decisions


def test_the_table_agrees_with_the_summary(run):
    summary = run.model.summary()
    emerged = class_summary.from_model(*run.model.value.running)
    groups = class_summary.discovery_table(summary, read_decisions(run.decisions), emerged)
    assert [(g.name, g.size) for g in groups[:3]] == [(g.name, g.size) for g in summary.known]
    known, new = groups[3:]
    assert (known.size + new.size) == summary.stream_size == len(run.decisions)
    assert known.share == pytest.approx(summary.known_share)
    assert new.share == pytest.approx(summary.unknown_share)
    assert len(new.subclasses) == sum(announced for _, _, announced in summary.emerging)
    for shares in ([share for _, share in group.subclasses] for group in groups):
        assert shares == sorted(shares, reverse=True)
        assert 0.5 < sum(shares) <= 1.0 + 1e-9


def test_figures_are_those_of_the_metrics(run):
    table = read_decisions(run.decisions, run.truth)
    judged = class_summary.compare_with_truth(table)
    report, area = OpenSetReport(table.known, "unknown"), AUROC(table.known)
    for d, label in zip(run.decisions, run.labels, strict=True):
        report.update(label, d["label"])
        area.update(label, {"unknown": d["p_unknown"], **d["probabilities"]})
    assert judged.known_right == pytest.approx(report.known_accuracy)
    assert judged.unknown_found == pytest.approx(report.unknown_recall)
    assert judged.n == sum(sum(counts) for _, _, counts in judged.rows) == len(run.labels)
    right = sum(counts[-1] if new else counts[judged.columns.index(label)] for label, new, counts in judged.rows)
    assert right / judged.n == pytest.approx(report.accuracy)
    assert 0.9 < judged.auroc <= 1.0


def test_without_labels_nothing_is_judged_and_without_unknown_ones_no_share_of_them(run):
    assert class_summary.compare_with_truth(read_decisions(run.decisions)) is None
    judged = class_summary.compare_with_truth(read_decisions(run.decisions[:20], lambda key, number: "plain"))
    assert math.isnan(judged.unknown_found)
    assert math.isnan(judged.auroc)
