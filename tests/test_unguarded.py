"""A model without reference instances works, and warns once that nothing guards its known classes."""

from __future__ import annotations

import logging
from copy import copy

import pytest
from typer.testing import CliRunner

from stream_osr import Limits, OpenSetRecognizer
from stream_osr_connectors.cli.app import app
from tests.blobs import ended, fitted, fitted_once, learn_all, play, stream_part, training_part


@pytest.fixture
def bare() -> OpenSetRecognizer:
    """A model that keeps no references."""
    return fitted(40, chains=1, batch_size=32, references=0)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Warnings that nothing guards the known classes."""
    records = [r for r in caplog.records if r.name == "stream_osr" and r.levelno == logging.WARNING]
    return [r.getMessage() for r in records if "guard" in r.getMessage()]


def test_a_model_without_references_says_when_it_is_loaded_that_nothing_guards_it(bare, tmp_path, caplog):
    bare.save(tmp_path / "model.osr")
    caplog.clear()
    model = OpenSetRecognizer.load(tmp_path / "model.osr")
    (message,) = warnings(caplog)
    assert "Train with limits=Limits(references=1000)" in message
    copy(model)
    OpenSetRecognizer.from_trained(model.trained)
    OpenSetRecognizer.from_state_bytes(model.trained, model.state_bytes())
    assert len(ended(play(model, stream_part(64)))) == 64
    assert model.expected_recall is None
    assert model.value.menu.references == 0
    assert len(warnings(caplog)) == 1, "all recognizers over one trained model, and all batches: once"


def test_inspect_says_it_in_a_line(bare, tmp_path):
    def inspected(model: OpenSetRecognizer, *options: str) -> list[str]:
        model.save(tmp_path / "model.osr")
        return CliRunner().invoke(app, ["inspect", str(tmp_path / "model.osr"), *options]).stdout.splitlines()

    def recall(lines: list[str]) -> str:
        (line,) = [line for line in lines if line.startswith("recall of the known classes: promised ")]
        return line

    lines = inspected(bare)
    assert sum("nothing guards the known classes" in line for line in lines) == 1
    assert recall(lines).endswith("not monitored because the model has no reference instances")
    guarded = fitted_once(40, chains=1)
    lines = inspected(guarded)
    assert "80 reference instances guard the known classes" in lines
    assert recall(lines).endswith("nothing decided yet")
    shares = "share of each subclass in its group"
    assert shares in "".join(inspected(guarded, "--subclasses"))
    assert shares not in "".join(lines)


def test_training_without_references_says_so_when_it_ends_and_not_before(caplog):
    model = learn_all(OpenSetRecognizer(chains=1, limits=Limits(references=0)), training_part(40))
    assert "recall" not in str(model.summary()), "training goes on: nothing was promised"
    assert not warnings(caplog)
    assert "nothing guards the known classes" in str(model.freeze())
    assert model.freeze() is model.trained.report
    (message,) = warnings(caplog)
    assert "Limits(references=1000)" in message
