"""MINAS of the package streamndr: clusters for classes, and what is in none of them is clustered again and again.

E. R. de Faria, A. C. P. de Leon Ferreira de Carvalho and J. Gama, "MINAS: multiclass learning algorithm for novelty
detection in data streams", Data Mining and Knowledge Discovery 30, 2016. The package (0.2.0) is taken as it is, but

* nothing is forgotten: nothing drifts here, and a class that is found while the last known class sleeps would be
  given the number of that class;
* novelties are looked for at most once in a batch, where the package does so at every instance that it rejects: what
  is found decides from the next batch on, one way or the other.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, ClassVar

import numpy as np

from benchmarks.openset.methods.base import Entry
from benchmarks.openset.tuned import Said, Tuned

MOST_CLUSTERS = 100
"""Of a class: the paper's number."""


class MinasMethod(Tuned):
    """MINAS, told no label; a novelty is unknown, what it takes for an extension of a class is of that class.

    Settings: instances of the smallest class for each of the clusters that a class has, and rejected instances that
    set novelty detection off. The rest is the package's default.
    """

    grid: ClassVar = {"instances_a_cluster": (4, 8, 16, 32), "memory": (50, 200)}

    def _train(self, X: np.ndarray, group: np.ndarray, **setting: Any) -> Any:
        n_clusters = max(1, np.bincount(group).min() // setting["instances_a_cluster"])
        model = _once_a_batch(
            kini=int(min(n_clusters, MOST_CLUSTERS)),
            min_short_mem_trigger=setting["memory"],
            min_examples_cluster=10,
            window_size=sys.maxsize,
            random_state=self.seed,
        )
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # fewer different instances than clusters
            model.learn_many(X, group)
        return model

    def _say(self, model: Any, X: np.ndarray, batch_size: int, answers: np.ndarray | None) -> Said:
        predicted = []
        with warnings.catch_warnings(), np.errstate(all="ignore"):  # clusters of one point
            warnings.simplefilter("ignore")
            for at in range(0, len(X), batch_size):
                model.looked = False
                predicted.append(model.predict_many(X[at : at + batch_size]))
        return Said(np.concatenate(predicted))


def _once_a_batch(**parameters: Any) -> Any:
    """Make MINAS that looks for novelties when ``looked`` has been reset."""
    from streamndr.model import Minas

    class Model(Minas):  # type: ignore[misc]  # streamndr carries no types
        looked = False

        def _novelty_detect(self) -> None:
            if not self.looked:
                self.looked = True
                super()._novelty_detect()

    return Model(**parameters)


ENTRIES = {
    "MINAS": Entry(MinasMethod, "in order", "of streamndr; parameters by the paper's validation", needs="streamndr")
}
