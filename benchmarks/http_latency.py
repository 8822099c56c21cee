"""Latency of immediate answers of `stream-osr serve --http` at a constant rate of requests.

    python -m benchmarks.http_latency [--rate 200] [--seconds 30] [--features 20]

The model has 5 classes, 4 chains, and micro-batches of 256 instances. Requests are sent at fixed times, whether
earlier ones are answered or not. A latency begins at the time at which the request is due.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from benchmarks.serving import run, serving
from stream_osr import OpenSetRecognizer

CLASSES = 5
CLIENTS = 16
"""Most connections."""


def train(path: Path, features: int, rng: np.random.Generator) -> np.ndarray:
    """Save a model of Gaussian classes. Return the centres, of which one is new: shape (classes + 1, features)."""
    centres = rng.normal(scale=4.0, size=(CLASSES + 1, features))
    model = OpenSetRecognizer(seed=0)
    for _ in range(200):
        for label in range(CLASSES):
            model.learn_one(named(rng.normal(centres[label])), f"class {label}")
    model.freeze()
    model.save(path)
    return centres


def named(row: np.ndarray) -> dict[str, float]:
    """Name the features of a row."""
    return {f"f{i}": value for i, value in enumerate(row.tolist())}


async def send(address: str, bodies: list[dict[str, Any]], rate: float) -> tuple[list[float], int]:
    """Send each body at its time. Return the latencies in seconds, and the number of refusals."""
    host, port = urlsplit(address).hostname, urlsplit(address).port
    connections: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(CLIENTS):
        connections.put_nowait(await asyncio.open_connection(host, port))
    head = f"POST /v1/instances HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    texts = [json.dumps(body) for body in bodies]
    requests = [f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode() for text in texts]
    latencies, refused = [], 0
    began = time.perf_counter() + 0.5

    async def one(number: int, request: bytes) -> None:
        nonlocal refused
        due = began + number / rate
        await asyncio.sleep(due - time.perf_counter())
        reader, writer = await connections.get()
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        found = re.search(rb"(?i)content-length: (\d+)", answer)
        assert found is not None
        await reader.readexactly(int(found[1]))
        refused += b" 200 " not in answer[:20]
        latencies.append(time.perf_counter() - due)
        connections.put_nowait((reader, writer))

    await asyncio.gather(*(one(number, request) for number, request in enumerate(requests)))
    while not connections.empty():
        connections.get_nowait()[1].close()
    return latencies, refused


def measure(rate: int, seconds: int, features: int) -> dict[str, float]:
    """Measure the latencies of a service in its own process."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        centres = train(Path(folder, "model.osr"), features, rng)
        rows = [named(rng.normal(centres[rng.integers(len(centres))])) for _ in range(rate * seconds)]
        bodies = [{"key": i, "time": i / rate, "features": row} for i, row in enumerate(rows)]
        with serving("serve", "--http", "--model", f"{folder}/model.osr", "--state", f"{folder}/state") as (
            address,
            _,
        ):
            warm = [{**body, "key": f"warm {i}", "time": None} for i, body in enumerate(bodies[:512])]
            asyncio.run(send(address, warm, rate))
            latencies, refused = asyncio.run(send(address, bodies, rate))
    quantiles = {f"{q} % below, ms": 1000 * float(np.percentile(latencies, q)) for q in (50, 90, 99, 100)}
    return {"requests": len(latencies), "refused": refused, **quantiles}


if __name__ == "__main__":
    run(measure, rate=200, seconds=30, features=20)
