"""What somebody is to look at: the right instances, their own values, and the command that names them."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.errors import ConnectorError
from stream_osr_connectors.files.checkpoint import Checkpoint, save_checkpoint
from stream_osr_connectors.page.live.file_commands import FileActs
from stream_osr_connectors.page.report.content import LISTED, Content, collect
from stream_osr_connectors.page.report.files import read_files, read_instances
from stream_osr_connectors.summary.naming import naming_command
from tests.report.conftest import EVIL_FEATURES, KNOWN, NEW


@pytest.fixture(scope="module")
def content(run) -> Content:
    return collect(run.model, run.decisions, run.events)


@pytest.fixture(scope="module")
def records(run):
    """Key and features of each instance, made up so that they say whose they are."""
    return [
        (d["key"], {"number": n, "kind": label, "gap": None})
        for n, (d, label) in enumerate(zip(run.decisions, run.labels, strict=True))
    ]


def examples(content: Content) -> list[dict[str, Any]]:
    return [one for card in content.state["inbox"] for some in card["examples"].values() for one in some]


def test_candidates_are_those_of_the_model_with_instances_of_their_own(run, content):
    found = run.model.new_classes()
    cards = content.state["inbox"]
    assert [card["ids"] for card in cards] == [[str(key) for key in each.subclasses] for each in found.candidates]
    for card in cards:
        core, boundary, known = card["examples"].values()
        assert len(core) == len(boundary) == len(known) == 3
        assert all(one["label"] == "unknown" for one in (*core, *boundary))
        assert all(one["label"] == card["nearest_class"] for one in known)
        assert min(one["p_unknown"] for one in core) >= max(one["p_unknown"] for one in boundary) - 0.02
        listed = content.answers[f"/api/subclass/{','.join(card['ids'])}"]
        numbers = [one["n"] for one in listed["instances"]]
        assert 0 < len(numbers) <= LISTED
        assert numbers == sorted(numbers, reverse=True)


def test_each_instance_that_is_listed_can_be_opened(run, content):
    listed = {row["n"] for its in content.answers.values() for row in its.get("instances", ())}
    listed |= {one["n"] for one in examples(content)}
    assert len(listed) > 30
    for n in listed:
        own = content.answers[f"/api/instance/{n}"]
        assert (own["key"], own["label"]) == (run.decisions[n]["key"], run.decisions[n]["label"])
        assert own["why"].startswith("It is ")


def test_values_of_examples_are_those_that_the_model_was_given(run, content):
    """Classes are nine or more apart, so that a value shows its class."""
    centres = {**KNOWN, **NEW}
    for one in examples(content):
        assert set(one["features"]) == set(EVIL_FEATURES)
        centre = dict(zip(EVIL_FEATURES, centres[run.labels[one["n"]]], strict=True))
        assert all(abs(value - centre[name]) < 5.0 for name, value in one["features"].items())


def test_without_decisions_the_model_shows_what_it_remembers(run):
    content = collect(run.model)
    keys = {d["key"] for d in run.decisions}
    shown = examples(content)
    assert len(shown) > 6
    assert all(one["key"] in keys and one["features"] for one in shown)


def test_without_a_model_each_announced_subclass_is_a_candidate(run):
    content = collect(decisions=run.decisions, events=run.events)
    ended = {e["subclass_id"] for e in run.events if e["type"] in ("SubclassMerged", "SubclassForgotten")}
    emerged = {e["subclass_id"] for e in run.events if e["type"] == "SubclassEmerged"} - ended
    assert {card["id"] for card in content.state["inbox"]} >= {str(key) for key in emerged}
    assert all(one["features"] is None for one in examples(content))
    assert all(card["examples"]["core"] for card in content.state["inbox"])


@pytest.mark.parametrize("keyed", [True, False])
def test_records_that_are_given_are_shown(run, records, keyed):
    given = records if keyed else [(None, features) for _, features in records]
    content = collect(run.model, run.decisions, run.events, instances=reversed(given) if keyed else given)
    for one in examples(content):
        assert one["features"] == {"number": one["n"], "kind": run.labels[one["n"]], "gap": None}
    assert content.state["notes"] == []


def test_records_of_one_key_belong_to_its_instances_in_their_order(run, records):
    decisions = [{**d, "key": f"sensor {d['seq'] % 3}"} for d in run.decisions]
    given = [(f"sensor {n % 3}", features) for n, (_, features) in enumerate(records)]
    shown = examples(collect(run.model, decisions, run.events, instances=given))
    assert shown
    assert all(one["features"]["number"] == one["n"] for one in shown)
    cut = examples(collect(None, decisions, run.events, instances=given[1:]))  # which one of sensor 0 is gone?
    assert any(one["features"] for one in cut)
    assert not any(one["features"] for one in cut if one["key"] == "sensor 0")


def test_records_that_do_not_fit_are_refused(run, records):
    with pytest.raises(ConnectorError, match=r"600 decisions and 599 records of --input. Add --key COLUMN"):
        collect(run.model, run.decisions, instances=[(None, features) for _, features in records[1:]])
    with pytest.raises(ConnectorError, match="none of the 5 records of --input has the key"):
        collect(run.model, run.decisions, instances=[("no key", {"a": 1})] * 5)


def test_a_table_is_shown_as_it_stands_and_bad_rows_are_counted(tmp_path):
    path, notes = tmp_path / "new.csv", []
    path.write_text("id,a,b\nx,1.50,red\ny,,\nz,1\n")
    rows = [("x", {"a": "1.50", "b": "red"}), ("y", {"a": None, "b": None}), ("", {})]
    assert list(read_instances(path, notes, "id")) == rows
    assert notes == [f"{path}: 1 record cannot be read, and its instance is shown without values"]


@pytest.mark.parametrize("name", ["plain.checkpoint", "a b'c.checkpoint", "$(rm -r x);`id`", "-x", "ä\u202e\n"])
def test_the_command_is_one_that_a_shell_reads_back(name):
    words = shlex.split(naming_command([11, 12], Path(name)))
    assert words[:4] == ["stream-osr", "promote", "11,12", "NAME"]
    expected = "CHECKPOINT" if "\n" in name else "./-x" if name == "-x" else name
    assert words[4:] == ["--checkpoint", expected]


def test_a_checkpoint_is_named_in_the_command_and_a_model_in_python(run, tmp_path):
    path = tmp_path / "decisions.jsonl.checkpoint"
    save_checkpoint(path, Checkpoint(run.model, None, (None, None, None), Counter()))
    inputs = read_files([path])
    assert isinstance(inputs.model, OpenSetRecognizer)
    assert inputs.checkpoint == path
    cards = collect(inputs.model, acts=FileActs(path, allowed=False)).state["inbox"]
    assert cards
    for card in cards:
        assert card["command"] == f"stream-osr promote {','.join(card['ids'])} NAME --checkpoint {path}"
    assert collect(run.model).state["inbox"][0]["command"].startswith("model.promote([")


def test_what_a_person_has_settled_is_no_candidate(run):
    emerged = [event for event in run.events if event["type"] == "SubclassEmerged"]
    first, second = emerged[:2]
    named = {**first, "type": "SubclassPromoted", "label": "fox", "seq": 590}
    muted = {**second, "type": "SubclassMuted", "seq": 591}
    cards = collect(decisions=run.decisions, events=[*run.events, named, muted]).state["inbox"]
    settled = {card["id"]: (card["status"], card["label"]) for card in cards}
    assert settled[str(first["subclass_id"])] == ("named", "fox")
    assert settled[str(second["subclass_id"])] == ("muted", None)
    undone = {"type": "NamingUndone", "batch": 9, "seq": 595, "model": first["model"], "action": "promotion"}
    undone |= {"subclass_ids": [first["subclass_id"]], "label": "fox"}
    again = collect(decisions=run.decisions, events=[*run.events, named, muted, undone]).state["inbox"]
    assert {card["status"] for card in again if card["id"] == str(first["subclass_id"])} == {"emerging"}


def test_contributions_of_decisions_are_shown(run):
    features = [("<b>", 7.25, 3.04), ("kind", "x\ty\nz", -2.0), ("gap", None, 0.5)]
    names = ("name", "value", "contribution")
    odds = {"unknown": {"features": [dict(zip(names, each, strict=True)) for each in features]}}
    content = collect(run.model, [{**d, "contributions": odds} for d in run.decisions], run.events)
    opened = [its for address, its in content.answers.items() if address.startswith("/api/instance/")]
    assert len(opened) > 10
    assert all(its["contributions"] == odds for its in opened)
    broken = [{**run.decisions[0], "contributions": {"unknown": {"features": [{"name": "a"}]}}}]
    with pytest.raises(ConnectorError, match=r"record 1 is no decision \(it has no '"):
        collect(run.model, broken)
