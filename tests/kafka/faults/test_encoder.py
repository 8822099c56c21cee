"""The encoder of the settings fails, for some decisions and for all."""

from __future__ import annotations

import pytest

from tests.kafka.encoders import BROKEN, SECRET
from tests.kafka.faults.auditing import audit
from tests.kafka.faults.trials import Site, Trial, until


@pytest.mark.fault("the encoder of the settings fails for a decision")
@pytest.mark.fault("the encoder of the settings fails for everything")
def test_the_encoder_fails(site: Site) -> None:
    """What cannot be encoded is a dead letter, as it was read; where that is all, the service is not ready."""
    broken = site.folder / "broken"
    trial = Trial(site, encoder="tests.kafka.encoders:failing")
    trial.begin(100, **{BROKEN: str(broken)})
    assert trial.figure("dead_letters_total") == trial.figure("encoder_failures_total") == 10
    lines = trial.lines("cannot encode the decision", "stage ENCODE", "ValueError in encode, encoders.py")
    assert 1 <= len(lines) < 10, "a line for some of the failures"
    broken.touch()
    trial.decide(100)
    trial.await_not_ready("the encoder tests.kafka.encoders:failing fails for every decision")
    assert trial.is_healthy()
    until(lambda: trial.figure("dead_letters_total") == 110, 10, trial.tail)
    broken.unlink()
    trial.decide(100)
    trial.await_ready()
    until(lambda: trial.figure("dead_letters_total") == 120, 10, trial.tail)
    assert trial.figure("decisions_total") == 180
    assert not trial.lines(SECRET)
    trial.end()
    assert audit(trial.stream) == 300
    for number, letters in enumerate(trial.stream.read("dlq")):
        for letter in letters:
            found = {name.removeprefix("__connect.errors."): value for name, value in letter.headers}
            sent = trial.stream.sent[number][int(found["offset"])]
            assert (letter.key, letter.value) == (sent.key, sent.value)
            assert (found["stage"], found["exception.message"]) == (b"ENCODE", SECRET.encode())
