"""The learnt shift of the odds of "unknown": what is accepted as known must look like known training instances.

How dense an instance is within its nearest known class, as a rank among the class's own leave-one-out densities, is
uniform for instances of that class: half of them lie above 1/2. If the accepted ones lie lower, unknown instances are
among them, whatever the model says, and the odds of unknown are raised until they do not:
``sum_i P_i(known; shift) (1/2 - rank_i) <= 0`` over the stream so far, whose sums fade like everything else. The
smallest such shift is taken, never below 0, and it starts at ``PRIOR_SHIFT`` with the weight of ``PRIOR_WEIGHT``
instances. It acts on what is reported, not on the sampler.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

STEP = 0.25
SHIFTS = STEP * np.arange(5)
MORE_SHIFTS = STEP * np.arange(6)
"""Where references guard the known classes, a little more: known classes lose less by it than without them."""
PRIOR_SHIFT = 0.5
PRIOR_WEIGHT = 64.0
FADES_SLOWER = 20.0
"""The sums' half-life is that of the seats times this: a shift is estimated from thousands of instances."""


class Odds(NamedTuple):
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

    excess: np.ndarray
    seen: float
    shift: float


def start_odds(learn: bool, guarded: bool = False) -> Odds:
    """Begin with the prior shift, or with none; the largest that can be learnt is 1, for a guarded model 1.25."""
    return Odds(np.zeros(len(MORE_SHIFTS if guarded else SHIFTS)), 0.0, PRIOR_SHIFT if learn else 0.0)


def learn_odds(odds: Odds, probabilities: np.ndarray, rank: np.ndarray, half_life: float) -> Odds:
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
    unknown = probabilities[:, -1:]
    known = 1.0 - unknown
    shifts = STEP * np.arange(len(odds.excess))
    accepted = known / np.maximum(known + unknown * np.exp(shifts), 1e-300)
    excess = fade * odds.excess + (0.5 - rank) @ accepted
    seen = fade * odds.seen + len(rank)
    enough = np.flatnonzero(excess <= 1e-9)
    best = shifts[enough[0]] if len(enough) else shifts[-1]
    shift = (seen * best + PRIOR_WEIGHT * PRIOR_SHIFT) / (seen + PRIOR_WEIGHT)
    return Odds(excess, seen, float(shift))


def shift_odds(odds: Odds, probabilities: np.ndarray) -> np.ndarray:
    """Probabilities of shape (n, J + 1) with the odds of unknown, the last column, shifted.

    Examples
    --------
    >>> shift_odds(start_odds(learn=True)._replace(shift=np.log(4)), np.array([[0.6, 0.2, 0.2]])).round(3)
    array([[0.375, 0.125, 0.5  ]])
    """
    if odds.shift == 0.0:
        return probabilities
    out = probabilities.copy()
    out[:, -1] *= np.exp(odds.shift)
    return np.asarray(out / out.sum(axis=1, keepdims=True))
