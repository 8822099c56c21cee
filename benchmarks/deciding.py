"""Training, streams of micro-batches, and scores of decisions that several benchmarks share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from stream_osr import Decision, OpenSetRecognizer
from stream_osr.evaluation import OpenSetReport, auroc, expected_calibration_error
from stream_osr.instances.features import Features
from stream_osr.parameters import Parameters
from stream_osr.stream import BufferedInstance, Stream, close_batch, open_stream
from stream_osr.stream.batch import BatchOutput
from stream_osr.training.trained import TrainedModel, train_model

UNKNOWN = -1
"""Class number of what is of no known class."""


def train(
    X: np.ndarray, group: np.ndarray, chosen: Parameters, labels: Sequence[Any] | None = None, **more: Any
) -> TrainedModel:
    """Train on rows (n, p) and class numbers (n,); without labels, the numbers are the labels."""
    names = range(int(group.max()) + 1) if labels is None else labels
    return train_model(Features(range(X.shape[1])), X, group, tuple(names), chosen, **more)


def steps(
    trained: TrainedModel, rows: np.ndarray, chosen: Parameters, stream: Stream | None = None
) -> Iterator[tuple[Stream, BatchOutput]]:
    """Run whitened rows through a stream (a fresh one if none is given); yield it after each micro-batch."""
    stream = open_stream(trained, chosen) if stream is None else stream
    for begin in range(0, len(rows), chosen.batch_size):
        chunk = rows[begin : begin + chosen.batch_size]
        arrived = [BufferedInstance(row, None, key) for key, row in enumerate(chunk, start=begin)]
        stream, batch = close_batch(trained, stream, arrived, [], chosen)
        yield stream, batch


def decide(model: OpenSetRecognizer, rows: Any) -> list[Decision]:
    """Stream a table of rows, and return all decisions."""
    model.learn_many(rows)
    model.flush()
    return list(model.drain())


def scores(
    truth: Iterable[Any], label: Iterable[Any], p_unknown: Sequence[float] | np.ndarray, known: Iterable[Any]
) -> dict[str, float]:
    """Judge decisions on a stream of known and unknown classes.

    Parameters
    ----------
    truth
        True labels.
    label, p_unknown
        Label and probability of unknown (or another score) of each decision. A label of no known class is unknown.
    known
        Labels of the known classes.
    """
    number = {name: j for j, name in enumerate(known)}
    numbers, called = ([number.get(name, UNKNOWN) for name in names] for names in (truth, label))
    report = OpenSetReport(range(len(number)), UNKNOWN)
    report.update_many(numbers, called)
    is_unknown, novelty = np.array(numbers) == UNKNOWN, np.asarray(p_unknown, float)
    return {
        "micro_f": report.micro_f,
        "known_right": report.known_accuracy,
        "false_unknown": report.f_new,
        "unknown_recall": report.unknown_recall,
        "auroc": auroc(novelty, is_unknown),
        "ece": expected_calibration_error(np.clip(novelty, 0.0, 1.0), is_unknown),
    }
