"""The file of the model is replaced under a running service."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.blobs import fitted_once
from tests.kafka.faults.auditing import audit, decisions
from tests.kafka.faults.doing import members
from tests.kafka.faults.trials import Site, Trial, kill, until, workers_of
from tests.kafka.scraping import metrics

PARTITIONS = 4


def models(trial: Trial) -> dict[int, list[str]]:
    """Fingerprints of the models that have decided each partition's records, one for each time that it changed."""
    found: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}
    for (number, _), value in decisions(trial.stream):
        if found[number][-1:] != [value["model"]]:
            found[number].append(value["model"])
    return found


@pytest.mark.fault("the file of the model is replaced, and a worker dies")
@pytest.mark.fault("SIGHUP, after the file of the model was replaced")
def test_the_model_is_replaced(site: Site) -> None:
    """A changed file alone changes nothing and is said once; SIGHUP takes it, one worker after the other."""
    trial = Trial(site, PARTITIONS, workers=2, on_model_change="carry", session_timeout=30.0)
    trial.begin(200)
    until(lambda: shares(trial) == {"w-0": 2, "w-1": 2}, 90, trial.tail)
    path = Path(str(trial.stream.settings["model"]))
    first = trial.stream.model.trained.fingerprint
    other = fitted_once(60, batch_size=32, chains=1, window=32, seed=6)
    before = len(trial.worker.lines())
    other.save(path)
    victim = workers_of(trial)["w-0"]
    kill(trial, "w-0")
    until(lambda: workers_of(trial)["w-0"] != victim, 20, trial.tail)
    trial.decide(200)
    trial.await_ready()
    until(lambda: shares(trial) == {"w-0": 2, "w-1": 2}, 90, trial.tail)
    trial.decide(200)
    assert models(trial) == {number: [first] for number in range(PARTITIONS)}
    said = [line for line in trial.worker.lines()[before:] if str(path) in line and " DEBUG " not in line]
    assert len(said) == 1, "the file is another one now: said once, not by each worker\n" + trial.tail()

    earlier = workers_of(trial)
    trial.mark()
    trial.worker.process.send_signal(signal.SIGHUP)

    def renewed() -> bool:
        trial.feed(20)
        return set(workers_of(trial).values()).isdisjoint(earlier.values())

    until(renewed, 60, trial.tail)
    trial.await_ready(60)
    trial.decide(200)
    steps = [found[1] for line in trial.lines() if (found := re.search(r"(w-\d (is stopped, to|started))", line))]
    assert steps == [f"w-{n} {what}" for n in range(2) for what in ("is stopped, to", "started")], "one at a time"
    second = other.trained.fingerprint
    assert models(trial) == {number: [first, second] for number in range(PARTITIONS)}
    assert not trial.lines("is another worker's now"), "a worker that comes back at once keeps its partitions"
    trial.end()
    assert members(site.broker.address, str(trial.stream.settings["group"])) == [], "all leave when the parent stops"
    audit(trial.stream)


def shares(trial: Trial) -> Mapping[str, float]:
    """How many partitions each worker has."""
    found = metrics(trial.worker).get("stream_osr_assigned_partitions", ())
    return {labels["worker"]: value for labels, value in found}
