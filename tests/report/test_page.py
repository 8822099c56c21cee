"""The page as text: all that there is to show, and nothing of it taken for HTML."""

from __future__ import annotations

import json
import re

import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.errors import ConnectorError, NotTrained
from stream_osr_connectors.page.report import report_page
from tests.blobs import fitted
from tests.report.conftest import Page


@pytest.fixture(scope="module")
def page(run) -> Page:
    return Page(report_page(run.model, run.decisions, run.events, run.truth, title="<script>hacked</script>"))


def test_part_of_it_is_a_page_as_well(run):
    from stream_osr_connectors.page.report.page import IN_WORDS

    few_estimates = sum(e["type"] == "NewClassesChanged" for e in run.events) <= IN_WORDS
    for given, figures in (
        ("model", {"plane-known", "plane-all", "shifts"}),
        ("decisions", {"share", "arrivals"}),
        ("events", {"shifts"}),
        ("decisions events", {"share", "arrivals", "shifts"} | (set() if few_estimates else {"estimates"})),
        ("decisions truth", {"share", "arrivals", "calibration", "spread"}),
    ):
        found = Page(report_page(**{name: getattr(run, name) for name in given.split()}))
        assert {re.sub(r"-\d+$", "", str(name)) for name in found.figures} == figures, given


def test_the_number_of_new_classes_is_that_of_the_model(page, run):
    assert f"{run.model.new_classes().estimate}estimated number of new classes" in page.text
    assert "the paper's Delta, a coarse number" not in page.text


@pytest.mark.parametrize("model", [None, fitted])
def test_without_a_model_of_the_stream_the_number_is_the_papers_and_says_so(run, model):
    events = [{**e, "model": model().trained.fingerprint} for e in run.events] if model else run.events
    delta = [e["delta"] for e in run.events if e["type"] == "NewClassesChanged"][-1]
    text = Page(report_page(model and model(), run.decisions, events)).text
    assert f"{delta}the paper's Delta, a coarse number of new classes" in text
    assert "stimated number of new classes" not in text


def test_a_model_fresh_from_training_and_an_empty_run_are_pages():
    page = Page(report_page(fitted(), decisions=[], events=[]))
    assert page.figures == {"plane-known"}
    assert "left" in page.text


def test_another_model_and_one_in_training_are_refused(run):
    with pytest.raises(ConnectorError, match="the events are of model"):
        report_page(fitted(), events=run.events)
    model = OpenSetRecognizer()
    model.learn_one({"a": 1.0}, "x")
    with pytest.raises(NotTrained, match="freeze"):
        report_page(model)


def test_what_was_summed_up_is_said_and_shown(run):
    emerged = [event for event in run.events if event["type"] == "SubclassEmerged"]
    key, model = emerged[0]["subclass_id"], emerged[0]["model"]
    others = [event for event in run.events if event.get("subclass_id") != key]
    summed = {
        **{"type": "EventsSummed", "batch": 9, "seq": 900, "model": model, "since": 1, "until": 2},
        **{"counts": {"SubclassEmerged": 1, "SubclassGrew": 1234}, "emerged": [key]},
    }
    silent = Page(report_page(None, run.decisions, others))
    assert "summed up" not in silent.text
    page = Page(report_page(None, run.decisions, [*others, summed]))
    assert "1,235 events were reported only as a count: 1 SubclassEmerged, 1,234 SubclassGrew." in page.text
    assert f'"S{key}"' in json.dumps(page.specs["arrivals"])
    assert f'"S{key}"' not in json.dumps(silent.specs["arrivals"])


def test_a_subclass_of_several_true_classes_is_mixed_and_one_of_one_class_is_that(page, run):
    def halved(key, number):
        return f"{run.labels[number]} {'ab'[number % 2]}"

    mixed = Page(report_page(run.model, run.decisions, run.events, halved))
    assert ("a", "#word-mixed") in {(tag, attrs.get("href")) for tag, attrs in mixed.tags}
    assert re.search(r"True classes:\s+mixed: second [ab] \d+ %, second [ab] \d+ %", mixed.text)
    assert "#word-mixed" not in {attrs.get("href") for _, attrs in page.tags}
    assert re.search(r"True classes:\s+second 100 %", page.text)
