"""ECHO of the package streamndr: clusters, and true labels of what the ensemble is unsure about after a change.

A. Haque, L. Khan, M. Baron, B. Thuraisingham and C. Aggarwal, "Efficient handling of concept drift and concept
evolution over stream data", IEEE International Conference on Data Engineering, 2016. The package (0.2.0) is taken as
it is, but

* clusters are k-means, not k-means that minds impurity, which takes minutes in the package;
* it is handed one instance at a time: members of the ensemble are exchanged inside a batch, whose other instances
  would be looked up in those that are gone;
* changes are looked for at every `LOOK`-th instance, from two cushions on, and all points of change are judged at
  once: the package fits beta distributions to each of them at every instance, which takes hours.

Its confidences are scaled across the members of the ensemble instead of across instances, which makes them tell
little; and what it rejects and does not ask for is learnt as a class of its own, -1. This is left as it is.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any, ClassVar

import numpy as np
from scipy.special import betaln

from benchmarks.openset.methods.base import Entry
from benchmarks.openset.tuned import Said, Tuned

MEMBERS = 3
"""Of the ensemble: with fewer, the package's confidences are all alike."""
LOOK = 64
"""Instances after which a change is looked for again."""
WINDOW, CUSHION, ALPHA = 1000, 100, 0.05
"""Instances that are looked at, and at either end of them those at which no change is looked for; and sensitivity."""
LEAST_NOVEL = 20
"""Instances that make a novel class."""
LEAST_CONFIDENCE = 0.3
"""Mean confidence up to which everything has changed; the package's, as are cushion and sensitivity."""


class EchoMethod(Tuned):
    """ECHO; a novel class is unknown, whether it has been found or has been told.

    Settings: instances for each cluster of a member of the ensemble, and the confidence up to which true labels are
    asked for. They are four, because one takes long.
    """

    grid: ClassVar = {"instances_a_cluster": (4, 16), "tau": (0.5, 0.9)}

    def _train(self, X: np.ndarray, group: np.ndarray, **setting: Any) -> Any:
        model = _quick(
            K=max(min(len(X), WINDOW) // setting["instances_a_cluster"], 1),
            min_examples_cluster=LEAST_NOVEL,
            ensemble_size=MEMBERS,
            W=WINDOW,
            tau=setting["tau"],
            init_algorithm="kmeans",
            random_state=self.seed,
        )
        with _quiet():
            model.learn_many(X, group)
        # where all clusters are pure, or all instances are right, correlations are not defined
        model.purity_coefficients = np.nan_to_num(model.purity_coefficients).tolist()
        model.association_coefficients = np.nan_to_num(model.association_coefficients).tolist()
        return model

    def _say(self, model: Any, X: np.ndarray, batch_size: int, answers: np.ndarray | None) -> Said:
        assert answers is not None
        with _quiet():
            said = [int(model.predict_many(X[i : i + 1], answers[i : i + 1])[0]) for i in range(len(X))]
        return Said(np.array(said))


@contextlib.contextmanager
def _quiet() -> Any:
    """Leave out what the package prints, and warnings of correlations and clusters of what does not vary."""
    with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


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


def _quick(**parameters: Any) -> Any:
    """Make ECHO that looks for a change now and then."""
    from streamndr.model import Echo

    class Model(Echo):  # type: ignore[misc]  # streamndr carries no types
        def _detect_change(self) -> int:
            if self.sample_counter % LOOK or len(self.confidence_window) < 2 * CUSHION:
                return -1
            confidences = np.array(self.confidence_window)
            return len(confidences) if confidences.mean() <= LEAST_CONFIDENCE else change(confidences)

    return Model(**parameters)


ENTRIES = {
    "ECHO": Entry(
        EchoMethod,
        "in order",
        "of streamndr, told true labels of what it asks for; parameters by the paper's validation",
        asks=True,
        needs="streamndr",
    )
}
