"""Whether the known classes held: on the page, from the model and from events, with or without decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stream_osr import ModelOptions, OpenSetRecognizer
from stream_osr_connectors.page.report import report_page
from stream_osr_connectors.page.report.content import collect
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


def test_promise_and_expectation_are_tiles(run):
    text = Page(report_page(run.model)).squeezed
    now, promised = run.model.expected_recall, f"{100 * run.model.trained.report.known_recall:.1f} %"
    recall, low, high, unknown = (
        f"{100 * share:.1f} %" for share in (now.recall, now.low, now.high, now.false_unknown)
    )
    assert f"{recall}estimated recall of known classes, without labels, expected {promised}" in text
    said = f"{recall} ({low} to {high}). Of the instances of known classes, {unknown} are called unknown."
    assert f"The expected recall from training is {promised}. The estimated recall now is {said}" in text
    fresh = Page(report_page(fitted(chains=1))).squeezed
    assert "%expected recall of known classes" in fresh
    assert "not monitored" not in fresh
    assert "The estimated recall now" not in fresh
    without = Page(report_page(fitted(chains=1, references=0))).squeezed
    assert "%expected recall of known classes, not monitored" in without
    assert "The known classes are not monitored, and" in without


def test_a_recall_below_the_promise_is_said_on_the_tile(run):
    trained = run.model.trained
    report = replace(trained.report, known_recall=1.1, recall_interval=(1.05, 1.15))
    model = OpenSetRecognizer.from_trained(replace(trained, report=report), batch_size=32)
    for _ in range(256):
        model.learn_one(dict.fromkeys(trained.names, 0.0))
    text = Page(report_page(model)).squeezed
    assert "%estimated recall of known classes, without labels, below the expected 110.0 %" in text
    assert "%), which is below. " in text


def test_drops_and_refuted_subclasses_stand_in_tables_and_on_the_timeline(run, dropped):
    page = Page(report_page(run.model, run.decisions, dropped))
    text = page.squeezed
    assert "41580.0 %76.0 % to 84.0 %19.0 %97.0 %" in text
    assert f"S{dropped[-2]['subclass_id']}{EVIL_CLASSES[0]}90.0 %31415" in text
    assert "recall of known classes below the expected recall" in text
    assert {"seq": 415} in drawn(page.specs["share"])
    assert [mark["seq"] for mark in drawn(page.specs["arrivals"]) if mark.get("what") == "refuted"] == [415]


def test_there_is_no_section_without_content(run, whole):
    assert "Drops below the expected recall" not in whole.text
    assert "Accuracy on known classes" not in Page(report_page(decisions=run.decisions, events=run.events)).text


def test_dependence_is_said_beside_the_recall(whole):
    model = learn_all(
        OpenSetRecognizer(chains=1, batch_size=32, model=ModelOptions(training_sweeps=3)), dependent_rows(400, 1)
    )
    model.freeze()
    learn_all(model, [(x, None) for x, _ in dependent_rows(200, 2)])
    said = "Instances are treated as dependent on their neighbours since instance 0. Mean correlation of neighbours"
    assert f"{said} by class: " in Page(report_page(model)).squeezed
    assert "dependent on their neighbours" not in whole.text


def test_a_moved_frame_is_said_beside_the_recall(whole):
    assert "The stream differs from training in b by +" in Page(report_page(moved_model())).squeezed
    assert "differs from training" not in whole.text


def test_a_refuted_subclass_is_not_counted_as_new_unless_it_is_announced_again(run, dropped):
    key = dropped[-2]["subclass_id"]
    (one,) = [s for s in collect(events=dropped).emerged if s.id == key]
    assert (one.refuted, one.size) == (EVIL_CLASSES[0], 31)
    before = announced(run.events)
    assert announced(dropped) == before - 1
    assert f"not new: {EVIL_CLASSES[0]}" in Page(report_page(events=dropped)).text
    first = next(e for e in run.events if e["type"] == "SubclassEmerged" and e["subclass_id"] == key)
    again = [*dropped, {**first, "seq": 479, "batch": 14}]
    assert announced(again) == before


def drawn(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """All values of a drawing of several layers."""
    return [value for values in spec["datasets"].values() for value in values]


def announced(events: list[dict[str, Any]]) -> int:
    """The number of new subclasses that are not refuted."""
    return sum(not subclass.refuted for subclass in collect(events=events).emerged)
