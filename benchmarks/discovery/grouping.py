"""How well emerging subclasses are gathered in new classes, and how many classes they are said to be.

The five data sets at medium and highest openness (the paper's protocol), defaults of the library, one pass over the
test part. The scores are over all instances of unknown classes, each in the group of the subclass that it sits in at
the end (re-seated with the window); those taken for known are one cluster for each known class, those in no
subclass one more.

- *unmerged*: every subclass a cluster of its own;
- *gathered*: what `OpenSetRecognizer.new_classes` tells;
- *as decided*: the same, each instance in the subclass that its decision named at once;
- *true number*: the same tree, cut so that there are as many groups as unknown classes (it uses the truth);
- *majority*: every subclass given to the class that most of its instances are of (the best any gathering could do).

Errors are those of the estimated number of new classes, relative to the true number: ours and the paper's (Delta).
*in* is how often the true number is in the interval that is told with ours, *width* that interval's, relative to it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from benchmarks.paper.datasets import KNOWN_CLASSES, PCA_DIMENSIONS, UNKNOWN_CLASSES, load
from benchmarks.paper.protocol import split
from stream_osr import Decision, NewClasses
from stream_osr.discovery.grouping import LEAST_SIZE, SubclassDistances, gather, tree
from stream_osr.instances.features import Features
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.parameters import Parameters, parameters
from stream_osr.stream import BufferedInstance, close_batch, new_classes, open_stream
from stream_osr.training.trained import TrainedModel, train_model

DATASETS = tuple(KNOWN_CLASSES)
GATHERINGS = ("unmerged", "gathered", "as decided", "true number", "majority")
IN_NO_SUBCLASS = -1


class Passed(NamedTuple):
    """A stream that has been run: decisions in order, what is new at the end, and what it was found from."""

    decisions: list[Decision]
    seat: np.ndarray
    """Subclass that each instance sits in at the end, -1: none."""
    found: NewClasses
    measured: SubclassDistances
    """Distances in the first chain."""
    milliseconds: float
    """Mean time of a look for new classes after each batch."""


def pass_over(trained: TrainedModel, X: np.ndarray, chosen: Parameters) -> Passed:
    """Run rows through a fresh stream and look for new classes after every batch."""
    stream = open_stream(trained, chosen)
    decisions: list[Decision] = []
    measured: tuple[SubclassDistances, ...] | None = None
    spent = []
    rows = whiten(trained.whitening, X)
    seat = np.full(len(rows), IN_NO_SUBCLASS)
    for begin in range(0, len(rows), chosen.batch_size):
        chunk = rows[begin : begin + chosen.batch_size]
        arrived = [BufferedInstance(row, None, key) for key, row in enumerate(chunk, start=begin)]
        stream, batch = close_batch(trained, stream, arrived, [], chosen)
        decisions += batch.decisions
        past = stream.recent  # the latest are re-seated, the oldest forgotten
        seat[past.seq : past.seq + len(past.keys)] = past.subclass[0]
        start = time.perf_counter()
        found, measured = new_classes(stream, measured)
        spent.append(1e3 * (time.perf_counter() - start))
    assert measured is not None
    return Passed(decisions, seat, found, measured[0], fmean(spent))


def clusters(decisions: Sequence[Decision], seat: Iterable[int], labels: Sequence[Any]) -> np.ndarray:
    """Cluster of each instance: its emerging subclass, ``IN_NO_SUBCLASS``, or below that one for each known class."""
    number = {label: IN_NO_SUBCLASS - 1 - j for j, label in enumerate(labels)}
    return np.array([number.get(d.label, at) for d, at in zip(decisions, seat, strict=True)])


def regroup(cluster: np.ndarray, group: Mapping[int, Any]) -> list[str]:
    """Name clusters by the group that they are in, and by themselves if they are in none."""
    return [f"group {group[key]}" if key in group else f"cluster {key}" for key in cluster.tolist()]


def cut_at(measured: SubclassDistances, number: int) -> dict[int, int]:
    """Cut the tree so that there are as many groups as asked for, or as there are subclasses; group of each."""
    emerging = measured.emerging
    large = np.flatnonzero(emerging.size >= LEAST_SIZE)
    threshold = 0.0
    if len(large) > number:
        threshold = tree(emerging.pairwise[np.ix_(large, large)])[len(large) - number - 1, 2]
    return dict(zip(emerging.ids.tolist(), gather(emerging, threshold).tolist(), strict=True))


def majorities(cluster: np.ndarray, truth: np.ndarray) -> dict[int, Any]:
    """Class that most instances of each emerging subclass are of."""
    out = {}
    for key in np.unique(cluster[cluster >= 0]).tolist():
        names, counts = np.unique(truth[cluster == key], return_counts=True)
        out[key] = names[counts.argmax()]
    return out


def runs(dataset: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the figures at both levels of openness; they share the training."""
    data = load(dataset)
    chosen = parameters(seed=seed, pca=PCA_DIMENSIONS.get(dataset))
    trained = None
    for n_unknown in UNKNOWN_CLASSES[dataset]:
        part = split(data.X, data.y, KNOWN_CLASSES[dataset], n_unknown, seed)
        if trained is None:
            number = {label: j for j, label in enumerate(part.known)}
            group = np.array([number[label] for label in part.y_train.tolist()])
            labels = tuple(range(len(part.known)))
            trained = train_model(Features(range(data.X.shape[1])), part.X_train, group, labels, chosen)
        passed = pass_over(trained, part.X_test, chosen)
        new = np.isin(part.y_test, np.array(part.unknown))
        yield {
            "dataset": dataset,
            "n_unknown": n_unknown,
            "seed": seed,
            **scores(passed, new, part.y_test[new], trained.labels, n_unknown),
        }


def scores(
    passed: Passed, new: np.ndarray, truth: np.ndarray, labels: Sequence[Any], n_unknown: int
) -> dict[str, Any]:
    """Score the gatherings of the instances of unknown classes, and the estimated number.

    Parameters
    ----------
    passed
        A stream that has been run.
    new
        Which instances are of unknown classes, shape (n,).
    truth
        Class of each of those.
    labels
        The known classes.
    n_unknown
        Number of unknown classes.
    """
    told = {key: at for at, one in enumerate(passed.found.candidates) for key in one.subclasses}
    at_end = clusters(passed.decisions, passed.seat, labels)[new]
    at_once = [IN_NO_SUBCLASS if d.subclass_id is None else d.subclass_id for d in passed.decisions]
    named = {
        "unmerged": regroup(at_end, {}),
        "gathered": regroup(at_end, told),
        "as decided": regroup(clusters(passed.decisions, at_once, labels)[new], told),
        "true number": regroup(at_end, cut_at(passed.measured, n_unknown)),
        "majority": regroup(at_end, majorities(at_end, truth)),
    }
    out: dict[str, Any] = {}
    for name in GATHERINGS:
        out[f"{name} NMI"] = float(normalized_mutual_info_score(truth, named[name]))
        out[f"{name} ARI"] = float(adjusted_rand_score(truth, named[name]))
    return out | {
        "candidates": len(passed.found.candidates),
        "number": passed.found.number,
        "delta": passed.found.delta,
        "error": abs(passed.found.number - n_unknown) / n_unknown,
        "error of delta": abs(passed.found.delta - n_unknown) / n_unknown,
        "covered": float(passed.found.low <= n_unknown <= passed.found.high),
        "width": (passed.found.high - passed.found.low) / n_unknown,
        "milliseconds": passed.milliseconds,
    }


def measure(seeds: Sequence[int], datasets: Sequence[str] = DATASETS) -> Iterator[dict[str, Any]]:
    """Yield the figures of each data set, openness and seed."""
    for dataset in datasets:
        for seed in seeds:
            yield from runs(dataset, seed)


def table(figures: Sequence[dict[str, Any]]) -> str:
    """Return means over seeds for each data set and openness, and the mean of those."""
    lines = [
        f"{'NMI/ARI':<14}"
        + "".join(f"{name:>13}" for name in GATHERINGS)
        + f"{'error':>8}{'Delta':>7}"
        + f"{'in':>6}{'width':>7}{'ms':>7}",
    ]
    cells: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for run in figures:
        cells.setdefault((run["dataset"], run["n_unknown"]), []).append(run)
    numeric = [name for name, value in figures[0].items() if not isinstance(value, str)]
    means = {cell: {name: fmean(run[name] for run in found) for name in numeric} for cell, found in cells.items()}
    rows = [(f"{dataset} +{n}", of) for (dataset, n), of in means.items()]
    rows.append(("mean", {name: fmean(of[name] for of in means.values()) for name in numeric}))
    for label, of in rows:
        pairs = "".join(f"{_pair(of[f'{name} NMI'], of[f'{name} ARI']):>13}" for name in GATHERINGS)
        errors = f"{of['error']:8.2f}{of['error of delta']:7.2f}{of['covered']:6.2f}{of['width']:7.2f}"
        lines.append(f"{label:<14}{pairs}{errors}{of['milliseconds']:7.1f}")
    return "\n".join(lines)


def _pair(nmi: float, ari: float) -> str:
    return f"{nmi:.3f}/{ari:.3f}"
