"""Methods of the package streamndr (0.2.0): MINAS, ECSMiner and ECHO, taken as they are but for what follows.

MINAS: E. R. de Faria, A. C. P. de Leon Ferreira de Carvalho and J. Gama, "MINAS: multiclass learning algorithm for
novelty detection in data streams", Data Mining and Knowledge Discovery 30, 2016.

* Nothing is forgotten: nothing drifts here, and a class that is found while the last known class sleeps would be
  given the number of that class.
* Novelties are looked for at most once in a batch, where the package does so at every instance that it rejects: what
  is found decides from the next batch on, one way or the other.

ECSMiner: M. Masud, J. Gao, L. Khan, J. Han and B. Thuraisingham, "Classification and novel class detection in
concept-drifting data streams under time constraints", IEEE Transactions on Knowledge and Data Engineering 23, 2011.

* It is handed one instance at a time: it stops with an error where the first novelty of all is found, or a member of
  the ensemble dropped, and more instances of the batch follow.
* The training part is shuffled: each member of the ensemble learns a chunk of it, and it comes class by class.
* Whether rejected instances lie within a cluster after all is asked again only after a member of the ensemble has
  been exchanged, where the package asks at every instance: nothing else can change the answer.

ECHO: A. Haque, L. Khan, M. Baron, B. Thuraisingham and C. Aggarwal, "Efficient handling of concept drift and concept
evolution over stream data", IEEE International Conference on Data Engineering, 2016.

* It is handed one instance at a time: members of the ensemble are exchanged inside a batch, whose other instances
  would be looked up in those that are gone.
* Changes are looked for at every `LOOK`-th instance, from two cushions on, and all points of change are judged at
  once: the package fits beta distributions to each of them at every instance, which takes hours.
* Its confidences are scaled across the members of the ensemble instead of across instances, which makes them tell
  little; and what it rejects and does not ask for is learnt as a class of its own, -1. This is left as it is.

Clusters of the last two are k-means, not k-means that minds impurity, which takes minutes in the package.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import betaln

from benchmarks.openset.methods.base import Entry, Setup
from benchmarks.openset.tuned import Said, Tuned

MOST_CLUSTERS = 100
"""Of a class in MINAS: the paper's number. Of a member of the ensemble in ECSMiner: the package's default is 50."""
LABELS_AFTER = 200
"""Instances after which a model gets a true label. The 1000 of the paper exceed the length of some streams here."""
MEMBERS = 3
"""Of ECHO's ensemble: with fewer, the package's confidences are all alike."""
LOOK = 64
"""Instances after which ECHO looks for a change again."""
WINDOW, CUSHION, ALPHA = 1000, 100, 0.05
"""Instances that are looked at, and at either end of them those at which no change is looked for; and sensitivity."""
LEAST_NOVEL = 20
"""Instances that make a novel class in ECHO."""
LEAST_CONFIDENCE = 0.3
"""Mean confidence up to which everything has changed; the package's, as are cushion and sensitivity."""


@contextlib.contextmanager
def quiet() -> Any:
    """Leave out what the package prints, and warnings of correlations and clusters of what does not vary."""
    with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def predictions(model: Any, X: np.ndarray, size: int, answers: np.ndarray | None = None) -> Said:
    """Decide rows in batches. A model gets the true labels of a batch after its decisions."""
    predicted = []
    with quiet():
        for at in range(0, len(X), size):
            model.looked = False
            told = () if answers is None else (answers[at : at + size],)
            predicted.append(np.asarray(model.predict_many(X[at : at + size], *told)))
    return Said(np.concatenate(predicted).astype(int))


class MinasMethod(Tuned):
    """MINAS, told no label; a novelty is unknown, what it takes for an extension of a class is of that class.

    Settings: instances of the smallest class for each of the clusters that a class has, and rejected instances that
    set novelty detection off. The rest is the package's default.
    """

    grid: ClassVar = {"instances_a_cluster": (4, 8, 16, 32), "memory": (50, 200)}

    def _train(self, X: np.ndarray, group: np.ndarray, **setting: Any) -> Any:
        from streamndr.model import Minas

        class Model(Minas):  # type: ignore[misc]  # streamndr carries no types
            looked = False

            def _novelty_detect(self) -> None:
                if not self.looked:
                    self.looked = True
                    super()._novelty_detect()

        n_clusters = max(1, np.bincount(group).min() // setting["instances_a_cluster"])
        model = Model(
            kini=int(min(n_clusters, MOST_CLUSTERS)),
            min_short_mem_trigger=setting["memory"],
            min_examples_cluster=10,
            window_size=sys.maxsize,
            random_state=self.seed,
        )
        with quiet():
            model.learn_many(X, group)
        return model

    def _say(self, model: Any, X: np.ndarray, batch_size: int, answers: np.ndarray | None) -> Said:
        return predictions(model, X, batch_size)


class ECSMinerMethod(Tuned):
    """ECSMiner; a novel class is unknown, whether it has been found or has been told.

    Settings: members of the ensemble; and instances of a chunk for each of its clusters.
    """

    grid: ClassVar = {"ensemble_size": (1, 3, 6), "instances_a_cluster": (4, 8, 16)}

    def __init__(self, setup: Setup, feedback: bool) -> None:
        super().__init__(setup)
        self.feedback = feedback

    def _train(self, X: np.ndarray, group: np.ndarray, **setting: Any) -> Any:
        from streamndr.model import ECSMiner, ECSMinerWF

        class Model(ECSMiner if self.feedback else ECSMinerWF):  # type: ignore[misc]  # streamndr carries no types
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

        order = np.random.default_rng(self.seed).permutation(len(X))
        chunk = len(X) // setting["ensemble_size"]
        model = Model(
            K=min(max(chunk // setting["instances_a_cluster"], 1), MOST_CLUSTERS),
            ensemble_size=setting["ensemble_size"],
            min_examples_cluster=50,
            init_algorithm="kmeans",
            random_state=self.seed,
            **({"T_l": LABELS_AFTER} if self.feedback else {}),
        )
        with quiet():
            model.learn_many(X[order], group[order])
        return model

    def _say(self, model: Any, X: np.ndarray, batch_size: int, answers: np.ndarray | None) -> Said:
        return predictions(model, X, 1, answers if self.feedback else None)


class EchoMethod(Tuned):
    """ECHO; a novel class is unknown, whether it has been found or has been told.

    Settings: instances for each cluster of a member of the ensemble, and the confidence up to which true labels are
    asked for. They are four, because one takes long.
    """

    grid: ClassVar = {"instances_a_cluster": (4, 16), "tau": (0.5, 0.9)}

    def _train(self, X: np.ndarray, group: np.ndarray, **setting: Any) -> Any:
        from streamndr.model import Echo

        class Model(Echo):  # type: ignore[misc]  # streamndr carries no types
            def _detect_change(self) -> int:
                if self.sample_counter % LOOK or len(self.confidence_window) < 2 * CUSHION:
                    return -1
                confidences = np.array(self.confidence_window)
                return len(confidences) if confidences.mean() <= LEAST_CONFIDENCE else change(confidences)

        model = Model(
            K=max(min(len(X), WINDOW) // setting["instances_a_cluster"], 1),
            min_examples_cluster=LEAST_NOVEL,
            ensemble_size=MEMBERS,
            W=WINDOW,
            tau=setting["tau"],
            init_algorithm="kmeans",
            random_state=self.seed,
        )
        with quiet():
            model.learn_many(X, group)
        # where all clusters are pure, or all instances are right, correlations are not defined
        model.purity_coefficients = np.nan_to_num(model.purity_coefficients).tolist()
        model.association_coefficients = np.nan_to_num(model.association_coefficients).tolist()
        return model

    def _say(self, model: Any, X: np.ndarray, batch_size: int, answers: np.ndarray | None) -> Said:
        return predictions(model, X, 1, answers)


def change(confidences: np.ndarray) -> int:
    """Most likely point of change of confidences (n,), or -1: two beta distributions fit so much better than one.

    Both distributions are estimated by moments, as in the package, for every point at once.
    """
    n = len(confidences)
    at = np.arange(CUSHION, n - CUSHION)
    if not len(at):
        return -1
    inside = np.clip(confidences, 1e-6, 1.0 - 1e-6)
    columns = np.stack([inside, inside**2, np.log(inside), np.log1p(-inside)])
    until = np.cumsum(columns, axis=1)
    before, after = until[:, at - 1], until[:, -1:] - until[:, at - 1]
    a0, b0 = _beta(*(before[:2] / at))
    a1, b1 = _beta(*(after[:2] / (n - at)))
    gain = (a1 - a0) * after[2] + (b1 - b0) * after[3] - (n - at) * (betaln(a1, b1) - betaln(a0, b0))
    best = int(gain.argmax())
    return int(at[best]) if gain[best] >= -np.log(ALPHA) else -1


def _beta(mean: np.ndarray, square: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parameters of beta distributions with these moments; 1 and 1 where nothing varies."""
    spread = square - mean**2
    varies = spread > 1e-12
    common = mean * (1.0 - mean) / np.where(varies, spread, 1.0) - 1.0
    a, b = np.maximum(mean * common, 0.01), np.maximum((1.0 - mean) * common, 0.01)
    return np.where(varies, a, 1.0), np.where(varies, b, 1.0)


def _entry(make: Any, told: str, **more: Any) -> Entry:
    about = f"of streamndr, {told}; parameters by the paper's validation"
    return Entry(make, "in order", about, needs="streamndr", **more)


ENTRIES = {
    "ECHO": _entry(EchoMethod, "told true labels of what it asks for", asks=True),
    "ECSMiner": _entry(partial(ECSMinerMethod, feedback=False), "told no label"),
    "ECSMiner with feedback": _entry(
        partial(ECSMinerMethod, feedback=True), f"told true labels {LABELS_AFTER} instances later", asks=True
    ),
    "MINAS": _entry(MinasMethod, "told no label"),
}
