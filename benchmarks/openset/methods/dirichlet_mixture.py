"""Dirichlet process mixture of Gaussians over training and test part: what has little of a known class is unknown.

The nearest relative of co-clustering that everyone has at hand: scikit-learn's variational mixture, which is not told
the classes, and components that are named by the training instances in them.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture

from benchmarks.openset.methods.base import Entry
from benchmarks.openset.tuned import Said, Tuned

ITERATIONS = 50
"""Of the variational inference, at most: what has not converged by then is taken as it is."""


class DirichletMixture(Tuned):
    """The mixture is fitted to training and test part together; a component is of the class that trains most of it.

    The score of an instance is the share of its component that is not training instances of one known class, the one
    with most of them; averaged over components by its responsibilities. Settings: the covariance that a component is
    expected to have, as a share of that of everything; components at most, for each known class; and the cut of the
    score. A concentration of 1 and scikit-learn's degrees of freedom, the dimension, are left as they are.
    """

    grid: ClassVar = {"covariance": (0.01, 0.03, 0.1, 0.3), "components_a_class": (8, 20)}
    cuts: ClassVar = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    in_batches = False

    def _train(self, X: np.ndarray, group: np.ndarray, **setting: Any) -> Any:
        return X, group, setting

    def _say(self, model: Any, X: np.ndarray, batch_size: int, answers: np.ndarray | None) -> Said:
        trained, group, setting = model
        rows = np.concatenate([trained, X])
        mixture = BayesianGaussianMixture(
            n_components=min(setting["components_a_class"] * (int(group.max()) + 1), len(rows) // 2),
            covariance_type="full",
            weight_concentration_prior_type="dirichlet_process",
            weight_concentration_prior=1.0,
            covariance_prior=setting["covariance"] * np.cov(rows.T) + 1e-6 * np.eye(rows.shape[1]),
            max_iter=ITERATIONS,
            random_state=self.seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            of = mixture.fit(rows).predict_proba(rows)
        mass = of[: len(trained)].T @ np.eye(int(group.max()) + 1)[group]
        all_mass = of.sum(axis=0) + 1e-12
        share = mass.max(axis=1) / all_mass
        own = of[len(trained) :]
        closest = mass[own.argmax(axis=1)].argmax(axis=1)
        return Said(None, 1.0 - own @ share, closest)


ENTRIES = {
    "Dirichlet process mixture": Entry(
        DirichletMixture,
        "whole",
        "of scikit-learn, over training and test part; parameters by the paper's validation",
    )
}
