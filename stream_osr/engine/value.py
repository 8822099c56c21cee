"""A recognizer as a value: the trained part, the stream, and what waits on either side of it."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from stream_osr.config import Arguments, Label, Parameters, parameters, refusing
from stream_osr.decision import Decision, FailedDecision
from stream_osr.discovery.events import Event
from stream_osr.discovery.summaries import Unmet, begin
from stream_osr.engine import Arrivals, Arrived, Evidence, Stream, close_arrivals
from stream_osr.engine.faults import believable, notice
from stream_osr.ensemble import step
from stream_osr.errors import NotTrained
from stream_osr.features import Features
from stream_osr.kinds import Name
from stream_osr.model.missing import gaps_of
from stream_osr.model.whitening import whiten
from stream_osr.trained import TrainedModel
from stream_osr.training_set import TrainingSet


@dataclass(frozen=True, slots=True)
class Value:
    """All that a recognizer is, from one instance to the next.

    Functions take one and return the next. Its holder changes it in place where a copy for each instance would cost
    too much: rows and labels are added to ``training``, ``buffer`` and ``evidence``, it counts, and it drains.

    Attributes
    ----------
    parameters
        The arguments, checked.
    training
        Labelled instances; ``None``: training has ended.
    trained, stream
        Known classes and the stream over them, provisional while training goes on; ``None``: nothing was learnt.
    buffer
        The unfinished micro-batch, rows as they came.
    evidence
        Labels that wait for the next batch.
    counters
        What happened to the data.
    decisions, events
        What has not been drained.
    unmet
        What records since training have not had, and had besides; ``None``: there was none.
    """

    parameters: Parameters
    training: TrainingSet | None
    trained: TrainedModel | None = None
    stream: Stream | None = None
    buffer: list[Arrived] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    decisions: deque[Decision] = field(default_factory=deque)
    events: deque[Event] = field(default_factory=deque)
    unmet: Unmet | None = None

    def __copy__(self) -> Value:
        """Another one that nobody changes in place; all that never changes is shared, so that it costs nothing."""
        return replace(self, **{name: copy(getattr(self, name)) for name in _CHANGING})

    @property
    def running(self) -> tuple[TrainedModel, Stream]:
        """Both parts of a recognizer whose training has ended.

        Raises
        ------
        NotTrained
            If it has not.
        """
        if self.training is not None or self.trained is None or self.stream is None:
            raise NotTrained("training has not ended; call freeze() first")
        return self.trained, self.stream

    @property
    def labels(self) -> Sequence[Label]:
        """Labels of the known classes, as far as there are any."""
        if self.training is not None:
            return self.training.labels
        return () if self.stream is None else self.stream.labels

    @property
    def features(self) -> Sequence[Name]:
        """Names of the features that there have been so far, in the order of a row."""
        if self.training is not None:
            return self.training.features.names
        return () if self.trained is None else self.trained.names

    def waited(self, t: float) -> bool:
        """Say whether the batch has waited as long as it may at some time."""
        first, longest = self.buffer[0].t if self.buffer else None, self.parameters.max_wait
        return first is not None and longest is not None and t - first >= longest

    @property
    def asked(self) -> int:
        """Place of what is asked now in the order of all that can be taken back."""
        actions = () if self.stream is None else self.stream.actions
        return 1 + max([each.number for each in (*self.evidence[-1:], *actions[-1:])], default=0)


_CHANGING = ("training", "buffer", "evidence", "counters", "decisions", "events")


class Outcome(NamedTuple):
    """What a step tells: decisions, events, and what to count."""

    decisions: Sequence[Decision] = ()
    events: Sequence[Event] = ()
    counts: Mapping[str, int] = MappingProxyType({})

    def then(self, later: Outcome) -> Outcome:
        """Join what this step tells and what a later one does."""
        counts = Counter(self.counts)
        counts.update(later.counts)
        return Outcome([*self.decisions, *later.decisions], [*self.events, *later.events], counts)


@refusing
@dataclass(eq=False, repr=False)
class Holder(Arguments):
    """Who has arguments and a value, and puts the next one in its place.

    Attributes
    ----------
    value
        All that it is beside its arguments.
    """

    value: Value = field(init=False)

    def __post_init__(self) -> None:
        checked = parameters(**self.arguments)
        self.value = Value(checked, TrainingSet(checked.max_training, checked.seed, checked.markers))

    def note_ignored(self, names: Iterable[Name]) -> None:
        """Note columns of the stream that a connector has left out, as the model does not use them.

        Parameters
        ----------
        names
            Their names; ``summary()`` tells of the first few. Before training has ended nothing is noted.
        """
        if self.value.training is None:
            self._note(self._unmet().besides(names))

    def _meet(self, x: Mapping[Any, Any]) -> None:
        """Note which features a record of the stream has had."""
        self._note(self._unmet().met_by(x, self.value.running[0].features))

    def _met_all(self) -> None:
        """Note that a record of the stream has had every feature, with values that training had."""
        if self.value.unmet is None or not self.value.unmet.is_settled:
            self._note(Unmet(ignored=self._unmet().ignored))

    def _unmet(self) -> Unmet:
        return begin(self.value.running[0].features) if self.value.unmet is None else self.value.unmet

    def _note(self, unmet: Unmet) -> None:
        if unmet is not self.value.unmet:
            self.value = replace(self.value, unmet=unmet)

    def _go_on(self, value: Value, outcome: Outcome) -> None:
        """Put the next value in the place of the present one, or change nothing if that fails."""
        queues: list[deque[Any]] = [value.decisions, value.events]
        sizes = [*map(len, queues)]
        try:
            value.decisions.extend(outcome.decisions)
            value.events.extend(outcome.events)
            self.value = value
        except BaseException:
            for queue, size in zip(queues, sizes, strict=True):
                while len(queue) > size:
                    queue.pop()
            raise
        value.counters.update(outcome.counts)


def take(value: Value, arrived: Arrived) -> tuple[Value, Outcome]:
    """Put an unlabelled instance into the micro-batch, and close those that are due; the value does not change."""
    outcome = Outcome()
    if arrived.t is not None and value.waited(arrived.t):
        value, outcome = close(value)
    value = replace(value, buffer=[*value.buffer, arrived])
    if len(value.buffer) < value.parameters.batch_size:
        return value, outcome
    value, closed = close(value)
    return value, outcome.then(closed)


def close(value: Value, *, release: bool = False) -> tuple[Value, Outcome]:
    """Decide the instances of the buffer, and let the labels that wait take effect.

    Labels for instances of the buffer wait for the next batch. With ``release`` no decision is held back any longer.
    """
    assert value.trained is not None
    assert value.stream is not None
    arrived = Arrivals(np.zeros((0, 0)), (), ())
    if value.buffer:
        rows, times, keys = zip(*value.buffer, strict=True)
        values, space, usual, noticed = np.array(rows, dtype=float), value.trained.space, value.trained.usual, None
        if usual is not None:
            noticed = notice(usual, value.stream, values)
            values = noticed.values
        gaps = gaps_of(space, values)
        arrived = Arrivals(whiten(space, values), times, keys, gaps, noticed)
    later, now = list[Evidence](), value.evidence
    if value.evidence:
        waiting = set(arrived.keys)
        later = [each for each in value.evidence if each.row is None and each.key in waiting]
        now = [each for each in value.evidence if each.row is not None or each.key not in waiting]
    stream, batch = close_arrivals(value.trained, value.stream, arrived, now, value.parameters, release=release)
    counts = {"events_summed": batch.summed} if batch.summed else {}
    counts["unknown_keys"] = len(batch.unknown_keys)
    after = replace(value, stream=stream, buffer=[], evidence=later)
    return after, Outcome(batch.decisions, batch.events, counts)


def set_aside(value: Value, reason: str) -> tuple[Value, list[FailedDecision]]:
    """Take the instances of the buffer out, and the labels that wait if these alone cannot be learnt either."""
    trained, _ = value.running
    failed = [FailedDecision(key, t, _told(trained.features, row), None, reason) for row, t, key in value.buffer]
    value = replace(value, buffer=[])
    try:
        close(value)
    except Exception:
        failed += [FailedDecision(each.key, None, None, each.label, reason) for each in value.evidence]
        value = replace(value, evidence=[])
    return value, failed


def _told(features: Features, row: Iterable[float]) -> dict[Name, float | str | None]:
    """Say what a row means in the terms of whoever gave it; a category that training did not have is None."""
    out: dict[Name, float | str | None] = {}
    for name, number in zip(features.names, map(float, row), strict=True):
        values = features.kinds.values.get(name)
        if values is None:
            out[name] = None if math.isnan(number) else number
        else:
            out[name] = values[int(number)] if number < len(values) else None
    return out


def labelled(value: Value, values: np.ndarray, label: Label) -> Evidence:
    """Make evidence of a raw row, NaN = missing, shape (p,); what is missing is drawn from its class."""
    trained, stream = value.running
    rows = believable(stream, values[None])
    row, asked = whiten(trained.space, rows), value.asked
    gaps = gaps_of(trained.space, rows)
    known = None
    if label in stream.labels:
        known = range(at := stream.labels.index(label), at + 1)
    row = step.complete(stream.chains, row, value.parameters, gaps, asked=asked, only=known)
    return Evidence(label, row[0], number=asked)
