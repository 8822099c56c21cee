"""One list of candidates: the same members in the same order under the same names, wherever one looks."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from stream_osr import NewClasses
from stream_osr_connectors.cli import demo
from stream_osr_connectors.cli.stream_summary import account
from stream_osr_connectors.files.checkpoint import load_checkpoint
from stream_osr_connectors.page.report import report_page
from stream_osr_connectors.page.report.content import collect
from stream_osr_connectors.summary.state import State
from stream_osr_connectors.summary.view_model import view_model
from tests.live.served import served
from tests.report.conftest import Page
from tests.test_cli import call, lines_of


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demonstration, with one chain."""
    folder = tmp_path_factory.mktemp("demo")
    made, demo.make_recognizer = demo.make_recognizer, lambda **given: made(chains=1, **given)
    with pytest.MonkeyPatch.context() as patched, (folder / "said").open("w", encoding="utf-8") as said:
        patched.setattr("sys.stdout", said)
        try:
            demo.demo(folder, 2)
        finally:
            demo.make_recognizer = made
    return folder


@pytest.fixture(scope="module")
def found(work: Path) -> NewClasses:
    found = load_checkpoint(work / "decisions.jsonl.checkpoint").model.new_classes()
    assert len(found.candidates) > 2
    assert any(len(each.subclasses) > 1 for each in found.candidates)
    return found


@pytest.mark.thorough
def test_the_text_inspect_the_demonstration_and_the_report_list_them(work: Path, found: NewClasses) -> None:
    names = [each.name for each in found.candidates]
    assert re.findall(r"candidates\[\d+\]: (.*?): ", repr(found)) == names
    inspected = call("inspect", "decisions.jsonl.checkpoint", cwd=work).stdout
    assert re.findall(r"candidates\[\d+\]: (.*?): ", inspected) == names[:12]
    table = (work / "said").read_text(encoding="utf-8").partition("\n\n")[2].partition("Estimated number")[0]
    assert f"{len(names)} groups of similar unknown instances" in table
    assert re.findall(r"^ (S\d+(?: and S\d+|, S\d+ and \d+ more)?) ", table, re.MULTILINE) == names
    model = load_checkpoint(work / "decisions.jsonl.checkpoint").model
    state = collect(model, lines_of(work / "decisions.jsonl"), lines_of(work / "events.jsonl")).state
    assert [card["name"] for card in state["inbox"]] == names


def test_the_numbers_of_a_stream_are_the_same_everywhere(work: Path, found: NewClasses) -> None:
    """At the end of a run, from `inspect` and the demonstration, in the report and on the live page."""
    model = load_checkpoint(work / "decisions.jsonl.checkpoint").model
    decisions = lines_of(work / "decisions.jsonl")
    n, unknown = len(decisions), sum(one["label"] == "unknown" for one in decisions)
    ended = account(model)
    assert ended[0].startswith(f"{n} instances decided in all: {n - unknown} known, {unknown} unknown")
    inspected = call("inspect", "decisions.jsonl.checkpoint", cwd=work).stdout.splitlines()
    assert [line for line in ended if line not in inspected] == []
    with (work / "truth.csv").open(encoding="utf-8") as file:
        labels = [row["label"] for row in csv.DictReader(file)]
    events = lines_of(work / "events.jsonl")
    report = Page(report_page(model, decisions, events, lambda key, number: labels[number])).state
    with served(work) as live_page:
        live_page.until(lambda state: state["stream"]["decided"] == n and state["recall"])
        chosen = [card["examples"] for card in report["inbox"]]
        live = live_page.until(lambda state: [card["examples"] for card in state["inbox"]] == chosen)
    same = ("unknown", "known", "recall", "promised", "dependent", "frame", "signals", "new_classes", "plane")
    for name in (*same, "delta", "events"):
        assert report[name] == live[name], name
    arrivals = ("edges", "classes", "subclasses", "unknown", "marks")
    assert [report["timeline"][name] for name in arrivals] == [live["timeline"][name] for name in arrivals]
    own = ("command", "truth")
    of_report, of_live = (
        [{name: its for name, its in card.items() if name not in own} for card in state["inbox"]]
        for state in (report, live)
    )
    assert of_report == of_live, "with the same examples and nearest known instances"
    assert (report["stream"]["decided"], report["unknown"]["n"]) == (n, unknown)
    assert [card["size"] for card in report["inbox"]] == [each.size for each in found.candidates]
    said = (work / "said").read_text(encoding="utf-8")
    accuracy = report["accuracy"]
    assert f"known instances with the right label  {100 * accuracy['known_right']:.1f} %" in said
    assert f"new instances labelled unknown        {100 * accuracy['unknown_found']:.1f} %" in said
    for card in report["inbox"]:
        assert re.search(rf"^ {re.escape(card['name'])} +{card['size']} ", said, re.MULTILINE), card["name"]
    assert f"Estimated number of new classes: {found.estimate}," in said


def test_the_live_page_lists_them_and_acts_on_all_of_one(work: Path, found: NewClasses) -> None:
    expected = [(each.name, [str(key) for key in each.subclasses]) for each in found.candidates]
    with served(work) as page:
        page.until(lambda state: state["stream"]["decided"] == 1518 and state["recall"])
        state = page.until(lambda state: [(card["name"], card["ids"]) for card in state["inbox"]] == expected)
        card = next(card for card in state["inbox"] if len(card["ids"]) > 1)
        assert [each["id"] for each in card["subclasses"]] == card["ids"]
        assert card["size"] == sum(each["size"] for each in card["subclasses"])
        assert [card["size"] for card in state["inbox"]] == [each.size for each in found.candidates]
        first = page.client.get(f"/api/subclass/{','.join(card['ids'])}").json()
        merged = [one for one in lines_of(work / "events.jsonl") if one["type"] == "SubclassMerged"]
        ids = {*card["ids"]}
        for one in reversed(merged):  # the page follows merges
            ids |= {str(one["subclass_id"])} if str(one["into"]) in ids else set()
        own = [one["seq"] for one in lines_of(work / "decisions.jsonl") if str(one["subclass_id"]) in ids]
        assert [each["n"] for each in first["instances"]] == own[::-1][:50]
        assert page.ask(action="promote", subclass=card["ids"], label="fox").status_code == 200
        state = page.until(lambda state: any(one["status"] == "named" for one in state["inbox"]))
        named = {one["id"] for one in state["inbox"] if one["status"] == "named"}
        page.until(lambda state: named <= {*card["ids"]} and len(state["inbox"]) >= len(expected))
        assert page.ask(action="undo").status_code == 200
        page.until(lambda state: [(card["name"], card["ids"]) for card in state["inbox"]] == expected)


def emerged(key: int, seq: int, size: int) -> dict[str, object]:
    why = {"mean": {}, "difference": {}, "shift": {}, "most_moved": [], "nearest_class": "a", "distance": 3.0}
    first = {"seq": seq, "t": None, "key": None}
    event = {"type": "SubclassEmerged", "seq": seq, "subclass_id": key, "size": size}
    return {**event, "first_seen": first, "explanation": why}


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ({}, ["S3", "S1", "S2"]),
        ({"candidates": [["1", "2"]], "decided": 10, "seen": 10}, ["S1 and S2"]),
        ({"candidates": [["1", "2"]], "decided": 4, "seen": 4}, ["S1 and S2", "S3"]),
        ({"candidates": [["2"], ["1"]], "decided": 10, "seen": 10}, ["S2", "S1"]),
        ({"candidates": [["1", "2"]], "decided": 99, "seen": 99}, ["S1 and S2", "S3"]),
        ({"candidates": [["77"], ["1"]], "decided": 10, "seen": 10}, ["S1"]),
    ],
    ids=["no model", "as the model says", "announced since", "another order", "not read as far", "of another run"],
)
def test_the_page_follows_the_model_and_adds_what_came_since(inside: dict[str, Any], expected: list[str]) -> None:
    state = State([""], events=True)
    for key, seq, size in ((1, 1, 20), (2, 2, 9), (3, 6, 30)):
        state.event(0, emerged(key, seq, size))
    decision = {"label": "a", "probabilities": {"a": 0.9, "unknown": 0.1}, "t": None, "subclass_id": None}
    for seq in range(10):
        state.decision(0, seq, seq, {**decision, "seq": seq})
    state.caught_up()
    stream = {"name": "s", "source": "s", "kind": "file", "running": False, "behind": None}
    assert [card["name"] for card in view_model(state, stream, inside, {}, [])["inbox"]] == expected
    taken_back = view_model(state, stream, {**inside, "candidates": []}, {"1": ("emerging", None)}, [])["inbox"]
    assert "S1" in [card["name"] for card in taken_back], "until the checkpoint has it again"
    muted = view_model(state, stream, inside, {"1": ("muted", None)}, [])["inbox"]
    assert "S1" not in [card["name"] for card in muted if card["status"] == "emerging"]
