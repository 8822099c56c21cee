"""Statistics of the model of a partition, read regularly from its recognizer.

All statistics follow from the state, so they survive a restart. Names of known classes are limited in number and
length, because they are label values of metrics.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import lru_cache

from stream_osr import OpenSetRecognizer
from stream_osr.discovery.grouping import SubclassDistances
from stream_osr.parameters import Label
from stream_osr.printable_text import printable
from stream_osr.stream import new_classes, rank_among, recall_among

from ..places import Place
from ..stats import ClassMetrics, ModelMetrics, ServiceStats
from .snapshot_policy import Owned

MOST_CLASSES = 50
"""Most known classes of a partition with their own time series: the first ones of the model."""

LONGEST_NAME = 64
"""Most characters of a name. Longer names are shortened in the middle."""

OTHER = "other"
"""Name for all further classes, and for classes whose short name is not unique."""


@lru_cache(maxsize=8)
def class_names(labels: tuple[Label, ...]) -> Mapping[Label, str]:
    r"""Return the short name of each known class.

    Parameters
    ----------
    labels
        Labels of the known classes, in the order of the model.

    Examples
    --------
    >>> class_names(("sky", 7, "a\nb", "other"))
    {'sky': 'sky', 7: '7', 'a\nb': 'a\\nb', 'other': 'other'}
    >>> [*class_names(tuple(range(52))).values()][-3:]
    ['49', 'other', 'other']
    """
    named: dict[Label, str] = {}
    taken = {OTHER, ""}
    for label in labels:
        name = printable(str(label), LONGEST_NAME)
        own = len(taken) < MOST_CLASSES + 2 and name not in taken
        named[label] = name if own else OTHER
        taken.add(named[label])
    return named


def find(
    model: OpenSetRecognizer, before: Sequence[SubclassDistances] | None = None
) -> tuple[ModelMetrics, Sequence[SubclassDistances]]:
    """Return statistics of a recognizer. Pass the second result as ``before`` to the next call to save time."""
    trained, stream = model.trained, model.value.stream
    assert stream is not None  # the training of a service's model has ended
    named: dict[str, list[int]] = {}
    for j, name in enumerate(class_names(stream.labels).values()):
        named.setdefault(name, []).append(j)
    found, measured = new_classes(stream, before)
    classes = {
        name: ClassMetrics(recall_among(trained, stream, js), rank_among(stream, js)) for name, js in named.items()
    }
    usual = None if stream.unknown_rate is None else stream.unknown_rate.rate
    reported = ModelMetrics(model.signals, stream.stages, found.estimate, usual, len(stream.labels), classes)
    return reported, measured


SHARE = 200
"""Wait after each update, as a multiple of the update's duration."""


class ModelMetricsSchedule:
    """Updates the statistics of one partition at a time, the one with the oldest. Unchanged partitions are skipped.

    Parameters
    ----------
    stats
        Statistics that receive the results.
    """

    def __init__(self, stats: ServiceStats) -> None:
        self._stats = stats
        self._due = 0.0
        self._seen: dict[Place, tuple[float, OpenSetRecognizer]] = {}
        self._measured: dict[tuple[Place, str], Sequence[SubclassDistances]] = {}

    def turn(self, partitions: Mapping[Place, Owned]) -> None:
        """Update the statistics of one committed partition if it is due. Replaying partitions are skipped.

        Parameters
        ----------
        partitions
            Partitions of the worker with committed state.
        """
        begun = time.monotonic()
        if begun < self._due:
            return
        waiting = [
            (self._seen[place][0] if place in self._seen else 0.0, place)
            for place, owned in partitions.items()
            if owned.state.keys is None
            and not (owned.replay or owned.uncommitted or self._has_seen(place, owned.state.model))
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
        """Drop a partition."""
        self._seen.pop(place, None)
        self._forget_measured(place)

    def _forget_measured(self, place: Place) -> None:
        self._measured = {at: measured for at, measured in self._measured.items() if at[0] != place}

    def _has_seen(self, place: Place, model: OpenSetRecognizer) -> bool:
        return place in self._seen and self._seen[place][1] is model
