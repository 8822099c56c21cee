"""The learnt shift of the odds of "unknown": what is accepted as known must look like known training instances.

How dense an instance is within its nearest known class, as a rank among the class's own leave-one-out densities, is
uniform for instances of that class: half of them lie above 1/2. If the accepted ones lie lower, unknown instances are
among them, whatever the model says, and the odds of unknown are raised until they do not:
``sum_i P_i(known; shift) (1/2 - rank_i) <= 0`` over the stream so far, whose sums fade like everything else. The
smallest such shift is taken, never below 0, and it starts at ``PRIOR_SHIFT`` with the weight of ``PRIOR_WEIGHT``
instances. It acts on what is reported, not on the sampler.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stream_osr.model.jit import Array, kernel

STEP = 0.25
SHIFTS = STEP * np.arange(5)
MORE_SHIFTS = STEP * np.arange(6)
"""Where references guard the known classes, a little more: known classes lose less by it than without them."""
PRIOR_SHIFT = 0.5
PRIOR_WEIGHT = 64.0
FADES_SLOWER = 20.0
"""The sums' half-life is that of the seats times this: a shift is estimated from thousands of instances."""


class PriorOdds(NamedTuple):
    """The shift of the log odds of unknown and what it is learnt from.

    Attributes
    ----------
    excess
        ``sum_i P_i(known; shift) (1/2 - rank_i)`` at each of the shifts, faded.
    seen
        Instances in the sums, faded.
    shift
        Shift in force.
    """

    excess: Array
    seen: float
    shift: float


def start_odds(learn: bool, guarded: bool = False) -> PriorOdds:
    """Begin with the prior shift, or with none; the largest that can be learnt is 1, for a guarded model 1.25."""
    return PriorOdds(np.zeros(len(MORE_SHIFTS if guarded else SHIFTS)), 0.0, PRIOR_SHIFT if learn else 0.0)


def learn_odds(odds: PriorOdds, probabilities: Array, rank: Array, half_life: float) -> PriorOdds:
    """Take in a batch.

    Parameters
    ----------
    odds
        What was learnt so far; it does not change.
    probabilities
        Of each known class and, last, unknown, before any shift, shape (b, J + 1).
    rank
        Density rank of each instance within its nearest known class, in [0, 1], shape (b,).
    half_life
        Of the seats, in instances.

    Examples
    --------
    Called known with 80 %, and yet less dense than almost all that is:

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
    """Add a batch to the sums; with them comes the number of the first shift that is enough, or of the last."""
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
    """Probabilities of shape (n, J + 1) with the odds of unknown, the last column, shifted.

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
    """Multiply the last column by a factor, and each row by what makes it sum to one again."""
    out, last = probabilities.copy(), probabilities.shape[1] - 1
    for i in range(len(out)):
        out[i, last] *= factor
        out[i] /= out[i].sum()
    return out
