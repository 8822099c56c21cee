"""One run for all tests of the report: hostile names, three known classes, two new ones that come later."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.page.report import report_page
from tests.blobs import around
from tests.report.browser import browser

__all__ = ["browser"]

EVIL_FEATURES = ("<script>window.hacked = 1</script>", "b\"'&", "c.d[0]")
EVIL_CLASSES = ("<img src=x onerror='window.hacked=1'>", "S3", "plain")
KNOWN = dict(zip(EVIL_CLASSES, ((0.0, 0.0, 0.0), (9.0, 0.0, 0.0), (0.0, 9.0, 0.0)), strict=True))
NEW = {"first </script><script>window.hacked=1</script>": (4.0, 4.0, 12.0), "second": (-4.0, -4.0, -11.0)}
BEGINS = dict(zip(NEW, (150, 350), strict=True))
N = 600


@dataclass(frozen=True)
class Run:
    """What a run left: the model, decisions and events as they are written to files, true labels."""

    model: OpenSetRecognizer
    decisions: list[dict[str, Any]]
    events: list[dict[str, Any]]
    labels: list[str]
    training: dict[str, np.ndarray] = field(default_factory=dict)

    def truth(self, key: Any, number: int) -> str:
        return self.labels[number]


class Page(HTMLParser):
    """Tags, text outside scripts, and the embedded content: the state of the page and its answers."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.state: dict[str, Any] = {}
        self.answers: dict[str, Any] = {}
        self._within: str | None = None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._within = dict(attrs).get("id", tag) if tag in ("script", "style") else None

    def handle_endtag(self, tag):
        self._within = None

    def handle_data(self, data):
        if self._within is None:
            self.text += data
        elif self._within == "frozen":
            content = json.loads(data)
            self.state, self.answers = content["state"], content["answers"]

    def events(self, kind: str) -> list[str]:
        """The details of the events of a kind, newest first."""
        return [event["facts"] for event in self.state["events"]["latest"] if event["kind"] == kind]


def as_written(records: Any) -> list[dict[str, Any]]:
    """Through JSON and back, as a file would have them."""
    return [json.loads(json.dumps(record.as_dict())) for record in records]


def decision(seq: int, label: str, classes: tuple[str, ...] = ("red", "blue"), **more: Any) -> dict[str, Any]:
    probabilities = dict.fromkeys((*classes, "other"), 0.5)
    return {"key": f"k{seq}", "seq": seq, "label": label, "subclass_id": None, "p_unknown": 0.5,
            "probabilities": probabilities, **more}  # fmt: skip


@pytest.fixture(scope="session")
def run() -> Run:
    rng = np.random.default_rng(11)
    model = OpenSetRecognizer(batch_size=32, seed=3)
    training = {}
    for label, centre in KNOWN.items():
        rows = around(centre, 80, rng, EVIL_FEATURES)
        training[label] = np.array([list(row.values()) for row in rows])
        for row in rows:
            model.learn_one(row, label)
    model.freeze()
    labels = []
    for seq in range(N):
        there = {**KNOWN, **{name: centre for name, centre in NEW.items() if seq >= BEGINS[name]}}
        label = list(there)[rng.integers(len(there))]
        labels.append(label)
        model.learn_one(around(there[label], 1, rng, EVIL_FEATURES)[0], key=f"</script><b>{seq}", t=seq / 10)
    model.flush()
    return Run(model, as_written(model.drain()), as_written(model.drain_events()), labels, training)


@pytest.fixture(scope="session")
def whole(run: Run) -> Page:
    """The report of the run, without true labels."""
    return Page(report_page(run.model, run.decisions, run.events))


@pytest.fixture(scope="session")
def files(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with model.osr, decisions.jsonl, events.jsonl and truth.jsonl."""
    folder = tmp_path_factory.mktemp("report")
    run.model.save(folder / "model.osr")
    truth = [{"id": d["key"], "species": label} for d, label in zip(run.decisions, run.labels, strict=True)]
    for name, records in (("decisions", run.decisions), ("events", run.events), ("truth", truth)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder
