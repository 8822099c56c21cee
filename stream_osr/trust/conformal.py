"""A promise for each known class: at most so large a share of it is called unknown, whatever its distribution.

Split conformal prediction (Vovk, Gammerman and Shafer 2005) class by class: an instance is plausible for a class
unless it is among the least dense of ``max_false_unknown`` of it, by the class's frozen density and its reference
instances, each of which the density has not seen. An instance of the class is implausible for it with at most that
probability, if it is exchangeable with the references: the class must not have moved. Where several models are
averaged it is their mean log density that is ranked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_osr.config import Label
from stream_osr.errors import InvalidParameter
from stream_osr.trust.references import References, least_references


def plausible(references: References, log_density: np.ndarray, max_false_unknown: float) -> np.ndarray:
    """Say for which classes each instance is not implausible, shape (n, J).

    Parameters
    ----------
    references
        R references.
    log_density
        Mean log density of n instances under each known class, over the models, shape (n, J).
    max_false_unknown
        What may be called unknown of a class. One with too few references to promise it is left out.

    Examples
    --------
    >>> references = References(np.zeros((9, 1)), np.zeros(9, int), (np.arange(9.0)[:, None],))
    >>> plausible(references, np.array([[-0.5], [0.5]]), 0.1)
    array([[False],
           [ True]])
    """
    out = np.zeros(log_density.shape, bool)
    own, weights = np.mean(references.log_density, axis=0), references.weights
    for j in range(log_density.shape[1]):
        theirs, weight = own[references.group == j, j], weights[references.group == j]
        if len(theirs) >= least_references(max_false_unknown):
            order = np.argsort(theirs, kind="stable")
            reached = np.cumsum(weight[order])  # the reference above counts as well
            reached = np.append(reached, reached[-1] + weight.max())
            rank = reached[np.searchsorted(theirs[order], log_density[:, j], side="right")]
            out[:, j] = rank > max_false_unknown * reached[-1] + 1e-9
    return out


def check_references(references: References | None, labels: Sequence[Label], max_false_unknown: float | None) -> None:
    """Check that the references of every trained class suffice for the promise.

    Raises
    ------
    InvalidParameter
        Naming the class, what it has and what it would need.
    """
    if max_false_unknown is None:
        return
    least = least_references(max_false_unknown)
    group = np.zeros(0, np.int64) if references is None else references.group
    for label, count in zip(labels, np.bincount(group, minlength=len(labels)), strict=True):
        if count < least:
            raise InvalidParameter(
                f"max_false_unknown is {max_false_unknown:g}, and class {label!r} has {count} reference instances, "
                f"where {least} are needed; give it more training instances, or promise less "
                f"(max_false_unknown={1.0 / (count + 1):.2g} is the least that these allow)"
            )


def call_known(probabilities: np.ndarray, is_plausible: np.ndarray) -> np.ndarray:
    """Give to the plausible classes what is called unknown, where there are any; probabilities of shape (n, J + 1).

    Examples
    --------
    >>> call_known(np.array([[0.2, 0.1, 0.7]]), np.array([[True, False]]))
    array([[0.9, 0.1, 0. ]])
    """
    theirs = is_plausible * np.maximum(probabilities[:, :-1], 1e-12)
    total = theirs.sum(axis=1)
    rows = total > 0.0
    out = probabilities.copy()
    out[rows, :-1] += probabilities[rows, -1:] * theirs[rows] / total[rows, None]
    out[rows, -1] = 0.0
    return out
