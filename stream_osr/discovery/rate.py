"""The share of the stream that is called unknown, and whether it has jumped: a cumulative-sum test on a Bernoulli.

Whatever emerges is told when it has a shape. That much more of the stream than usual is unknown is a fact of its own:
it holds for noise, for a sensor that fails, for many small classes at once, for a subclass of which no more is told.
"""

from __future__ import annotations

import math
from typing import NamedTuple

USUAL_HALF_LIFE = 4000.0
"""Instances after which what is usual is half forgotten."""
USUAL_FROM = 200.0
"""Instances that what training expects counts for, and a share that has changed."""
LEAST, MOST = 0.01, 0.5
"""Bounds of what training expects: less was never seen in so few instances."""
RISE = 0.05
"""A jump is to twice the usual share, or to this much above it if that is more; at most halfway to all."""
ALARM = math.log(1e6)
"""Log likelihood ratio of a jump against the usual share from which on it is told."""


class UnknownRate(NamedTuple):
    """What is usual, and what has come since the share may have changed.

    Attributes
    ----------
    usual, of
        Unknown instances and all instances that say what is usual, faded.
    up, since, rising, risen
        Log likelihood ratio of a jump; the first position of what speaks for it; unknown and all instances since.
    down, falling, fallen
        The same of a fall to half, which nobody is told of.
    """

    usual: float
    of: float
    up: float = 0.0
    since: int = 0
    rising: float = 0.0
    risen: float = 0.0
    down: float = 0.0
    falling: float = 0.0
    fallen: float = 0.0

    @property
    def rate(self) -> float:
        """The usual share."""
        return self.usual / self.of


class Jump(NamedTuple):
    """The share is `rate` in the `size` instances from position `since` on, and was `before`."""

    rate: float
    before: float
    since: int
    size: int


def start_rate(expected: float) -> UnknownRate:
    """Begin with the share that training expects, of known instances alone."""
    return UnknownRate(min(max(expected, LEAST), MOST) * USUAL_FROM, USUAL_FROM)


def follow_rate(rate: UnknownRate, unknown: int, n: int, first: int) -> tuple[UnknownRate, Jump | None]:
    """Take in a batch of n instances from position ``first`` on, so many of them unknown.

    Examples
    --------
    One in a hundred is usual; then one in four is unknown:

    >>> rate, told = start_rate(0.01), []
    >>> for batch in range(40):
    ...     rate, jump = follow_rate(rate, 25 if batch >= 20 else 1, 100, 100 * batch)
    ...     told += [] if jump is None else [(batch, jump.since, jump.size)]
    >>> told, round(rate.rate, 2)
    ([(20, 2000, 100)], 0.25)
    """
    usual = min(max(rate.rate, 1e-3), 1.0 - 1e-3)
    higher = min(max(2.0 * usual, usual + RISE), 0.5 * (1.0 + usual))
    fade = 0.5 ** (n / USUAL_HALF_LIFE)
    up = rate.up + _log_ratio(unknown, n, higher, usual)
    down = rate.down + _log_ratio(unknown, n, 0.5 * usual, usual)
    since = rate.since if rate.risen else first
    rising, risen = rate.rising + unknown, rate.risen + n
    falling, fallen = rate.falling + unknown, rate.fallen + n
    if up >= ALARM:
        share = rising / risen
        return UnknownRate(share * USUAL_FROM, USUAL_FROM), Jump(share, rate.rate, since, int(risen))
    if down >= ALARM:
        return UnknownRate(max(falling / fallen, 1e-3) * USUAL_FROM, USUAL_FROM), None
    usual, of = fade * rate.usual, fade * rate.of
    if up <= 0.0:
        usual, of, up, rising, risen = usual + rising, of + risen, 0.0, 0.0, 0.0
    if down <= 0.0:
        down, falling, fallen = 0.0, 0.0, 0.0
    return UnknownRate(usual, of, up, since, rising, risen, down, falling, fallen), None


def _log_ratio(unknown: int, n: int, other: float, usual: float) -> float:
    return unknown * math.log(other / usual) + (n - unknown) * math.log((1.0 - other) / (1.0 - usual))
