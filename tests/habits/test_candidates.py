"""One list of candidates: the same members in the same order under the same names, wherever one looks."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from stream_osr import Decision, NewClasses, OpenSetRecognizer
from stream_osr.discovery.class_count import Estimate
from stream_osr.stream import StageCounts
from stream_osr_connectors.cli import demo
from stream_osr_connectors.cli.stream_summary import account
from stream_osr_connectors.files.checkpoint import load_checkpoint, save_checkpoint
from stream_osr_connectors.kafka.ops.metrics import Overview
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.model_metrics import find
from stream_osr_connectors.kafka.run.publishing import count_decisions
from stream_osr_connectors.kafka.stats import PartitionStats, ServiceStats
from stream_osr_connectors.page.live.access import KnownHosts
from stream_osr_connectors.page.live.service_feed import metrics_view
from stream_osr_connectors.page.report import report_page
from stream_osr_connectors.page.report.content import collect
from stream_osr_connectors.summary.state import State
from stream_osr_connectors.summary.view_model import view_model
from tests.kafka.scraping import samples_of, total
from tests.live.served import served, serving
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


def groups(pattern: str, text: str) -> tuple[str, ...]:
    """Groups of the first match."""
    found = re.search(pattern, text, re.MULTILINE)
    assert found is not None, (pattern, text)
    return found.groups()


def candidates_in(pattern: str, text: str) -> list[tuple[str, int]]:
    return [(name, int(size)) for name, size in re.findall(pattern, text, re.MULTILINE)]


def of_text(text: str) -> dict[str, Any]:
    """Numbers that the end of a run and `inspect` print."""
    counts = groups(r"^(\d+) instances decided in all: (\d+) known, (\d+) unknown \((.*) %\)$", text)
    (listed,) = groups(r"^new subclasses, with their instances: (.*)$", text)
    (recall,) = groups(r"estimated share labelled right: (.*?), wrongly", text)
    estimate, n_candidates = groups(r"^estimated number of new classes: (.*), candidates: (\d+)$", text)
    candidates = candidates_in(r"^candidates\[\d+\]: (.*?): (\d+) instances", text)
    assert int(n_candidates) == len(candidates)
    return {
        **{"decided": int(counts[0]), "known": int(counts[1]), "unknown": int(counts[2]), "share": counts[3]},
        **{"sizes": {int(key): int(size) for key, size in re.findall(r"S(\d+) (\d+)", listed)}},
        **{"candidates": candidates, "estimate": estimate, "recall": recall},
    }


def of_inspect(text: str) -> dict[str, Any]:
    """And its table of the classes."""
    found, classes = of_text(text), text.partition("---\n")[2].partition("\nstream, known")[0].splitlines()
    decided, emerged = groups(r"(\d+) instances of the stream decided, (\d+) new subclasses emerged", text)
    novelty, drift = groups(r"^signals: novelty (\d+), drift (\d+)", text)
    assert int(decided) == found["decided"]
    assert f"expected now {found['recall']}" in text
    return {**found, "classes": len(classes), "emerged": int(emerged), "signals": (int(novelty), int(drift))}


def of_demonstration(text: str) -> dict[str, Any]:
    """Numbers of the demonstration. Its confusion matrix has a column of unknown instances."""
    (decided,) = groups(r"The stream from left to right: (\d+) instances", text)
    (estimate,) = groups(r"Estimated number of new classes: (.*), true number", text)
    (classes,) = groups(r"^  known classes  (.*)$", text)
    matrix = text.partition("(rows) and label (columns)")[2].partition("known instances with the right label")[0]
    rows = [re.findall(r" (\d+|\.)(?= )", line) for line in matrix.splitlines()]
    cells = [[0 if cell == "." else int(cell) for cell in row] for row in rows if row]
    return {
        **{"decided": int(decided), "known": sum(sum(row[:-1]) for row in cells)},
        **{"unknown": sum(row[-1] for row in cells), "classes": len(classes.split(", ")), "estimate": estimate},
        "candidates": candidates_in(r"^ (S\d+(?: and S\d+|, S\d+ and \d+ more)?) +(\d+) ", text),
    }


def of_recall(recall: dict[str, float]) -> str:
    return f"{recall['value']:.3f} ({recall['low']:.3f} to {recall['high']:.3f})"


def of_page(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the report and of the live page."""
    return {
        "decided": state["stream"]["decided"],
        "known": sum(row["n"] for row in state["known"]),
        "unknown": state["unknown"]["n"],
        "share": f"{100 * state['unknown']['rate']:.1f}",
        "sizes": {int(each["id"]): each["size"] for card in state["inbox"] for each in card["subclasses"]},
        "candidates": [(card["name"], card["size"]) for card in state["inbox"]],
        "estimate": str(Estimate(**state["new_classes"])),
        "signals": (state["signals"]["novelty"], state["signals"]["drift"]),
        "classes": len(state["known"]),
        "recall": of_recall(state["recall"]),
    }


def of_http(work: Path, folder: Path) -> dict[str, Any]:
    """Numbers of the service over HTTP, which continues the run."""
    import httpx

    from stream_osr_connectors.http_service.acceptor import Acceptor
    from stream_osr_connectors.http_service.folder_run import FolderRun
    from stream_osr_connectors.http_service.instances import InstanceReader
    from stream_osr_connectors.http_service.routes import make_app
    from stream_osr_connectors.page.live.page_host import listen

    for name in ("decisions.jsonl", "events.jsonl"):
        shutil.copy(work / name, folder)
    ended = load_checkpoint(work / "decisions.jsonl.checkpoint")
    begun = ended._replace(source=None, sinks=(*ended.sinks[:2], {"offset": 0}))
    save_checkpoint(folder / "decisions.jsonl.checkpoint", begun)
    run, listening, state = FolderRun(folder, ended.model), listen("127.0.0.1", 0), State([""], events=False)
    hosts = KnownHosts("127.0.0.1", listening.getsockname()[1])
    app = make_app(run, Acceptor(run.journal), InstanceReader(run.model), hosts, None)
    with serving(app, listening) as address, httpx.Client(base_url=address, trust_env=False) as client:
        metrics = samples_of(client.get("/metrics").text)
        found = client.get("/v1/candidates").json()
        while decisions := client.get(f"/v1/decisions?after={state.decided - 1}").json()["decisions"]:
            for one in decisions:
                state.decision(0, state.decided, state.decided, one)
    run.stop()
    return {
        "decided": total(metrics, "stream_osr_decided_total"),
        "unknown": state.unknown,
        "events": total(metrics, "stream_osr_events_total"),
        "candidates": [(each["name"], each["size"]) for each in found["candidates"]],
        "estimate": str(Estimate(found["number"], found["low"], found["high"])),
    }


def of_metrics(model: OpenSetRecognizer, decisions: list[dict[str, Any]]) -> dict[str, Any]:
    """Numbers of the Kafka service, if a partition has decided the stream."""
    from prometheus_client import CollectorRegistry, generate_latest

    place, stats, registry = Place("segments", 0), ServiceStats(), CollectorRegistry()
    its = stats.partitions[place] = PartitionStats(found=find(model)[0])
    its.follow(model)
    count_decisions(stats, place, model, [Decision(**one) for one in decisions])
    registry.register(Overview(lambda: {"osr": stats}, 60.0))
    text = generate_latest(registry).decode()
    found = samples_of(text)
    known, unknown = (total(found, "stream_osr_decisions_total", decided=kind) for kind in ("known", "unknown"))
    at = {stage: total(found, "stream_osr_subclasses_at", stage=stage) for stage in StageCounts._fields}
    assert total(found, "stream_osr_active_subclasses") == at["active"]
    estimate = [int(total(found, f"stream_osr_new_classes{end}")) for end in ("", "_low", "_high")]
    return {
        "decided": known + unknown,
        "known": known,
        "unknown": unknown,
        "emerged": at["active"] + at["dormant"] + at["muted"],
        "estimate": str(Estimate(*estimate)),
        "signals": tuple(total(found, "stream_osr_signals_total", signal=name) for name in ("novelty", "drift")),
        "classes": total(found, "stream_osr_known_classes"),
        "recall": of_recall(metrics_view(text)["recall"]),
    }


def test_the_numbers_of_a_stream_are_the_same_everywhere(work: Path, found: NewClasses, tmp_path: Path) -> None:
    """They are those of the fold over decisions and events, or of the model if only the model has them."""
    model = load_checkpoint(work / "decisions.jsonl.checkpoint").model
    decisions, events = lines_of(work / "decisions.jsonl"), lines_of(work / "events.jsonl")
    state = State([""], events=True)
    for number, one in enumerate(decisions):
        state.decision(0, number, number, one)
    for one in events:
        state.event(0, one)
    state.caught_up()
    emerged = [each.key for each in state.every_subclass() if each.status not in ("gone", "named")]
    report = Page(report_page(model, decisions, events)).state
    with served(work) as live_page:
        live = live_page.until(lambda state: state["stream"]["decided"] == len(decisions) and state["new_classes"])
    numbers = {
        "end of the run": of_text("\n".join(account(model))),
        "inspect": of_inspect(call("inspect", "decisions.jsonl.checkpoint", cwd=work).stdout),
        "demonstration": of_demonstration((work / "said").read_text(encoding="utf-8")),
        "report": of_page(report),
        "live page": of_page(live),
        "HTTP": of_http(work, tmp_path),
        "metrics": of_metrics(model, decisions),
    }
    sizes = {key: size for key, size in numbers["report"]["sizes"].items() if key in emerged}
    expected: dict[str, Any] = {
        **{"decided": state.decided, "unknown": state.unknown, "known": state.decided - state.unknown},
        **{"share": f"{100 * state.counts.unknown_share:.1f}", "emerged": len(emerged), "events": len(events)},
        **{"classes": len(state.labels), "recall": str(model.expected_recall).partition(",")[0]},
        **{"sizes": sizes, "signals": (state.signals["novelty"], state.signals["drift"])},
        **{"candidates": [(each.name, each.size) for each in found.candidates], "estimate": str(found.estimate)},
    }
    assert state.decided == 1518
    assert sorted(sizes) == sorted(emerged)
    for place, shown in numbers.items():
        if "sizes" in shown:
            shown["sizes"] = {key: size for key, size in shown["sizes"].items() if key in emerged}
        assert shown == {name: expected[name] for name in shown}, place


def test_report_and_live_page_are_the_same(work: Path) -> None:
    """And `inspect` prints what the end of a run does, and the demonstration the accuracy of the report."""
    model = load_checkpoint(work / "decisions.jsonl.checkpoint").model
    inspected = call("inspect", "decisions.jsonl.checkpoint", cwd=work).stdout.splitlines()
    assert [line for line in account(model) if line not in inspected] == []
    with (work / "truth.csv").open(encoding="utf-8") as file:
        labels = [row["label"] for row in csv.DictReader(file)]
    records = lines_of(work / "decisions.jsonl"), lines_of(work / "events.jsonl")
    report = Page(report_page(model, *records, lambda key, number: labels[number])).state
    with served(work) as live_page:
        live_page.until(lambda state: state["stream"]["decided"] == len(labels) and state["recall"])
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
    said = (work / "said").read_text(encoding="utf-8")
    accuracy = report["accuracy"]
    assert f"known instances with the right label  {100 * accuracy['known_right']:.1f} %" in said
    assert f"new instances labelled unknown        {100 * accuracy['unknown_found']:.1f} %" in said


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
