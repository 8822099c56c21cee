"""The live page over a long stream: how fast decisions are taken in, how soon it answers, what memory it takes.

    python -m benchmarks.live [--decisions 1000000] [--subclasses 200] [--minutes 60]

A run's files are made up (the sampler has no part in this): as many decisions as are asked for, of 12 known classes
and 200 emerged subclasses with their events. A process of `stream-osr watch` reads them, and then follows the file as
it grows: each "minute" brings 60 updates, as fast as they are told.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np

from benchmarks.serving import run, serving

CLASSES = [f"class {i}" for i in range(12)]
FEATURES = [f"f{i}" for i in range(8)]
UNKNOWN = 0.3
UPDATES = 60


def lines(first: int, n: int, subclasses: int, rng: np.random.Generator) -> list[str]:
    """Make decisions, as a run writes them."""
    unknown = rng.random(n) < UNKNOWN
    label, seat = rng.integers(len(CLASSES), size=n), rng.integers(subclasses, size=n)
    out = []
    for at, is_unknown, own, subclass in zip(range(first, first + n), unknown, label, seat + 100, strict=True):
        p = dict.fromkeys(CLASSES, 0.001) | {"unknown": 0.98 if is_unknown else 0.003}
        name = "unknown" if is_unknown else CLASSES[own]
        one: dict[str, Any] = {"key": f"k{at}", "t": 1.7e9 + at, "label": name, "first_label": name}
        one |= {"probability": 0.98, "p_unknown": p["unknown"], "probabilities": p}
        one |= {"subclass_id": int(subclass if is_unknown else own), "nearest_class": CLASSES[own]}
        one |= {"distance": 3.25, "density_rank": 0.25, "batch": at // 64, "seq": at}
        out.append(json.dumps(one, separators=(",", ":")) + "\n")
    return out


def events(subclasses: int, rng: np.random.Generator) -> list[str]:
    """Announce the subclasses."""
    out = []
    for k in range(subclasses):
        mean, shift = (dict(zip(FEATURES, (rng.normal(size=8) * by).tolist(), strict=True)) for by in (1, 6))
        why = {"mean": mean, "difference": shift, "shift": shift, "most_moved": FEATURES}
        why["nearest_class"] = CLASSES[k % 12]
        moment = {"seq": k, "t": 1.7e9, "key": f"k{k}"}
        one = {"type": "SubclassEmerged", "batch": 1, "seq": 1000 + k, "model": "0" * 64, "subclass_id": 100 + k}
        one |= {"first_seen": moment, "last_seen": moment, "size": 15, "share": 0.01, "support": 3.0, "trend": 3.0}
        one |= {"exemplars": [f"k{k}"], "explanation": {**why, "nearest_subclass": 0, "distance": 9.0}}
        out.append(json.dumps(one) + "\n")
    return out


def memory(process: int) -> float:
    """Resident memory, in megabytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def state(address: str) -> tuple[float, int, dict[str, Any]]:
    """Ask for the state: seconds, bytes, and what it says."""
    began = time.perf_counter()
    with urlopen(f"{address}/api/state", timeout=60) as answer:
        body = answer.read()
    return time.perf_counter() - began, len(body), json.loads(body)


def measure(decisions: int, subclasses: int, minutes: float, growing: int = 20) -> dict[str, float]:
    """Measure a page over so many decisions, and over so many minutes of updates, replayed fast.

    Parameters
    ----------
    decisions, subclasses
        What there is at the beginning.
    minutes
        Minutes of 60 updates each.
    growing
        Decisions of an update.
    """
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "decisions.jsonl")
        with path.open("w") as file:
            for first in range(0, decisions, 50_000):
                file.writelines(lines(first, min(50_000, decisions - first), subclasses, rng))
        Path(folder, "events.jsonl").write_text("".join(events(subclasses, rng)))
        began = time.perf_counter()
        with serving("watch", str(path)) as (address, process):
            first_answer, _, now = state(address)
            answered, slowest = time.perf_counter() - began, first_answer
            while now["stream"]["decided"] < decisions:
                took, _, now = state(address)
                slowest = max(slowest, took)
                time.sleep(0.2)
            loaded = time.perf_counter() - began
            took, size, now = state(address)
            figures = {"answers after, s": answered, "all read after, s": loaded}
            figures |= {"slowest answer meanwhile, s": slowest, "answer then, s": took}
            figures |= {"answer, kB": size / 1000, "memory then, MB": memory(process), "cards": len(now["inbox"])}
            began, slowest, memories, total, seqs = time.perf_counter(), 0.0, [], decisions, set()
            for update in range(updates := int(minutes * UPDATES)):
                with path.open("a") as file:
                    file.writelines(lines(total, growing, subclasses, rng))
                total += growing
                while now["stream"]["decided"] < total:
                    took, _, now = state(address)
                    slowest = max(slowest, took)
                    seqs.add(now["seq"])
                    time.sleep(0.02)
                if update % UPDATES == 0:
                    memories.append(memory(process))
            if updates:
                rate = 60 * len(seqs) / (time.perf_counter() - began)
                figures |= {"updates": updates, "updates a minute": rate, "slowest answer, s": slowest}
                figures["memory at its start, MB"] = memories[0]
                figures["memory at its end, MB"] = memory(process)
            return figures


if __name__ == "__main__":
    run(measure, decisions=1_000_000, subclasses=200, minutes=60)
