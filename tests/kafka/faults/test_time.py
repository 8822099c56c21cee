"""Records from another time, and a clock that is set back."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest

from tests.kafka.faults.auditing import audit, records_of
from tests.kafka.faults.doing import delete_topic, make_topics
from tests.kafka.faults.trials import Site, Trial, until
from tests.kafka.streams import Sent, check_exactly_once, instances
from tests.tiers import faketime

DAY = 86_400_000
ORIGINAL = "stream-osr.timestamp"

SLEEP = """
import select
import time

time.sleep = lambda seconds: select.select([], [], [], seconds) and None
"""
"""libfaketime 0.9.10 refuses the call by which Python sleeps: until a moment of the clock that is not faked."""


@pytest.mark.fault("a record from tomorrow, one from 1970")
def test_records_from_another_time(site: Site) -> None:
    """The outputs are as the broker makes them: they take nothing from tomorrow and keep nothing of 1970."""
    trial = Trial(site)
    stream = trial.stream
    now = time.time_ns() // 1_000_000
    for suffix, configs in {
        "": {"message.timestamp.after.max.ms": str(1000 * DAY), "retention.ms": "-1"},
        ".decisions": {},
        ".events": {},
        ".dlq": {"max.message.bytes": "1200000"},
    }.items():
        delete_topic(stream.address, stream.topic + suffix)
        make_topics(stream.address, 2, {stream.topic + suffix: configs})
    odd = {"tomorrow": now + DAY, "1970": 1000}
    sent = [(number, each._replace(timestamp=now)) for number, each in instances(300, 2)]
    for at, timestamp in enumerate(odd.values()):
        good = sent[7][1]._replace(timestamp=timestamp)
        junk = Sent(b"junk", b"{", (), timestamp)
        sent[60 + 40 * at : 60 + 40 * at] = [(number, each) for number in range(2) for each in (good, junk)]
    stream.send(sent)
    trial.start()
    trial.settle()
    trial.await_ready()
    assert trial.figure("timestamps_replaced_total") >= 2 * 2 * 2
    trial.end()
    assert audit(stream) == 308
    check_exactly_once(stream)
    replaced: Counter[tuple[str, int]] = Counter()
    for suffix in ("decisions", "dlq"):
        for record in records_of(stream.address, f"{stream.topic}.{suffix}"):
            assert abs(record.timestamp - now) < 600_000
            if ORIGINAL in (headers := dict(record.headers)):
                original = int(headers[ORIGINAL])
                replaced[suffix, original] += 1
                if suffix == "decisions":
                    assert json.loads(record.value)["t"] == original / 1000, "the value has the record's own time"
    assert replaced == {(suffix, timestamp): 2 for suffix in ("decisions", "dlq") for timestamp in odd.values()}


def faked_clock(site: Site) -> tuple[Path, dict[str, str]]:
    """Return the file with the offset of the service's clock, and the environment in which it counts."""
    clock = site.folder / "clock"
    clock.write_text("+0\n")
    (site.folder / "sitecustomize.py").write_text(SLEEP)
    return clock, {
        "LD_PRELOAD": faketime(),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "PYTHONPATH": os.pathsep.join([str(site.folder), os.environ.get("PYTHONPATH", "")]),
    }


@pytest.mark.needs("faketime")
@pytest.mark.fault("the clock of the service is ahead")
def test_the_clock_is_ahead(site: Site) -> None:
    """By a year. The topic of states refuses such timestamps, and the line says so. Snapshots go on without them."""
    trial = Trial(site, snapshot_interval=1.0, state_topic=f"state-{uuid.uuid4().hex[:8]}")
    clock, fake = faked_clock(site)
    clock.write_text("+365d\n")
    trial.begin(120, **fake)
    assert trial.await_line(
        "WARNING", "the clock of this machine is", str(trial.stream.settings["state_topic"]), "ahead"
    )
    trial.decide(100, poison=True)
    until(lambda: trial.figure("snapshot_age_seconds") < 5, 20, trial.tail)
    assert not trial.lines("ERROR")
    trial.worker.kill()
    trial.begin(100)
    trial.goes_on()


@pytest.mark.needs("faketime")
@pytest.mark.fault("the clock is set back")
def test_the_clock_is_set_back(site: Site) -> None:
    """By an hour, in the middle of a stream; the clock that counts from the start of the machine goes on."""
    trial = Trial(site, snapshot_interval=1.0)
    clock, fake = faked_clock(site)
    trial.begin(120, **fake)
    first = trial.worker.lines()[0]
    for offset in ("-3600", "-7200", "+0"):
        clock.write_text(f"{offset}\n")
        trial.decide(100, poison=True)
        assert trial.ready()[0] == 200
        assert trial.is_healthy()
        assert 0 <= trial.figure("progress_age_seconds") < 30
        until(lambda: trial.figure("lag_records") == 0, 10, trial.tail)
        if offset == "-7200":
            earlier = [line for line in trial.worker.lines() if line < first]
            assert earlier, "its clock was not set back"
    trial.end_exactly_once()
