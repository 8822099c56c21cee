"""`stream-osr run --by`: a recognizer for each key, over files."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pytest

from stream_osr.errors import ConnectorError, StreamOSRError
from stream_osr_connectors.commands import Command, history
from stream_osr_connectors.files import open_sink, open_source
from stream_osr_connectors.files.checkpoint import ask, load_checkpoint, streams_of
from stream_osr_connectors.files.file_run import FileRun, Sinks
from stream_osr_connectors.files.streams import KeyedStreams, keyed_of
from tests.blobs import fitted_once, stream_part
from tests.report.conftest import Page
from tests.test_cli import call, lines_of

ARGUMENTS = {"batch_size": 16, "chains": 1, "sweeps": 3, "window": 16}
RUN = ("run", "-m", "model.osr", "-i", "in.csv", "--key", "id", "--time", "t", "-e", "events.jsonl")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fitted_once(**ARGUMENTS).save(tmp_path / "model.osr")
    monkeypatch.chdir(tmp_path)
    return tmp_path


KEYS = ("7", "line 3/a", "=1+1", "é" * 200, "..", "plain")
"""Keys of streams, with hostile characters."""


def table(n: int, seed: int = 0) -> list[str]:
    """Lines of a stream of several keys, of some much more often than of others."""
    weight = 1.0 / np.arange(1, len(KEYS) + 1)
    keys = np.random.default_rng(seed).choice(len(KEYS), size=n, p=weight / weight.sum())
    rows = enumerate(zip(keys.tolist(), stream_part(n, seed), strict=True))
    return ["device,id,t,a,b", *(f"{KEYS[k]},r{at},{at},{x['a']!r},{x['b']!r}" for at, (k, (x, _)) in rows)]


def write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n")


def by_key(path: Path) -> dict[str, list[dict[str, Any]]]:
    out = defaultdict(list)
    for record in lines_of(path):
        out[record.pop("by")].append(record)
    return dict(out)


def test_a_key_has_the_results_of_a_run_with_its_records(work: Path) -> None:
    lines = table(500)
    write(work / "in.csv", lines)
    done = call(*RUN, "-o", "out.jsonl", "--by", "device")
    assert done.returncode == 0, done.stderr
    decisions, events = by_key(work / "out.jsonl"), by_key(work / "events.jsonl")
    assert {*decisions} == {*KEYS}
    assert "6 keys, " in done.stderr
    for name in KEYS[:2]:
        write(work / "in.csv", [lines[0], *(line for line in lines if line.startswith(f"{name},"))])
        own = call(*RUN, "-o", "own.jsonl", "--features", "a,b")
        assert own.returncode == 0, own.stderr
        assert decisions[name] == lines_of(work / "own.jsonl")
        assert events[name] == lines_of(work / "events.jsonl")


class Killed(Exception):
    """The end of a process."""


def keyed_run(work: Path, kill_after: int | None, **arguments: Any) -> FileRun:
    """Run in this process, from the checkpoint if there is one. Raise `Killed` after a number of records."""
    started = load_checkpoint(work / "c") if (work / "c").exists() else None
    model = fitted_once(**{**ARGUMENTS, **arguments}) if started is None else started.model

    def progress(read: int) -> None:
        if read == kill_after:
            raise Killed

    keyed = keyed_of(model, work / "c", None if started is None else started.keys)
    keyed.memory = 1  # one recognizer in memory
    with (
        open_source(work / "in.csv", key="id", time="t", by="device", features=["a", "b"]) as source,
        open_sink(work / "out.jsonl") as out,
        open_sink(work / "events.jsonl") as events,
    ):
        options: Any = {"checkpoint": work / "c", "checkpoint_every": 41, "progress": progress, "keyed": keyed}
        if started is None:
            run = FileRun(model, source, Sinks(out, events), **options)
        else:
            run = FileRun.go_on(started, source, Sinks(out, events), **options)
        run.run()
    return run


@pytest.mark.parametrize(
    "arguments", [pytest.param({}, marks=pytest.mark.thorough), {"max_wait": 25.0, "decision_delay": 3}], ids=str
)
def test_a_run_that_is_killed_at_any_record_continues_with_the_same_bits(
    work: Path, arguments: dict[str, Any]
) -> None:
    killed, whole = work / "killed", work / "whole"
    for folder in (killed, whole):
        folder.mkdir()
        write(folder / "in.csv", table(400))
    expected = keyed_run(whole, None, **arguments)
    assert expected.keyed.loaded > 20
    resumed = 0
    for kill in [7, 41, 90, 123, 124, 300, 399]:
        resumed += (killed / "c").exists()
        with pytest.raises(Killed):
            keyed_run(killed, kill, **arguments)
    assert resumed == 4
    run = keyed_run(killed, None, **arguments)
    for name in ("out.jsonl", "events.jsonl"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    summaries = [[line._replace(awake=False) for line in each.keyed.summary()] for each in (run, expected)]
    assert summaries[0] == summaries[1]
    assert run.totals == expected.totals
    assert len([*(killed / "c.keys").iterdir()]) <= 6, "states that no checkpoint names are deleted"


def test_commands_name_the_stream(work: Path) -> None:
    lines = table(600)
    write(work / "in.csv", lines)
    assert call(*RUN, "-o", "out.jsonl", "--by", "device").returncode == 0
    events = [(by, event) for by, events in by_key(work / "events.jsonl").items() for event in events]
    by, id = next((by, event["subclass_id"]) for by, event in events if event["type"] == "SubclassEmerged")
    place = ("--checkpoint", "out.jsonl.checkpoint")
    shown = call("inspect", place[1])
    assert f"{by}: " in shown.stdout, shown.stderr
    drilled = call("inspect", place[1], "--stream", by)
    assert quote(f"{by}/{id}") in drilled.stdout, drilled.stdout
    files = (place[1], "out.jsonl", "events.jsonl")
    assert "has a stream for each key. Choose one with --stream KEY" in call("report", *files[1:]).stderr
    assert "report of 6 keys written to report.html" in call("report", *files).stderr
    keys = Page((work / "report.html").read_text()).state["keys"]["shown"]
    assert len(keys) == 6
    assert f"stream-osr report {' '.join(files)} --stream {quote(by)}" in [key["command"] for key in keys]
    assert call("report", *files, "--stream", by).returncode == 0
    state = Page((work / "report.html").read_text()).state
    assert any(f"{by}/{id} NAME" in card["command"] for card in state["inbox"])
    assert state["stream"]["decided"] == len(by_key(work / "out.jsonl")[by]), "the decisions of this key only"
    checkpoint = work / place[1]
    for refused, why in [
        (Command("promote", (id,), "sky"), "a stream for each key. Name the key: KEY/ID"),
        (Command("promote", (id,), "sky", stream="nowhere"), "no stream with key 'nowhere'"),
        (Command("label", key="r1", label="sky"), "a stream for each key"),
        (Command("undo", stream=by), "no promotion, mute, late label or verdict on a moved frame to undo"),
    ]:
        with pytest.raises(StreamOSRError, match=why):
            ask(checkpoint, refused)
    assert call("promote", f"{by}/{id}", "sky", *place).returncode == 0
    last = next(line.split(",") for line in reversed(lines) if line.startswith(f"{by},"))
    assert call("label", last[1], "sky", "--stream", by, *place).returncode == 0
    assert call("undo", by, *place).returncode == 0
    entries = history(work / "out.jsonl.checkpoint")
    assert [entry.undone_by for entry in entries[-3:]] == [None, entries[-1].n, None]
    assert entries[-1].line().split("  ")[-1].split(": ", 1)[1].startswith(f"undo {by}: done")
    more = table(400, seed=1)[1:]
    others = [line for line in more if not line.startswith(f"{by},")]
    for rest in (others, [*others, *more]):  # the first ones have no instance of the key
        write(work / "in.csv", [*lines, *rest])
        done = call(*RUN, "-o", "out.jsonl", "--by", "device", "--resume")
        assert done.returncode == 0, done.stderr
        after = by_key(work / "events.jsonl")[by]
        assert [e["label"] for e in after if e["type"] == "SubclassPromoted"] == ["sky"]
    named = Counter(d["label"] for d in by_key(work / "out.jsonl")[by])
    assert named["sky"] > 10
    other = call(*RUN, "-o", "out.jsonl", "--resume")
    assert "no --by with --resume: the run was begun with --by device" in other.stderr


def test_records_without_a_usable_key_are_set_aside(work: Path) -> None:
    good = {"id": "r", "t": 1, "a": 0.1, "b": 0.2}
    keys = ["pump", 7, 7.0, "", None, True, ["pump"], "\ud800", "k" * 5000, "pump"]
    lines = [json.dumps({**good, "device": key}) for key in keys]
    write(work / "in.jsonl", [*lines, json.dumps(good), json.dumps({**good, "device": "new", "a": "high"})])
    done = call("run", "-m", "model.osr", "-i", "in.jsonl", "--key", "id", "--by", "device", "-o", "out.jsonl",
                "--features", "a,b", "--errors", "errors.jsonl")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {by: len(found) for by, found in by_key(work / "out.jsonl").items()} == {"pump": 2, "7": 2}
    aside = lines_of(work / "errors.jsonl")
    assert [each["row"] for each in aside] == [4, 5, 6, 7, 8, 9, 11, 12]
    assert "the key of the stream is empty. Give text or a whole number" in aside[0]["reason"]
    assert "field 'device' holds True: a key is text or a whole number" in aside[2]["reason"]
    assert "8 set aside" in done.stderr
    shown = call("inspect", "out.jsonl.checkpoint").stdout
    assert "refused 8" in shown
    assert "2 keys" in shown


def test_a_quiet_key_closes_its_micro_batch_in_its_own_time(work: Path) -> None:
    rows = [("early", 0.0), ("early", 5.0), ("late", 1000.0), ("early", 8.0)]
    rows += [("late", 1000.0 + t) for t in range(1, 30)]
    write(work / "in.csv", ["device,id,t,a,b", *(f"{by},r{n},{t},0.5,0.5" for n, (by, t) in enumerate(rows))])
    call(*RUN, "-o", "out.jsonl", "--by", "device", "--max-wait", "20")
    order = [(d["by"], d["key"]) for d in lines_of(work / "out.jsonl")]
    place = order.index(("early", "r3"))
    assert order.index(("early", "r0")) == 0, "the clock of another key closes it once"
    assert [order[place - 1][0], order[place + 1][0]] == ["late", "late"], "20 after its first row"


def test_a_python_run_continues_as_it_began(work: Path) -> None:
    write(work / "in.csv", table(60))
    keyed_run(work, None)
    started = load_checkpoint(work / "c")
    streams = streams_of(started, work / "c")
    assert isinstance(streams, KeyedStreams)
    assert sum(line.seen for line in streams.keyed.summary()) == 60
    with (
        open_source(work / "in.csv", by="device") as source,
        open_sink(work / "out.jsonl") as out,
        pytest.raises(ConnectorError, match="begun as by key and continues as one stream"),
    ):
        FileRun(started.model, source, Sinks(out), started=started)
