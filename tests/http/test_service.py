"""A service over HTTP: instances, results, commands, refusals and bounds."""

from __future__ import annotations

import json
import re
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from stream_osr import Decision
from stream_osr.support.parallel import one_thread
from stream_osr_connectors.http_service.acceptor import Acceptor
from stream_osr_connectors.http_service.folder_run import FolderRun
from stream_osr_connectors.http_service.instances import MOST_BODY, InstanceReader
from stream_osr_connectors.http_service.outputs import Outputs
from stream_osr_connectors.http_service.routes import OPERATIONS
from stream_osr_connectors.page.live.access import KnownHosts
from tests.blobs import fitted_once
from tests.http.serving import (
    LINES,
    MODEL,
    TOKEN,
    Service,
    await_decisions,
    check_against_files,
    instances,
    lines_of,
    service,
)
from tests.live.served import serving

if TYPE_CHECKING:
    import httpx

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("http")
    (folder / "tokens").write_text(f"anna:{TOKEN}\n")
    with service(folder, "--tokens", folder / "tokens") as one:
        yield one


@pytest.fixture(scope="module")
def client(one: Service) -> Iterator[httpx.Client]:
    with one.client(TOKEN) as client:
        one.send(client, instances(320))
        await_decisions(client, 320)
        yield client


def test_instances_are_decided_as_by_a_run_over_files(one: Service, client: httpx.Client) -> None:
    first = instances(320)[:3]
    again = one.send(client, first)
    assert [(each["n"], each["final"]["key"]) for each in again] == [(1, "k0"), (2, "k1"), (3, "k2")]
    assert {*again[2]["immediate"]} == {"label", "p_unknown", "probabilities"}
    assert client.post("/v1/instances", json=first[2]).json() == again[2]
    assert client.post("/v1/instances", json={**first[2], "time": 7.5}).status_code == 409
    page = client.get("/v1/decisions", params={"after": 99, "limit": 2}).json()
    assert ([each["seq"] for each in page["decisions"]], page["after"]) == ([100, 101], 101)
    assert client.get("/v1/decisions", params={"after": 319}).json() == {"decisions": [], "after": 319}
    events, after = [], 0
    while (page := client.get("/v1/events", params={"after": after, "limit": 2}).json())["events"]:
        events, after = events + page["events"], page["after"]
    assert events == [json.loads(line) for line in (one.state / "events.jsonl").read_text().splitlines()]
    assert any(event["type"] == "SubclassEmerged" for event in events)
    check_against_files(one.folder, 320)


@pytest.mark.parametrize("path", ["decisions", "events"])
def test_results_arrive_as_server_sent_events(client: httpx.Client, path: str) -> None:
    listed, headers = client.get(f"/v1/{path}").json()[path], {"Accept": "text/event-stream"}
    found, id = [], ""
    with client.stream("GET", f"/v1/{path}", headers=headers) as stream:
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            id = value if name == "id" else id
            found += [json.loads(value)] if name == "data" else []
            if len(found) == 3:
                break
    assert found == listed[:3]
    with client.stream("GET", f"/v1/{path}", headers={**headers, "Last-Event-ID": id}) as stream:
        following = next(line for line in stream.iter_lines() if line.startswith("data: "))
    assert json.loads(following.removeprefix("data: ")) == listed[3]


def test_people_with_a_token_give_commands(one: Service, client: httpx.Client) -> None:
    found = client.get("/v1/candidates").json()
    candidate = found["candidates"][0]
    assert found["frame"] == ""
    assert "\nstream_osr_frame_moved 0\n" in client.get("/metrics").text
    assert candidate["size"] > 50
    with one.client() as stranger:
        answers = stranger.post("/v1/undo", json={}), stranger.get("/v1/decisions")
        assert [each.status_code for each in answers] == [401, 401]
    for path, wish in (
        ("promote", {"subclass": candidate["subclasses"], "label": "sky", "reason": "blue"}),
        ("labels", {"key": "k319", "label": "left"}),
        ("undo", {}),
        ("mute", {"subclass": [987654]}),
        ("accept-frame", {}),
        ("reject-frame", {"reason": "a repair"}),
    ):
        answer = client.post(f"/v1/{path}", json=wish)
        assert answer.status_code == 202, answer.text
    until, history = time.monotonic() + 30, [{"outcome": "pending"}]
    while any(each["outcome"] == "pending" for each in history) and time.monotonic() < until:
        history = client.get("/v1/commands").json()["commands"]
        time.sleep(0.05)
    found = [(each["n"], each["by"], each["outcome"].partition(":")[0], each["undone"]) for each in history[::-1]]
    expected = [(1, "done", False), (2, "done", True), (3, "done", False)]
    expected += [(n, "refused", False) for n in (4, 5, 6)]
    assert found == [(n, "anna", outcome, undone) for n, outcome, undone in expected]
    assert client.post("/v1/undo", json={"n": 2}).status_code == 409
    one.send(client, ({**each, "key": f"later {each['key']}"} for each in instances(64, seed=1)))
    assert "sky" in {each["label"] for each in await_decisions(client, 384)[320:]}


HOSTILE: tuple[tuple[int, str, str, bytes | str, dict[str, str]], ...] = (
    (400, "POST", "/v1/instances", b"", JSON),
    (400, "POST", "/v1/instances", b"\xff\xfe{", JSON),
    (400, "POST", "/v1/instances", "[" * 100_000, JSON),
    (400, "POST", "/v1/instances", '{"key": NaN}', JSON),
    (400, "POST", "/v1/instances", '{"key": "\\ud800", "features": {"a": 1, "b": 2}}', JSON),
    (422, "POST", "/v1/instances", "[]", JSON),
    (422, "POST", "/v1/instances", '{"key": "x", "features": {"a": 1, "b": 2}, "mood": "left"}', JSON),
    (422, "POST", "/v1/instances", '{"features": {"a": 1, "b": 2}}', JSON),
    (422, "POST", "/v1/instances", '{"key": "y", "features": {"a": "abc", "b": 2}, "label": "left"}', JSON),
    (422, "POST", "/v1/instances", '{"key": "y", "features": {"a": 1, "b": 2}, "label": "unknown"}', JSON),
    (422, "POST", "/v1/instances", json.dumps({"key": "y", "features": {"a": 1, "b": 2}, "label": 2**70}), JSON),
    (422, "POST", "/v1/instances", json.dumps({"key": "y", "features": {"a": 1, "b": 2}, "label": 9999 * "l"}), JSON),
    (422, "POST", "/v1/instances", '{"key": true, "features": {"a": 1, "b": 2}}', JSON),
    (422, "POST", "/v1/instances", '{"key": 1e300, "features": {"a": 1, "b": 2}}', JSON),
    (422, "POST", "/v1/instances", json.dumps({"key": "k" * 5000, "features": {"a": 1, "b": 2}}), JSON),
    (422, "POST", "/v1/instances", '{"key": "x", "time": "soon", "features": {"a": 1, "b": 2}}', JSON),
    (422, "POST", "/v1/instances", '{"key": "x", "features": {"a": "one", "b": 2}}', JSON),
    (422, "POST", "/v1/instances", '{"key": "x", "features": {"a": 1, "c": ' + 99 * "[" + 99 * "]" + "}}", JSON),
    (422, "POST", "/v1/instances", '{"key": "x", "features": {"c": 1}}', JSON),
    (422, "POST", "/v1/instances", '{"key": "x", "features": {"a": 1e200, "b": 2}}', JSON),
    (422, "POST", "/v1/instances", b"\n\n", LINES),
    (422, "POST", "/v1/instances", lines_of([{"key": "x", "features": {"a": 1, "b": 2}}, {}]), LINES),
    (422, "POST", "/v1/instances", lines_of({"key": i, "features": {"a": 1, "b": 2}} for i in range(1001)), LINES),
    (413, "POST", "/v1/instances", b" " * (MOST_BODY + 1), JSON),
    (415, "POST", "/v1/instances", "key=x", {"Content-Type": "application/x-www-form-urlencoded"}),
    (405, "DELETE", "/v1/instances", b"", {}),
    (404, "GET", "/v1/%ff/../x", b"", {}),
    (422, "GET", "/v1/decisions?after=1e9", b"", {}),
    (422, "GET", "/v1/decisions?limit=0", b"", {}),
    (422, "GET", "/v1/events?after=3", b"", {}),
    (400, "POST", "/v1/promote", "{", JSON),
    (422, "POST", "/v1/promote", "null", JSON),
    (422, "POST", "/v1/promote", json.dumps({"subclass": [10**30], "label": "sky"}), JSON),
    (422, "POST", "/v1/promote", json.dumps({"subclass": ["sensors/3:17"], "label": "sky"}), JSON),
    (422, "POST", "/v1/labels", json.dumps({"key": {}, "mood": "left"}), JSON),
    (415, "POST", "/v1/undo", "{}", {"Content-Type": "text/plain"}),
    (421, "GET", "/v1/decisions", b"", {"Host": "evil.example"}),
    (403, "POST", "/v1/instances", "{}", {**JSON, "Origin": "http://evil.example"}),
)  # fmt: skip


def test_hostile_requests_are_refused(one: Service, client: httpx.Client) -> None:
    """The fixture looks for tracebacks in the log at its end."""
    before = (one.state / "journal.jsonl").read_bytes()
    for status, method, path, content, headers in HOSTILE:
        answer = client.request(method, path, content=content, headers=headers)
        assert answer.status_code == status, (method, path, content[:100], answer.text)
        assert [*answer.json()] == ["error"]
        assert len(answer.text) < 2000
        assert "\n" not in answer.text
    head = b"POST /v1/instances HTTP/1.1\r\nHost: localhost:%d\r\n" % one.port
    for sent in (
        b"\x00" * 100,
        b"GET / HTTP/9.9\r\n\r\n",
        head + b"Content-Length: -1\r\n\r\n",
        head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        head + b"X: " + b"x" * 70_000 + b"\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", one.port), 10) as connection:
            connection.sendall(sent)
            assert connection.recv(12).startswith(b"HTTP/1.1 4"), sent[:80]
    assert (one.state / "journal.jsonl").read_bytes() == before
    assert client.get("/readyz").text == "ok\n"
    assert 'stream_osr_http_responses_total{status="422"}' in client.get("/metrics").text


def test_what_cannot_be_taken_in_is_refused_and_can_be_sent_again(tmp_path: Path) -> None:
    """A run that does not read, and a disk that is full."""
    import httpx

    from stream_osr_connectors.http_service.routes import make_app
    from stream_osr_connectors.page.live.page_host import listen

    run = FolderRun(tmp_path, fitted_once(**MODEL))
    reader = InstanceReader(run.model)
    acceptor = Acceptor(run.journal, reader.predict)
    acceptor.start()
    listening = listen("127.0.0.1", 0)
    hosts = KnownHosts("127.0.0.1", listening.getsockname()[1])
    app = make_app(run, acceptor, reader, hosts, None, most_behind=4)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    those = instances(8)
    with one_thread(), serving(app, listening) as address, httpx.Client(base_url=address, trust_env=False) as client:
        assert client.post("/v1/instances", json=those[0]).status_code == 200
        assert client.post("/v1/undo", json={}).status_code == 403
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (run.journal.path.stat().st_size + 10, limits[1]))
            full = client.post("/v1/instances", json=those[1])
            ready = client.get("/readyz")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert (full.status_code, ready.status_code, client.get("/healthz").status_code) == (503, 503, 200)
        assert "cannot write" in full.json()["error"]
        while (again := client.post("/v1/instances", json=those[1])).status_code == 503:
            time.sleep(0.05)
        assert again.json()["n"] == 2
        assert client.post("/v1/instances", content=lines_of(those[:4]), headers=LINES).status_code == 200
        refused = client.post("/v1/instances", json=those[4])
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    acceptor.stop()
    run.stop()


def test_the_document_has_the_served_routes(client: httpx.Client) -> None:
    """And the page about HTTP has the same ones."""
    paths: dict[str, Any] = client.get("/openapi.json").json()["paths"]
    documented = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert documented == {(each.method, each.path) for each in OPERATIONS}
    page = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
    described = {*re.findall(r"`(GET|POST) (/[\w./-]+)", page)}
    assert documented == described | {("POST", "/v1/instances")}, "an example shows how to send instances"
    for path in paths:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            served = client.request(method, path, content=b"", headers=JSON).status_code not in (404, 405)
            assert served == ((method, path) in documented), (method, path)


def set_aside(folder: Path) -> dict[str, Any]:
    """Final decisions about two instances that a run set aside, by key."""
    outputs = Outputs(folder, 10)
    try:
        raws = ('{"n": 1, "key": "a", "features": {}}', "('b', {})")
        lines = ({"row": row, "reason": "no memory", "raw": raw} for row, raw in enumerate(raws, start=1))
        (folder / "errors.jsonl").write_bytes(lines_of(lines))
        outputs.grow()
        return {key: outputs.final(key) for key in ("a", "b")}
    finally:
        outputs.close()


def test_the_reason_of_an_instance_that_is_set_aside_is_found(tmp_path: Path) -> None:
    assert set_aside(tmp_path) == {"a": {"set_aside": "no memory"}, "b": None}


def test_the_document_has_the_fields_of_the_answers(tmp_path: Path) -> None:
    """And each documented field is in an answer."""
    (tmp_path / "tokens").write_text(f"anna:{TOKEN}\n")
    with service(tmp_path, "--tokens", tmp_path / "tokens") as one, one.client(TOKEN) as client:
        one.send(client, instances(160))
        await_decisions(client, 160)
        document: dict[str, Any] = client.get("/openapi.json").json()
        answers = [
            (method, path, client.request(method, path, json=body))
            for method, path, body in (
                ("POST", "/v1/labels", {"key": "k3", "label": "left", "reason": "seen"}),
                ("POST", "/v1/instances", instances(160)[0]),
                ("POST", "/v1/instances", {}),
                *(("GET", f"/v1/{name}", None) for name in ("decisions", "events", "candidates", "commands")),
            )
        ]
    components: dict[str, Any] = document["components"]
    found: set[tuple[str, str]] = set()

    def is_valid(schema: dict[str, Any], value: Any) -> bool:
        return Draft202012Validator({**schema, "components": components}).is_valid(value)

    def follow(schema: dict[str, Any], value: Any) -> None:
        assert is_valid(schema, value), (schema, value)
        name = schema.get("$ref", "").rpartition("/")[2]
        schema = components["schemas"].get(name, schema)
        for branch in schema.get("anyOf", ()):
            if is_valid(branch, value):
                follow(branch, value)
        if isinstance(value, list):
            for each in value:
                follow(schema.get("items", {}), each)
        for field in value if "properties" in schema else ():
            assert field in schema["properties"] or name == "Event", (name, field)
            found.add((name, field))
            follow(schema["properties"].get(field, {}), value[field])

    for method, path, answer in answers:
        described = document["paths"][path][method.lower()]["responses"][str(answer.status_code)]
        follow(described["content"]["application/json"]["schema"], answer.json())
    decision = Decision("a", 0.5, "left", "left", 0.9, 0.1, {"left": 0.9}, None, "left", 1.0, 0.5, 0, 1, ("c",))
    follow({"$ref": "#/components/schemas/Decision"}, json.loads(json.dumps(decision.as_dict())))
    follow({"$ref": "#/components/schemas/SetAside"}, set_aside(tmp_path)["a"])
    of_requests = {"Instance", "Label", "Promote", "Mute", "Frame", "Undo"}
    of_answers = {name: its["properties"] for name, its in components["schemas"].items() if name not in of_requests}
    assert {(name, field) for name, fields in of_answers.items() for field in fields} == {
        (name, field) for name, field in found if field in of_answers[name]
    }


def test_each_key_has_a_stream(tmp_path: Path) -> None:
    """With a label, which is learnt, and a command to one stream."""
    (tmp_path / "tokens").write_text(f"anna:{TOKEN}\n")
    sent = [{**each, "device": f"pump {i % 2}"} for i, each in enumerate(instances(400))]
    sent[6]["label"] = "left"
    with service(tmp_path, "--tokens", tmp_path / "tokens", "--by", "device") as one, one.client(TOKEN) as client:
        answers = one.send(client, sent)
        assert (answers[6]["immediate"], answers[7]["immediate"]["label"] is not None) == (None, True)
        found, after, until = list[dict[str, Any]](), 0, time.monotonic() + 60
        while len(found) < 384:
            assert time.monotonic() < until
            page = client.get("/v1/decisions", params={"after": after}).json()
            found, after = found + page["decisions"], page["after"]
        assert {each["by"] for each in found} == {"pump 0", "pump 1"}
        assert "k6" not in {each["key"] for each in found}
        assert one.send(client, sent[7:8])[0]["final"]["by"] == "pump 1"
        for path, reason in (("", "Name one: stream=KEY"), ("?stream=pump%203", "no stream with key")):
            refused = client.get(f"/v1/candidates{path}")
            assert (refused.status_code, reason in refused.json()["error"]) == (422, True)
        (candidate, *_) = client.get("/v1/candidates?stream=pump%201").json()["candidates"]
        body = {"subclass": candidate["subclasses"], "label": "sky"}
        assert client.post("/v1/promote", json={**body, "stream": ["x"]}).status_code == 422
        assert client.post("/v1/promote", json={**body, "stream": "pump 1"}).status_code == 202
        until = time.monotonic() + 30
        while (command := client.get("/v1/commands").json()["commands"][0])["outcome"] == "pending":
            assert time.monotonic() < until
            time.sleep(0.05)
        assert command["outcome"] == "done", command
        counts = client.get("/metrics").text
        assert "stream_osr_keys 2" in counts
        assert "stream_osr_labelled_total 1" in counts
        assert "stream_osr_pending 15" in counts
        described = client.get("/openapi.json").json()["components"]["schemas"]
        assert "device" in described["Instance"]["required"]
        assert "by" in described["Decision"]["properties"]
        assert described["Frame"]["required"] == ["stream"]
        without = client.post("/v1/instances", json=instances(1)[0])
        assert (without.status_code, "device is missing" in without.json()["error"]) == (422, True)
        changed = client.post("/v1/instances", json={**sent[6], "label": "right"})
        assert (changed.status_code, "another content" in changed.json()["error"]) == (409, True)
        client.post("/v1/instances", json={**sent[6], "key": "more"}).raise_for_status()
