"""Statistics of the model of a partition, read from its recognizer now and then for metrics.

All of it follows from the state, so it is what it was when a worker comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stream_osr import OpenSetRecognizer
from stream_osr.discovery.new_classes import Estimate, SubclassDistances
from stream_osr.discovery.summaries import Signals
from stream_osr.stream import StageCounts, new_classes, rank_among, recall_among
from stream_osr.trust.recall import ExpectedRecall

from .class_names import class_names


class ClassMetrics(NamedTuple):
    """Statistics of a known class, or of all that share a name.

    Attributes
    ----------
    recall
        Recall to be expected; None: no reference of it was asked yet, or there are none.
    rank
        Mean density rank of its latest instances; None: none came.
    """

    recall: ExpectedRecall | None
    rank: float | None


class ModelMetrics(NamedTuple):
    """Statistics of the model as of a micro-batch.

    Attributes
    ----------
    signals
        The counts of what goes on beside the known.
    stages
        How many emerging subclasses are at which stage.
    new
        Estimated number of new classes, with its interval.
    usual
        Share of the stream that is usually called unknown; None: nothing was decided yet, or nobody follows it.
    known_classes
        How many there are.
    classes
        Of each known class, by its name among the metrics.
    """

    signals: Signals
    stages: StageCounts
    new: Estimate
    usual: float | None
    known_classes: int
    classes: Mapping[str, ClassMetrics]


def find(
    model: OpenSetRecognizer, before: Sequence[SubclassDistances] | None = None
) -> tuple[ModelMetrics, Sequence[SubclassDistances]]:
    """Ask a recognizer, which does not change; None for ``before``, or what the call before returned, saves time."""
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
