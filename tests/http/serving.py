"""A service in a process of its own, and clients that repeat what was not answered."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stream_osr_connectors.files import open_sink, open_source
from stream_osr_connectors.files.file_run import Sinks
from tests.blobs import NAMES, fitted_once, stream_part
from tests.file_runs import run
from tests.processes import COMMAND, Process

if TYPE_CHECKING:
    import httpx

TOKEN = "annas-own-token-16"
MODEL = {"batch_size": 32, "chains": 1, "window": 32, "seed": 5}
LINES = {"Content-Type": "application/x-ndjson"}


def instances(n: int, seed: int = 0) -> list[dict[str, Any]]:
    return [{"key": f"k{i}", "time": float(i), "features": x} for i, (x, _) in enumerate(stream_part(n, seed))]


def lines_of(those: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in those)


class Service:
    """A process of ``stream-osr serve --http`` over the model and the state of a folder."""

    def __init__(self, folder: Path, *more: object, port: int = 0) -> None:
        self.folder, self.state, self._log = folder, folder / "state", folder / "log"
        if not (folder / "model.osr").exists():
            fitted_once(**MODEL).save(folder / "model.osr")
        where = "--model", folder / "model.osr", "--state", self.state, "--port", port
        with self._log.open("ab") as log:
            self._before = log.tell()
            self.process = Process(
                [*COMMAND, "serve", "--http", *where, *more], stdout=log.fileno(), stderr=log.fileno()
            )
        until = time.monotonic() + 60
        while not (found := re.search(r"(http://\S+) decides", self.log)):
            assert self.process.poll() is None, self.log
            assert time.monotonic() < until, self.log
            time.sleep(0.01)
        self.address = found[1]

    @property
    def port(self) -> int:
        return int(self.address.rstrip("/").rpartition(":")[2])

    @property
    def log(self) -> str:
        return self._log.read_bytes()[self._before :].decode()

    def send(self, client: httpx.Client, some: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send instances as lines, and return the answers."""
        answer = client.post("/v1/instances", content=lines_of(some), headers=LINES).raise_for_status()
        return [json.loads(line) for line in answer.text.splitlines()]

    def client(self, token: str | None = None) -> httpx.Client:
        import httpx

        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.address, timeout=30, trust_env=False, headers=headers)

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(60) == 0, self.log


@contextmanager
def service(folder: Path, *more: object) -> Iterator[Service]:
    one = Service(folder, *more)
    try:
        yield one
        one.stop()
    finally:
        one.process.kill()
    assert "Traceback" not in one.log


def await_decisions(client: httpx.Client, n: int) -> list[dict[str, Any]]:
    """Wait for so many final decisions."""
    until, found = time.monotonic() + 60, list[dict[str, Any]]()
    while len(found) < n:
        assert time.monotonic() < until
        answer = client.get("/v1/decisions", params={"after": found[-1]["seq"] if found else -1}).json()
        found += answer["decisions"]
        time.sleep(0 if answer["decisions"] else 0.05)
    return found


def check_against_files(folder: Path, n: int) -> None:
    """Compare decisions and events with a run over files, which decides the journal to its end."""
    with (
        open_source(folder / "state" / "journal.jsonl", key="key", time="time", features=list(NAMES)) as source,
        open_sink(folder / "decisions.jsonl") as decisions,
        open_sink(folder / "events.jsonl") as events,
    ):
        run(fitted_once(**MODEL), source, Sinks(decisions, events))
    for name in ("decisions.jsonl", "events.jsonl"):
        served, of_files = (folder / "state" / name).read_bytes(), (folder / name).read_bytes()
        assert of_files.startswith(served)
        if name == "decisions.jsonl":
            keys = [json.loads(line)["key"] for line in served.splitlines()]
            assert len(keys) == len({*keys}) == n
