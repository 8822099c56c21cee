"""What browsers are answered: the state of a real run, old instances, acts, and what is refused."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from stream_osr_connectors.files.checkpoint import load_checkpoint
from stream_osr_connectors.page.live.examples import Images
from tests.live.served import ANNA, BERT, Page, make_run, served

KNOWN = ("left", "right")
SIGNED = {"Authorization": f"Bearer {ANNA}"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    make_run(folder)
    return folder


@pytest.fixture
def run_folder(made: Path, tmp_path: Path) -> Path:
    """A copy of the run, to act on."""
    return Path(shutil.copytree(made, tmp_path / "run"))


@pytest.fixture(scope="module")
def page(made: Path) -> Iterator[Page]:
    """A page without commands that are done."""
    with served(made, images=Images("https://pictures.example/{key}.png")) as page:
        page.until(lambda state: state["stream"]["decided"] == 400 and state["recall"] and examples(state))
        yield page


def examples(state: dict) -> bool:
    return bool(state["inbox"]) and bool(state["inbox"][0]["examples"]["core"])


def decisions(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "decisions.jsonl").read_text().splitlines()]


def test_the_state_is_that_of_the_decisions(page: Page, made: Path) -> None:
    state, written = page.state(), decisions(made)
    labels = [one["label"] for one in written]
    assert {row["label"]: row["n"] for row in state["known"]} == {name: labels.count(name) for name in KNOWN}
    assert state["unknown"]["n"] == labels.count("unknown") > 50
    line = state["timeline"]
    assert sum(line["classes"]["left"]) == labels.count("left")
    assert len(line["edges"]) == len(line["unknown"]) + 1 <= 121
    card = state["inbox"][0]
    assert card["status"] == "emerging"
    own = [one for one in written if str(one["subclass_id"]) == card["id"]]
    assert card["size"] == len(own) == sum(card["growth"])
    assert (card["differs"][0]["feature"], card["differs"][0]["deviations"] > 5) == ("b", True)
    assert 0.8 < state["recall"]["low"] <= state["recall"]["value"] <= state["recall"]["high"] <= 1
    assert {row["label"] for row in state["known"] if row["recall"]} == {*KNOWN}
    assert any(point["id"] == card["id"] and point["kind"] == "emerging" for point in state["plane"]["points"])
    assert state["new_classes"]["number"] == 1


def test_examples_stand_beside_known_instances_with_the_features_of_the_input(page: Page, made: Path) -> None:
    inputs = {one["id"]: one for one in map(json.loads, (made / "new.jsonl").read_text().splitlines())}
    card = page.state()["inbox"][0]
    for kind in ("core", "boundary", "known"):
        assert card["examples"][kind], kind
        for example in card["examples"][kind]:
            assert example["features"] == {name: inputs[example["key"]][name] for name in "ab"}
            assert example["image"] == f"https://pictures.example/{example['key']}.png"
    assert {example["label"] for example in card["examples"]["core"]} == {"unknown"}
    assert {example["label"] for example in card["examples"]["known"]} == {card["nearest_class"]}


def test_all_instances_are_found_page_by_page(page: Page, made: Path) -> None:
    card = page.state()["inbox"][0]["id"]
    for id, field, value in ((card, "subclass_id", card), ("class:left", "label", "left")):
        expected = [one["seq"] for one in decisions(made) if str(one[field]) == value]
        found, before, more = [], {}, True
        while more:
            answer = page.client.get(f"/api/subclass/{id}", params=before).json()
            found += [each["n"] for each in answer["instances"]]
            before, more = {"before": found[-1]}, answer["more"]
            assert len(answer["instances"]) <= 50
        assert found == expected[::-1]


def test_an_instance_says_what_it_was_and_why(page: Page, made: Path) -> None:
    written = decisions(made)[17]
    got = page.client.get("/api/instance/17").json()
    assert {name: got[name] for name in written} == written
    assert got["features"].keys() == {"a", "b"}
    assert written["nearest_class"] in got["why"]
    for path in ("instance/400", "subclass/77"):
        assert page.client.get(f"/api/{path}").status_code == 404


def test_contributions_are_computed_on_request(page: Page, made: Path, tmp_path: Path) -> None:
    """From the last checkpoint, and only with the features of the input."""
    model = load_checkpoint(made / "decisions.jsonl.checkpoint").model
    x = {name: json.loads((made / "new.jsonl").read_text().splitlines()[17])[name] for name in "ab"}
    got = page.client.get("/api/instance/17/contributions").json()
    assert got == {"contributions": json.loads(json.dumps(model.contributions_one(x).as_dict()))}
    assert page.client.get("/api/instance/400/contributions").status_code == 404
    for name in ("decisions.jsonl", "events.jsonl"):
        shutil.copy(made / name, tmp_path)
    with served(tmp_path) as bare:
        bare.until(lambda state: state["stream"]["decided"] == 400)
        for remedy in ("cannot read the checkpoint", "Start the page with --input FILE"):
            answer = bare.client.get("/api/instance/17/contributions")
            assert (answer.status_code, remedy in answer.json()["error"]) == (409, True)
            shutil.copy(made / "decisions.jsonl.checkpoint", tmp_path)


def test_what_one_names_the_other_sees_and_takes_back(run_folder: Path) -> None:
    with served(run_folder) as anna:
        id = anna.until(lambda state: state["inbox"])["inbox"][0]["id"]
        answer = anna.ask(action="promote", subclass=id, label="fox")
        assert (answer.status_code, answer.json()["standing"]) == (200, "done")
        state = anna.until(lambda state: state["inbox"][0]["status"] == "named")
        assert state["inbox"][0]["label"] == "fox"
        act = state["history"][0]
        assert (act["by"], act["action"], act["subclasses"], act["undoable"]) == ("anna", "promote", [id], True)
        for n, expected in ((act["n"] + 5, 409), (act["n"], 200)):
            assert anna.ask(BERT, action="undo", n=n).status_code == expected
        state = anna.until(lambda state: state["inbox"][0]["status"] == "emerging")
        assert [each["by"] for each in state["history"]] == ["bert", "anna"]
        assert state["history"][1]["undone"]
        assert anna.ask(action="undo", n=act["n"]).status_code == 409, "it was taken back already"
        assert anna.ask(action="mute", subclass=id, reason="a lamp").status_code == 200
        state = anna.until(lambda state: state["inbox"][0]["status"] == "muted")
        assert state["history"][0]["reason"] == "a lamp"


def test_what_cannot_be_done_is_said_and_stands_in_the_history(run_folder: Path) -> None:
    with served(run_folder) as page:
        answer = page.ask(action="promote", subclass="77", label="fox")
        assert answer.status_code == 422
        assert "77" in answer.json()["error"]
        state = page.until(lambda state: state["history"])
        assert state["history"][0]["outcome"].startswith("refused")
        assert page.ask(action="undo").status_code == 409


def test_nonsense_is_refused_and_changes_nothing(page: Page) -> None:
    before = page.state()["history"]
    promote = {"action": "promote", "subclass": "2", "label": "x"}
    for wish in (
        {"action": "delete"},
        *({**promote, **wrong} for wrong in ({"subclass": {"a": 1}}, {"subclass": "1e9"}, {"subclass": ["1"] * 101})),
        *({**promote, "label": wrong} for wrong in (["x"], "x" * 10_000)),
        {"action": "mute", "subclass": "2", "reason": 7},
        [],
    ):
        answer = page.client.post("/api/ask", json=wish, headers=SIGNED)
        assert (answer.status_code, "error" in answer.json()) == (422, True), wish
    time.sleep(0.3)
    assert page.state()["history"] == before


def test_no_token_a_wrong_one_and_other_schemes_are_refused(page: Page) -> None:
    for given in (None, "", "Bearer", "Bearer wrong", f"Basic {ANNA}", f"Bearer {ANNA}x", f"Bearer {ANNA[:-1]}"):
        headers = {} if given is None else {"Authorization": given}
        answer = page.client.post("/api/ask", json={"action": "undo"}, headers=headers)
        assert answer.status_code == 401, given
        assert page.client.get("/api/who", headers=headers).status_code == 401
    assert page.client.get("/api/who", headers={"Authorization": f"Bearer {BERT}"}).json() == {"by": "bert"}


def test_a_page_without_commands_takes_none(made: Path) -> None:
    with served(made, tokens=None) as page:
        assert page.ask(action="undo").status_code == 403
        assert page.state()["commands"]["allowed"] is False


def test_the_page_of_another_site_is_refused(page: Page) -> None:
    for origin in ("http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1", "http://["):
        headers = {**SIGNED, "Origin": origin}
        assert page.client.post("/api/ask", json={"action": "undo"}, headers=headers).status_code == 403, origin
        assert page.client.get("/api/state", headers={"Origin": origin}).status_code == 403, origin
    own = {**SIGNED, "Origin": page.address}
    assert page.client.post("/api/ask", json={"action": "undo"}, headers=own).status_code == 409, "nothing to undo"


def test_another_name_of_this_host_is_refused(page: Page) -> None:
    port = page.address.rpartition(":")[2]
    for host in (f"evil.example:{port}", "127.0.0.1", f"127.0.0.1.evil.example:{port}", ""):
        for path in ("/", "/api/state", "/static/main.js"):
            assert page.client.get(path, headers={"Host": host}).status_code == 421, host
    assert page.client.get("/api/state", headers={"Host": f"localhost:{port}"}).status_code == 200


def test_forms_cannot_act(page: Page) -> None:
    text = {"content": '{"action":"undo"}', "headers": {**SIGNED, "Content-Type": "text/plain"}}
    for sent, status in (
        ({"data": {"action": "undo"}, "headers": SIGNED}, 415),
        (text, 415),
        ({"json": {"action": "undo"}, "headers": {**SIGNED, "Sec-Fetch-Site": "cross-site"}}, 403),
    ):
        assert page.client.post("/api/ask", **sent).status_code == status


def test_requests_without_post_never_act(page: Page) -> None:
    before = None
    while before != (before := page.state()["history"]):  # an earlier request may have been done just now
        time.sleep(0.6)
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS"):
        assert page.client.request(method, "/api/ask?action=undo", headers=SIGNED).status_code == 405
    time.sleep(0.3)
    assert page.state()["history"] == before


def test_huge_bodies_are_refused_before_they_are_read(page: Page) -> None:
    import httpx

    from stream_osr_connectors.page.live.server import MOST_BODY

    headers = {**SIGNED, "Content-Type": "application/json"}
    assert page.client.post("/api/ask", content=b" " * (MOST_BODY + 1), headers=headers).status_code == 413

    def endless() -> Iterator[bytes]:
        for _ in range(64):
            yield b" " * MOST_BODY

    with suppress(httpx.WriteError):  # it may hang up before we have said all
        assert page.client.post("/api/ask", content=endless(), headers=headers).status_code == 413
    assert page.client.get("/healthz").text == "ok\n"


def test_every_answer_has_the_policy_for_browsers(page: Page) -> None:
    expected = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: https://"
    for path in ("/", "/api/state", "/static/main.js", "/static/nothing.js", "/api/subclass/77", "/nowhere"):
        headers = page.client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith(expected)
        assert "unsafe" not in policy
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
        assert headers["cache-control"] in ("no-store", "no-cache")
    for parent in ("..", "%2e%2e"):
        assert page.client.get(f"/static/{parent}/server.py").status_code == 404


def test_browsers_hear_of_a_change_and_slow_ones_do_not_delay_others(run_folder: Path) -> None:
    from stream_osr_connectors.page.live.followers import MOST_FOLLOWERS

    with served(run_folder) as page:
        id = page.until(lambda state: state["inbox"])["inbox"][0]["id"]
        with page.client.stream("GET", "/api/stream") as answer:
            lines = answer.iter_lines()
            seqs = (json.loads(line.removeprefix("data: "))["seq"] for line in lines if line.startswith("data:"))
            first = next(seqs)
            page.ask(action="promote", subclass=id, label="fox")
            for heard in seqs:
                assert heard > first
                if page.state()["inbox"][0]["status"] == "named":
                    break
        host, _, port = page.address[7:].partition(":")
        with ExitStack() as slow:  # they read nothing
            for _ in range(MOST_FOLLOWERS):
                one = slow.enter_context(socket.create_connection((host, int(port))))
                one.sendall(f"GET /api/stream HTTP/1.1\r\nHost: {page.address[7:]}\r\n\r\n".encode())
            assert page.ask(action="undo").status_code == 200
            page.until(lambda state: state["inbox"][0]["status"] == "emerging", seconds=20)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.timeout(30)
def test_a_signal_before_the_server_has_its_handlers_ends_it(number: signal.Signals) -> None:
    import uvicorn

    from stream_osr_connectors.page.live.page_host import run_server

    class Interrupted(uvicorn.Server):
        def run(self, sockets: list[socket.socket] | None = None) -> None:
            signal.raise_signal(number)
            super().run(sockets)

    async def app(scope: object, receive: object, send: object) -> None: ...

    before = signal.getsignal(number)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        run_server(Interrupted(uvicorn.Config(app, lifespan="off", log_level="error")), listening)
    assert signal.getsignal(number) is before
