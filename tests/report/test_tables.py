"""The discovery table, and decisions against labels."""

from __future__ import annotations

import math

import pytest

from stream_osr.evaluation import AUROC, OpenSetReport
from stream_osr_connectors.page.report import class_summary
from stream_osr_connectors.page.report.decisions_table import read_decisions
from tests.blobs import fitted


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


def test_the_model_alone_tells_of_the_stream(run):
    summary = run.model.summary()
    _, new = class_summary.discovery_table(
        summary, read_decisions(()), class_summary.from_model(*run.model.value.running)
    )[3:]
    assert new.new
    assert new.share == pytest.approx(summary.unknown_share)
    sizes = {f"S{key}": size for key, size, announced in summary.emerging if announced}
    whole = max(new.size, sum(sizes.values()))
    assert dict(new.subclasses) == pytest.approx({name: size / whole for name, size in sizes.items()})


def test_without_a_stream_the_groups_are_the_known_ones():
    assert [g.name for g in class_summary.discovery_table(fitted().summary(), read_decisions(()), {})] == [
        "left",
        "right",
    ]


def test_figures_are_those_of_the_metrics(run):
    told = read_decisions(run.decisions, run.truth)
    judged = class_summary.compare_with_truth(told)
    assert judged is not None
    report, area = OpenSetReport(told.known, "unknown"), AUROC(told.known)
    for d, label in zip(run.decisions, run.labels, strict=True):
        report.update(label, d["label"])
        area.update(label, {"unknown": d["p_unknown"], **d["probabilities"]})
    assert judged.known_right == pytest.approx(report.known_accuracy)
    assert judged.unknown_found == pytest.approx(report.unknown_recall)
    assert judged.n == sum(sum(counts) for _, _, counts in judged.rows) == len(run.labels)
    right = sum(counts[-1] if new else counts[judged.columns.index(label)] for label, new, counts in judged.rows)
    assert right / judged.n == pytest.approx(report.accuracy)
    assert 0.9 < judged.auroc <= 1.0


def test_without_labels_nothing_is_judged(run):
    assert class_summary.compare_with_truth(read_decisions(run.decisions)) is None


def test_with_known_labels_only_there_is_no_share_of_the_unknown_found(run):
    judged = class_summary.compare_with_truth(read_decisions(run.decisions[:20], lambda key, number: "plain"))
    assert judged is not None
    assert math.isnan(judged.unknown_found)
    assert math.isnan(judged.auroc)
