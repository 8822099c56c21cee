"""A recognizer as a value: the trained model, the stream, and their input and output queues."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stream_osr.decision import Decision, FailedDecision
from stream_osr.discovery.event_base import Event
from stream_osr.discovery.summaries import SchemaMismatch, begin
from stream_osr.errors import NotTrained
from stream_osr.instances.features import Features
from stream_osr.instances.kinds import Name
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.model.marginal import Statistics
from stream_osr.model.missing_features import missing_of
from stream_osr.parameters import Label, Parameters
from stream_osr.stream.batch import Arrivals, BatchOutput, close_arrivals
from stream_osr.stream.batch_seating import complete
from stream_osr.stream.culprits import find_culprits
from stream_osr.stream.faults import believable, notice
from stream_osr.stream.frame import at_training
from stream_osr.stream.late_labels import Evidence
from stream_osr.stream.local_summaries import emerged_statistics
from stream_osr.stream.monitoring import references_of
from stream_osr.stream.odd_columns import without_codes
from stream_osr.stream.recent_instances import recall
from stream_osr.stream.state import BufferedInstance, MenuSize, Stream
from stream_osr.training.trained import TrainedModel
from stream_osr.training.training_set import TrainingSet


@dataclass(frozen=True, slots=True)
class RecognizerState:
    """Complete state of a recognizer between two instances.

    Functions take a state and return the next one. Some parts change in place, because a copy for each instance would
    cost too much. Rows and labels are appended to ``training``, ``buffer`` and ``evidence``, counters increase, and
    the output queues drain.

    Attributes
    ----------
    parameters
        The arguments, checked.
    training
        Labelled instances. ``None`` after training.
    trained, stream
        Known classes and their stream, provisional during training. ``None`` if nothing was learnt.
    buffer
        The unfinished micro-batch, rows as given.
    evidence
        Labels that wait for the next batch.
    counters
        Data quality counts.
    decisions, events
        Decisions and events that were not drained yet.
    unmet
        Features that records since training lacked or added. ``None`` if there were no such records.
    """

    parameters: Parameters
    training: TrainingSet | None
    trained: TrainedModel | None = None
    stream: Stream | None = None
    buffer: list[BufferedInstance] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    decisions: deque[Decision] = field(default_factory=deque)
    events: deque[Event] = field(default_factory=deque)
    unmet: SchemaMismatch | None = None

    def __copy__(self) -> RecognizerState:
        """Return an independent copy. It shares the immutable parts, so it is cheap."""
        return replace(self, **{name: copy(getattr(self, name)) for name in _CHANGING})

    @property
    def running(self) -> tuple[TrainedModel, Stream]:
        """Model and stream of a recognizer after training.

        Raises
        ------
        NotTrained
            If training has not ended.
        """
        if self.training is not None or self.trained is None or self.stream is None:
            raise NotTrained("training has not ended. Call freeze() first")
        return self.trained, self.stream

    @property
    def labels(self) -> Sequence[Label]:
        """Labels of the known classes, empty if there are none."""
        if self.training is not None:
            return self.training.labels
        return () if self.stream is None else self.stream.labels

    @property
    def features(self) -> Sequence[Name]:
        """Names of the features so far, in the order of a row."""
        if self.training is not None:
            return self.training.features.names
        return () if self.trained is None else self.trained.names

    @property
    def mismatch(self) -> SchemaMismatch:
        """Schema mismatch with training so far."""
        return begin(self.running[0].features) if self.unmet is None else self.unmet

    def waited(self, t: float) -> bool:
        """Return whether the batch has reached its longest wait at time ``t``."""
        first, longest = self.buffer[0].t if self.buffer else None, self.parameters.max_wait
        return first is not None and longest is not None and t - first >= longest

    @property
    def pending(self) -> int:
        """Number of instances without a final decision."""
        return len(self.buffer) + (0 if self.stream is None else len(self.stream.waiting.decisions))

    @property
    def menu(self) -> MenuSize:
        """Present numbers of subclasses and concentrations. It is cheap enough for monitoring.

        Raises
        ------
        NotTrained
            If training has not ended.
        """
        trained, stream = self.running
        references = references_of(trained, stream)
        return stream.menu._replace(references=0 if references is None else len(references.group))

    def emerged_statistics(self) -> dict[int, Statistics]:
        """Return the statistics of each emerged subclass, by id, including dormant and muted ones.

        They are statistics of whitened rows, so that recognizers that share a trained model can be compared
        (:mod:`stream_osr.discovery.reconcile`).
        """
        return {} if self.stream is None else emerged_statistics(self.stream)

    def remembers(self, key: object) -> bool:
        """Check whether a late label for this key would find its instance.

        The instance must be waiting for its batch or be among the latest ``label_horizon`` decided ones. Each
        instance accepts one label: a second one does not find it.
        """
        _, stream = self.running
        if any(each.row is None and each.key == key for each in self.evidence):
            return False
        return recall(stream.recent, key) >= 0 or any(each.key == key for each in self.buffer)

    def count_refused(self, records: int = 1, *, counted: int = 0) -> None:
        """Count records that a connector refused, for ``signals``. Nothing else changes.

        Parameters
        ----------
        records
            Number of refused records.
        counted
            Number of those that were already counted as ``bad_rows``.
        """
        self.counters["refused"] += records
        self.counters["bad_rows"] += records - counted

    @property
    def asked(self) -> int:
        """Place of the next command in the order of all commands that can be undone."""
        undo_log = () if self.stream is None else self.stream.undo_log
        return 1 + max([each.number for each in (*self.evidence[-1:], *undo_log[-1:])], default=0)


_CHANGING = ("training", "buffer", "evidence", "counters", "decisions", "events")


def _with_mismatch(state: RecognizerState, unmet: SchemaMismatch) -> RecognizerState:
    return state if unmet is state.unmet else replace(state, unmet=unmet)


def met(state: RecognizerState, x: Mapping[Name, object]) -> RecognizerState:
    """Record the features of a record of the stream."""
    return _with_mismatch(state, state.mismatch.met_by(x, state.running[0].features))


def all_met(state: RecognizerState) -> RecognizerState:
    """Record that a stream record has had every feature, with values that are in training."""
    settled = state.unmet is not None and state.unmet.is_settled
    return state if settled else replace(state, unmet=SchemaMismatch(ignored=state.mismatch.ignored))


def with_ignored(state: RecognizerState, names: Iterable[Name]) -> RecognizerState:
    """Record columns that a caller left out because the model does not use them. ``summary()`` shows the first few.

    Before training ends nothing is recorded.
    """
    return state if state.training is not None else _with_mismatch(state, state.mismatch.besides(names))


def take(state: RecognizerState, arrived: BufferedInstance) -> tuple[RecognizerState, BatchOutput]:
    """Add an unlabelled instance to the micro-batch, and close batches that are due. The state does not change."""
    output = BatchOutput()
    if arrived.t is not None and state.waited(arrived.t):
        state, output = close(state)
    state = replace(state, buffer=[*state.buffer, arrived])
    if len(state.buffer) < state.parameters.batch_size:
        return state, output
    state, closed = close(state)
    return state, output.then(closed)


def close(
    state: RecognizerState, *, release: bool = False, attempt: bool = False
) -> tuple[RecognizerState, BatchOutput]:
    """Decide the instances of the buffer, and apply the waiting labels.

    Labels for instances of the buffer wait for the next batch. With ``release`` all delayed decisions are released.
    An ``attempt`` only shows whether the instances can be decided.
    """
    assert state.trained is not None
    assert state.stream is not None
    arrived = Arrivals(np.zeros((0, 0)), (), ())
    if state.buffer:
        rows, times, keys = zip(*state.buffer, strict=True)
        values, whitening, noticed = np.array(rows, dtype=float), state.trained.whitening, None
        if state.trained.usual is not None:
            noticed = notice(state.trained, state.stream, values)
            values = noticed.values
        missing, lacks = missing_of(whitening, values), np.isnan(values)
        arrived = Arrivals(whiten(whitening, values), times, keys, missing, noticed, lacks)
    later, now = list[Evidence](), state.evidence
    if state.evidence:
        waiting = set(arrived.keys)
        later = [each for each in state.evidence if each.row is None and each.key in waiting]
        now = [each for each in state.evidence if each.row is not None or each.key not in waiting]
    its = {"attempt": True} if attempt else {"release": release}
    stream, output = close_arrivals(state.trained, state.stream, arrived, now, state.parameters, **its)
    return replace(state, stream=stream, buffer=[], evidence=later), output


def publish(state: RecognizerState, output: BatchOutput) -> None:
    """Add decisions and events to the queues of a state, or change nothing if that fails."""
    queues: list[deque[Any]] = [state.decisions, state.events]
    sizes = [*map(len, queues)]
    try:
        state.decisions.extend(output.decisions)
        state.events.extend(output.events)
    except BaseException:
        for queue, size in zip(queues, sizes, strict=True):
            while len(queue) > size:
                queue.pop()
        raise


def set_aside(
    state: RecognizerState, reason: str, *, fatal: tuple[type[Exception], ...] = (), again: bool = False
) -> tuple[RecognizerState, list[FailedDecision]]:
    """Remove the instances and labels that make the closing of the micro-batch fail.

    If the closing does not fail any more, nothing is removed with ``again``, because the caller closes it again.
    If they cannot be found, all instances are removed, and also the waiting labels if these alone fail. ``reason`` is
    the text of the error. The search ends with a lack of memory, unless that is one of the ``fatal`` errors, which
    are raised.
    """
    trained, _ = state.running

    def failed(items: Iterable[BufferedInstance | Evidence]) -> list[FailedDecision]:
        return [
            FailedDecision(each.key, None, None, each.label, reason)
            if isinstance(each, Evidence)
            else FailedDecision(each.key, each.t, _as_given(trained.features, each.row), None, reason)
            for each in items
        ]

    items: list[BufferedInstance | Evidence] = [*state.buffer, *state.evidence]
    with nullcontext() if MemoryError in fatal else suppress(MemoryError):
        bare = _bare(state)
        attempts = (
            lambda some: _failure(_only(state, some)),
            lambda some: _failure(_only(bare, some), attempt=True),
        )
        if culprits := find_culprits(items, *attempts, reason):
            numbers = {number for number, _ in culprits}
            rest = [item for number, item in enumerate(items) if number not in numbers]
            return _only(state, rest), failed(items[number] for number in sorted(numbers))
        if again and culprits is not None:
            return state, []
    without = replace(state, buffer=[])
    try:
        close(without)
    except fatal:
        raise
    except Exception:
        return replace(without, evidence=[]), failed(items)
    return without, failed(state.buffer)


def _bare(state: RecognizerState) -> RecognizerState:
    """Return a state for attempts to close a micro-batch, with one chain and without checks of data and classes."""
    trained, stream = state.running
    stream = stream._replace(chains=stream.chains[:1], references=None, called=None, arrival=None, faults=None)
    return replace(state, trained=replace(trained, references=None, order=None, usual=None), stream=stream)


def _only(state: RecognizerState, items: Sequence[BufferedInstance | Evidence]) -> RecognizerState:
    """Return a state whose micro-batch has only some instances and labels."""
    evidence = [each for each in items if isinstance(each, Evidence)]
    return replace(state, buffer=[each for each in items if not isinstance(each, Evidence)], evidence=evidence)


def _failure(state: RecognizerState, *, attempt: bool = False) -> Exception | None:
    try:
        close(state, attempt=attempt)
    except MemoryError:
        raise
    except Exception as error:
        return error
    return None


def _as_given(features: Features, row: Iterable[float]) -> dict[Name, float | str | None]:
    """Convert a row to the caller's values. A category that is not in training is None."""
    out: dict[Name, float | str | None] = {}
    for name, number in zip(features.names, map(float, row), strict=True):
        values = features.kinds.values.get(name)
        if values is None:
            out[name] = None if math.isnan(number) else number
        else:
            out[name] = values[int(number)] if number < len(values) else None
    return out


def labelled(state: RecognizerState, values: np.ndarray, label: Label) -> Evidence:
    """Make evidence from a raw row, NaN = missing, shape (p,), with missing values drawn from its class."""
    trained, stream = state.running
    rows = without_codes(stream, believable(stream, values[None]))
    row, query = at_training(trained, stream.frame, whiten(trained.whitening, rows)), state.asked
    missing = missing_of(trained.whitening, rows)
    known = None
    if label in stream.labels:
        known = range(at := stream.labels.index(label), at + 1)
    row = complete(stream.chains, row, state.parameters, missing, n_references=query, only=known)
    return Evidence(label, row[0], number=query)
