"""Recall of the known classes on the page, from the model and from events, with or without decisions."""

from __future__ import annotations

from typing import Any

import pytest

from stream_osr import ModelOptions, OpenSetRecognizer
from stream_osr_connectors.page.report import report_page
from tests.blobs import dependent_rows, fitted, learn_all, moved_model
from tests.report.conftest import EVIL_CLASSES, Page, Run


@pytest.fixture
def dropped(run: Run) -> list[dict[str, Any]]:
    """The events of the run, one subclass refuted later and the recall dropped."""
    first = next(e for e in run.events if e["type"] == "SubclassEmerged")
    about = {"batch": 12, "seq": 415, "model": first["model"]}
    refuted = {"subclass_id": first["subclass_id"], "label": EVIL_CLASSES[0], "known_share": 0.9, "size": 31}
    recall = {"recall": 0.8, "low": 0.76, "high": 0.84, "false_unknown": 0.19, "promised": 0.97}
    return [
        *run.events,
        {"type": "SubclassRefuted", **about, **refuted},
        {"type": "RecallDropped", **about, **recall},
    ]


def test_promise_and_expectation_are_key_figures(run):
    state = Page(report_page(run.model)).state
    now, promised = run.model.expected_recall, run.model.trained.report.known_recall
    assert state["recall"] == {"value": now.recall, "low": now.low, "high": now.high, "promised": promised}
    fresh = Page(report_page(fitted(chains=1))).state
    assert (fresh["recall"], fresh["promised"]["guarded"]) == (None, True)
    without = Page(report_page(fitted(chains=1, references=0))).state
    assert without["promised"]["guarded"] is False


def test_drops_and_refuted_subclasses_are_listed_and_on_the_timeline(run, dropped):
    page = Page(report_page(run.model, run.decisions, dropped))
    assert page.events("RecallDropped") == ["recall 0.8, low 0.76, high 0.84, false_unknown 0.19, promised 0.97"]
    (refuted,) = page.events("SubclassRefuted")
    assert f"subclass_id {dropped[-2]['subclass_id']}, label {EVIL_CLASSES[0]}, known_share 0.9" in refuted


def test_dependence_is_said_beside_the_recall(whole):
    model = learn_all(
        OpenSetRecognizer(chains=1, batch_size=32, model=ModelOptions(training_sweeps=3)), dependent_rows(400, 1)
    )
    model.freeze()
    learn_all(model, [(x, None) for x, _ in dependent_rows(200, 2)])
    assert Page(report_page(model)).state["dependent"] is True
    assert whole.state["dependent"] is False


def test_a_moved_frame_is_said(whole):
    assert Page(report_page(moved_model())).state["frame"].startswith("the stream differs from training in b by +")
    assert whole.state["frame"] == ""


def test_a_refuted_subclass_is_no_candidate_unless_it_is_announced_again(run, dropped):
    def candidates(events: list[dict[str, Any]]) -> set[str]:
        return {card["id"] for card in Page(report_page(events=events)).state["inbox"]}

    key = dropped[-2]["subclass_id"]
    assert candidates(dropped) == candidates(run.events) - {str(key)}
    first = next(e for e in run.events if e["type"] == "SubclassEmerged" and e["subclass_id"] == key)
    assert candidates([*dropped, {**first, "seq": 479, "batch": 14}]) == candidates(run.events)
