"""A service that is slow to begin, and one that can write no snapshot for long."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from stream_osr_connectors.kafka.run import snapshot_policy
from tests.kafka.decoders import SECONDS
from tests.kafka.faults.trials import FOLDER_ALONE, Site, Trial, Watch, running, until
from tests.kafka.streams import check_exactly_once, instances

SIZE = 32
"""Records of a full micro-batch of the small model."""


@pytest.mark.fault("the first micro-batch takes long")
def test_a_service_is_ready_when_it_has_committed(site: Site) -> None:
    trial = Trial(site, decoder="tests.kafka.decoders:slow_at_first", max_wait=2.0)
    trial.feed(40)
    trial.start()
    trial.await_line("assigned")
    early, begun = [], time.monotonic()
    with Watch(trial.stream) as watch:
        while not any(watch.committed()):
            early += [trial.ready()] if not any(watch.committed()) else []
            time.sleep(0.2)
            assert time.monotonic() - begun < SECONDS + 30, trial.tail()
    assert len(early) > 5
    assert {code for code, _ in early[:-1]} == {503}, early
    assert "no micro-batch is committed yet" in early[-2][1]
    trial.goes_on()


@pytest.mark.alone
@pytest.mark.fault("no snapshot can be written for hours")
def test_a_trickle_without_snapshots_goes_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The room beside the committed offset fills up; from three quarters on, micro-batches close when full."""
    monkeypatch.setattr(snapshot_policy, "MOST_CHARACTERS", 120)  # 4000 last for half an hour
    monkeypatch.setattr(snapshot_policy, "FEW_STEPS", 5)
    trial = Trial(site, 1, snapshot_interval=0.5, max_wait=0.05, **FOLDER_ALONE)
    folder = Path(str(trial.stream.settings["state"])) / str(trial.stream.settings["group"])
    records, sent = instances(240, 1), 1
    with running(trial.stream) as service, Watch(trial.stream) as watch:

        def until_committed() -> None:
            until(lambda: watch.committed() == [sent], 60, lambda: f"{sent} were sent; {service.stats.reasons}")

        trial.stream.send(records[:1])
        until_committed()
        shutil.rmtree(folder)
        folder.write_text("no folder")
        while sent < 160:
            size = 1 + sent % 3  # unequal steps take the most room
            trial.stream.send(records[sent : sent + size])
            sent += size
            time.sleep(0.02)
        assert any("closes full micro-batches only" in each for each in service.stats.reasons)
        trial.stream.send(records[sent : sent + (-sent) % SIZE])
        sent += -sent % SIZE
        folder.unlink()
        folder.mkdir()  # there is room again
        until_committed()
        trial.stream.send(records[sent : sent + 1])  # and max_wait counts again
        sent += 1
        until_committed()
    check_exactly_once(trial.stream)
