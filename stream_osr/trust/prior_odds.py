"""Learnt shift of the odds of unknown, so that accepted instances look like known training instances.

The density rank is uniform for instances of the nearest known class: half of them have a rank above 1/2. If the
accepted ones have lower ranks, unknown instances are among them. The odds of unknown are then raised until
``sum_i P_i(known; shift) (1/2 - rank_i) <= 0`` over the stream so far. The sums decay like all counts. The shift is
the smallest one that is enough, and never below 0. It starts at ``PRIOR_SHIFT`` with the weight of ``PRIOR_WEIGHT``
instances. It applies to reported probabilities, not to the sampler.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.model.jit import Array, kernel
from stream_osr.support import rules

STEP = 0.25
SHIFTS = STEP * np.arange(5)
"""Shifts from 0 to 1.

Shifts up to 4 with a start at 1 have the same mean micro-F on five data sets (0.945). On known streams they cost
0.0014 of micro-F, and these shifts 0.0008 (``benchmarks/results/experiments.md``).
"""
MORE_SHIFTS = STEP * np.arange(6)
"""Shifts for models with a reference check, which loses fewer known instances at a larger shift."""
PRIOR_SHIFT = 0.5
PRIOR_WEIGHT = 64.0
FADES_SLOWER = 20.0
"""Factor from the half-life of the weights to that of the sums. A shift is estimated from thousands of instances."""


class PriorOdds(NamedTuple):
    """Shift of the log odds of unknown, and the sums for learning it.

    Attributes
    ----------
    excess
        Decayed sum ``sum_i P_i(known; shift) (1/2 - rank_i)`` at each of the shifts.
    seen
        Decayed number of instances in the sums.
    shift
        Present shift.
    """

    excess: Annotated[Array, rules.array("f", "5|6", low=-1e15, high=1e15)]
    seen: Annotated[float, rules.number(0.0, 1e15)]
    shift: Annotated[float, rules.number(0.0, 100.0)]


def start_odds(learn: bool, guarded: bool = False) -> PriorOdds:
    """Start with the prior shift, or without one. The largest shift is 1, or 1.25 for a guarded model."""
    return PriorOdds(np.zeros(len(MORE_SHIFTS if guarded else SHIFTS)), 0.0, PRIOR_SHIFT if learn else 0.0)


def learn_odds(odds: PriorOdds, probabilities: Array, rank: Array, half_life: float) -> PriorOdds:
    """Update the shift with a batch.

    Parameters
    ----------
    odds
        Previous state, which does not change.
    probabilities
        Probabilities of each known class and, last, unknown, before the shift, shape (b, J + 1).
    rank
        Density rank of each instance within its nearest known class, in [0, 1], shape (b,).
    half_life
        Half-life of the weights, in instances.

    Examples
    --------
    Known with 80 %, and yet less dense than almost all known instances:

    >>> p = np.tile([0.8, 0.2], (500, 1))
    >>> learn_odds(start_odds(learn=True), p, np.linspace(0, 0.1, 500), 200.0).shift > 0.9
    True
    >>> learn_odds(start_odds(learn=True), p, np.linspace(0, 1, 500), 200.0).shift < 0.2
    True
    """
    fade = 0.5 ** (len(rank) / (FADES_SLOWER * half_life))
    excess, enough = _excess(odds.excess, fade, probabilities, rank)
    seen = fade * odds.seen + len(rank)
    shift = (seen * STEP * enough + PRIOR_WEIGHT * PRIOR_SHIFT) / (seen + PRIOR_WEIGHT)
    return PriorOdds(excess, seen, float(shift))


@kernel
def _excess(before: Array, fade: float, probabilities: Array, rank: Array) -> tuple[Array, int]:
    """Add a batch to the sums, and return the number of the first shift that is enough, or of the last."""
    out, last = fade * before, len(before) - 1
    factor = np.exp(STEP * np.arange(len(before)))
    for i in range(len(rank)):
        unknown = probabilities[i, probabilities.shape[1] - 1]
        for s in range(len(out)):
            out[s] += (0.5 - rank[i]) * (1.0 - unknown) / max(1.0 - unknown + unknown * factor[s], 1e-300)
    enough = 0
    while enough < last and out[enough] > 1e-9:
        enough += 1
    return out, enough


def shift_odds(odds: PriorOdds, probabilities: Array) -> Array:
    """Shift the odds of unknown, the last column, in probabilities of shape (n, J + 1).

    Examples
    --------
    >>> shift_odds(start_odds(learn=True)._replace(shift=np.log(4)), np.array([[0.6, 0.2, 0.2]])).round(3)
    array([[0.375, 0.125, 0.5  ]])
    """
    if odds.shift == 0.0:
        return probabilities
    return _shifted(np.ascontiguousarray(probabilities), math.exp(odds.shift))


@kernel
def _shifted(probabilities: Array, factor: float) -> Array:
    """Multiply the last column by a factor, and normalise each row."""
    out, last = probabilities.copy(), probabilities.shape[1] - 1
    for i in range(len(out)):
        out[i, last] *= factor
        out[i] /= out[i].sum()
    return out
