"""Records that are decided twice, or never: the log and the metrics give the numbers that the topics show."""

from __future__ import annotations

import re
import signal
import time

import pytest

from tests.kafka.faults.auditing import audit, records_of
from tests.kafka.faults.doing import Offsets, delete_group, delete_records
from tests.kafka.faults.test_snapshots import await_newer, snapshots
from tests.kafka.faults.trials import Site, Trial, assigned, until

DONE, GONE = 100, 160
"""Records that are decided, and the offset before which the input deletes its records."""


def crashed(site: Site, **settings: object) -> tuple[Trial, Offsets]:
    """A service of one partition that was killed ``DONE`` records after its last snapshot; its group is empty."""
    trial = Trial(site, 1, on_lost_state="cold", snapshot_interval=5.0, **settings)
    trial.begin(DONE)
    await_newer(trial)
    trial.decide(DONE)
    trial.count()
    trial.worker.kill()
    offsets = Offsets(site.broker.address, trial.stream.settings["group"], trial.stream.topic)
    offsets.leave("w")
    return trial, offsets


@pytest.mark.fault("the group's offsets are set back after a crash")
def test_offsets_are_set_back_after_a_crash(site: Site) -> None:
    """The snapshots are behind what was decided; the outputs tell how far that was."""
    trial, offsets = crashed(site)
    done = trial.fed
    assert offsets.move(0, 30)
    trial.begin(60)
    again = done - 30
    assert trial.lines("WARNING", f"{trial.stream.topic}/0", f"{again} records are decided again"), trial.tail()
    assert not trial.lines("not decided")
    trial.end()
    audit(trial.stream, again=[(0, offset) for offset in range(30, done)])


@pytest.mark.fault("the group is deleted while its worker is frozen")
def test_the_group_is_deleted(site: Site) -> None:
    """The worker goes on by itself, and counts all that it decides again."""
    trial = Trial(site, 1, on_lost_state="cold", snapshot_interval=600.0)
    trial.begin(2 * DONE)
    trial.mark()
    trial.worker.process.send_signal(signal.SIGSTOP)
    time.sleep(trial.stream.settings["session_timeout"])
    delete_group(site.broker.address, trial.stream.settings["group"])
    trial.worker.process.send_signal(signal.SIGCONT)
    trial.feed(60)
    trial.await_line("WARNING", f"{trial.stream.topic}/0", f"{2 * DONE} records are decided again", seconds=60)
    trial.finish()
    audit(trial.stream, again=[(0, offset) for offset in range(2 * DONE)])


def emptied(site: Site, **settings: object) -> Trial:
    """A stopped service whose input has deleted records that it has not read; a subclass has emerged before."""
    trial = Trial(site, 1, **settings)
    trial.begin(3 * DONE)
    assert trial.figure("active_subclasses") > 0
    trial.end()
    trial.feed(2 * DONE)
    delete_records(site.broker.address, trial.stream.topic, 0, 3 * DONE + GONE)
    return trial


@pytest.mark.fault("the input deletes records before they are read")
@pytest.mark.parametrize("on_gap", ["carry", pytest.param("cold", marks=pytest.mark.long)])
def test_the_input_deletes_unread_records(site: Site, on_gap: str) -> None:
    """With ``carry`` what has emerged stays; the number of the lost records is exact."""
    trial = emptied(site, on_gap=on_gap)
    emerged = subclasses(trial)
    trial.begin(DONE)
    line = f"{GONE} records are not decided (offsets {3 * DONE} to {3 * DONE + GONE - 1})"
    assert trial.lines("ERROR", f"{trial.stream.topic}/0", line), trial.tail()
    assert trial.figure("lost_records_total", reason="retention") == GONE
    kept = trial.figure("active_subclasses") > 0 and subclasses(trial) == emerged
    assert kept == (on_gap == "carry"), f"{emerged}, and now {subclasses(trial)}"
    trial.worker.kill()  # a beginning behind a gap outlives a crash
    trial.stream.counted = {"lost": GONE, "repeated": 0}
    trial.begin(DONE)
    trial.end()
    audit(trial.stream)


@pytest.mark.fault("the input deletes records before they are read, and on_gap is fail")
def test_a_gap_suspends_the_partition(site: Site) -> None:
    """The message names the setting that helps, and does not ask for snapshots."""
    trial = emptied(site, on_gap="fail")
    trial.start()
    trial.await_not_ready("suspended", "on_gap")
    (line,) = trial.lines("ERROR", "is suspended")
    assert f"offsets {3 * DONE} to {3 * DONE + GONE - 1}" in line
    assert "snapshots" not in line
    trial.worker.kill()
    trial.stream.settings["on_gap"] = "carry"
    trial.begin(DONE)
    trial.end()
    audit(trial.stream)


@pytest.mark.fault("the input deletes unread records, and the snapshots are lost")
def test_state_and_records_are_lost(site: Site) -> None:
    trial = emptied(site, state_topic=None)
    for path in snapshots(trial, 0):
        path.unlink()
    trial.fails_to_start("on_lost_state")
    trial.stream.settings["on_lost_state"] = "cold"
    trial.begin(DONE)
    assert trial.lines("ERROR", f"{trial.stream.topic}/0", f"{GONE} records are not decided"), trial.tail()
    trial.end()
    audit(trial.stream)


@pytest.mark.fault("two machines of a group have folders of their own")
def test_machines_with_folders_of_their_own(site: Site) -> None:
    """With ``on_lost_state: cold`` nothing is decided twice, and no line says that something may be."""
    trial = Trial(site, 4, on_lost_state="cold", snapshot_interval=1.0)
    trial.begin(200)
    first, state = trial.worker, trial.stream.settings["state"]
    trial.stream.settings["state"] = f"{state}-of-the-other"
    workers = [first, trial.start("v")]

    def share() -> None:
        until(lambda: all(assigned(each) == 2 for each in workers), 40, trial.tail)

    for turn in range(3):
        share()
        for _ in range(4):
            trial.feed(80)
            time.sleep(0.5)
        trial.settle()
        workers[turn % 2].kill()
        trial.decide(80)
        trial.stream.settings["state"] = state if turn % 2 == 0 else f"{state}-of-the-other"
        workers[turn % 2] = trial.start("w" if turn % 2 == 0 else "v")
    share()
    trial.decide(80)
    for worker in workers:
        trial.worker = worker
        said = [line for line in worker.lines() if re.search("decided again|not decided|never be decided", line)]
        assert not [line for line in said if "no record is lost or decided again" not in line], trial.tail()
        trial.end()
    assert audit(trial.stream) == trial.fed


def subclasses(trial: Trial) -> list[str]:
    """Identities of emerging subclasses, one for each event. A stream that starts again may repeat one."""
    events = records_of(trial.stream.address, f"{trial.stream.topic}.events")
    return sorted((each.key or b"").decode() for each in events if b"SubclassEmerged" in (each.value or b""))
