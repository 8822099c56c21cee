"""A model without reference instances works, and says, once, that nothing guards its known classes."""

from __future__ import annotations

import logging
from copy import copy

import pytest
from typer.testing import CliRunner

from stream_osr import Limits, OpenSetRecognizer, TrainedModel
from stream_osr_connectors.cli.app import app
from tests.blobs import ended, fitted, learn_all, play, stream_part, training_part


@pytest.fixture
def bare() -> OpenSetRecognizer:
    """A model that keeps no references."""
    return fitted(40, chains=1, batch_size=32, references=0)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was warned of, of the known classes."""
    records = [r for r in caplog.records if r.name == "stream_osr" and r.levelno == logging.WARNING]
    return [r.getMessage() for r in records if "guard" in r.getMessage()]


def test_a_model_without_references_says_when_it_is_loaded_that_nothing_guards_it(bare, tmp_path, caplog):
    bare.save(tmp_path / "model.osr")
    caplog.clear()
    model = OpenSetRecognizer.load(tmp_path / "model.osr")
    (told,) = warnings(caplog)
    assert "Train with limits=Limits(references=1000)" in told
    copy(model)
    OpenSetRecognizer.from_trained(model.trained)
    OpenSetRecognizer.from_state_bytes(model.trained, model.state_bytes())
    assert len(ended(play(model, stream_part(64)))) == 64
    assert model.expected_recall is None
    assert model.menu.references == 0
    assert len(warnings(caplog)) == 1, "all recognizers over one trained model, and all batches: once"


def test_inspect_says_it_in_a_line(bare, tmp_path):
    bare.save(tmp_path / "bare.osr")
    fitted(40, chains=1).save(tmp_path / "model.osr")
    lines = CliRunner().invoke(app, ["inspect", str(tmp_path / "bare.osr")]).stdout.splitlines()
    assert sum("nothing guards the known classes" in line for line in lines) == 1
    (recall,) = [line for line in lines if line.startswith("recall of the known classes: promised ")]
    assert recall.endswith("not monitored because the model has no reference instances")
    lines = CliRunner().invoke(app, ["inspect", str(tmp_path / "model.osr")]).stdout.splitlines()
    assert "80 reference instances guard the known classes" in lines
    told = CliRunner().invoke(app, ["inspect", str(tmp_path / "model.osr"), "--subclasses"]).stdout
    assert "share of each subclass in its group" in told
    assert "share of each subclass in its group" not in "".join(lines)
    (recall,) = [line for line in lines if line.startswith("recall of the known classes: promised ")]
    assert recall.endswith("nothing decided yet")


def test_training_without_references_says_so_when_it_ends_and_not_before(caplog):
    model = learn_all(OpenSetRecognizer(chains=1, limits=Limits(references=0)), training_part(40))
    assert "recall" not in str(model.summary()), "training goes on: nothing was promised"
    assert not warnings(caplog)
    assert "nothing guards the known classes" in str(model.freeze())
    assert model.freeze() is model.trained.report
    (told,) = warnings(caplog)
    assert "Limits(references=1000)" in told


def test_a_model_with_references_says_nothing(tmp_path, caplog):
    model = fitted(40, chains=1)
    model.save(tmp_path / "model.osr")
    trained: TrainedModel = OpenSetRecognizer.load(tmp_path / "model.osr").trained
    assert trained.unguarded == ""
    assert not warnings(caplog)
    assert (
        str(trained.report).splitlines()[1]
        == "80 of them are kept as reference instances to monitor the known classes"
    )
