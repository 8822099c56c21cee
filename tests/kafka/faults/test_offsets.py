"""The committed offsets of the group are moved."""

from __future__ import annotations

import pytest

from tests.kafka.faults.auditing import audit
from tests.kafka.faults.doing import Offsets
from tests.kafka.faults.trials import Site, Trial
from tests.kafka.streams import instances

DONE, MOVE = 100, 30


def stopped(site: Site, **settings: object) -> tuple[Trial, Offsets]:
    """A service that has decided ``DONE`` records of one partition and has been stopped; its group is empty."""
    trial = Trial(site, 1, **settings)
    trial.begin(DONE)
    offsets = Offsets(site.broker.address, trial.stream.settings["group"], trial.stream.topic)
    assert not offsets.move(0, DONE - MOVE), "the broker refuses while the group has a member"
    assert not offsets.delete(0)
    trial.end()
    return trial, offsets


@pytest.mark.fault("the group's offsets are set back")
@pytest.mark.fault("the group's offsets are set forward")
@pytest.mark.parametrize(
    ("tool", "by"),
    [
        ("move", -MOVE),
        ("reset", MOVE),
        pytest.param("reset", -MOVE, marks=pytest.mark.long),
        pytest.param("move", MOVE, marks=pytest.mark.long),
    ],
)
def test_offsets_are_moved(site: Site, tool: str, by: int) -> None:
    trial, offsets = stopped(site)
    if by > 0:
        trial.stream.send(instances(100, 1, seed=3, begin=DONE))
    assert getattr(offsets, tool)(0, DONE + by)
    trial.fails_to_start(f"{trial.stream.topic}/0", "on_lost_state")
    trial.stream.settings["on_lost_state"] = "cold"
    trial.begin(60)
    assert trial.lines(f"{trial.stream.topic}/0", str(MOVE)), trial.tail()
    trial.end()
    moved = [(0, offset) for offset in range(*sorted((DONE, DONE + by)))]
    audit(trial.stream, **{"again" if by < 0 else "left_out": moved})


@pytest.mark.fault("the group's offsets are deleted")
def test_offsets_are_deleted(site: Site) -> None:
    """A group that knows nothing begins where ``start`` says; what was decided before is named."""
    trial, offsets = stopped(site, on_lost_state="cold")
    assert offsets.delete(0)
    trial.begin(60)
    assert trial.lines(f"{trial.stream.topic}/0", str(DONE)), trial.tail()
    trial.end()
    audit(trial.stream, again=[(0, offset) for offset in range(DONE)])
