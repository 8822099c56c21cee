"""The recall of the known classes, from a partition's recognizer to the figures and the log."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.kafka import ServiceSettings, stats
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.models import ModelFile
from stream_osr_connectors.kafka.run.partition import begin
from stream_osr_connectors.kafka.run.publishing import PendingBatch, account
from stream_osr_connectors.kafka.stats import PartitionStats, ServiceStats
from stream_osr_connectors.kafka.wire.boundaries import Boundary
from tests.blobs import fitted_once
from tests.kafka.test_partition import advance, records


def test_figures_follow_the_recognizer() -> None:
    model, figures = fitted_once(chains=1), PartitionStats()
    figures.follow(model)
    assert figures.recall == stats.PartitionRecall(None, model.trained.report.known_recall)
    without = fitted_once(chains=1, references=0)
    figures.follow(without)
    assert figures.recall == stats.PartitionRecall(), "nobody can tell whether the promise holds"
    assert figures.menu is not None
    assert figures.menu.references == 0


def test_a_drop_is_in_the_figures_and_once_in_the_log(tmp_path, caplog: pytest.LogCaptureFixture) -> None:
    trained = fitted_once(200, chains=1).trained
    unreachable = replace(trained.report, known_recall=1.1, recall_interval=(1.05, 1.15))
    promising = OpenSetRecognizer.from_trained(replace(trained, report=unreachable), chains=1)
    promising.save(tmp_path / "model.osr")
    settings = ServiceSettings(model=tmp_path / "model.osr", brokers="b", input="in", state=tmp_path / "state")
    before = begin(ModelFile.load(settings).recognizer(Place("in", 3)), Boundary(0))
    figures = ServiceStats(partitions={Place("in", 3): PartitionStats()})
    for offset in (0, 200):
        after, (outcome,) = advance(before, [records(200, offset)])
        with caplog.at_level(logging.WARNING, logger="stream_osr.kafka"):
            account(
                figures,
                settings,
                [PendingBatch(Place("in", 3), before, after, records(200, offset), outcome)],
                [],
                0.0,
            )
        before = after
    told = figures.partitions[Place("in", 3)].recall
    assert (told.now, told.promised, told.dropped) == (after.model.expected_recall, 1.1, True)
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    jumped = [text for text in warned if "called unknown, usually" in text]
    assert sum(figures.counts["unknown_rate_jumps", place] for place in (Place("in", 3),)) == len(jumped)
    warned = [text for text in warned if text not in jumped]
    assert len(warned) == 1
    assert warned[0].startswith("in/3: recall of the known classes ")
    assert "below the 1.100 promised" in warned[0]
