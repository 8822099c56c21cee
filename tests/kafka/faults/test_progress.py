"""A service that is slow to begin, and one that can write no snapshot for long."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest

from stream_osr_connectors.kafka import Service, ServiceSettings
from tests.doors.kafka import recovery as keeping
from tests.kafka.decoders import SECONDS
from tests.kafka.faults.trials import Site, Trial, Watch
from tests.kafka.streams import check_exactly_once, instances

SIZE = 32
"""Records of a full micro-batch of the small model."""


@pytest.mark.beside
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
    trial.finish()
    check_exactly_once(trial.stream)


@pytest.mark.fault("no snapshot can be written for hours")
def test_a_trickle_without_snapshots_goes_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The room beside the committed offset fills up; from three quarters on, micro-batches close when full."""
    monkeypatch.setattr(keeping, "MOST_CHARACTERS", 120)  # 4000 last for half an hour
    monkeypatch.setattr(keeping, "FEW_STEPS", 5)
    trial = Trial(site, 1, snapshot_interval=0.5, max_wait=0.05)
    settings = ServiceSettings(**{**trial.stream.settings, "instance": "w", "metrics_port": None})
    folder = Path(str(settings.state)) / settings.group
    service, stop, failed = Service(settings), threading.Event(), []

    def work() -> None:
        try:
            service.run(stop.is_set)
        except Exception as error:  # the test shows it
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    records = instances(240, 1)
    with Watch(trial.stream) as watch:
        sent, ends = 1, time.monotonic() + 60
        trial.stream.send(records[:1])
        while watch.committed() != [sent]:
            assert not failed, failed
            assert time.monotonic() < ends
            time.sleep(0.2)
        shutil.rmtree(folder)
        folder.write_text("no folder")
        while sent < 160:
            size = 1 + sent % 3  # unequal steps take the most room
            trial.stream.send(records[sent : sent + size])
            sent += size
            time.sleep(0.02)
            assert not failed, failed
        assert any("closes full micro-batches only" in each for each in service.stats.reasons)
        trial.stream.send(records[sent : sent + (-sent) % SIZE])
        sent += -sent % SIZE
        folder.unlink()
        folder.mkdir()  # there is room again
        ends = time.monotonic() + 30
        while watch.committed() != [sent]:
            assert time.monotonic() < ends, (watch.committed(), sent, service.stats.reasons)
            time.sleep(0.2)
        trial.stream.send(records[sent : sent + 1])  # and max_wait counts again
        while watch.committed() != [sent + 1]:
            assert time.monotonic() < ends, (watch.committed(), service.stats.reasons)
            time.sleep(0.2)
    stop.set()
    thread.join(40)
    assert not failed, failed
    check_exactly_once(trial.stream)
