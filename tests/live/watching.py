"""A real run on files, and `stream-osr watch` on it."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from stream_osr import OpenSetRecognizer
from tests.blobs import around
from tests.processes import COMMAND, Process, run

NAMES = ("a", "b", "c")
KNOWN = {"left": (0.0, 0.0, 0.0), "right": (9.0, 0.0, 0.0)}
NEW = (4.0, 4.0, 14.0)
TOKENS = {"anna": "the-token-of-anna", "ben": "the-token-of-ben-"}
RUN = ("run", "-m", "model.osr", "-i", "stream.jsonl", "--key", "id", "-o", "decisions.jsonl", "-e", "events.jsonl")


def records(n: int, seed: int, new_share: float) -> list[dict[str, Any]]:
    """Instances of two known classes and of a new one."""
    rng = np.random.default_rng(seed)
    centres = [*KNOWN.values(), NEW]
    kinds = rng.choice(3, size=n, p=[(1 - new_share) / 2, (1 - new_share) / 2, new_share])
    return [{**around(centres[kind], 1, rng, NAMES)[0], "id": f"r{seed}-{place}"} for place, kind in enumerate(kinds)]


def add(folder: Path, some: list[dict[str, Any]]) -> None:
    with (folder / "stream.jsonl").open("a") as file:
        file.writelines(json.dumps(one) + "\n" for one in some)


def make_run(folder: Path) -> None:
    """A model, a stream of 240 in which a class emerges, and what a run made of it."""
    rng = np.random.default_rng(3)
    model = OpenSetRecognizer(chains=1, seed=5, batch_size=16)
    for label, centre in KNOWN.items():
        for x in around(centre, 40, rng, NAMES):
            model.learn_one(x, label)
    model.freeze()
    model.save(folder / "model.osr")
    add(folder, [*records(60, 1, 0.0), *records(180, 2, 0.4)])
    done = call(folder, *RUN)
    assert done.returncode == 0, done.stderr


def call(folder: Path, *arguments: str) -> Any:
    return run(*COMMAND, *arguments, cwd=folder, env={**os.environ, "COLUMNS": "200"})


def decisions(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "decisions.jsonl").read_text().splitlines()]


@contextmanager
def watching(folder: Path, *arguments: str) -> Iterator[str]:
    """Watch the run of a folder; the address of the page."""
    tokens = "".join(f"{name}:{token}\n" for name, token in TOKENS.items())
    with tempfile.TemporaryFile("w+") as said:
        process = Process(
            [*COMMAND, "watch", "decisions.jsonl", "--port", "0", *arguments],
            cwd=folder,
            env={**os.environ, "STREAM_OSR_TOKENS": tokens, "COLUMNS": "200"},
            stdout=said.fileno(),
            stderr=said.fileno(),
        )
        try:
            until, found = time.monotonic() + 120, None
            while found is None:
                assert time.monotonic() < until, "it does not say where its page is"
                time.sleep(0.1)
                text = os.pread(said.fileno(), 1 << 16, 0).decode()
                assert process.poll() is None, text
                found = re.search(r"http://127\.0\.0\.1:\d+", text)
            yield found[0]
        finally:
            process.terminate()
            try:
                process.wait(30)
            finally:
                process.kill()
