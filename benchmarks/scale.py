"""Time and memory as data grow, beside other tools: python -m benchmarks.scale [--quick] [--seconds S] [--write].

Rows, columns and classes grow one at a time, and the other two stay at 10 000 rows, 20 columns and 10 classes. Each
cell is a process of its own: processor seconds of training, processor microseconds of one of 10 000 predictions, and
the growth of the largest resident memory. A cell that takes more than S seconds stops. The second table runs
stream-osr over a CSV file of 40 000 rows with 1 to 10 000 keys, with checkpoints.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import typer

from benchmarks.written import Write, shown, table, tell

SEED = 0
PREDICTIONS = 10_000
KEYED_ROWS = 40_000
COLUMNS = ("", "tool", "training, s", "prediction, us", "memory, MB")

Predict = Callable[[np.ndarray], object]


class Size(NamedTuple):
    """Size of a training set."""

    rows: int = 10_000
    columns: int = 20
    classes: int = 10


def drawn(size: Size, n: int, seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of Gaussian classes, shape (n, columns), and their classes."""
    means = 3.0 * np.random.default_rng(SEED).normal(size=(size.classes, size.columns))
    rng = np.random.default_rng([SEED, seed])
    y = rng.integers(size.classes, size=n)
    return means[y] + rng.normal(size=(n, size.columns)), y


def stream_osr(X: np.ndarray, y: np.ndarray) -> Predict:
    """Train a recognizer. A prediction is a decision in micro-batches."""
    from stream_osr import OpenSetRecognizer

    model = OpenSetRecognizer(seed=SEED)
    model.learn_many(pd.DataFrame(X), y)
    model.freeze()

    def decide(rows: np.ndarray) -> object:
        model.learn_rows(rows)
        model.flush()
        return list(model.drain())

    return decide


def mixture(X: np.ndarray, y: np.ndarray) -> Predict:
    """Train scikit-learn's mixture of one to three Gaussians for each class."""
    from sklearn.mixture import GaussianMixture

    count = np.bincount(y)
    models = [
        GaussianMixture(min(3, max(1, count[j] // X.shape[1])), reg_covar=1e-3, random_state=SEED).fit(X[y == j])
        for j in np.flatnonzero(count > 1)
    ]
    return lambda rows: np.argmax([model.score_samples(rows) for model in models], axis=0)


def boosting(X: np.ndarray, y: np.ndarray) -> Predict:
    """Train scikit-learn's gradient boosting on histograms. It knows no unknown class."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=SEED).fit(X, y).predict


def hoeffding(X: np.ndarray, y: np.ndarray) -> Predict:
    """Train river's Hoeffding tree row by row. It knows no unknown class."""
    from river.tree import HoeffdingTreeClassifier

    model = HoeffdingTreeClassifier()
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one(dict(enumerate(row)), label)
    return lambda rows: [model.predict_one(dict(enumerate(row))) for row in rows.tolist()]


TOOLS: dict[str, Callable[[np.ndarray, np.ndarray], Predict]] = {
    "stream-osr": stream_osr,
    "GaussianMixture for each class": mixture,
    "HistGradientBoostingClassifier": boosting,
    "HoeffdingTreeClassifier (river)": hoeffding,
}


def memory() -> float:
    """Return the largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def train(tool: str, size: Size) -> tuple[float, float, float]:
    """Train a tool and let it predict. Return the measures of a row."""
    small = Size(max(200, 10 * size.classes), size.columns, size.classes)
    TOOLS[tool](*drawn(small, small.rows, 1))(drawn(small, 300, 2)[0])  # imports and compiles
    X, y = drawn(size, size.rows, 3)
    rows, before = drawn(size, PREDICTIONS, 4)[0], memory()
    begun = time.process_time()
    predict = TOOLS[tool](X, y)
    trained = time.process_time()
    predict(rows)
    ended = time.process_time()
    return trained - begun, 1e6 * (ended - trained) / PREDICTIONS, memory() - before


def run_keys(keys: int, _: Size) -> tuple[float, float, float]:
    """Run over a file with keys, and save checkpoints. Return seconds, microseconds a row, and megabytes on disk."""
    from stream_osr import OpenSetRecognizer
    from stream_osr_connectors.files import MemorySink, open_source
    from stream_osr_connectors.files.file_run import FileRun, Sinks
    from stream_osr_connectors.files.streams import keyed_of

    size = Size()
    model = OpenSetRecognizer(seed=SEED, chains=1)
    X, y = drawn(size, 5000)
    model.learn_many(pd.DataFrame(X, columns=[f"c{at}" for at in range(size.columns)]), y)
    model.freeze()
    with tempfile.TemporaryDirectory() as folder:
        path, checkpoint = Path(folder, "in.csv"), Path(folder, "run.ckpt")
        frame = pd.DataFrame(drawn(size, KEYED_ROWS, 5)[0], columns=[f"c{at}" for at in range(size.columns)])
        by = None if keys == 1 else "by"
        if by is not None:
            frame["by"] = [f"k{at % keys}" for at in range(KEYED_ROWS)]
        frame.to_csv(path, index=False)
        with open_source(path, by=by) as source:
            keyed = None if by is None else keyed_of(model, checkpoint)
            run = FileRun(model, source, Sinks(MemorySink()), checkpoint=checkpoint, keyed=keyed)
            begun = time.process_time()
            run.run()
            taken = time.process_time() - begun
        disk = sum(each.stat().st_size for each in Path(folder).rglob("run.ckpt*/**/*") if each.is_file())
        disk += sum(each.stat().st_size for each in Path(folder).glob("run.ckpt*") if each.is_file())
    return taken, 1e6 * taken / KEYED_ROWS, disk / 1e6


def _cell(call: Callable[..., object], arguments: tuple[Any, ...], answer: Connection) -> None:
    answer.send(call(*arguments))


def measured(seconds: float, call: Callable[..., tuple[float, ...]], *arguments: Any) -> list[object]:
    """Call a function in a process of its own, and return its measures as cells."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_cell, args=(call, arguments, sender))
    child.start()
    sender.close()
    try:
        found = receiver.recv() if receiver.poll(seconds) else None
    except EOFError:
        return ["failed", "", ""]
    finally:
        child.kill()
        child.join()
    return [f"> {shown(seconds)}", "", ""] if found is None else [*found]


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Leave out the largest sizes.")] = False,
    seconds: Annotated[float, typer.Option(help="Longest time of a cell, in seconds.")] = 180.0,
    write: Write = False,
) -> None:
    """Measure growth, and print two tables."""
    sizes = {
        **{f"{rows:,} rows": Size(rows=rows) for rows in (10_000, 100_000, 1_000_000)[: 2 if quick else 3]},
        **{f"{columns:,} columns": Size(columns=columns) for columns in (5, 100, 1000)[: 2 if quick else 3]},
        **{f"{classes} classes": Size(classes=classes) for classes in (2, 100, 500)[: 2 if quick else 3]},
    }
    rows = [[name, tool, *measured(seconds, train, tool, size)] for name, size in sizes.items() for tool in TOOLS]
    keys = [[n, *measured(seconds, run_keys, n, Size())] for n in (1, 50, 999, 10_000)[: 3 if quick else 4]]
    tell("scale", table(COLUMNS, rows), write)
    tell("scale by key", table(["keys", "run, s", "a row, us", "on disk, MB"], keys), write)


if __name__ == "__main__":
    typer.run(main)
