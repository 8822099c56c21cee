"""Mislabelled training instances: another class describes them as its own, and their class does not.

An instance between two classes is an error of the model, and its label may be right. A mislabelled instance is as
much denser in its true class as any instance of that class. Its excess has the distribution of the margins by which
correctly labelled instances prefer their own class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stream_osr.model.jit import Array

USUAL = 0.05
"""Share of instances of the other class that must be less dense than a mislabelled instance."""
LEAST_EXCESS = math.log(50.0)
"""Least excess of a mislabelled instance. If classes overlap widely, margins are as small as errors."""
LEAST_SHARE, LEAST = 0.02, 10
"""Least share and number of instances with an excess above the median margin, for finding any mislabelled ones.

With a tenth of the labels exchanged, the expected recall is 0.03 off, and 0.10 off if mislabelled instances are
references (``benchmarks/results/experiments.md``).
"""


def mislabelled(log_density: Sequence[Array], group: Array) -> Array:
    """Return the mask of training instances that look mislabelled, shape (n,).

    Their excess is above the first quartile of the margins. There are none unless enough are above the median.

    Parameters
    ----------
    log_density
        Log class densities of the instances in each model, shape (n, J). The own density was made without it.
    group
        Class of each instance, shape (n,).

    Examples
    --------
    Two classes, ten standard deviations apart, with a tenth of the labels of the first exchanged:

    >>> rng, true = np.random.default_rng(0), np.arange(400) % 2
    >>> x = rng.normal(10.0 * true)
    >>> group = np.where(np.arange(400) % 20 == 0, 1, true)
    >>> log_density = -0.5 * np.column_stack([x, x - 10.0]) ** 2
    >>> found = mislabelled([log_density], group)
    >>> bool((group != true)[found].all()), int(found.sum()), int(mislabelled([log_density], true).sum())
    (True, 17, 0)
    """
    mean, each = np.mean(log_density, axis=0), np.arange(len(group))
    own, others = mean[each, group], mean.copy()
    others[each, group] = -np.inf
    nearest, most = others.argmax(axis=1), others.max(axis=1)
    there = np.isfinite(own) & np.isfinite(most)
    right = there & (most < own)
    if not right.any():
        return np.zeros(len(group), bool)
    margin = own[right, None] - others[right]
    quartile, median = np.maximum(np.quantile(margin[np.isfinite(margin)], [0.25, 0.5]), LEAST_EXCESS)
    usual = np.zeros(len(group), bool)
    for j in np.unique(nearest[there]):
        theirs, total = own[there & (group == j)], there & (nearest == j)
        if len(theirs):
            usual[total] = most[total] > np.quantile(theirs, USUAL)
    excess = np.where(there & usual, most - np.where(there, own, 0.0), -np.inf)
    enough = (excess > median).sum() >= max(LEAST, LEAST_SHARE * len(group))
    return np.asarray((excess > quartile) & enough)
