"""Whether a group of rows that resemble nothing is rather a class: hidden in noise, or so rare that its seats fade.

Each of some rows is looked at with its nearest neighbours. They are a class if they are more probable as one subclass
than as what lies around them: noise over the range of training, outliers of the known class nearest to them, the
subclass that they sit in with others. The Chinese restaurant's odds of so many among so many are asked in addition,
because the best of very many groups would nearly always win.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from stream_osr.model.background import NARROWEST, Background, gain, log_density, squares
from stream_osr.model.books import slot_of
from stream_osr.model.dishes import empty_dishes, keep_slots, log_predictives, means_and_scales, sum_up
from stream_osr.model.known import Known
from stream_osr.model.marginal import Statistics, log_marginals, statistics_of
from stream_osr.model.prior import TIED, homogeneous
from stream_osr.model.restaurant import StreamState

SIZES = (8, 16)
"""Instances that are looked at together: one that has arrived and its nearest neighbours, ..."""
LATELY = (256, 2048, 1 << 40)
"""... of those that came within so many instances of the stream: a class that begins now need not outnumber the noise
of long ago."""
MARGIN = 3.0
"""Log odds that a candidate must have, ..."""
GAIN = 0.5
"""... and as much more for each of its instances: no noise is quite as the background has it."""
PASSES = 5
"""Times that a core may grow."""
LOOKED = math.log(len(SIZES) * len(LATELY)) + math.log(1000.0)
"""What the choice among them costs, and that it is made for each arrival anew."""


class Strangers(NamedTuple):
    """Remembered unknown instances that are in no announced subclass, n of them.

    Attributes
    ----------
    seqs
        Positions in the stream, ascending, shape (n,).
    rows
        Whitened rows, shape (n, d).
    seat
        Emerging subclass that each sits in, or sat in before that left the model, shape (n,).
    """

    seqs: np.ndarray
    rows: np.ndarray
    seat: np.ndarray


class Around(NamedTuple):
    """What strangers are held against: known classes, the sampler's state, and what resembles nothing."""

    known: Known
    state: StreamState
    background: Background

    def odds(self, size: int, among: int | np.ndarray) -> np.ndarray:
        """Log odds that the Chinese restaurant gives to so many of so many at a dish of their own."""
        alpha = math.log(float(self.state.franchise.alpha[0]))
        return np.asarray(alpha + gammaln(size) + gammaln(np.asarray(among) - size + 1) - gammaln(among))

    def together(self, groups: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Log marginal likelihood of each group of rows, shape (g, k), as a subclass, shape (g,)."""
        known, (count, size) = self.known, groups.shape
        dishes = empty_dishes(count, known.prior)
        sum_up(dishes, np.repeat(np.arange(count), size), homogeneous(rows[groups.ravel()]), known.prior)
        return log_marginals(Statistics(dishes.size, dishes.matrix), known.prior, known.location)

    def of_nothing(self, groups: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Log density of each group of rows, shape (g, k), as instances of the background, shape (g,)."""
        square = squares(rows, self.background.mean, self.background.covariance)[groups].sum(axis=1)
        return log_density(square, groups.shape[1], self.background.covariance, NARROWEST)


def outweighs_noise(around: Around, key: int, others: int) -> bool:
    """Say whether subclass ``key`` is one rather than as many instances that resemble nothing, beside so many."""
    if around.known.prior.covariance == TIED:
        return True  # a width that is given says nothing
    one = statistics_of(around.state.dishes, np.array([slot_of(around.state, key)]))
    size = int(one.size[0])
    odds = float(around.odds(size, size + others))
    return gain(one, around.background, around.known) + odds > MARGIN + GAIN * size


def find_group(strangers: Strangers, arrived: np.ndarray, around: Around, told: Collection[int]) -> np.ndarray | None:
    """Find the class that is hidden among strangers, around one that has just arrived; ``None``: there is none.

    Parameters
    ----------
    strangers
        Among whom.
    arrived
        Positions of the arrivals in them.
    around
        What they are held against.
    told
        Subclasses that have been announced, or muted.

    Returns
    -------
    Positions in ``strangers``, ascending.
    """
    seqs, rows = strangers.seqs, strangers.rows
    groups: dict[int, list[np.ndarray]] = {size: [] for size in SIZES}
    begin: dict[int, list[int]] = {size: [] for size in SIZES}
    distance = ((rows[arrived, None] - rows) ** 2).sum(axis=2)
    before = -1
    for lately in LATELY:
        first = int(np.searchsorted(seqs, seqs[-1] - lately))
        if first == before:
            continue
        before = first
        for size in SIZES:
            if len(seqs) - first >= size:
                near = np.argpartition(distance[:, first:], size - 1, axis=1)[:, :size] + first
                groups[size] += [np.sort(each) for each in near]
                begin[size] += [first] * len(near)
    found = [
        one
        for size in SIZES
        if groups[size]
        for one in _standing_out(np.array(groups[size]), np.array(begin[size]), rows, around)
    ]
    for _, group, first in sorted(found, key=lambda each: -each[0]):
        recent = Strangers(*(each[first:] for each in strangers))
        if _stands_out(group - first, recent, around, told):
            return _grown(group, strangers, around)
    return None


def _standing_out(
    groups: np.ndarray, begin: np.ndarray, rows: np.ndarray, around: Around
) -> list[tuple[float, np.ndarray, int]]:
    """Choose those of the groups, shape (g, k), that are rather a subclass than part of the background.

    Returns
    -------
    Of each: log odds, the group, and from which stranger on it was looked for.
    """
    odds = around.together(groups, rows) + around.odds(groups.shape[1], len(rows) - begin) - LOOKED
    odds -= around.of_nothing(groups, rows)
    return [(float(odds[at]), groups[at], int(begin[at])) for at in np.flatnonzero(odds > 0.0)]


def _stands_out(group: np.ndarray, strangers: Strangers, around: Around, told: Collection[int]) -> bool:
    """Say whether a group is rather a subclass than outliers of a known class or part of where it sits."""
    known, state, own = around.known, around.state, strangers.rows[group]
    rows = homogeneous(own)
    odds = float(around.together(np.arange(len(group))[None], own)[0]) - LOOKED
    odds += float(around.odds(len(group), len(strangers.seqs)))
    near = int(log_predictives(rows, known.dishes, known.prior).sum(axis=0).argmax())
    mean, covariance = means_and_scales(keep_slots(known.dishes, np.array([near])), known.prior)
    if odds <= float(log_density(squares(own, mean[0], covariance[0]).sum(), len(group), covariance[0], 1.0)):
        return False
    seat = strangers.seat[group]
    for at in np.flatnonzero(np.isin(state.ids, seat)):
        key = int(state.ids[at])
        inside = seat == key
        count, among = int(inside.sum()), int((strangers.seat == key).sum())
        if key in told or 2 * count < state.dishes.size[at]:
            dish = keep_slots(state.dishes, np.array([at]))
            there = float(log_predictives(rows[inside], dish, known.prior).sum())
            odds = float(around.together(np.flatnonzero(inside)[None], own)[0]) - LOOKED
            if odds + float(around.odds(count, among)) <= there:
                return False
    return True


def _grown(core: np.ndarray, strangers: Strangers, around: Around) -> np.ndarray:
    """Add the strangers that the core predicts better than all that is around it does."""
    prior, rows, background = around.known.prior, homogeneous(strangers.rows), around.background
    beside = log_density(squares(strangers.rows, *background), 1, background.covariance, 1.0) + math.log(len(rows))
    beside = np.maximum(beside, _where_they_sit(strangers, around))
    for _ in range(PASSES):
        dishes = empty_dishes(1, prior)
        sum_up(dishes, np.zeros(len(core), np.int64), rows[core], prior)
        own = log_predictives(rows, dishes, prior)[:, 0] + math.log(len(core))
        wider = np.union1d(core, np.flatnonzero(own > beside))
        if len(wider) == len(core):
            break
        core = wider
    return core


def _where_they_sit(strangers: Strangers, around: Around) -> np.ndarray:
    """Log density of each stranger under the subclass that it sits in, times the size of that, shape (n,)."""
    state, out = around.state, np.full(len(strangers.seqs), -np.inf)
    for at in np.flatnonzero(np.isin(state.ids, strangers.seat)):
        inside = strangers.seat == state.ids[at]
        dish = keep_slots(state.dishes, np.array([at]))
        rows = homogeneous(strangers.rows[inside])
        out[inside] = log_predictives(rows, dish, around.known.prior)[:, 0] + math.log(int(dish.size[0]))
    return out
