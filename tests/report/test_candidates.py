"""What somebody is to look at: the right instances, their own values, and the command that names them."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.errors import ConnectorError
from stream_osr_connectors.files.checkpoint import Checkpoint, save_checkpoint
from stream_osr_connectors.page.glossary import WORDS
from stream_osr_connectors.page.report import report_page
from stream_osr_connectors.page.report.candidates import LISTED, choose_highlights
from stream_osr_connectors.page.report.content import collect
from stream_osr_connectors.page.report.files import naming, read_files, read_instances
from tests.report.conftest import EVIL_FEATURES, KNOWN, NEW, Page


@pytest.fixture(scope="module")
def content(run):
    return collect(run.model, run.decisions, run.events)


@pytest.fixture(scope="module")
def records(run):
    """Key and features of each instance, made up so that they say whose they are."""
    return [
        (d["key"], {"number": n, "kind": label, "gap": None})
        for n, (d, label) in enumerate(zip(run.decisions, run.labels, strict=True))
    ]


def instances(candidate):
    return [one for some in candidate.examples[2:] for one in some]


def test_candidates_are_those_of_the_model_with_instances_of_their_own(run, content):
    found = run.model.new_classes()
    assert [each.ids for each in content.candidates] == [each.subclasses for each in found.candidates]
    by_seq = {d["seq"]: d for d in run.decisions}
    for each in content.candidates:
        core, boundary, known = each.examples[2:]
        assert len(core) == len(boundary) == len(known) == 3
        assert all(by_seq[one.seq]["subclass_id"] in each.ids for one in (*core, *boundary))
        assert all(by_seq[one.seq]["label"] != "unknown" for one in known)
        assert min(one.p_unknown for one in core) >= max(one.p_unknown for one in boundary) - 0.02
        assert len(each.listed) <= LISTED + 6
        assert each.instances == sum(d["subclass_id"] in each.ids and d["label"] == "unknown" for d in run.decisions)
        listed = [one.seq for one in each.listed]
        assert listed == sorted(listed, reverse=True)
        assert {one.seq for one in (*core, *boundary)} <= set(listed)


def test_values_of_examples_are_those_that_the_model_was_given(run, content):
    """Classes are nine or more apart, so that a value shows its class."""
    centres = {**KNOWN, **NEW}
    for each in content.candidates:
        assert set(each.examples.features) == set(EVIL_FEATURES)
        for one in instances(each):
            centre = dict(zip(EVIL_FEATURES, centres[run.labels[one.seq]], strict=True))
            values = zip(each.examples.features, one.values, strict=True)
            assert all(abs(value - centre[name]) < 5.0 for name, value in values)


def test_without_decisions_the_model_shows_what_it_remembers(run):
    content = collect(run.model)
    assert content.candidates
    keys = {d["seq"]: d["key"] for d in run.decisions}
    assert all(keys[one.seq] == one.key for each in content.candidates for one in instances(each))


def test_without_a_model_each_announced_subclass_is_a_candidate(run):
    content = collect(decisions=run.decisions, events=run.events)
    assert {each.ids for each in content.candidates} == {(s.id,) for s in content.emerged if not s.settlement}
    assert all(each.examples.features == () and each.examples.known == () for each in content.candidates)
    assert all(each.examples.core for each in content.candidates)


@pytest.mark.parametrize("keyed", [True, False])
def test_records_that_are_given_are_shown(run, records, keyed):
    given = records if keyed else [(None, features) for _, features in records]
    content = collect(run.model, run.decisions, run.events, instances=reversed(given) if keyed else given)
    for each in content.candidates:
        assert set(each.examples.features) == {"number", "kind", "gap"}
        for one in instances(each):
            values = dict(zip(each.examples.features, one.values, strict=True))
            assert values == {"number": one.seq, "kind": run.labels[one.seq], "gap": None}
    assert content.notes == ()


def test_records_of_one_key_belong_to_its_instances_in_their_order(run, records):
    decisions = [{**d, "key": f"sensor {d['seq'] % 3}"} for d in run.decisions]
    given = [(f"sensor {n % 3}", features) for n, (_, features) in enumerate(records)]
    content = collect(run.model, decisions, run.events, instances=given)
    shown = [one for each in content.candidates for one in instances(each)]
    assert shown
    assert all(one.values[content.candidates[0].examples.features.index("number")] == one.seq for one in shown)
    cut = collect(run.model, decisions, run.events, instances=given[1:])  # which one of sensor 0 is gone?
    values = [one for each in cut.candidates for one in instances(each) if any(v is not None for v in one.values)]
    assert values
    assert not any(one.key == "sensor 0" for one in values)


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
    words = shlex.split(naming(Path(name))([11, 12]))
    assert words[:4] == ["stream-osr", "promote", "11,12", "NAME"]
    expected = "CHECKPOINT" if "\n" in name else "./-x" if name == "-x" else name
    assert words[4:] == ["--checkpoint", expected]


def test_a_checkpoint_is_named_in_the_command_and_a_model_in_python(run, tmp_path):
    path = tmp_path / "decisions.jsonl.checkpoint"
    save_checkpoint(path, Checkpoint(run.model, None, (None, None, None), Counter()))
    run.model.save(tmp_path / "model.osr")
    inputs = read_files([path])
    assert isinstance(inputs.model, OpenSetRecognizer)
    content = collect(inputs.model, command=naming(inputs.checkpoint))
    for each in content.candidates:
        assert each.command == f"stream-osr promote {','.join(map(str, each.ids))} NAME --checkpoint {path}"
    content = collect(run.model, command=naming(read_files([tmp_path / "model.osr"]).checkpoint))
    assert content.candidates[0].command.startswith("model.promote([")


def test_what_a_person_has_settled_is_no_candidate(run):
    emerged = [event for event in run.events if event["type"] == "SubclassEmerged"]
    first, second = emerged[:2]
    named = {**first, "type": "SubclassPromoted", "label": "fox", "seq": 590}
    muted = {**second, "type": "SubclassMuted", "seq": 591}
    content = collect(decisions=run.decisions, events=[*run.events, named, muted])
    assert {first["subclass_id"], second["subclass_id"]} <= {s.id for s in content.others}
    page = Page(report_page(decisions=run.decisions, events=[*run.events, named, muted]))
    assert "named: fox" in page.text
    undone = {"type": "NamingUndone", "batch": 9, "seq": 595, "model": first["model"], "action": "promotion"}
    undone |= {"subclass_ids": [first["subclass_id"]], "label": "fox"}
    again = collect(decisions=run.decisions, events=[*run.events, named, muted, undone])
    assert (first["subclass_id"],) in {each.ids for each in again.candidates}


def test_the_first_paragraph_names_the_largest_and_what_went_wrong(run, content):
    steady = content.recall._replace(drops=(), below=False)
    places = [thing.where for thing in choose_highlights(content.candidates, steady, (), 0.0).things]
    assert places == [f"candidate-{n}" for n in range(1, min(3, len(content.candidates)) + 1)]
    drift = [{"type": "ClassDrifted", "label": "plain", "seq": 4}]
    first, *_, last = choose_highlights(content.candidates, steady, drift, 0.4).things
    assert (first.name, last.name, last.where) == ("plain", "40.0 %", "when")
    assert choose_highlights((), steady, (), 0.0).things == ()
    assert "There is nothing to check." in Page(report_page(decisions=run.decisions[:20])).text


def test_contributions_of_decisions_are_shown(run, whole):
    """The first three of the log-odds of unknown, also with hostile names, and nothing without them."""
    features = [("<b>", 7.25, 3.04), ("kind", "x\ty\nz", -2.0), ("gap", None, 0.5), ("fourth", 1.0, 0.1)]
    names = ("name", "value", "contribution")
    odds = {"unknown": {"features": [dict(zip(names, each, strict=True)) for each in features]}}
    decisions = [{**d, "contributions": odds} for d in run.decisions]
    shown = "<b> 7.25: +3.0; kind x\\ty\\nz: -2.0; gap missing: +0.5"
    page = Page(report_page(run.model, decisions, run.events))
    listed = sum(tag == "tr" and "tabindex" in attrs for tag, attrs in page.tags)
    assert page.text.count(shown) == listed > 10
    assert page.text.count("<b> +3.0kind -2.0gap +0.5") > 5
    assert "contributions" not in whole.text
    broken = [{**run.decisions[0], "contributions": {"unknown": {"features": [{"name": "a"}]}}}]
    with pytest.raises(ConnectorError, match=r"record 1 is no decision \(it has no 'value'"):
        collect(run.model, broken)


def test_every_link_of_the_page_leads_somewhere_on_it(run, records):
    page = Page(report_page(run.model, run.decisions, run.events, run.truth, instances=records))
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = {str(attrs["href"])[1:] for tag, attrs in page.tags if tag == "a"}
    assert links <= set(ids)
    assert {"i", "S"} <= {link[0] for link in links if re.fullmatch(r"[iS]\d+", link)}


def test_words_are_explained_once_and_each_is_there(whole):
    for word, meaning in WORDS.items():
        assert meaning in whole.text
        assert ("dt", {"id": f"word-{word.replace(' ', '-')}"}) in whole.tags
        assert meaning.endswith((".", "?"))
