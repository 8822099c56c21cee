"""The benchmark of the service: workers finish, and what is printed is what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.kafka import __main__ as benchmark
from tests.data import need_data
from tests.kafka.brokers import Broker

RECORDS = 17_000
"""Two polls and a part of one."""


@pytest.mark.needs("data")
def test_throughput_and_memory_are_measured(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_data("LETTER")
    written = tmp_path / "figures.json"
    benchmark.main(records=RECORDS, repeats=1, memory=RECORDS, brokers=broker.address, json_file=written)
    found = json.loads(written.read_text())
    first, *others = found["speed"]
    assert first["worker"] == "pass-through"
    assert {each["worker"] for each in others} == set(found["known_subclasses"])
    printed = capsys.readouterr().out
    for each in found["speed"]:
        assert each["ratios"] == [each["ratio"]] == [pytest.approx(each["rate"] / first["rate"])]
        assert f"{each['rate']:.0f}" in printed
        assert each["client"] + each["recognizer"] + each["rest"] == pytest.approx(each["processor"], rel=0.01)
        assert each["client"] > each["rest"] > 0
        assert f"{each['rest_of_client']:.2f}" in printed
    assert first["recognizer"] < 1 < min(each["recognizer"] for each in others)
    done = [moment[0] for moment in found["memory"]["moments"]]
    assert sorted(set(done)) == done
    assert done[-1] == RECORDS
