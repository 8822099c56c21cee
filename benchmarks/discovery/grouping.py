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
*ms* is the mean time of a look for new classes after each batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from benchmarks.deciding import UNKNOWN, steps, train
from benchmarks.discovery.streams import FIVE
from benchmarks.discovery.tables import Table, column
from benchmarks.openset.sets import SETTINGS, problem
from stream_osr import Decision
from stream_osr.discovery.grouping import LEAST_SIZE, SubclassDistances, gather, tree
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.parameters import parameters
from stream_osr.stream import new_classes

DATASETS = FIVE
GATHERINGS = ("unmerged", "gathered", "as decided", "true number", "majority")
IN_NO_SUBCLASS = -1


def ids_of(decisions: Iterable[Decision]) -> list[int]:
    """Subclass that each decision named, or ``IN_NO_SUBCLASS``."""
    return [IN_NO_SUBCLASS if d.subclass_id is None else d.subclass_id for d in decisions]


def clusters(decisions: Sequence[Decision], seat: Iterable[int], labels: Sequence[Any]) -> np.ndarray:
    """Cluster of each instance: its emerging subclass, ``IN_NO_SUBCLASS``, or below that one for each known class."""
    number = {label: IN_NO_SUBCLASS - 1 - j for j, label in enumerate(labels)}
    return np.array([number.get(d.label, at) for d, at in zip(decisions, seat, strict=True)])


def agreement(truth: np.ndarray, group: Any) -> dict[str, float]:
    """Compare a grouping with the classes."""
    nmi, ari = normalized_mutual_info_score(truth, group), adjusted_rand_score(truth, group)
    return {"NMI": float(nmi), "ARI": float(ari)}


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


def measure(dataset: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the figures at both levels of openness; they share the training."""
    chosen = parameters(seed=seed, pca=SETTINGS[dataset].pca)
    trained = None
    for level in ("medium", "high"):
        n = SETTINGS[dataset].n_unknown[level]
        given = problem(dataset, n, seed)
        trained = train(given.X_train, given.group, chosen) if trained is None else trained
        decisions: list[Decision] = []
        measured: tuple[SubclassDistances, ...] | None = None
        spent, seat = [], np.full(len(given.X_test), IN_NO_SUBCLASS)
        for stream, batch in steps(trained, whiten(trained.whitening, given.X_test), chosen):
            decisions += batch.decisions
            past = stream.recent  # the latest are re-seated, the oldest forgotten
            seat[past.seq : past.seq + len(past.keys)] = past.subclass[0]
            start = time.perf_counter()
            found, measured = new_classes(stream, measured)
            spent.append(1e3 * (time.perf_counter() - start))
        assert measured is not None
        new = given.truth == UNKNOWN
        truth = np.array(given.labels)[new]
        told = {key: at for at, one in enumerate(found.candidates) for key in one.subclasses}
        at_end = clusters(decisions, seat, trained.labels)[new]
        at_once = clusters(decisions, ids_of(decisions), trained.labels)[new]
        named = {
            "unmerged": regroup(at_end, {}),
            "gathered": regroup(at_end, told),
            "as decided": regroup(at_once, told),
            "true number": regroup(at_end, cut_at(measured[0], n)),
            "majority": regroup(at_end, majorities(at_end, truth)),
        }
        scores = {f"{name} {m}": v for name in GATHERINGS for m, v in agreement(truth, named[name]).items()}
        yield {
            "n_unknown": n,
            **scores,
            "number": found.number,
            "error": abs(found.number - n) / n,
            "error of delta": abs(found.delta - n) / n,
            "covered": float(found.low <= n <= found.high),
            "width": (found.high - found.low) / n,
            "milliseconds": fmean(spent),
        }


table = Table(
    {
        **{f"{name} {measure}": column(f"{name} {measure}") for name in GATHERINGS for measure in ("NMI", "ARI")},
        "error": column("error", form=".2f"),
        "Delta": column("error of delta", form=".2f"),
        "in": column("covered", form=".2f"),
        "width": column("width", form=".2f"),
        "ms": column("milliseconds", form=".1f"),
    },
    keys=("dataset", "n_unknown"),
    total="mean",
)
