"""Does the model age? A new class at the start of a stream, and after a long quiet time.

    python -m benchmarks.ageing [--seeds 10] [--instances 5000]

prints, for LETTER and USPS, the recall of the first 20 instances of each unknown class on a fresh stream, on one
that has seen so many known instances, and the difference, paired over seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.paper.datasets import KNOWN_CLASSES, PCA_DIMENSIONS, UNKNOWN_CLASSES, load
from benchmarks.paper.protocol import split
from stream_osr.instances.features import Features
from stream_osr.instances.labels import unknown_label
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.model.known import Known
from stream_osr.model.nearest import means_and_scales
from stream_osr.parameters import Parameters, parameters
from stream_osr.stream import BufferedInstance, Stream, close_batch, open_stream
from stream_osr.stream.batch import BatchOutput
from stream_osr.training.trained import TrainedModel, train_model

FIRST = 20


class Case(NamedTuple):
    """A trained model, and a stream that ends when each unknown class has sent its first 20 instances."""

    trained: TrainedModel
    parameters: Parameters
    rows: np.ndarray
    first: np.ndarray
    """Places of the first 20 instances of each unknown class."""


def make_case(name: str, seed: int) -> Case:
    """Train on the known classes of a seed and lay out its test stream."""
    data = load(name)
    part = split(data.X, data.y, KNOWN_CLASSES[name], UNKNOWN_CLASSES[name][1], seed)
    chosen = parameters(seed=seed, pca=PCA_DIMENSIONS.get(name))
    number = {label: j for j, label in enumerate(part.known)}
    group = np.array([number[label] for label in part.y_train.tolist()])
    trained = train_model(Features(range(data.X.shape[1])), part.X_train, group, tuple(part.known), chosen)
    places: dict[object, list[int]] = {label: [] for label in part.unknown}
    for place, label in enumerate(part.y_test.tolist()):
        if label in places and len(places[label]) < FIRST:
            places[label].append(place)
            if all(len(found) == FIRST for found in places.values()):
                break
    rows = whiten(trained.whitening, part.X_test[: place + 1])
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


def feed(case: Case, stream: Stream, rows: np.ndarray) -> Iterator[tuple[Stream, BatchOutput]]:
    """Run rows through the stream in micro-batches."""
    size = case.parameters.batch_size
    for begin in range(0, len(rows), size):
        arrived = [BufferedInstance(row, None, None) for row in rows[begin : begin + size]]
        stream, batch = close_batch(case.trained, stream, arrived, [], case.parameters)
        yield stream, batch


def after_known(case: Case, instances: int) -> Stream:
    """Run so many known instances through a fresh stream."""
    stream = open_stream(case.trained, case.parameters)
    rng = np.random.default_rng([case.parameters.seed, 1])
    done = 0
    while done < instances:
        size = min(case.parameters.batch_size * 32, instances - done)
        *_, (stream, _) = feed(case, stream, known_instances(case.trained.known, rng, size))
        done += size
    return stream


def first_recall(case: Case, stream: Stream) -> float:
    """Share of the first 20 instances of each unknown class that are called unknown."""
    unknown = unknown_label(None, case.trained.labels)
    labels = [d.label for _, batch in feed(case, stream, case.rows) for d in batch.decisions]
    return float(np.mean([labels[place] == unknown for place in case.first]))


def recalls(name: str, instances: int, seed: int, **changes: float) -> tuple[float, float]:
    """First-20 recall on a fresh stream, and after so many known instances."""
    case = make_case(name, seed)
    case = case._replace(parameters=case.parameters.model_copy(update=changes))
    fresh = first_recall(case, open_stream(case.trained, case.parameters))
    return fresh, first_recall(case, after_known(case, instances))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--instances", type=int, default=5_000)
    parser.add_argument("--half-life", type=float, default=200.0)
    given = parser.parse_args()
    for name in ("LETTER", "USPS"):
        pairs = [recalls(name, given.instances, seed, half_life=given.half_life) for seed in range(given.seeds)]
        fresh, aged = np.array(pairs).T
        loss = fresh - aged
        error = loss.std(ddof=1) / len(loss) ** 0.5 if len(loss) > 1 else float("nan")
        print(
            f"{name}: first-20 recall {fresh.mean():.3f} fresh, {aged.mean():.3f} after {given.instances} known "
            f"instances; loss {loss.mean():.3f} +- {error:.3f} over {len(loss)} seeds"
        )


if __name__ == "__main__":
    main()
