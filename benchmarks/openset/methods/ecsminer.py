"""ECSMiner of the package streamndr, told no label, and told the true labels a while after each decision.

M. Masud, J. Gao, L. Khan, J. Han and B. Thuraisingham, "Classification and novel class detection in concept-drifting
data streams under time constraints", IEEE Transactions on Knowledge and Data Engineering 23, 2011. The package
(0.2.0) is taken as it is, but

* it is handed one instance at a time: it stops with an error where the first novelty of all is found, or a member of
  the ensemble dropped, and more instances of the batch follow;
* the training part is shuffled: each member of the ensemble learns a chunk of it, and it comes class by class;
* clusters are k-means, not k-means that minds impurity, which takes minutes in the package;
* whether rejected instances lie within a cluster after all is asked again only after a member of the ensemble has
  been exchanged, where the package asks at every instance: nothing else can change the answer.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, ClassVar

import numpy as np

from benchmarks.openset.methods.base import Entry, Setup
from benchmarks.openset.tuned import Said, Tuned

LABELS_AFTER = 200
"""Instances after which a true label is told: the paper's 1000 are more than some of the streams here have."""


class ECSMinerMethod(Tuned):
    """ECSMiner; a novel class is unknown, whether it has been found or has been told.

    Settings: members of the ensemble; and instances of a chunk for each of its clusters.
    """

    grid: ClassVar = {"ensemble_size": (1, 3, 6), "instances_a_cluster": (4, 8, 16)}

    def __init__(self, setup: Setup, feedback: bool) -> None:
        super().__init__(setup)
        self.feedback = feedback

    def _train(self, X: np.ndarray, group: np.ndarray, **setting: Any) -> Any:
        order = np.random.default_rng(self.seed).permutation(len(X))
        chunk = len(X) // setting["ensemble_size"]
        model = _patient(
            self.feedback,
            K=min(max(chunk // setting["instances_a_cluster"], 1), MOST_CLUSTERS),
            ensemble_size=setting["ensemble_size"],
            min_examples_cluster=50,
            init_algorithm="kmeans",
            random_state=self.seed,
            **({"T_l": LABELS_AFTER} if self.feedback else {}),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fewer different instances than clusters
            model.learn_many(X[order], group[order])
        return model

    def _say(self, model: Any, X: np.ndarray, batch_size: int, answers: np.ndarray | None) -> Said:
        predicted = []
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for at in range(len(X)):
                told = answers[at : at + 1] if self.feedback and answers is not None else None
                predicted.append(np.asarray(model.predict_many(X[at : at + 1], told)))
        return Said(np.concatenate(predicted))


MOST_CLUSTERS = 100
"""Of a member of the ensemble: the package's default is 50."""


def _patient(feedback: bool, **parameters: Any) -> Any:
    """Make ECSMiner that goes through its buffer by age alone as long as the ensemble is the same."""
    from streamndr.model import ECSMiner, ECSMinerWF

    base = ECSMiner if feedback else ECSMinerWF

    class Model(base):  # type: ignore[misc, valid-type]  # streamndr carries no types
        filtered_by: tuple[int, ...] = ()

        def _filter_buffer(self) -> None:
            ensemble = tuple(map(id, self.models))
            if ensemble != self.filtered_by:
                self.filtered_by = ensemble
                super()._filter_buffer()
                return
            for instance in self.short_mem.get_all_instances():
                if self.sample_counter - instance.timestamp <= self.chunk_size:
                    break  # they are in the order in which they came
                self._remove_sample_from_short_mem(self.short_mem.index(instance))

    return Model(**parameters)


ENTRIES = {
    "ECSMiner": Entry(
        partial(ECSMinerMethod, feedback=False),
        "in order",
        "of streamndr, told no label; parameters by the paper's validation",
        needs="streamndr",
    ),
    "ECSMiner with feedback": Entry(
        partial(ECSMinerMethod, feedback=True),
        "in order",
        f"of streamndr, told true labels {LABELS_AFTER} instances later; parameters by the paper's validation",
        asks=True,
        needs="streamndr",
    ),
}
