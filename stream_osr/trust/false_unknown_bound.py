"""Bound on false unknowns: at most a given share of each known class is called unknown, for any distribution.

The bound uses split conformal prediction (Vovk, Gammerman and Shafer 2005) for each class. An instance is plausible
for a class unless it is among the least dense ``max_false_unknown`` of the class. The ranking uses the frozen density
and the reference instances, which the density has not seen. An instance of the class is implausible with at most that
probability if it is exchangeable with the references: the class must not have moved. With several models, the mean
log density is ranked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_osr.errors import InvalidParameter
from stream_osr.model.jit import Array
from stream_osr.parameters import Label
from stream_osr.trust.references import References, least_references


def plausible(references: References, log_density: Array, max_false_unknown: float) -> Array:
    """Return the mask of classes that are plausible for each instance, shape (n, J).

    Parameters
    ----------
    references
        The R references.
    log_density
        Mean log density of n instances under each known class, over the models, shape (n, J).
    max_false_unknown
        Share of a class that may be called unknown. Classes with too few references for this bound are never
        plausible.

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
    """Check that each trained class has enough references for the bound.

    Raises
    ------
    InvalidParameter
        With the class, its number of references and the number that it needs.
    """
    if max_false_unknown is None:
        return
    least = least_references(max_false_unknown)
    group = np.zeros(0, np.int64) if references is None else references.group
    for label, count in zip(labels, np.bincount(group, minlength=len(labels)), strict=True):
        if count < least:
            raise InvalidParameter(
                f"max_false_unknown is {max_false_unknown:g}, and class {label!r} has {count} reference instances, "
                f"where {least} are needed. Give it more training instances, or raise the bound "
                f"(max_false_unknown={1.0 / (count + 1):.2g} is the least that these allow)"
            )


def call_known(probabilities: Array, is_plausible: Array) -> Array:
    """Move the probability of unknown to the plausible classes, if there are any, in shape (n, J + 1).

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
