"""A recognizer per key: python -m benchmarks.keyed [--instances N] [--keys K] [--memory MIB] [--write].

Zipf-distributed traffic of many keys over the model of the demonstration, in bounded memory. Prints the throughput,
states that were stored and read, and the largest memory of the process. Then the decisions of sampled keys are
compared with those of a recognizer of their own. A second run has few keys, which all stay in memory. Its throughput
is compared with that of one recognizer on the same instances.
"""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.state import demonstration
from benchmarks.written import Write, shown, table, tell
from stream_osr import Keyed, OpenSetRecognizer, TrainedModel

SEED = 0
SAMPLED = 100
FITTING = 50
"""Keys of the second run."""
PART = 0.1
"""Share of the instances in the second run."""

Row = dict[Any, Any]


def traffic(stream: list[Row], keys: int, instances: int) -> Iterator[tuple[int, Row]]:
    """Yield keys and rows. Key k has a share proportional to 1 / (k + 1)."""
    rng = np.random.default_rng(SEED)
    weight = 1.0 / np.arange(1, keys + 1)
    weight /= weight.sum()
    for begin in range(0, instances, 10_000):
        count = min(10_000, instances - begin)
        rows = rng.integers(len(stream), size=count).tolist()
        yield from zip(rng.choice(keys, size=count, p=weight).tolist(), (stream[row] for row in rows), strict=True)


def run(keyed: Keyed, rows: Iterator[tuple[int, Row]], sampled: set[int]) -> tuple[float, dict[str, list[Any]]]:
    """Stream all rows. Return the processor time in seconds, and the decisions of sampled keys."""
    decisions = defaultdict[str, list[Any]](list)
    names, begun = set(map(str, sampled)), time.process_time()

    def drain() -> None:
        for name, decision in keyed.drain():
            if name in names:
                decisions[name].append(decision)
        for _ in keyed.drain_events():
            pass

    for at, (by, row) in enumerate(rows):
        keyed.learn_one(row, by=by, key=at)
        if at % 1000 == 999:
            drain()
    keyed.flush()
    used = time.process_time() - begun
    drain()
    return used, decisions


def alone(trained: TrainedModel, rows: Iterator[tuple[int, Row]]) -> float:
    """Stream all rows through one recognizer. Return the processor time in seconds."""
    model, begun = OpenSetRecognizer.from_trained(trained), time.process_time()
    for at, (_, row) in enumerate(rows):
        model.learn_one(row, key=at)
        if at % 1000 == 999:
            for queue in (model.drain(), model.drain_events()):
                for _each in queue:
                    pass
    model.flush()
    return time.process_time() - begun


def compare(trained: TrainedModel, rows: Iterator[tuple[int, Row]], found: dict[str, list[Any]], of: set[int]) -> int:
    """Count the sampled keys whose decisions are those of a recognizer of their own."""
    models = {by: OpenSetRecognizer.from_trained(trained) for by in of}
    for at, (by, row) in enumerate(rows):
        if by in models:
            models[by].learn_one(row, key=at)
    same = 0
    for by, model in models.items():
        model.flush()
        same += list(model.drain()) == found.get(str(by), [])
    return same


def main(
    instances: Annotated[int, typer.Option(help="Instances of the first run.")] = 1_000_000,
    keys: Annotated[int, typer.Option(help="Keys of the first run.")] = 10_000,
    memory: Annotated[int, typer.Option(help="Memory for recognizers in MiB.")] = 1024,
    write: Write = False,
) -> None:
    """Measure both runs, and print a table."""
    model, stream = demonstration()
    model.freeze()
    trained = model.trained
    sampled = set(np.random.default_rng(SEED).choice(keys, size=min(SAMPLED, keys), replace=False).tolist())
    part = int(PART * instances)
    alone(trained, traffic(stream, FITTING, 2000))  # the kernels are loaded
    times = {"one recognizer": alone(trained, traffic(stream, FITTING, part))}
    times[f"{FITTING} keys, all in memory"] = run(Keyed(trained), traffic(stream, FITTING, part), set())[0]
    keyed = Keyed(trained, memory=memory << 20)
    used, found = run(keyed, traffic(stream, keys, instances), sampled)
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    same = compare(trained, traffic(stream, keys, instances), found, sampled)
    rows = [[name, part, 1e6 * used / part, "", "", ""] for name, used in times.items()]
    rows.append([f"{keys} keys", instances, 1e6 * used / instances, keyed.stored, keyed.loaded, shown(largest)])
    text = table(["", "instances", "processor, us an instance", "stored", "read", "largest memory, MiB"], rows)
    one, fitting = times.values()
    text += f"\n\nThroughput of {FITTING} keys in memory: {shown(one / fitting)} of that of one recognizer.\n"
    text += f"Decisions of {same} of {len(sampled)} sampled keys are equal to those of a recognizer of their own."
    tell("keyed", text, write)


if __name__ == "__main__":
    typer.run(main)
