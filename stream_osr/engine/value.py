"""A recognizer as a value: the trained part, the stream, and what waits on either side of it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from stream_osr.config import Arguments, Label, Parameters, parameters, refusing
from stream_osr.decision import Decision
from stream_osr.discovery.events import Event
from stream_osr.engine import Arrivals, Arrived, Evidence, Stream, close_arrivals
from stream_osr.engine.faults import believable, notice
from stream_osr.ensemble import step
from stream_osr.errors import NotTrained
from stream_osr.kinds import Name
from stream_osr.model.gaps import gaps_of
from stream_osr.model.prior import FULL
from stream_osr.model.space import whiten
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
    limited
        Labels, keys and names beyond the bounds are refused, and floods of events summed up.
    integrates
        Missing values are integrated out; else they are the training mean.
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
    limited: bool = True
    integrates: bool = True

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

    @property
    def integrates(self) -> bool:
        """Whether missing values are integrated out; by earlier rules they are the training mean."""
        return self.value.integrates

    @integrates.setter
    def integrates(self, integrates: bool) -> None:
        self.value = replace(self.value, integrates=integrates)

    def _go_on(self, value: Value, outcome: Outcome) -> None:
        self.value = value
        value.decisions.extend(outcome.decisions)
        value.events.extend(outcome.events)
        value.counters.update(outcome.counts)


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
            full = value.trained.prior.covariance == FULL
            noticed = notice(usual, value.stream, values, hides_rows=value.integrates and full)
            values = noticed.values
        gaps = gaps_of(space, values) if value.integrates else None
        arrived = Arrivals(whiten(space, values), times, keys, gaps, noticed)
    later, now = list[Evidence](), value.evidence
    if value.evidence:
        waiting = set(arrived.keys)
        later = [each for each in value.evidence if each.row is None and each.key in waiting]
        now = [each for each in value.evidence if each.row is not None or each.key not in waiting]
    stream, batch = close_arrivals(
        value.trained, value.stream, arrived, now, value.parameters, release=release, limited=value.limited
    )
    counts = {"events_summed": batch.summed} if batch.summed else {}
    counts["unknown_keys"] = len(batch.unknown_keys)
    after = replace(value, stream=stream, buffer=[], evidence=later)
    return after, Outcome(batch.decisions, batch.events, counts)


def labelled(value: Value, values: np.ndarray, label: Label) -> Evidence:
    """Make evidence of a raw row, NaN = missing, shape (p,); what is missing is drawn from its class."""
    trained, stream = value.running
    rows = believable(stream, values[None])
    row, asked = whiten(trained.space, rows), value.asked
    gaps = gaps_of(trained.space, rows) if value.integrates else None
    known = None
    if label in stream.labels:
        known = range(at := stream.labels.index(label), at + 1)
    row = step.complete(stream.chains, row, value.parameters, gaps, asked=asked, only=known)
    return Evidence(label, row[0], number=asked)
