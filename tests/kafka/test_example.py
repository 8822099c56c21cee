"""The example, as its read-me says, with a model that is made faster than the demonstration's."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stream_osr import ModelOptions, OpenSetRecognizer
from stream_osr_connectors.cli.app import app
from stream_osr_connectors.cli.demo import KNOWN, split
from tests.kafka.brokers import Broker
from tests.kafka.streams import Worker
from tests.processes import COMMAND

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka"


class Service(Worker):
    """The service, with flags."""

    def __init__(self, flags: list[str], log: Path) -> None:
        self.log = log
        self._start([*COMMAND, "run", *flags])


@pytest.mark.long
def test_the_example_runs(broker: Broker, tmp_path: Path) -> None:
    training, stream = split(2)
    model = OpenSetRecognizer(batch_size=64, chains=1, model=ModelOptions(window=64, training_sweeps=10))
    for segment in training:
        model.learn_one(segment.features, segment.label)
    model.freeze()
    model.save(tmp_path / "model.osr")
    topic = f"segments-{uuid.uuid4().hex[:8]}"
    own = ["--config", str(EXAMPLE / "service.yaml"), "--brokers", broker.address, "--input", topic]
    own += ["--labels", f"{topic}.labels", "--group", topic]
    made = CliRunner().invoke(app, ["topics", "--create", "--partitions", "2", *own])
    assert made.exit_code == 0, made.output
    places = ["--model", str(tmp_path / "model.osr"), "--state", str(tmp_path / "state"), "--metrics-port", "0"]
    service = Service([*own, *places], tmp_path / "service.log")
    sent = run("produce.py", "--brokers", broker.address, "--topic", topic, "--rate", "2000")
    assert sent == f"{len(stream)} instances sent to {topic}\n"
    told = run("consume.py", "--brokers", broker.address, "--topic", topic, "--idle", "40")
    assert f"\n{len(stream)} decided: " in told, told
    assert told.count(" has emerged: ") >= 2, told
    assert all(f"'{label}'" in told.splitlines()[-1] for label in (*KNOWN, "unknown"))
    assert service.stop() == 0


def run(script: str, *arguments: str) -> str:
    """Run a script of the example, and return what it prints."""
    command = [sys.executable, "-W", "ignore", str(EXAMPLE / script), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
