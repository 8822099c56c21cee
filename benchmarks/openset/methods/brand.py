"""Brand-like: robust Gaussians of the known classes as informative priors, and a Dirichlet process for the rest.

After F. Denti, A. Cappozzo and F. Greselin, "A two-stage Bayesian semiparametric model for novelty detection with
robust prior information", Statistics and Computing 31, 2021: written anew, and simpler than theirs.

* Stage 1 is the minimum covariance determinant of each class (scikit-learn); of a class with fewer than five
  instances a feature, mean and shrunk covariance (Ledoit and Wolf), which are not robust.
* Stage 2 integrates weights, means and covariances out (a collapsed Gibbs sampler, whose predictives are Student t),
  where theirs draws them in a blocked sampler.
* The weights of the known classes and of novelty have a uniform Dirichlet prior, the Dirichlet process a
  concentration of 1: neither is learnt.
* Probabilities of the last sweeps of one short chain are averaged; theirs find one partition that loses least.
* Of the features, the first principal components are taken, 20 at most.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.covariance import LedoitWolf, MinCovDet

from benchmarks.openset.methods.base import Entry
from benchmarks.openset.tuned import Said, Tuned

SWEEPS, KEPT = 12, 6
"""Sweeps of the sampler, the first of which seats the instances one after the other; and those that are averaged."""
MOST_FEATURES = 20
MOST_NOVEL = 150
"""Terms of the Dirichlet process at a time: where as many are there, no more are made."""
RIDGE = 1e-3
"""Added to variances, of features that are standardized."""
KAPPA, NU_ABOVE = 0.01, 2.0
"""Of the base measure: instances that its mean is worth, and degrees of freedom above p + 1."""


class Terms:
    """Terms of a mixture with normal-inverse-Wishart priors, means and covariances integrated out.

    The first J are the known classes. Each has mean (m), instances that it is worth (kappa), degrees of freedom (nu),
    inverse and log determinant of the scale matrix (S), all of them of the prior where it has no instances.
    """

    def __init__(self, mean: np.ndarray, kappa: np.ndarray, nu: np.ndarray, scale: np.ndarray) -> None:
        self.n = np.zeros(len(mean), dtype=np.intp)
        self.mean, self.kappa, self.nu = mean.copy(), kappa.copy(), nu.copy()
        self.inverse, self.log_det = np.linalg.inv(scale), np.linalg.slogdet(scale)[1]
        self.prior = tuple(each.copy() for each in (self.mean, self.kappa, self.nu, self.inverse, self.log_det))
        self.constant = np.zeros(len(mean))
        for k in range(len(mean)):
            self._settle(k)

    def log_predictive(self, x: np.ndarray, top: int) -> np.ndarray:
        """Log density at x (p,) of the first terms: Student t, nu - p + 1 degrees of freedom; shape (top,)."""
        away = x - self.mean[:top]
        distance = ((self.inverse[:top] @ away[:, :, None])[:, :, 0] * away).sum(axis=1)
        shrunk = self.kappa[:top] / (self.kappa[:top] + 1.0)
        return self.constant[:top] - 0.5 * (self.nu[:top] + 1.0) * np.log1p(distance * shrunk)

    def put(self, k: int, x: np.ndarray, sign: int) -> None:
        """Add x (p,) to a term, or, with a sign of -1, take it away."""
        self.n[k] += sign
        if self.n[k] == 0:  # exactly the prior, whatever has been rounded
            self.mean[k], self.kappa[k], self.nu[k], self.inverse[k], self.log_det[k] = (of[k] for of in self.prior)
        else:
            away = x - self.mean[k]
            weight = sign * self.kappa[k] / (self.kappa[k] + sign)
            turned = self.inverse[k] @ away
            grown = 1.0 + weight * float(away @ turned)
            self.inverse[k] -= (weight / grown) * np.outer(turned, turned)
            self.log_det[k] += math.log(grown)
            self.mean[k] += sign * away / (self.kappa[k] + sign)
            self.kappa[k] += sign
            self.nu[k] += sign
        self._settle(k)

    def _settle(self, k: int) -> None:
        """Work out what of the log predictive does not depend on the instance."""
        p, nu, kappa = self.mean.shape[1], float(self.nu[k]), float(self.kappa[k])
        gammas = math.lgamma((nu + 1.0) / 2.0) - math.lgamma((nu - p + 1.0) / 2.0)
        self.constant[k] = gammas - 0.5 * (p * math.log(math.pi * (kappa + 1.0) / kappa) + self.log_det[k])


def novelty(X: np.ndarray, terms: Terms, n_known: int, rng: np.random.Generator) -> np.ndarray:
    """Probability of each known class and of novelty, for each instance, shape (n, J + 1): collapsed Gibbs sampling.

    Parameters
    ----------
    X
        Instances, of shape (n, p).
    terms
        J known ones, and others that all have the base measure for a prior.
    n_known
        J.
    rng
        Of the order of the first sweep, and of what is drawn.
    """
    own, order = np.full(len(X), -1), rng.permutation(len(X))
    kept = np.zeros((len(X), n_known + 1))
    most = len(terms.n)
    for sweep in range(SWEEPS):
        for i in order:
            if own[i] >= 0:
                terms.put(own[i], X[i], -1)
            empty = np.flatnonzero(terms.n[n_known:] == 0)
            new = n_known + int(empty[0]) if len(empty) else most
            seated = np.flatnonzero(terms.n)
            top = min(max(new, int(seated[-1]) if len(seated) else 0, n_known - 1) + 1, most)
            weight = terms.n[:top].astype(float)
            # that novelty weighs as much as it has instances, and 1, and its concentration of 1, cancel each other
            weight[:n_known] += 1.0
            if new < most:
                weight[new] = 1.0
            with np.errstate(divide="ignore"):
                log_p = np.log(weight) + terms.log_predictive(X[i], top)
            p = np.exp(log_p - log_p.max())
            p /= p.sum()
            own[i] = min(int(np.searchsorted(np.cumsum(p), rng.random())), top - 1)
            terms.put(own[i], X[i], 1)
            if sweep >= SWEEPS - KEPT:
                kept[i, :n_known] += p[:n_known]
                kept[i, n_known] += p[n_known:].sum()
    return kept / KEPT


def robust(own: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Location (p,) and scatter (p, p) of the instances of one class."""
    n, p = own.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # determinants of features that hardly vary
        found = MinCovDet(random_state=seed).fit(own) if n >= 5 * p else LedoitWolf().fit(own)
    return found.location_, found.covariance_ + RIDGE * np.eye(p)


class Brand(Tuned):
    """The two stages. The score is the probability of novelty, and unknown what has more of it than the cut.

    Settings: how many instances the robust estimates are worth as a prior, as a share of those of the class; the
    covariance that a novel term is expected to have, as a share of that of everything known; and the cut.
    """

    grid: ClassVar = {"strength": (0.1, 1.0, 10.0), "covariance": (0.01, 0.03, 0.1, 0.3)}
    cuts: ClassVar = (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99)
    in_batches = False

    def _train(self, X: np.ndarray, group: np.ndarray, **setting: Any) -> Any:
        # principal components of the benchmark have lost their spreads when they were standardized
        relative = np.ones(X.shape[1]) if self.pca is None else self.spread / math.sqrt((self.spread**2).mean())
        rows = X * relative
        axes = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2][:MOST_FEATURES].T * relative[:, None]
        rows = X @ axes
        p, n_known = rows.shape[1], int(group.max()) + 1
        classes = [robust(rows[group == j], self.seed) for j in range(n_known)]
        worth = np.maximum(setting["strength"] * np.bincount(group), 1.0)
        n_terms = n_known + MOST_NOVEL
        mean, scale = np.tile(rows.mean(axis=0), (n_terms, 1)), np.empty((n_terms, p, p))
        kappa, nu = np.full(n_terms, KAPPA), np.full(n_terms, p + 1.0 + NU_ABOVE)
        kappa[:n_known], nu[:n_known] = worth, p + 1.0 + worth
        mean[:n_known] = [location for location, _ in classes]
        scale[:n_known] = [n * scatter for n, (_, scatter) in zip(worth, classes, strict=True)]
        scale[n_known:] = NU_ABOVE * setting["covariance"] * np.cov(rows.T).reshape(p, p) + RIDGE * np.eye(p)
        return axes, Terms(mean, kappa, nu, scale), n_known

    def _say(self, model: Any, X: np.ndarray, batch_size: int, answers: np.ndarray | None) -> Said:
        axes, terms, n_known = model
        probability = novelty(X @ axes, terms, n_known, np.random.default_rng(self.seed))
        return Said(None, probability[:, n_known], probability[:, :n_known].argmax(axis=1))


ENTRIES = {
    "Brand-like": Entry(
        Brand, "whole", "two-stage Bayesian novelty detection, written anew; parameters by the paper's validation"
    )
}
