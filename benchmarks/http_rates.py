"""Requests a second of `stream-osr serve --http`, beside an earlier commit and beside the floor.

    python -m benchmarks.http_rates [--before COMMIT_OR_FOLDER] [--rounds 3] [--requests 4000] [--features 20]

Each tree serves the model of :mod:`benchmarks.http_latency` in a process of its own, in turn. Eight clients with open
connections send single instances, each its next one after the answer. One client then sends batches of 400. Requests
at half of the measured rate give the latencies. The processor time is that of the service alone.

The floor is what no service can avoid: a bare server that answers each request with constant bytes, and in this
process the parsing of the bodies, the immediate prediction, the recognizer, and a journal with one sync for eight
requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import orjson
import pandas as pd

from benchmarks.before import worktree
from benchmarks.http_latency import named, send, train
from benchmarks.written import ROOT, table
from stream_osr import OpenSetRecognizer

CLIENTS, BATCH = 8, 400
BARE = """
import asyncio, re, sys
answer = b"HTTP/1.1 200 OK\\r\\nContent-Length: 300\\r\\n\\r\\n" + 300 * b"x"
class Bare(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""
    def data_received(self, data):
        self.data += data
        head, end, body = self.data.partition(b"\\r\\n\\r\\n")
        if end and len(body) >= int(re.search(rb"Content-Length: (\\d+)", head)[1]):
            self.data = b""
            self.transport.write(answer)
async def main():
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", 0)
    print("http://127.0.0.1:%d/ " % server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@contextmanager
def process(*arguments: str, tree: Path = ROOT) -> Iterator[tuple[str, int]]:
    """Run Python with the packages of a tree; give the address that it prints, and the number of the process."""
    path = os.pathsep.join([str(tree), str(tree / "connectors"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}) as each:
        try:
            assert each.stdout is not None
            yield each.stdout.readline().split("/ ")[0], each.pid
        finally:
            each.terminate()
            each.wait(60)


def processor(pid: int) -> float:
    """Return the seconds of the processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class _Client(asyncio.Protocol):
    """A client that sends its next request after each answer."""

    def __init__(self, requests: Iterator[bytes], done: Callable[[], None]) -> None:
        self._requests, self._done, self._size, self._data = requests, done, 0, bytearray()

    def connection_made(self, transport: Any) -> None:
        """Send the first request."""
        self._transport = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        """Read an answer."""
        self._data += data
        if not self._size and (end := self._data.find(b"\r\n\r\n")) >= 0:
            assert self._data.startswith(b"HTTP/1.1 200"), bytes(self._data)
            found = re.search(rb"(?i)content-length: (\d+)", self._data)
            assert found is not None
            self._size = end + 4 + int(found[1])
        if self._size and len(self._data) >= self._size:
            self._data.clear()
            self._size = 0
            self._next()

    def _next(self) -> None:
        if (request := next(self._requests, None)) is None:
            self._transport.close()
            self._done()
        else:
            self._transport.write(request)


def requests_of(address: str, bodies: Sequence[dict[str, Any]], batch: int | None) -> list[bytes]:
    """Return the requests of instances, one by one or in batches."""
    at = urlsplit(address).netloc
    kind, size = ("json", 1) if batch is None else ("x-ndjson", batch)
    texts = ["\n".join(map(json.dumps, bodies[at : at + size])) for at in range(0, len(bodies), size)]
    head = f"POST /v1/instances HTTP/1.1\r\nHost: {at}\r\nContent-Type: application/{kind}\r\n"
    return [f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode() for text in texts]


async def saturate(address: str, requests: list[bytes], clients: int) -> float:
    """Send all requests as fast as the answers come. Return the seconds."""
    loop, left, order = asyncio.get_running_loop(), clients, iter(requests)
    end = loop.create_future()

    def done() -> None:
        nonlocal left
        left -= 1
        if not left:
            end.set_result(None)

    at, began = urlsplit(address), time.perf_counter()
    for _ in range(clients):
        await loop.create_connection(lambda: _Client(order, done), at.hostname, at.port)
    await end
    return time.perf_counter() - began


def rate(address: str, pid: int, bodies: list[dict[str, Any]], batch: int | None) -> tuple[float, float]:
    """Return instances a second, and microseconds of the server's processor an instance."""
    requests, before = requests_of(address, bodies, batch), processor(pid)
    seconds = asyncio.run(saturate(address, requests, CLIENTS if batch is None else 1))
    time.sleep(0.5)  # the run may lag behind
    return len(bodies) / seconds, 1e6 * (processor(pid) - before) / len(bodies)


def measure(tree: Path, folder: Path, rows: list[dict[str, float]], singles: int) -> dict[str, float]:
    """Measure the service of a tree."""
    model, state = folder / "model.osr", tempfile.mkdtemp(dir=folder)
    bodies = [{"key": f"k{i}", "time": i / 100, "features": row} for i, row in enumerate(rows)]
    first, last = bodies[:singles], bodies[singles:]
    arguments = ("serve", "--http", "--model", f"{model}", "--state", state, "--port", "0")
    with process("-m", "stream_osr_connectors", *arguments, tree=tree) as (address, pid):
        warm = [{**each, "key": f"warm {i}"} for i, each in enumerate(bodies[:1200])]
        asyncio.run(saturate(address, requests_of(address, warm, None), CLIENTS))
        found = {}
        found["single, a second"], found["single, us"] = rate(address, pid, first, None)
        found["batches of 400, a second"], found["batches of 400, us"] = rate(address, pid, last, BATCH)
        while "stream_osr_behind 0\n" not in urlopen(f"{address}/metrics").read().decode():
            time.sleep(0.2)
        half = found["single, a second"] / 2
        again = [{**each, "key": f"again {i}"} for i, each in enumerate(bodies[: int(5 * half)])]
        latencies, refused = asyncio.run(send(address, again, half))
        assert not refused
        found |= {f"{q} % below at half, ms": 1000 * float(np.percentile(latencies, q)) for q in (50, 99)}
    return found


def floor(folder: Path, rows: list[dict[str, float]]) -> list[list[object]]:
    """Measure what no service can avoid, in microseconds an instance."""
    bodies = [{"key": f"k{i}", "time": i / 100, "features": row} for i, row in enumerate(rows)]
    texts, model = [json.dumps(each).encode() for each in bodies], OpenSetRecognizer.load(folder / "model.osr")
    names, n = [*map(str, model.trained.names)], len(rows)
    frame = pd.DataFrame([[row[name] for name in names] for row in rows], columns=names)
    matrix = frame.to_numpy()

    def seconds(call: Callable[[], object], of: int) -> float:
        began = time.process_time()
        call()
        return 1e6 * (time.process_time() - began) / of

    def journal() -> None:
        with (folder / "floor.jsonl").open("ab", buffering=0) as file:
            for at in range(0, 800, CLIENTS):
                file.write(b"\n".join(texts[at : at + CLIENTS]))
                os.fsync(file.fileno())

    model.learn_rows(matrix[:512])
    model.predict_proba_many(frame[:BATCH])
    began = time.perf_counter()
    synced = [["journal of 8 requests, us", seconds(journal, 800)]]
    synced += [["the same by the clock, us", 1e6 * (time.perf_counter() - began) / 800]]
    predicted = seconds(lambda: [model.predict_proba_one(row) for row in rows[:500]], 500)
    out: list[list[object]] = [
        ["parsing, us", seconds(lambda: [*map(orjson.loads, texts)], n)],
        ["recognizer, us", seconds(lambda: model.learn_rows(matrix), n)],
        ["immediate prediction of one, us", predicted],
        ["immediate prediction of 400, us", seconds(lambda: model.predict_proba_many(frame[:BATCH]), BATCH)],
        *synced,
    ]
    with process("-c", BARE) as (address, pid):
        spent = time.process_time()
        found = rate(address, pid, bodies, None)
        out += [["bare server, single, a second", found[0]], ["bare server, single, us", found[1]]]
        out += [["client, single, us", 1e6 * (time.process_time() - spent) / n]]
    return out


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--before")
    for name, default in {"rounds": 3, "requests": 4000, "batches": 30, "features": 20}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given, rng = parser.parse_args(), np.random.default_rng(0)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        centres = train(folder / "model.osr", given.features, rng)
        count = given.requests + given.batches * BATCH
        rows = [named(rng.normal(centres[rng.integers(len(centres))])) for _ in range(count)]
        trees = [ROOT]
        if given.before:
            path = Path(given.before)
            trees.insert(0, path if path.is_dir() else stack.enter_context(worktree(given.before)))
        runs = [[measure(tree, folder, rows, given.requests) for tree in trees] for _ in range(given.rounds)]
        cells = []
        for name in runs[0][0]:
            medians = [float(np.median([run[at][name] for run in runs])) for at in range(len(trees))]
            cells.append([name, *medians, medians[-1] / medians[0]])
        heads = ["", *(["before"] if given.before else []), "now", "ratio"]
        print(table(heads, cells))
        print(table(["floor", ""], floor(folder, rows[: given.requests])))


if __name__ == "__main__":
    main()
