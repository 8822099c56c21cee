"""The example that sends dead letters to the input again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.brokers import Broker
from tests.kafka.streams import Sent, Stream, Worker, instances, records_of, small_model
from tests.processes import run

pytestmark = pytest.mark.thorough

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka" / "resend.py"
BAD = Sent(b"bad", b"{", (("truth", b"sky"), ("ce_id", b"7"), ("none", None)), 1_700_000_000_000)
INVALID = Sent(b"invalid", b'{"a": "no number", "b": 1}', (), 1_700_000_000_001)


def resend(stream: Stream, stage: str) -> str:
    """Run the example, and return its last line."""
    done = run(EXAMPLE, "--config", stream.config(), "--stage", stage)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_dead_letters_of_a_stage_are_sent_again_once(broker: Broker, tmp_path: Path) -> None:
    """To their partition, with their bytes and headers; those of another stage later."""
    stream = Stream(broker.address, tmp_path, 2, small_model())
    stream.send([*instances(20, 2), (1, BAD), (1, BAD), (0, INVALID)])
    worker = Worker(stream)
    stream.wait()
    assert worker.stop() == 0
    assert resend(stream, "DECODE") == "2 sent, 0 without value, 1 of other stages"
    assert resend(stream, "DECODE") == "0 sent, 0 without value, 0 of other stages"
    assert resend(stream, "VALIDATE") == "1 sent, 0 without value, 2 of other stages"
    again = [
        each for each in records_of(broker.address, stream.topic) if each.offset >= len(stream.sent[each.partition])
    ]
    found = {(r.partition, Sent(r.key, r.value, tuple(r.headers), r.timestamp)) for r in again}
    assert len(again) == 3
    assert found == {(1, BAD), (0, INVALID)}
