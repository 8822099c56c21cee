"""The state of one stream as bytes: python -m benchmarks.state [--instances N] [--write].

Size of the state without the trained model after N instances, share of the schema, and processor milliseconds to
bytes and back (the least of several runs). Each state is also read again. The recognizer from it must give the same
bits on the rest of the stream.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Annotated, Any

import pandas as pd
import typer

from benchmarks.openset.sets import problem
from benchmarks.tabular import divide, frame
from benchmarks.written import Write, table, tell
from stream_osr import OpenSetRecognizer
from stream_osr.archive.files import open_archive
from stream_osr_connectors.cli import demo

SEED = 0
AFTER = 640
"""Instances that both recognizers get after the state was read."""
RUNS = 9

Rows = list[dict[Any, Any]]


def demonstration() -> tuple[OpenSetRecognizer, Rows]:
    """Make the model and the stream of ``stream-osr demo``."""
    training, stream = demo.split(2)
    model = demo.make_recognizer(seed=2)
    for instance in training:
        model.learn_one(instance.features, instance.label)
    return model, [instance.features for instance in stream]


def of_the_paper(name: str) -> tuple[OpenSetRecognizer, Rows]:
    """Train on a data set of the paper at its highest openness."""
    given = problem(name, None, SEED)
    model = OpenSetRecognizer(seed=SEED)
    model.learn_many(pd.DataFrame(given.X_train), [given.known[number] for number in given.group])
    return model, [dict(enumerate(row)) for row in given.X_test.tolist()]


def of_a_table(name: str) -> tuple[OpenSetRecognizer, Rows]:
    """Train on a public table with categories."""
    parts = divide(name, SEED)
    model = OpenSetRecognizer(seed=SEED)
    model.learn_many(frame(name, parts.X_train), parts.y_train.tolist())
    return model, frame(name, parts.X_test).to_dict("records")


MODELS: dict[str, Callable[[], tuple[OpenSetRecognizer, Rows]]] = {
    "demonstration": demonstration,
    "LETTER": lambda: of_the_paper("LETTER"),
    "USPS": lambda: of_the_paper("USPS"),
    "NURSERY (categories)": lambda: of_a_table("NURSERY"),
}


def milliseconds(call: Callable[[], object]) -> float:
    """Measure the least processor time of several calls."""
    times = []
    for _ in range(RUNS):
        begun = time.process_time()
        call()
        times.append(time.process_time() - begun)
    return 1e3 * min(times)


def gone_on(model: OpenSetRecognizer, rows: Rows, begin: int) -> list[tuple[Any, ...]]:
    """Stream rows, and return what is drained."""
    for at, row in enumerate(rows, begin):
        model.learn_one(row, key=at)
    return [*map(tuple, model.drain()), *((event,) for event in model.drain_events())]


def measure(name: str, instances: int) -> list[object]:
    """Measure the state of a stream. Return a row of the table."""
    model, stream = MODELS[name]()
    model.freeze()
    rows: Iterator[dict[Any, Any]] = cycle(stream)
    gone_on(model, list(islice(rows, instances)), 0)
    data = model.state_bytes()
    schema = len(json.dumps(open_archive(data).manifest, separators=(",", ":"), ensure_ascii=False).encode())
    to = milliseconds(model.state_bytes)
    back = milliseconds(lambda: OpenSetRecognizer.from_state_bytes(model.trained, data))
    again, later = OpenSetRecognizer.from_state_bytes(model.trained, data), list(islice(rows, AFTER))
    same = gone_on(again, later, instances) == gone_on(model, later, instances)
    return [name, len(data) / 1000, 100.0 * schema / len(data), to, back, "yes" if same else "NO"]


def main(
    instances: Annotated[int, typer.Option(help="Instances before the state is taken.")] = 1280, write: Write = False
) -> None:
    """Measure states, and print a table."""
    columns = ["", "state, KB", "schema, %", "to bytes, ms", "from bytes, ms", "same bits after it"]
    tell("state", table(columns, [measure(name, instances) for name in MODELS]), write)


if __name__ == "__main__":
    typer.run(main)
