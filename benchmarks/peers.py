"""What a user would run instead, on the same stream: python -m benchmarks.peers [--instances N].

LETTER, ten known classes, all others new; each in its own idiom, microseconds an instance, one thread. None of them
does the same: river's clusterers know no classes, nearest neighbours discover nothing, a mixture refitted batch by
batch forgets. They are here for the cost.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from river import cluster
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from benchmarks.paper.comparators.osnn import OSNN
from stream_osr import OpenSetRecognizer
from stream_osr.evaluation import load, split

SEED = 0
BATCH = 64
COMPONENTS = 30


class Stream:
    """Training part and stream, as arrays and as dicts."""

    def __init__(self, instances: int) -> None:
        data = load("LETTER")
        part = split(data.X, data.y, 10, 16, SEED)
        mean, spread = part.X_train.mean(axis=0), part.X_train.std(axis=0)
        self.X = (part.X_train - mean) / spread
        self.y = np.unique(part.y_train, return_inverse=True)[1]
        self.rows = ((part.X_test - mean) / spread)[:instances]
        self.dicts = [dict(enumerate(row)) for row in self.rows.tolist()]


def stream_osr(stream: Stream, **arguments: Any) -> Callable[[], None]:
    """Make the recognizer, one instance after the other."""
    model = OpenSetRecognizer(seed=SEED, batch_size=BATCH, **arguments)
    for x, label in zip(stream.X.tolist(), stream.y.tolist(), strict=True):
        model.learn_one(dict(enumerate(x)), label)
    model.freeze()

    def run() -> None:
        for x in stream.dicts:
            model.learn_one(x)
            for _ in model.drain():
                pass

    return run


def river_clusterer(stream: Stream, make: Callable[[], Any]) -> Callable[[], None]:
    """Learn and predict, one instance after the other."""

    def run() -> None:
        model = make()
        for x in stream.dicts:
            model.learn_one(x)
            model.predict_one(x)

    return run


def nearest_neighbour(stream: Stream) -> Callable[[], None]:
    """Distance to the nearest training instance, batch by batch."""
    index = NearestNeighbors(n_neighbors=1).fit(stream.X)

    def run() -> None:
        for begin in range(0, len(stream.rows), BATCH):
            index.kneighbors(stream.rows[begin : begin + BATCH])

    return run


def osnn(stream: Stream) -> Callable[[], None]:
    """Ratio of the distances to the nearest instances of two classes, batch by batch."""
    model = OSNN().fit(stream.X, stream.y)

    def run() -> None:
        for begin in range(0, len(stream.rows), BATCH):
            model.predict(stream.rows[begin : begin + BATCH])

    return run


def mixture(stream: Stream) -> Callable[[], None]:
    """Refit a Dirichlet process mixture of Gaussians to every batch, as far as one can."""

    def run() -> None:
        for begin in range(0, len(stream.rows), BATCH):
            rows = stream.rows[begin : begin + BATCH]
            model = BayesianGaussianMixture(n_components=min(COMPONENTS, len(rows)), random_state=SEED)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(rows)
            model.predict(rows)

    return run


def minas(stream: Stream, **arguments: Any) -> Callable[[], None]:
    """MINAS of the package streamndr, batch by batch; it asks for all known instances at once."""
    from streamndr.model import Minas

    model = Minas(random_state=SEED, **arguments).learn_many(stream.X, stream.y.tolist())

    def run() -> None:
        for begin in range(0, len(stream.rows), BATCH):
            model.predict_many(stream.rows[begin : begin + BATCH])

    return run


def contenders(stream: Stream) -> Iterator[tuple[str, Callable[[], None]]]:
    """Everything that is timed."""
    yield "stream-osr, defaults", stream_osr(stream)
    yield "stream-osr, one chain, window 0", stream_osr(stream, chains=1, window=0)
    yield "1-NN distance (scikit-learn)", nearest_neighbour(stream)
    yield "OSNN", osnn(stream)
    yield "BayesianGaussianMixture per batch (scikit-learn)", mixture(stream)
    yield "STREAMKMeans (river)", river_clusterer(stream, lambda: cluster.STREAMKMeans(seed=SEED))
    yield "DBSTREAM (river)", river_clusterer(stream, lambda: cluster.DBSTREAM(clustering_threshold=2.0))
    yield "DenStream (river)", river_clusterer(stream, lambda: cluster.DenStream(epsilon=2.0))
    if importlib.util.find_spec("streamndr") is not None:
        yield "MINAS (streamndr), defaults: 3 clusters a class", minas(stream)
        many = {"kini": 30, "min_short_mem_trigger": 100, "min_examples_cluster": 20}
        yield "MINAS (streamndr), 30 clusters a class", minas(stream, **many)


def main(
    instances: Annotated[int, typer.Option(help="Of the stream; the slow ones need patience.")] = 2000,
) -> None:
    """Time them, once each after a first run of 200 instances."""
    table = Table("", "us an instance", "instances a second")
    with threadpool_limits(1):
        for _, run in contenders(Stream(200)):
            run()
        for name, run in contenders(Stream(instances)):
            begin = time.perf_counter()
            run()
            us = 1e6 * (time.perf_counter() - begin) / instances
            table.add_row(name, f"{us:.1f}", f"{1e6 / us:,.0f}")
    Console().print(table)
    if importlib.util.find_spec("streamndr") is None:
        Console(stderr=True).print("MINAS left out: streamndr is not installed (pip install --no-deps streamndr)")


if __name__ == "__main__":
    typer.run(main)
