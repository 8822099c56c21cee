"""The MCP server: the official client reads a run, and with a token changes it, over stdio of a real process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stream_osr_connectors.commands import history
from stream_osr_connectors.page.live.checkpoint_view import CheckpointView
from stream_osr_connectors.page.live.examples import ExampleChooser
from stream_osr_connectors.page.live.feeds import FileFeed
from stream_osr_connectors.page.live.file_commands import FileActs
from stream_osr_connectors.page.live.input_rows import InputRows
from stream_osr_connectors.page.live.watcher import Watcher
from tests.documents import forked
from tests.live.served import ANNA, TOKENS, make_run
from tests.processes import COMMAND, asking_socket

if TYPE_CHECKING:
    from mcp import Client

READING = ["list_candidates", "explain_candidate", "show_examples", "signals", "history"]
CHANGES = ["promote", "mute", "accept_frame", "reject_frame", "undo"]
PIPES = ("stdin", "stdout", "stderr")
DEEP: Any = "end"
for _ in range(150):
    DEEP = [DEEP]
HOSTILE: list[tuple[str, Mapping[str, Any], str]] = [
    ("explain_candidate", {}, "no candidate None"),
    ("explain_candidate", {"candidate": ["11"]}, "no candidate"),
    ("show_examples", {"candidate": "9" * 5000}, "no candidate '999"),
    ("show_examples", {"candidate": "x\n\x1b[31m\u202e"}, r"\n"),
    ("signals", {"a\nb" * 100_000: 1}, "no argument"),
    ("promote", {}, "promote without a"),
    ("promote", {"subclass": {"a": 1}, "label": "red"}, "subclass"),
    ("promote", {"subclass": ["11"] * 101, "label": "red"}, "subclass"),
    ("promote", {"subclass": ["11"], "label": ["red"]}, "label"),
    ("promote", {"subclass": ["11"], "label": "l" * 1_000_000}, "label"),
    ("promote", {"subclass": 10**400, "label": "red"}, "subclass"),
    ("promote", {"subclass": DEEP, "label": "red"}, "subclass"),
    ("promote", {"subclass": ["123456"], "label": "red"}, "123456"),
    ("promote", {"subclass": ["11"], "label": "red", "by": "bert"}, "no argument 'by'"),
    ("mute", {"subclass": ["sensors/3:11"]}, "one stream"),
    ("mute", {"subclass": ["11"], "reason": 3}, "reason"),
    ("mute", {"subclass": [True]}, "True"),
    ("accept_frame", {}, "has not moved"),
    ("reject_frame", {"subclass": ["11"]}, "no argument"),
    ("undo", {"n": "all"}, "n is"),
    ("undo", {"n": 10**400}, "undo"),
    ("no_tool\n", {}, "no tool"),
]  # fmt: skip


class Server:
    """A client of a process of ``stream-osr mcp``."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ask(self, name: str, **given: Any) -> Any:
        return json.loads(await self._call(name, given, fails=False))

    async def refused(self, name: str, **given: Any) -> str:
        text = await self._call(name, given, fails=True)
        assert len(text) <= 600
        return text

    async def _call(self, name: str, given: dict[str, Any], fails: bool) -> str:
        result = await self.client.call_tool(name, given)
        (content,) = result.content
        assert result.is_error == fails, content
        assert content.text.isprintable(), "one line"
        return str(content.text)


def talk(steps: Callable[[Server], Awaitable[None]], server: Any) -> None:
    """Have a client talk to a server: one of this process, or the parameters of a process."""
    import anyio
    from mcp import Client

    async def main() -> None:
        async with Client(server, read_timeout_seconds=60) as client:
            await steps(Server(client))

    anyio.run(main)


def started(folder: Path, token: str) -> Any:
    """Parameters of a forked process that serves the run of a folder, for the owner of a token."""
    from mcp import StdioServerParameters

    options = ("--input", "new.jsonl", "--key", "id", "--allow-commands", "--tokens", "tokens")
    arguments = ["-ISE", forked.__file__, asking_socket(), "stream-osr", "mcp", "decisions.jsonl", *options]
    return StdioServerParameters(command=sys.executable, args=arguments, env=environment(token), cwd=folder)


def environment(token: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "STREAM_OSR_TOKEN": token}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    make_run(folder)
    (folder / "tokens").write_text(TOKENS)
    return folder


async def reading(server: Server) -> None:
    tools = (await server.client.list_tools()).tools
    assert [tool.name for tool in tools if tool.annotations.read_only_hint] == READING
    assert [tool.name for tool in tools if not tool.annotations.read_only_hint] == CHANGES
    assert all("never instructions" in tool.description for tool in tools if tool.name in READING)
    listed = await server.ask("list_candidates")
    first = listed["candidates"][0]
    assert (first["status"], listed["left_out"], listed["new_classes"]["number"] >= 1) == ("emerging", 0, True)
    about = await server.ask("explain_candidate", candidate=first["ids"][-1])
    assert (about["ids"], about["size"]) == (first["ids"], first["size"])
    assert about["size"] > 50
    assert set() < {each["feature"] for each in about["differs"]} <= {"a", "b", "c"}
    shown = (await server.ask("show_examples", candidate=first["id"]))["examples"]
    assert {each["kind"] for each in shown} == {"core", "boundary", "known"}
    assert all(each["key"].startswith("k") and each["features"] for each in shown)
    signals = await server.ask("signals")
    assert signals["stream"]["decided"] == 400
    assert {each["label"] for each in signals["known"]} == {"left", "right"}
    assert 0 < signals["unknown"]["rate"] < 1
    assert signals["recall"]["value"] > 0.5
    assert await server.ask("history") == {"history": [], "left_out": 0}


@pytest.mark.thorough
def test_a_wrong_token_reads_and_changes_nothing(run: Path) -> None:
    async def steps(server: Server) -> None:
        await reading(server)
        (first, *_) = (await server.ask("list_candidates"))["candidates"]
        for name, given in (("promote", {"subclass": first["ids"], "label": "fox"}), ("undo", {})):
            assert "set STREAM_OSR_TOKEN" in await server.refused(name, **given)

    before = {path.name: path.read_bytes() for path in run.iterdir()}
    talk(steps, started(run, ANNA[1:]))
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


@pytest.mark.thorough
def test_with_a_token_a_client_names_and_undoes_and_the_audit_log_has_it(run: Path) -> None:
    async def steps(server: Server) -> None:
        await reading(server)
        (first, *_) = (await server.ask("list_candidates"))["candidates"]
        for name, given, reason in HOSTILE:
            assert reason in await server.refused(name, **given)
        done = await server.ask("promote", subclass=first["ids"], label="fox", reason="red tail")
        assert (done["status"], done["message"].startswith("done")) == ("done", True)
        statuses = {each["id"]: each for each in (await server.ask("list_candidates"))["candidates"]}
        assert (statuses[first["id"]]["status"], statuses[first["id"]]["label"]) == ("named", "fox")
        (entry, *_) = (await server.ask("history"))["history"]
        assert (entry["by"], entry["action"], entry["label"], entry["outcome"]) == ("anna", "promote", "fox", "done")
        assert (await server.ask("undo", n=entry["n"]))["status"] == "done"
        assert "undo" in await server.refused("undo", n=entry["n"])
        again = (await server.ask("list_candidates"))["candidates"]
        assert first in again

    talk(steps, started(run, ANNA))
    done = [entry for entry in history(run / "decisions.jsonl.checkpoint") if entry.outcome == "done"]
    assert [(each.command.action, each.command.by, each.command.reason) for each in done] == [
        ("promote", "anna", "red tail"), ("undo", "anna", None)
    ]  # fmt: skip


@pytest.mark.thorough
def test_lines_that_are_no_message_are_skipped_and_commands_are_refused_by_default(run: Path) -> None:
    """Standard output has the protocol and nothing else. The server ends with its input."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    promote = {"name": "promote", "arguments": {"subclass": ["11"], "label": "fox"}}
    calls = [{"name": "signals", "arguments": "all"}, promote, {"name": "signals"}]
    sent = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        *({"id": n, "method": "tools/call", "params": call} for n, call in enumerate(calls, start=2)),
    ]
    lines = [json.dumps({"jsonrpc": "2.0", **each}) for each in sent]
    wrong = ["", "no JSON", '{"jsonrpc": "2.0"}', "[" * 10_000, "\0", "x" * 1_000_000]
    command, pipes = [sys.executable, *COMMAND, "mcp", "decisions.jsonl"], dict.fromkeys(PIPES, subprocess.PIPE)
    with subprocess.Popen(command, cwd=run, env=environment(ANNA), text=True, **pipes) as process:
        process.stdin.write("\n".join([*lines[:2], *wrong, *lines[2:], ""]))
        process.stdin.flush()
        answers = {each.get("id"): each for each in (json.loads(process.stdout.readline()) for _ in range(4))}
        assert (*process.communicate(), process.returncode) == ("", "", 0)
    assert [*answers[1]["result"]["capabilities"]] == ["tools"]
    assert ("error" in answers[2], answers[3]["result"]["isError"]) == (True, True)
    assert "read-only" in answers[3]["result"]["content"][0]["text"]
    assert json.loads(answers[4]["result"]["content"][0]["text"])["stream"]["decided"] == 400


def test_answers_about_a_hostile_stream_are_bounded_and_show_what_is_invisible(tmp_path: Path) -> None:
    from stream_osr_connectors.mcp import MOST_ANSWER, StreamTools, make_server

    name = chr(0x202E) + chr(0xE0041) + "<b>\n" + "x" * 5000
    seats = [400 + n % 250 for n in range(2500)]
    decisions = [
        {"seq": n, "t": None, "key": f"{n}{name}", "label": "unknown", "subclass_id": seat, "p_unknown": 0.9,
         "probabilities": {**{f"{each}{name}": 0.0 for each in range(3)}, "unknown": 1.0}}
        for n, seat in enumerate(seats)
    ]  # fmt: skip
    features = {f"{n}{name[:300]}": name[:300] for n in range(80)}
    rows = [{"id": each["key"], **(features if each["subclass_id"] == 400 else {})} for each in decisions]
    for file, lines in (("decisions.jsonl", decisions), ("new.jsonl", rows)):
        (tmp_path / file).write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    feed = FileFeed(tmp_path / "decisions.jsonl", None, InputRows(tmp_path / "new.jsonl", "id"))
    view, acts = CheckpointView(tmp_path / "none"), FileActs(tmp_path / "none", allowed=True)

    async def steps(server: Server) -> None:
        listed = await server.ask("list_candidates")
        assert len(listed["candidates"]) + listed["left_out"] == 200
        shown = await server.ask("show_examples", candidate="400")
        assert shown["left_out"] > 0
        assert all(len(each["features"]) == 60 and len(each["key"]) == 200 for each in shown["examples"])
        for answer in (shown, listed, await server.ask("signals"), await server.ask("history")):
            assert len(json.dumps(answer)) < 2 * MOST_ANSWER
        assert chr(0x202E) in shown["examples"][0]["key"]  # which the text, printable, has as an escape
        assert "there is no checkpoint" in await server.refused("promote", subclass=["400"], label="fox")

    talk(steps, make_server(StreamTools(Watcher(feed, view, acts, ExampleChooser(feed)), "anna")))
    view.stop()
    feed.close()
