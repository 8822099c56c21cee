"""Streams of known instances, as long as one likes, and what a new class meets at their end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stream_osr import engine
from stream_osr.config import Parameters, parameters
from stream_osr.evaluation import PCA_DIMENSIONS, split
from stream_osr.features import Features
from stream_osr.hdp.dishes import means_and_scales
from stream_osr.hdp.known import Known
from stream_osr.hdp.space import whiten
from stream_osr.labels import unknown_label
from stream_osr.trained import TrainedModel, train_model
from tests.data import need_data

FIRST = 20


class Case(NamedTuple):
    """A trained model, and a stream that ends when each unknown class has sent its first 20 instances."""

    trained: TrainedModel
    parameters: Parameters
    rows: np.ndarray
    first: np.ndarray
    """Places of the first 20 instances of each unknown class."""


def make_case(name: str, n_known: int, n_unknown: int, seed: int) -> Case:
    data = need_data(name)
    part = split(data.X, data.y, n_known, n_unknown, seed)
    chosen = parameters(seed=seed, pca_components=PCA_DIMENSIONS.get(name))
    number = {label: j for j, label in enumerate(part.known)}
    group = np.array([number[label] for label in part.y_train.tolist()])
    trained = train_model(Features(range(data.X.shape[1])), part.X_train, group, tuple(part.known), chosen)
    places: dict[object, list[int]] = {label: [] for label in part.unknown}
    for place, label in enumerate(part.y_test.tolist()):
        if label in places and len(places[label]) < FIRST:
            places[label].append(place)
            if all(len(found) == FIRST for found in places.values()):
                break
    rows = whiten(trained.space, part.X_test[: place + 1])
    return Case(trained, chosen, rows, np.concatenate(list(places.values())))


def known_instances(known: Known, rng: np.random.Generator, size: int) -> np.ndarray:
    """Draw whitened rows from the posterior predictives of the known subclasses."""
    means, covariances = means_and_scales(known.dishes, known.prior)
    weight = known.dishes.size / known.dishes.size.sum()
    chosen = rng.choice(len(weight), size=size, p=weight)
    lower = np.linalg.cholesky(covariances)
    freedom = known.prior.nu + known.dishes.size[chosen] - known.prior.n_features + 1.0
    spread = np.sqrt(freedom / rng.chisquare(freedom))
    normal = rng.normal(size=(size, means.shape[1]))
    return means[chosen] + spread[:, None] * np.einsum("nab,nb->na", lower[chosen], normal)


def feed(case: Case, stream: engine.Stream, rows: np.ndarray) -> Iterator[tuple[engine.Stream, engine.Batch]]:
    """Run rows through the stream in micro-batches."""
    size = case.parameters.batch_size
    for begin in range(0, len(rows), size):
        arrived = [engine.Arrived(row, None, None) for row in rows[begin : begin + size]]
        stream, batch = engine.close_batch(case.trained, stream, arrived, [], case.parameters)
        yield stream, batch


def after_known(case: Case, instances: int) -> engine.Stream:
    """The stream after so many known instances."""
    stream = engine.open_stream(case.trained)
    rng = np.random.default_rng([case.parameters.seed, 1])
    done = 0
    while done < instances:
        size = min(case.parameters.batch_size * 32, instances - done)
        *_, (stream, _) = feed(case, stream, known_instances(case.trained.known, rng, size))
        done += size
    return stream


def first_recall(case: Case, stream: engine.Stream) -> float:
    """Share of the first 20 instances of each unknown class that are called unknown."""
    unknown = unknown_label(None, case.trained.labels)
    labels = [d.label for _, batch in feed(case, stream, case.rows) for d in batch.decisions]
    return float(np.mean([labels[place] == unknown for place in case.first]))
