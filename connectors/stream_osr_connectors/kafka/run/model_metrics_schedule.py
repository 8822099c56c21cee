"""Schedule of the model statistics: now and then, at a small share of the loop's time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from stream_osr import OpenSetRecognizer
from stream_osr.discovery.new_classes import SubclassDistances

from ..model_metrics import find
from ..places import Place
from ..stats import ServiceStats
from .snapshot_policy import Owned

SHARE = 200
"""After each look nothing is looked at for so many times as long as it took, in any partition of the worker."""


class ModelMetricsSchedule:
    """Looks at one partition in a turn, the one that waits longest; one in which nothing has happened is left alone.

    Parameters
    ----------
    figures
        Where it is told.
    """

    def __init__(self, stats: ServiceStats) -> None:
        self._stats = stats
        self._due = 0.0
        self._seen: dict[Place, tuple[float, OpenSetRecognizer]] = {}
        self._measured: dict[tuple[Place, str], Sequence[SubclassDistances]] = {}

    def turn(self, partitions: Mapping[Place, Owned]) -> None:
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
            (self._seen[place][0] if place in self._seen else 0.0, place)
            for place, owned in partitions.items()
            if not (owned.replay or owned.uncommitted or self._has_seen(place, owned.state.model))
        ]
        if not waiting:
            return
        place = min(waiting)[1]
        model, its = partitions[place].state.model, self._stats.partitions[place]
        its.follow(model)
        earlier = self._measured.get((place, model.trained.fingerprint))  # of the same model alone
        its.found, measured = find(model, earlier)
        self._forget_measured(place)
        self._measured[place, model.trained.fingerprint] = measured
        now = time.monotonic()
        self._seen[place], self._due = (now, model), now + SHARE * (now - begun)

    def forget(self, place: Place) -> None:
        """Forget a partition that was let go."""
        self._seen.pop(place, None)
        self._forget_measured(place)

    def _forget_measured(self, place: Place) -> None:
        self._measured = {at: measured for at, measured in self._measured.items() if at[0] != place}

    def _has_seen(self, place: Place, model: OpenSetRecognizer) -> bool:
        return place in self._seen and self._seen[place][1] is model
