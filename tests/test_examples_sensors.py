"""Sensors: known states that move stay known if they are followed, and what is new is found all the same."""

from __future__ import annotations

import re
import sys

import pytest

from tests.examples import example

sensors = example("sensors")


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", ["sensors.py", *arguments])
    sensors.main()
    return capsys.readouterr().out


def shares(printed: str) -> dict[str, list[float]]:
    """The table at the end."""
    rows = re.findall(r"^(idle|half|full|bearing) ((?: +(?:[\d.]+))+) *$", printed, re.MULTILINE)
    return {state: [float(share) for share in values.split() if share != "."] for state, values in rows}


@pytest.mark.parametrize("seed", ["0", pytest.param("1", marks=pytest.mark.long)])
def test_followed_they_stay_known_and_the_fault_is_found(seed, monkeypatch, capsys) -> None:
    printed = run(["--follow-drift", "--seed", seed], monkeypatch, capsys)
    found = shares(printed)
    assert min(min(found[state]) for state in sensors.KNOWN) > 0.97
    assert min(found["bearing"]) > 0.9
    assert re.search(r"emerged: \d+ readings, nearest half, vibration \+", printed)
    assert "drifts" not in printed


@pytest.mark.long  # the page of the example runs it as well
def test_not_followed_they_turn_unknown_and_drift_is_reported(monkeypatch, capsys) -> None:
    printed = run([], monkeypatch, capsys)
    assert min(shares(printed)[state][-2] for state in sensors.KNOWN) > 0.9, "typicality says that they are known"
    assert max(shares(printed)[state][-1] for state in sensors.KNOWN) < 0.5
    assert re.search(r"full drifts since \d+ \(sparser\), pressure \+", printed)


@pytest.mark.long  # the page of the example runs it as well
def test_a_jump_is_not_followed_and_is_reported(monkeypatch, capsys) -> None:
    printed = run(["--follow-drift", "--jump"], monkeypatch, capsys)
    assert {state for state in sensors.KNOWN if f"{state} drifts since" in printed} == set(sensors.KNOWN)
    assert max(shares(printed)[state][-1] for state in sensors.KNOWN) < 0.6
