"""What a whole stream costs through the class, and a prediction after it; the rows of ``speed`` and of ``before``.

It imports the public interface and the data sets, and runs by itself: ``python streams.py ROW
[INSTANCES]`` prints the figures of a row as JSON. :mod:`benchmarks.before` has the tree of an earlier commit run it.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from stream_osr import OpenSetRecognizer

try:
    from benchmarks.paper.datasets import KNOWN_CLASSES, UNKNOWN_CLASSES, load
    from benchmarks.paper.protocol import split
except ImportError:  # an earlier commit
    from stream_osr.evaluation.datasets import KNOWN_CLASSES, UNKNOWN_CLASSES, load
    from stream_osr.evaluation.protocol import split
try:
    from stream_osr.config import grouped
except ImportError:  # an earlier commit: no arguments are in groups
    grouped = dict

SEED = 0
ASKED = 3000
DEFAULTS: dict[str, Any] = {}
ONE_CHAIN: dict[str, Any] = {"chains": 1, "window": 0}


class Row(NamedTuple):
    """A stream and how it is run.

    Attributes
    ----------
    dataset
        At its highest openness; the whole test part is the stream.
    batch
        Instances of a micro-batch.
    arguments
        Of the recognizer; all others are the defaults.
    one_by_one
        By `learn_one` with a dict, in place of `learn_many` with a frame of the whole stream.
    threads
        For the chains; None: as the recognizer chooses.
    quiet
        Whether the stream has instances of the known classes alone.
    """

    dataset: str
    batch: int
    arguments: dict[str, Any] = DEFAULTS
    one_by_one: bool = False
    threads: int | None = 1
    quiet: bool = False


ROWS = {
    "LETTER, batch 64, defaults": Row("LETTER", 64),
    "LETTER, batch 256, defaults": Row("LETTER", 256),
    "PENDIGITS, batch 64, defaults": Row("PENDIGITS", 64),
    "LETTER, batch 64, one chain, window 0": Row("LETTER", 64, ONE_CHAIN),
    "LETTER, batch 64, defaults, learn_one": Row("LETTER", 64, one_by_one=True),
    "LETTER, batch 64, defaults, n_jobs=None": Row("LETTER", 64, threads=None),
    "LETTER, batch 256, defaults, known classes alone": Row("LETTER", 256, quiet=True),
}


def run(model: OpenSetRecognizer, frame: pd.DataFrame, dicts: list[dict[Any, float]] | None = None) -> np.ndarray:
    """Stream all instances and drain at the end; microseconds an instance, of the processor and by the clock.

    A full garbage collection visits all objects of the process, 200,000 after the imports. It takes place before the
    measurement, so that no chance decides which of two trees has one in its measured pass.
    """
    gc.collect()
    begin = np.array([time.process_time(), time.perf_counter()])
    if dicts is None:
        model.learn_many(frame)
    else:
        for x in dicts:
            model.learn_one(x)
    model.flush()
    decisions = list(model.drain())
    took = np.array([time.process_time(), time.perf_counter()]) - begin
    assert len(decisions) == len(frame)
    return 1e6 * took / len(frame)


def floor(rows: np.ndarray, factors: int, batch: int) -> float:
    """Product of the rows with so many stacked factors, triangles in a full matrix: microseconds an instance."""
    d = rows.shape[1]
    stacked = np.random.default_rng(SEED).normal(size=(d, factors * d))
    rows = np.ascontiguousarray(rows, dtype=float)
    took = []
    for _ in range(6):
        begin = time.process_time()
        for at in range(0, len(rows), batch):
            rows[at : at + batch] @ stacked
        took.append(time.process_time() - begin)
    return 1e6 * float(np.median(took[1:])) / len(rows)


def asking(model: OpenSetRecognizer, dicts: list[dict[Any, float]]) -> float:
    """Processor time of `predict_proba_one`, microseconds a call; the first is not counted."""
    model.predict_proba_one(dicts[0])
    begin = time.process_time()
    for x in dicts:
        model.predict_proba_one(x)
    return 1e6 * (time.process_time() - begin) / len(dicts)


def begun(row: Row, instances: int | None = None) -> tuple[Callable[[], OpenSetRecognizer], pd.DataFrame]:
    """Train for a row. Return a function that makes a recognizer over the trained model, and the stream's frame."""
    data = load(row.dataset)
    part = split(data.X, data.y, KNOWN_CLASSES[row.dataset], UNKNOWN_CLASSES[row.dataset][-1], SEED)
    arguments = {"seed": SEED, "n_jobs": row.threads, "batch_size": row.batch, **row.arguments}
    model = OpenSetRecognizer(**grouped(**arguments))
    names = [f"feature {place:02}" for place in range(data.X.shape[1])]
    model.learn_many(pd.DataFrame(part.X_train, columns=names), part.y_train.tolist())
    model.freeze()
    fresh = partial(OpenSetRecognizer.from_trained, model.trained, **grouped(**arguments))
    rows = part.X_test[np.isin(part.y_test, np.unique(part.y_train))] if row.quiet else part.X_test
    return fresh, pd.DataFrame(rows[:instances], columns=names)


def measure(name: str, instances: int | None = None, repeats: int = 1) -> dict[str, Any]:
    """Train, stream once to get warm, then measure so often, the floor after each; medians."""
    row = ROWS[name]
    fresh, frame = begun(row, instances)
    factors = sum(fresh().freeze().subclasses.values()) + 1  # and the prior's
    dicts = frame.to_dict("records")
    passes, floors = [], []
    for _ in range(repeats + 1):
        model = fresh()
        passes.append(run(model, frame, dicts if row.one_by_one else None))
        floors.append(floor(frame.to_numpy(), factors, row.batch))
    processor, wall = np.median(passes[1:], axis=0).tolist()
    least = float(np.median(floors[1:]))
    return {
        "row": name,
        "instances": len(frame),
        "processor_us": processor,
        "wall_us": wall,
        "floor_us": least,
        "floors": processor / least,
        "ask_us": asking(model, dicts[:ASKED]),
    }


if __name__ == "__main__":
    with threadpool_limits(1):
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)))
