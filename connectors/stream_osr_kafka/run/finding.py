"""When what has been found is asked of the recognizers: now and then, at a small share of the loop's time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from stream_osr import OpenSetRecognizer
from stream_osr.discovery.candidates import Measured

from ..figures import Figures
from ..findings import find
from .keeping import Owned

SHARE = 200
"""After each look nothing is looked at for so many times as long as it took, in any partition of the worker."""


class Finder:
    """Looks at one partition in a turn, the one that waits longest; one in which nothing has happened is left alone.

    Parameters
    ----------
    figures
        Where it is told.
    """

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self._due = 0.0
        self._seen: dict[int, tuple[float, OpenSetRecognizer]] = {}
        self._measured: dict[tuple[int, str], Sequence[Measured]] = {}

    def turn(self, partitions: Mapping[int, Owned]) -> None:
        """Look at a partition as it is committed, if there is time; one that is replayed is not known yet.

        Parameters
        ----------
        partitions
            Those of the worker, with nothing that is not committed.
        """
        begun = time.monotonic()
        if begun < self._due:
            return
        waiting = [
            (self._seen[number][0] if number in self._seen else 0.0, number)
            for number, owned in partitions.items()
            if not (owned.replay or owned.uncommitted or self._has_seen(number, owned.state.model))
        ]
        if not waiting:
            return
        number = min(waiting)[1]
        model, its = partitions[number].state.model, self._figures.partitions[number]
        its.follow(model)
        earlier = self._measured.get((number, model.trained.fingerprint))  # of the same model alone
        its.found, measured = find(model, earlier)
        self._forget_measured(number)
        self._measured[number, model.trained.fingerprint] = measured
        now = time.monotonic()
        self._seen[number], self._due = (now, model), now + SHARE * (now - begun)

    def forget(self, number: int) -> None:
        """Forget a partition that was let go."""
        self._seen.pop(number, None)
        self._forget_measured(number)

    def _forget_measured(self, number: int) -> None:
        self._measured = {at: measured for at, measured in self._measured.items() if at[0] != number}

    def _has_seen(self, number: int, model: OpenSetRecognizer) -> bool:
        return number in self._seen and self._seen[number][1] is model
