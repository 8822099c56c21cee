"""Two services with one group and one instance."""

from __future__ import annotations

import time

import pytest

from tests.kafka.faults.trials import Site, Trial, until

WITHIN = 10.0
SHORT = [(1, "its own"), (2, "the same")]
LONG = [(1, "the same"), (2, "its own")]


@pytest.mark.fault("two services have one group and one instance")
@pytest.mark.parametrize(
    ("workers", "state"), [*SHORT, *(pytest.param(*each, marks=pytest.mark.long) for each in LONG)]
)
def test_one_of_two_twins_ends(site: Site, workers: int, state: str) -> None:
    trial = Trial(site, workers=workers)
    trial.begin()
    if state == "its own":
        trial.stream.settings["state"] += "-of-the-twin"
    twins = [trial.worker, trial.start()]
    twins[1].await_line("topics: ")
    met = time.monotonic()

    def over() -> bool:
        trial.feed(10)
        time.sleep(0.3)
        return any(each.process.poll() is not None for each in twins)

    until(over, WITHIN, trial.tail)
    print(f"one of them ended {time.monotonic() - met:.1f} s after they had met")
    ended, trial.worker = sorted(twins, key=lambda each: each.process.poll() is None)
    assert ended.process.returncode == 73, "\n".join(ended.lines()[-20:])
    said = [line for line in ended.lines() if "another worker of group" in line]
    assert said, "\n".join(ended.lines()[-20:])
    assert trial.stream.settings["group"] in said[-1]
    assert "has the name w" in said[-1]
    time.sleep(2)
    trial.feed(200)
    trial.goes_on()
