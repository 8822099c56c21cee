"""Test-then-train evaluation on a stream with hidden labels: immediate and final answers are scored separately."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from river.metrics import AdjustedRand, NormalizedMutualInfo
from river.metrics.base import ClassificationMetric, Metrics

from stream_osr.decision import Decision
from stream_osr.discovery.event_base import Event
from stream_osr.discovery.events import SubclassEmerged
from stream_osr.discovery.summaries import Summary
from stream_osr.errors import InvalidParameter
from stream_osr.evaluation.detection import TimeToDetection
from stream_osr.evaluation.novelty import AUROC, Err, FNew, MNew, OpenSetMacroF, OpenSetMicroF
from stream_osr.evaluation.patterns import CER, Purity, UnkR, pattern_of
from stream_osr.instances.labels import unknown_label
from stream_osr.parameters import Label
from stream_osr.training.trained import TrainedModel


class StreamModel(Protocol):
    """Model with immediate answers, later decisions and events, such as :class:`stream_osr.OpenSetRecognizer`."""

    unknown: Label | None
    counters: Counter[str]

    @property
    def trained(self) -> TrainedModel:
        """The frozen known classes."""

    def freeze(self) -> object:
        """End training."""

    def summary(self) -> Summary:
        """Summarize the known classes and the stream."""

    def predict_one(self, x: Mapping[Any, Any]) -> Label | None:
        """Predict a label at once."""

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """Predict probabilities at once."""

    def learn_one(
        self, x: Mapping[Any, Any], y: Label | None = None, *, t: float | None = None, key: Any = None
    ) -> None:
        """Learn an instance."""

    def learn_label(self, key: Any, y: Label) -> None:
        """Learn a late label."""

    def flush(self) -> None:
        """Decide all waiting instances."""

    def drain(self) -> Iterator[Decision]:
        """Yield the final decisions."""

    def drain_events(self) -> Iterator[Event]:
        """Yield the events."""


class Instant(NamedTuple):
    """Scores at one moment of a run.

    Attributes
    ----------
    seen
        Number of instances so far.
    decided
        Number of final decisions so far.
    immediate, final
        Value of each metric by its name.
    """

    seen: int
    decided: int
    immediate: dict[str, float]
    final: dict[str, float]


@dataclass
class Prequential:
    """Result of a prequential run.

    Attributes
    ----------
    immediate
        Metrics of the immediate answers.
    final
        The same metrics for the final decisions.
    groups
        Further metrics of the final decisions. `CER` and `UnkR` use every instance, where an unknown instance is
        explained if its subclass had been announced by then. `Purity` uses the instances that are explained in this
        way. river's `NormalizedMutualInfo` and `AdjustedRand` use the instances of new classes, grouped by subclass.
        Those that were called known are grouped by class, and those without a subclass form one group.
    detection
        Time to detection of each new class, and false alarms.
    seen, decided, labelled
        Numbers of instances, of final decisions (none if the model skips an instance), and of labels for the model.
    history
        Scores at intervals, if requested.
    """

    immediate: Metrics
    final: Metrics
    groups: Metrics
    detection: TimeToDetection
    seen: int = 0
    decided: int = 0
    labelled: int = 0
    history: list[Instant] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as plain values for JSON. Values that are not finite become ``None``."""
        stats = {
            "seen": self.seen,
            "decided": self.decided,
            "labelled": self.labelled,
            "immediate": values(self.immediate),
            "final": values(self.final),
            "groups": values(self.groups),
            "detection": {str(label): one._asdict() for label, one in self.detection.detections.items()},
            "false_alarms": len(self.detection.false_alarms),
            "history": [instant._asdict() for instant in self.history],
        }
        return {name: _finite(value) for name, value in stats.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def open_set_metrics(known: Iterable[Label]) -> Metrics:
    """Return the default metrics of `prequential`.

    Examples
    --------
    >>> [type(metric).__name__ for metric in open_set_metrics(["cat", "dog"])]
    ['MNew', 'FNew', 'Err', 'OpenSetMicroF', 'OpenSetMacroF', 'AUROC']
    """
    known = tuple(known)
    kinds = (MNew, FNew, Err, OpenSetMicroF, OpenSetMacroF, AUROC)
    return Metrics([kind(known) for kind in kinds])  # type: ignore[no-untyped-call]


def values(metrics: Iterable[ClassificationMetric]) -> dict[str, float]:
    """Return the value of each metric by its name. Matrices and reports have none and are left out."""
    out = {}
    for metric in metrics:
        try:
            out[type(metric).__name__] = float(metric.get())
        except NotImplementedError:
            continue
    return out


def prequential(
    stream: Iterable[tuple[Any, ...]],
    model: StreamModel,
    metric: ClassificationMetric | Metrics | None = None,
    *,
    delay: int | None = None,
    label_share: float = 1.0,
    step: int = 0,
    seed: int = 0,
) -> Prequential:
    """Evaluate a recognizer on a stream with hidden labels: test, then train.

    The model first answers each instance at once (`predict_one`), then learns it without its label. Final decisions
    are scored as they are drained. At the end the model is flushed. Training is over: the known classes are those of
    the model, and every other class is new. A metric gets the true label if the model has learnt it, in training or
    late. Otherwise it gets the unknown label. This makes river's own metrics usable.

    Parameters
    ----------
    stream
        Pairs of features and true label, as in river's data sets, or triples with further arguments of `learn_one`
        (its ``t``). Keys are the positions, from 0.
    model
        Recognizer that has learnt the known classes. If it is still in training, training ends here. It learns the
        stream. Instances that were waiting in it are flushed, drained and not scored.
    metric
        One metric or several (``Err(known) + metrics.MacroF1()``), which are cloned for the immediate and for the
        final answers. Metrics of labels get labels, others the probabilities. ``None``: `open_set_metrics`.
    delay
        Number of later instances after which the model gets the true label of an instance (`learn_label`). 0: right
        after the instance. ``None``: no labels.
    label_share
        Share of the instances whose label is given, chosen at random, in [0, 1]. Lower it to simulate sparse labels.
    step
        Number of instances between two entries of the history. The last decisions add one more entry. 0: no history.
    seed
        Seed for choosing the instances whose labels are given.

    Returns
    -------
    Prequential
        Scores, counts and history.

    Raises
    ------
    InvalidParameter
        If `delay`, `label_share` or `step` is out of range, or the metric is not for classification.
    NotTrained
        If the model has learnt no labelled instance.

    References
    ----------
    .. [1] J. Gama, R. Sebastião and P. P. Rodrigues, "On evaluating stream learning algorithms", Machine Learning 90,
       2013: prequential evaluation.
    .. [2] M. Grzenda, H. M. Gomes and A. Bifet, "Delayed labelling evaluation for data streams", Data Mining and
       Knowledge Discovery 34, 2020.

    Examples
    --------
    >>> from river import datasets
    >>> from stream_osr import OpenSetRecognizer
    >>> known = {"brickface", "cement", "grass", "path"}
    >>> data = list(datasets.ImageSegments())
    >>> model = OpenSetRecognizer(batch_size=32, seed=7)
    >>> for x, y in data[:1000]:
    ...     if y in known:
    ...         model.learn_one(x, y)
    >>> result = prequential([(x, y) for x, y in data[1000:1600] if y in known or y == "sky"], model)
    >>> result.seen, result.decided
    (437, 437)
    >>> result.final[2]
    Err: 1.83%
    >>> result.detection.detections
    {'sky': Detection(first=10, announced=63, instances=15)}

    With labels for half of the instances, each after 100 later instances, the new class gets its name:

    >>> model = OpenSetRecognizer.from_trained(model.trained, batch_size=32, seed=7)
    >>> result = prequential(data[1000:1600], model, Err(known), delay=100, label_share=0.5, step=300)
    >>> result.labelled, [instant.seen for instant in result.history]
    (223, [300, 600, 600])
    >>> "sky" in model.predict_proba_one(data[0][0])
    True
    """
    if delay is not None and delay < 0:
        raise InvalidParameter(f"delay is {delay}: expected 0 or more instances, or None for no labels")
    if not 0 <= label_share <= 1:
        raise InvalidParameter(f"label_share is {label_share}: expected a share between 0 and 1")
    if step < 0:
        raise InvalidParameter(f"step is {step}: expected 0 or more instances")
    run = _Run(model, metric)
    rng = np.random.default_rng(seed)
    owed: deque[tuple[int, Label]] = deque()
    for position, (x, y, *more) in enumerate(stream):
        learnt = run.step(position, x, y, more[0] if more else {})
        if delay is not None:
            if learnt and rng.random() < label_share:
                owed.append((position, y))
            while owed and owed[0][0] + delay <= position:
                run.teach(*owed.popleft())
        if step and run.result.seen % step == 0:
            run.note()
    model.flush()
    run.drain()
    if step:
        run.note()
    return run.result


class _Run:
    """State of a run: the model, the counts, and the truths that wait for their decisions."""

    def __init__(self, model: StreamModel, metric: ClassificationMetric | Metrics | None) -> None:
        model.freeze()
        known = model.trained.labels
        wanted = open_set_metrics(known) if metric is None else metric
        if not isinstance(wanted, Metrics):
            wanted = Metrics([wanted])  # type: ignore[no-untyped-call]
        if not all(isinstance(one, ClassificationMetric) for one in wanted):
            raise InvalidParameter(f"metric is {metric!r}: expected one of classification, or several")
        self.model = model
        self.unknown = unknown_label(model.unknown, known)
        self.known = frozenset(known)
        self.taught: set[Label] = {group.name for group in model.summary().known}
        self.emerged: set[int] = set()
        self.waiting: deque[Label] = deque()
        model.flush()
        deque(model.drain(), maxlen=0)
        self.emerged.update(event.subclass_id for event in model.drain_events() if isinstance(event, SubclassEmerged))
        similarity = [NormalizedMutualInfo(), AdjustedRand()]  # type: ignore[no-untyped-call]
        groups = [CER(self.unknown), UnkR(self.unknown), Purity(), *similarity]  # type: ignore[no-untyped-call]
        self.result = Prequential(
            immediate=wanted.clone(),  # type: ignore[no-untyped-call]
            final=wanted.clone(),  # type: ignore[no-untyped-call]
            groups=Metrics(groups),  # type: ignore[no-untyped-call]
            detection=TimeToDetection(known, begin=model.summary().stream_size),
        )

    def step(self, position: int, x: Mapping[Any, Any], y: Label, more: Mapping[str, Any]) -> bool:
        """Test on an instance, then learn it. Return whether the model accepted it."""
        model, result = self.model, self.result
        self._score(result.immediate, y, *self._ask(x))
        skipped = model.counters["skipped"]
        model.learn_one(x, **{**more, "key": position})
        result.seen += 1
        taken = model.counters["skipped"] == skipped
        if taken:
            self.waiting.append(y)
            result.detection.arrived(y)
        self.drain()
        return taken

    def teach(self, position: int, y: Label) -> None:
        """Give the model a late label."""
        self.model.learn_label(position, y)
        self.taught.add(y)
        self.result.labelled += 1

    def note(self) -> None:
        """Add the scores to the history."""
        result = self.result
        result.history.append(Instant(result.seen, result.decided, values(result.immediate), values(result.final)))

    def drain(self) -> None:
        """Score the new decisions."""
        for event in self.model.drain_events():
            self.result.detection.note(event)
            if isinstance(event, SubclassEmerged):
                self.emerged.add(event.subclass_id)
        for decision in self.model.drain():
            y = self.waiting.popleft()
            self.result.decided += 1
            self.result.detection.decided(decision, y)
            self._score(self.result.final, y, decision.label, decision.probabilities)
            self._group(y, decision)

    def _ask(self, x: Mapping[Any, Any]) -> tuple[Label | None, dict[Label, float]]:
        metrics = self.result.immediate
        label = self.model.predict_one(x) if any(metric.requires_labels for metric in metrics) else None
        return label, {} if metrics.requires_labels else self.model.predict_proba_one(x)

    def _score(self, metrics: Metrics, y: Label, label: Label | None, probabilities: dict[Label, float]) -> None:
        truth = y if y in self.taught else self.unknown
        for metric in metrics:
            metric.update(truth, label if metric.requires_labels else probabilities)

    def _group(self, y: Label, decision: Decision) -> None:
        cer, unk_r, purity, *similarity = self.result.groups
        explained = pattern_of(decision, self.unknown, self.emerged)
        cer.update(y, explained)
        unk_r.update(y, explained)
        if explained != decision.label:
            purity.update(y, explained)
        if y not in self.known:
            for metric in similarity:
                metric.update(y, pattern_of(decision, self.unknown))
