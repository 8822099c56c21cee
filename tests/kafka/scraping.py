"""What the port of a worker says."""

from __future__ import annotations

import re
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.kafka.streams import Worker

Samples = dict[str, list[tuple[dict[str, str], float]]]


def address(worker: Worker) -> str:
    """Where its port is."""
    worker.await_line("metrics at")
    return next(found[1] for line in worker.lines() if (found := re.search(r"metrics at (\S+)/metrics", line)))


def status(worker: Worker, path: str) -> int:
    """Status of an answer."""
    try:
        with urlopen(address(worker) + path, timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


def metrics(worker: Worker) -> Samples:
    """All samples, by name."""
    with urlopen(address(worker) + "/metrics", timeout=10) as answer:
        return samples_of(answer.read().decode())


def samples_of(text: str) -> Samples:
    """All samples of an answer, by name."""
    from prometheus_client.parser import text_string_to_metric_families

    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def total(samples: Samples, name: str, **labels: str) -> float:
    """Sum of the samples that have these labels."""
    return sum(value for its, value in samples.get(name, ()) if labels.items() <= its.items())
