"""Following files: half lines, a run that goes on from its checkpoint, another file, and features by key."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files import open_sink
from stream_osr_connectors.growing_file import FeedTruncated, Tail, is_written
from stream_osr_connectors.page.live.feeds import FileFeed
from stream_osr_connectors.page.live.input_rows import InputRows
from tests.blobs import fitted_once
from tests.live.served import Page, make_run, served, write_input
from tests.live.watching import watching
from tests.processes import COMMAND, Process


def read_all(tail: Tail) -> list[bytes]:
    return [line for _, _, line in tail.read()]


def test_a_line_comes_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    tail = Tail(path)
    assert read_all(tail) == []
    path.write_bytes(b'{"a"')
    assert read_all(tail) == []
    with path.open("ab") as file:
        file.write(b": 1}\nnext")
    assert tail.read() == [(0, 0, b'{"a": 1}')]
    assert tail.span(0, None) == b'{"a": 1}\n'
    tail.close()


def test_a_file_that_is_not_what_it_was_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for now in (b"one\n", b"one\nthree\nfour\n", b"", b"one\ntwo\nnew\n"):
        path.write_bytes(b"one\ntwo\n")
        with closing(Tail(path)) as tail:
            assert read_all(tail) == [b"one", b"two"]
            if b"new" in now:  # another file, which begins alike
                path.unlink()
            path.write_bytes(now)
            with pytest.raises(FeedTruncated):
                tail.read()
            assert read_all(tail) == now.splitlines()


def test_what_comes_again_as_it_was_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\ntwo\n")
    tail = Tail(path)
    read_all(tail)
    path.write_bytes(b"one\ntwo\nthree\n")
    assert read_all(tail) == [b"three"]
    tail.close()


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_features_are_found_by_key_behind_rows_that_were_set_aside(tmp_path: Path, form: str) -> None:
    rows = [{"id": f"k{i}", "a": float(i), "b": i / 2} for i in range(3000)]
    path = tmp_path / f"in.{form}"
    if form == "csv":
        path.write_text("id,a,b\n" + "".join(f"{r['id']},{r['a']},{r['b']}\n" for r in rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    inputs = InputRows(path, "id")
    for seq, row in ((0, 0), (5, 5), (700, 1000), (2000, 2310), (1, 1), (2600, 2999)):
        found = inputs.find({"seq": seq, "key": f"k{row}"})
        assert found == {"a": float(row), "b": row / 2}, row
    assert inputs.find({"seq": 10, "key": "no key"}) is None
    assert "1 instances" in inputs.notes()[0]
    assert InputRows(path, None).find({"seq": 7, "key": None}) == {"a": 7.0, "b": 3.5, "id": "k7"}


def test_keys_that_look_like_numbers_are_found_and_columns_of_text_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("key,a\n0,1.5\n1,2.5\n007,3.5\n")
    inputs = InputRows(path, "key")
    found = [inputs.find({"seq": n, "key": key}) for n, key in enumerate(("0", "1", "007"))]
    assert found == [{"a": 1.5}, {"a": 2.5}, {"a": 3.5}]
    # A category may look like a number, and the model knows it as the run has read it.
    path.write_text("key,a,kind\n0,1.5,007\n1,,\n")
    inputs, first = InputRows(path, "key"), {"seq": 0, "key": "0"}
    assert inputs.find(first, ["kind"]) == {"a": 1.5, "kind": "007"}
    assert inputs.find(first) == {"a": 1.5, "kind": 7.0}
    assert inputs.find({"seq": 1, "key": "1"}, ["kind"]) == {"a": None, "kind": None}


def test_what_cannot_be_followed_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("key,label\n")
    for name, why in (("d.csv", "JSON Lines"), (".", "folder"), ("x.jsonl", "JSON object")):
        with pytest.raises(ConnectorError, match=why):
            FileFeed(tmp_path / name, None)
    with pytest.raises(ConnectorError, match="no column 'id'"):
        InputRows(tmp_path / "x.jsonl", "id")


def test_a_file_is_written_while_it_is(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    sink = open_sink(path)
    assert is_written(path)
    sink.close()
    assert not is_written(path)
    (tmp_path / ".d.jsonl.lock").write_text(f"process 999999999 on {os.uname().nodename} since 2026-03-02")
    assert not is_written(path), "its writer has crashed"


RUN = "run -m model.osr -i new.jsonl --key id -o decisions.jsonl -e events.jsonl --follow --checkpoint-every 50"


def follow(folder: Path, *more: str) -> Process:
    """A run that follows its input as it grows."""
    return Process([*COMMAND, *RUN.split(), *more], cwd=folder)


def grow(folder: Path, n: int, seed: int, begin: int) -> None:
    write_input(folder / "more.jsonl", n, seed)
    lines = (folder / "more.jsonl").read_text().replace('"k', f'"{begin}-k')
    with (folder / "new.jsonl").open("a") as file:
        file.write(lines)


def wait_for_decided(page: Page, n: int) -> None:
    page.until(lambda state: state["stream"]["decided"] >= n)


def test_a_class_that_emerges_in_a_running_run_is_seen_named_and_the_next_batch_is_labelled_so(
    tmp_path: Path,
) -> None:
    fitted_once(batch_size=16, chains=1, window=32, seed=5).save(tmp_path / "model.osr")
    (tmp_path / "new.jsonl").write_text("")
    (tmp_path / "events.jsonl").write_text("")
    process = follow(tmp_path)
    try:
        with served(tmp_path) as page:
            grow(tmp_path, 160, 0, 0)
            ends = time.monotonic() + 60
            while b"SubclassEmerged" not in (tmp_path / "events.jsonl").read_bytes():
                assert time.monotonic() < ends
                time.sleep(0.01)
            begun = time.monotonic()
            id = page.until(lambda state: state["inbox"])["inbox"][0]["id"]
            seen = time.monotonic() - begun
            assert seen < 10, f"seen {seen:.2f} s after its event"
            wait_for_decided(page, 160)
            assert page.state()["stream"]["running"]
            answer = page.ask(action="promote", subclass=id, label="fox").json()
            assert answer["standing"] == "queued", answer
            page.until(lambda state: state["inbox"][0]["label"] == "fox")
            grow(tmp_path, 64, 1, 1)
            page.until(lambda state: any(row["label"] == "fox" and row["n"] > 5 for row in state["known"]))
            act = page.state()["history"][0]
            assert (act["outcome"], act["by"]) == ("done", "anna")

            process.kill()
            process.wait(30)
            process = follow(tmp_path, "--resume")
            grow(tmp_path, 64, 2, 2)
            wait_for_decided(page, 288)
            lines = (tmp_path / "decisions.jsonl").read_text().splitlines()
            counts = Counter(json.loads(line)["label"] for line in lines)
            state = page.until(lambda state: state["stream"]["decided"] == len(lines))
            found = {row["label"]: row["n"] for row in state["known"]}
            assert found == {label: counts[label] for label in ("left", "right", "fox")}
            assert page.ask(action="undo", n=act["n"]).status_code == 200
            page.until(lambda state: state["history"][-1]["undone"] and state["inbox"][0]["status"] == "emerging")
    finally:
        process.send_signal(signal.SIGTERM)
        exit_code = process.wait(60)
    assert exit_code == 130


def test_a_replay_keeps_its_pace(tmp_path: Path) -> None:
    make_run(tmp_path)
    with served(tmp_path, speed=100.0) as page:
        begun = time.monotonic()
        wait_for_decided(page, 150)
        assert time.monotonic() - begun > 1.0
        assert page.state()["stream"]["decided"] < 400


def test_decisions_that_are_not_there_yet_are_waited_for_and_it_is_said_once(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with watching(tmp_path, decisions="nope.jsonl", said=said.open("w+")):
        pass
    assert said.read_text().count("nope.jsonl does not exist yet: waiting for it\n") == 1
