"""What the other examples share: a stream in which new classes begin one after the other, and figures of a run on it.

The classes that training was shown come all along; each new one begins a little later than the one before.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from stream_osr import NewClasses, OpenSetRecognizer
from stream_osr.evaluation import OpenSetMicroF, Prequential, prequential

sys.path.append(str(Path(__file__).resolve().parents[1]))
from benchmarks.paper.datasets import DatasetNotFoundError, load  # of the checkout
from benchmarks.paper.protocol import split
from stream_osr.config import grouped

__all__ = ["DatasetNotFoundError", "load", "split"]


def one_after_another(labels: Sequence[Any], new: Sequence[Any], rng: np.random.Generator) -> np.ndarray:
    """Put instances in order of arrival.

    Parameters
    ----------
    labels
        True classes, n of them.
    new
        Those that training was not shown, in the order in which they begin.
    rng
        Of the times of arrival.

    Returns
    -------
    Indices of the instances, shape (n,).
    """
    times = rng.random(len(labels))
    for number, label in enumerate(new, start=1):
        begin = number / (len(new) + 1)
        own = np.asarray(labels) == label
        times[own] = begin + (1 - begin) * times[own]
    return np.argsort(times)


class Figures(NamedTuple):
    """What came of a run.

    Attributes
    ----------
    unknown
        Share of the instances of new classes that were called unknown.
    known
        Share of the instances of known classes that were called by their name.
    micro_f
        The paper's figure for both, over the known classes.
    purity
        Share of the instances in announced subclasses that are of the class most frequent in their subclass.
    announced, new
        New classes of which a subclass was announced, and all that there are.
    after
        Instances of a new class that had come when it was announced: the median.
    false
        Announced subclasses that are of a known class.
    number
        New classes that the recognizer estimates to be there.
    """

    unknown: float
    known: float
    micro_f: float
    purity: float
    announced: float
    new: float
    after: float
    false: float
    number: float


HEADINGS = (
    f"{'':18}{'unknown':>8}{'known':>8}{'':>9}{'':>8}{'new classes':>13}{'after':>8}{'false':>8}{'number':>8}\n"
    f"{'':18}{'found':>8}{'right':>8}{'micro-F':>9}{'purity':>8}{'announced':>13}{'n':>8}{'alarms':>8}{'told':>8}"
)


def row(name: str, its: Figures) -> str:
    """Put figures into a line under the headings."""
    return (
        f"{name:18}{its.unknown:8.3f}{its.known:8.3f}{its.micro_f:9.3f}{its.purity:8.3f}"
        f"{f'{its.announced:g} of {its.new:g}':>13}{its.after:8g}{its.false:8g}{its.number:8g}"
    )


def mean(runs: Iterable[Figures]) -> Figures:
    """Average figures over runs."""
    return Figures(*(round(fmean(values), 3) for values in zip(*runs, strict=True)))


class Run(NamedTuple):
    """A run and what is left of it: scores of the library, candidate new classes, and the truth by position."""

    scores: Prequential
    found: NewClasses
    truth: list[Any]

    def figures(self) -> Figures:
        """Sum it up."""
        report, detection = self.scores.final[0].report, self.scores.detection
        announced = [one.instances for one in detection.detections.values() if one.announced is not None]
        return Figures(
            unknown=report.unknown_recall,
            known=report.known_accuracy,
            micro_f=report.micro_f,
            purity=next(metric.get() for metric in self.scores.groups if type(metric).__name__ == "Purity"),
            announced=len(announced),
            new=len(detection.detections),
            after=detection.median,
            false=len(detection.false_alarms),
            number=self.found.number,
        )

    def candidates(self) -> str:
        """Tell the candidate new classes, and what the examples that they name are in truth."""
        lines = [f"new classes: {self.found.estimate}; candidates, the largest first:"]
        for one in self.found.candidates:
            (most, count), *_ = Counter(self.truth[key] for key in one.exemplars).most_common(1)
            lines.append(
                f"{one.size:5} instances like {one.nearest_class}; in truth {most} ({count} of {len(one.exemplars)})"
            )
        return "\n".join(lines)


def run(training: Iterable[tuple[Any, Any]], stream: Iterable[tuple[Any, Any]], **arguments: Any) -> Run:
    """Train on vectors with their labels, then decide a stream of vectors whose labels are hidden.

    Parameters
    ----------
    training, stream
        Pairs of a vector and its class.
    arguments
        Of the recognizer.
    """
    model = OpenSetRecognizer(**grouped(**arguments))
    for vector, label in training:
        model.learn_one(dict(enumerate(vector.tolist())), label)
    known = model.freeze().instances
    pairs = [(dict(enumerate(vector.tolist())), label) for vector, label in stream]
    scores = prequential(pairs, model, OpenSetMicroF(known))
    return Run(scores, model.new_classes(), [label for _, label in pairs])
