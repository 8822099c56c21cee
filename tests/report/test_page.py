"""The content of the page: all that there is to show, from any part of a run, and nothing of it taken for HTML."""

from __future__ import annotations

from collections import Counter

import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.errors import ConnectorError, NotTrained
from stream_osr.evaluation import AUROC, OpenSetReport
from stream_osr_connectors.page.glossary import WORDS
from stream_osr_connectors.page.report import report_page
from stream_osr_connectors.page.report.content import collect
from stream_osr_connectors.page.report.frozen import bundle
from tests.blobs import fitted
from tests.report.conftest import Page


@pytest.fixture(scope="module")
def page(run) -> Page:
    return Page(report_page(run.model, run.decisions, run.events, run.truth, title="<script>hacked</script>"))


def test_part_of_a_run_is_a_page_as_well(run):
    for given, parts in (
        ("model", {"inbox", "plane", "recall"}),
        ("decisions", {"inbox", "timeline"}),
        ("events", {"inbox", "plane"}),
        ("decisions events", {"inbox", "timeline", "plane"}),
        ("decisions truth", {"inbox", "timeline", "accuracy"}),
        ("model decisions events truth", {"inbox", "timeline", "plane", "recall", "accuracy"}),
    ):
        state = Page(report_page(**{name: getattr(run, name) for name in given.split()})).state
        found = {
            "inbox": state["inbox"], "timeline": state["timeline"]["times"], "plane": state["plane"]["points"],
            "recall": state["recall"], "accuracy": state["accuracy"],
        }  # fmt: skip
        assert {name for name, its in found.items() if its} == parts, given


def test_the_file_is_whole_and_its_script_has_no_modules(page):
    parts = [tag for tag, _ in page.tags if tag in ("script", "style", "link")]
    assert parts == ["link", "style", "script", "script"]
    policies = [attrs for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    policy = str(policies[0]["content"])
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert not {"'unsafe-inline'", "'unsafe-eval'", "http:", "https:"} & set(policy.replace(";", " ").split())
    assert "import {" not in bundle()
    assert "export " not in bundle()
    assert page.state["stream"]["name"] == "<script>hacked</script>"


def test_the_number_of_new_classes_is_that_of_the_model(page, run):
    found = run.model.new_classes()
    assert page.state["new_classes"] == {"number": found.number, "low": found.low, "high": found.high}


@pytest.mark.parametrize("model", [None, fitted])
def test_without_a_model_of_the_stream_the_number_is_the_papers(run, model):
    events = [{**e, "model": model().trained.fingerprint} for e in run.events] if model else run.events
    delta = [e["delta"] for e in run.events if e["type"] == "NewClassesChanged"][-1]
    state = collect(model and model(), run.decisions, events).state
    assert (state["delta"], state["new_classes"]) == (delta, None)


def test_a_model_fresh_from_training_and_an_empty_run_are_pages():
    state = collect(fitted(), decisions=[], events=[]).state
    assert state["plane"]["points"]
    assert state["promised"]["recall"] > 0.5
    assert {row["label"] for row in collect(fitted()).state["known"]} == {"left", "right"}


def test_another_model_and_one_in_training_are_refused(run):
    with pytest.raises(ConnectorError, match="the events are of model"):
        report_page(fitted(), events=run.events)
    model = OpenSetRecognizer()
    model.learn_one({"a": 1.0}, "x")
    with pytest.raises(NotTrained, match="freeze"):
        report_page(model)


def test_without_decisions_the_counts_are_those_of_the_model(run):
    state = collect(run.model).state
    summary = run.model.summary()
    assert state["stream"]["decided"] == summary.stream_size == len(run.decisions)
    assert state["unknown"]["rate"] == pytest.approx(summary.unknown_share, abs=1e-6)
    assert [card["size"] for card in state["inbox"]] == [each.size for each in run.model.new_classes().candidates]


def test_what_was_summed_up_is_said_and_shown(run):
    emerged = [event for event in run.events if event["type"] == "SubclassEmerged"]
    key, model = emerged[0]["subclass_id"], emerged[0]["model"]
    others = [event for event in run.events if event.get("subclass_id") != key]
    summed = {
        **{"type": "EventsSummed", "batch": 9, "seq": 500, "model": model, "since": 1, "until": 2},
        **{"counts": {"SubclassEmerged": 1, "SubclassGrew": 1234}, "emerged": [key]},
    }
    silent = Page(report_page(None, run.decisions, others))
    assert not silent.events("EventsSummed")
    page = Page(report_page(None, run.decisions, [*others, summed]))
    assert "'SubclassGrew': 1234" in page.events("EventsSummed")[0]
    assert str(key) in page.state["timeline"]["subclasses"]
    assert str(key) not in silent.state["timeline"]["subclasses"]


def test_true_classes_of_candidates_are_counted(page, run):
    by_seq = {d["seq"]: label for d, label in zip(run.decisions, run.labels, strict=True)}
    for card in page.state["inbox"]:
        merged = {int(id) for id in card["ids"]}
        own = Counter(
            by_seq[d["seq"]] for d in run.decisions if d["label"] == "unknown" and d["subclass_id"] in merged
        )
        assert own <= Counter(dict(card["truth"]))


def test_figures_are_those_of_the_metrics(page, run):
    judged = page.state["accuracy"]
    known = tuple(run.training)
    report, area = OpenSetReport(known, "unknown"), AUROC(known)
    for d, label in zip(run.decisions, run.labels, strict=True):
        report.update(label, d["label"])
        area.update(label, {"unknown": d["p_unknown"], **d["probabilities"]})
    assert judged["known_right"] == pytest.approx(report.known_accuracy)
    assert judged["unknown_found"] == pytest.approx(report.unknown_recall)
    assert judged["n"] == sum(sum(row["counts"]) for row in judged["rows"]) == len(run.labels)
    column = {label: at for at, label in enumerate(judged["columns"])}
    right = sum(row["counts"][0 if row["new"] else column[row["label"]]] for row in judged["rows"])
    assert right / judged["n"] == pytest.approx(report.accuracy)
    assert 0.9 < judged["auroc"] <= 1.0


def test_without_labels_nothing_is_judged_and_without_unknown_ones_no_share_of_them(run, whole):
    assert whole.state["accuracy"] is None
    judged = Page(report_page(decisions=run.decisions[:20], truth=lambda key, number: "plain")).state["accuracy"]
    assert (judged["unknown_found"], judged["auroc"]) == (None, None)


def test_every_decision_stands_in_one_row_of_the_timeline(run, page):
    timeline = page.state["timeline"]
    rows = [counts for kind in ("classes", "subclasses") for counts in timeline[kind].values()]
    assert sum(map(sum, rows)) <= len(run.decisions)
    known = sum(map(sum, timeline["classes"].values()))
    assert known == sum(d["label"] != "unknown" for d in run.decisions)
    assert timeline["edges"][-1] == len(run.decisions)
    announced = {(str(e["subclass_id"]), e["seq"]) for e in run.events if e["type"] == "SubclassEmerged"}
    marks = {(id, seq) for id, own in timeline["marks"].items() for seq, what in own if what == "announced"}
    assert marks == {each for each in announced if each[0] in timeline["subclasses"]}


def test_decisions_alone_name_what_has_support(run):
    expected = Counter(d["subclass_id"] for d in run.decisions if d["label"] == "unknown")
    wanted = {str(key): n for key, n in expected.items() if key is not None and n >= 8}
    assert {card["id"]: card["size"] for card in collect(decisions=run.decisions).state["inbox"]} == wanted


def test_words_are_explained_and_each_is_there(whole):
    assert all(meaning in whole.text for meaning in WORDS.values())
    assert all(meaning.endswith((".", "?")) for meaning in WORDS.values())
