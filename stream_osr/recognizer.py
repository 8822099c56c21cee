"""The river component: a recognizer to be used instance by instance, over the state that it is."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from os import PathLike
from threading import get_ident
from typing import Any, Self

import numpy as np
from river.base import MiniBatchClassifier
from river.utils.dataframe import into_frame, to_native_frame, to_native_series

from stream_osr.archive import check_recognizer, read_archive, write_archive
from stream_osr.atomic import remove_unfinished
from stream_osr.config import Arguments, Label, archived, documented, grouped, parameters, plain, refusing, regrouped
from stream_osr.decision import Decision, FailedDecision
from stream_osr.discovery.events import Event
from stream_osr.discovery.new_classes import NewClasses, SubclassDistances
from stream_osr.discovery.summaries import SchemaMismatch, Signals, Summary
from stream_osr.errors import InvalidParameter, MissingExtra, NotTrained, PersistenceError
from stream_osr.features import check_mapping, check_rows, frame_matrix, frame_rows
from stream_osr.frames import Library, decisions_frame, subclasses_frame
from stream_osr.kinds import Name
from stream_osr.labels import check_label, label_array
from stream_osr.model.marginal import Statistics
from stream_osr.one_writer import WRITERS, one_writer, refuse
from stream_osr.printable_text import printable
from stream_osr.stream import intake, training
from stream_osr.stream.batch import BatchOutput
from stream_osr.stream.carry_over import carry_over, opened_since
from stream_osr.stream.discovery_table import lines, summarize
from stream_osr.stream.faults import faulty_columns
from stream_osr.stream.intake import CheckedInstance
from stream_osr.stream.late_labels import Evidence
from stream_osr.stream.monitoring import dependence, expected_recall, references_of
from stream_osr.stream.naming import mute, promote
from stream_osr.stream.predictions import PredictiveCache
from stream_osr.stream.recent_instances import recall
from stream_osr.stream.recognizer_state import RecognizerState, all_met, close, labelled, noted, set_aside, take
from stream_osr.stream.state import BufferedInstance, MenuSize, new_classes
from stream_osr.stream.summaries import emerged_statistics
from stream_osr.stream.undo import undo
from stream_osr.times_and_keys import key_of, keys_of, time_of, times_of
from stream_osr.trained import TrainedModel
from stream_osr.training_report import TrainingReport
from stream_osr.training_set import TrainingSet
from stream_osr.trust.recall import ExpectedRecall

_NOT_PICKLED = ("_predictive_cache", "_measured", "_warned")


@documented
@refusing
@dataclass(eq=False, repr=False)
class OpenSetRecognizer(Arguments, MiniBatchClassifier):
    """Open-set recognition of a stream: which known class, or *unknown*, and what the unknown is made of.

    Labelled instances train the known classes. The first unlabelled one (or :meth:`freeze`) ends training; from
    then on the stream is decided in micro-batches, collectively: an instance that resembles none of the known
    classes is unknown, and unknown instances that resemble each other gather in emerging subclasses, which keep
    their ids as the stream runs. No threshold is set anywhere. The model is a hierarchical Dirichlet process over
    Gaussians [1]_ whose training groups are frozen.

    With full covariances and no PCA the model is affine-invariant: scaling the features changes nothing. A scaler
    in front of it that goes on learning moves the coordinates under the frozen classes (``MinMaxScaler`` at the
    first instance of a new class that is larger than all before): leave it out.

    One thread at a time may call the methods that change it; a second one gets a :class:`ConcurrentChange` error. Any
    thread may predict. A call that raises has changed nothing.

    Parameters
    ----------
    Those of :class:`stream_osr.config.Arguments`, which says what they mean.

    Attributes
    ----------
    counters
        What happened to the data: ``missing`` values imputed, ``extra`` features ignored, instances ``skipped``,
        ``unknown_keys`` of late labels; ``unlike``: instances of the stream that had none of the model's features, or
        fewer than half where training had nearly all, and were imputed; ``refused``: records that a connector has
        refused; ``failed``: what :meth:`set_batch_aside` gave up; ``bad_rows``: the refused, and rows with a missing
        value or one that is no finite number, whether they were filled, skipped or refused; ``events_summed``: events
        that only an :class:`EventsSummed` tells of.

    References
    ----------
    .. [1] Geng, C. and Chen, S., 2020. Collective Decision for Open Set Recognition. IEEE TKDE (arXiv 1806.11258).

    Examples
    --------
    Three of the seven classes of river's ImageSegments are known; then *sky* turns up.

    >>> from river import datasets
    >>> from stream_osr import OpenSetRecognizer, SubclassEmerged
    >>> known = {"grass", "path", "cement"}
    >>> data = list(datasets.ImageSegments())
    >>> model = OpenSetRecognizer(batch_size=64, seed=7)
    >>> for x, y in data[:1200]:
    ...     if y in known:
    ...         model.learn_one(x, y)
    >>> model.freeze().instances
    {'path': 169, 'grass': 175, 'cement': 163}
    >>> calls = Counter()
    >>> for key, (x, y) in enumerate(data[1200:], start=1200):
    ...     if y in known or y == "sky":
    ...         model.learn_one(x, key=key)
    ...         calls.update((data[d.key][1], d.label) for d in model.drain())
    >>> calls["sky", "unknown"] > 100 > 10 > sum(calls["sky", y] for y in known)
    True
    >>> any(isinstance(event, SubclassEmerged) for event in model.drain_events())
    True
    """

    value: RecognizerState = field(init=False)

    _predictive_cache: PredictiveCache | None = field(init=False, default=None)
    _measured: tuple[SubclassDistances, ...] | None = field(init=False, default=None)
    _warned: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        checked = parameters(**plain(self))
        self.value = RecognizerState(checked, TrainingSet(checked.max_training, checked.seed, checked.markers))

    # What river asks about an estimator.

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"batch_size": 16}

    def clone(self, new_params: dict[str, Any] | None = None, include_attributes: bool = False) -> Self:
        """Make a recognizer with the same arguments, but for those that are given, by their plain names as well.

        Examples
        --------
        >>> OpenSetRecognizer(seed=1).clone({"sweeps": 3}).model
        ModelOptions(sweeps=3)
        """
        return super().clone(regrouped(self, new_params or {}), include_attributes)

    @property
    def counters(self) -> Counter[str]:
        """Counts of what happened to the data."""
        return self.value.counters

    @property
    def trained(self) -> TrainedModel:
        """The frozen known classes, to be shared with other recognizers."""
        return self.value.running[0]

    # Learning.

    def learn_one(
        self, x: Mapping[Any, Any], y: Label | None = None, *, t: float | None = None, key: Any = None
    ) -> None:
        """Take in one instance: with a label as evidence, without one as a question for the next micro-batch.

        Parameters
        ----------
        x
            Features and their values.
        y
            Label, or ``None``.
        t
            Time, for ``max_wait`` and for decisions and events: a number in any unit, or ``None``.
        key
            Handed through to the decision; by it a label can come late. Anything that can be hashed; text and numbers
            (and tuples of them) can be saved.

        Raises
        ------
        InvalidFeature, InvalidLabel, InvalidInstance
            Nothing is learnt then.
        NotTrained
            If it is unlabelled and ``freezing="manual"`` awaits :meth:`freeze`, or nothing was ever labelled.
        InvalidParameter
            If a model that the parameters allow cannot be trained on the instances.
        ConcurrentChange
            If another thread is changing the recognizer.

        Notes
        -----
        Closing a micro-batch may fail (``MemoryError``, Ctrl-C). Then the instance is not taken in, and the call can
        be repeated. :meth:`set_batch_aside` gives up a micro-batch that fails every time.
        """
        mine = get_ident()
        if WRITERS.setdefault(id(self), mine) != mine:
            refuse(self, "learn_one")
        try:
            state = self.value
            if y is None and state.training is None and state.trained is not None:
                row: Any = state.trained.features.plain(x)
                if row is not None:
                    self._wait(state, BufferedInstance(row, time_of(t), key_of(key)))
                    if len(x) > len(row):
                        state.counters["extra"] += len(x) - len(row)
                        self._meet(x)
                    else:
                        self.value = all_met(self.value)
                    return
            self._learn(intake.read(state, x, y, t, key))
        finally:
            WRITERS.pop(id(self), None)

    @one_writer
    def learn_many(self, X: Any, y: Any = None, *, t: Any = None, key: Any = None) -> None:
        """Take in the rows of a data frame (pandas, polars, pyarrow) or a numpy array: all, or on an error none.

        After training, unlabelled rows of plain finite numbers are read all at once.

        Parameters
        ----------
        X
            Features in columns; those of an array are named 0 to p - 1, in training and afterwards.
        y, t, key
            Label, time and key of each row (series, arrays or lists), or ``None``. Rows whose label is None or NaN
            are unlabelled.
        """
        state = self.value
        if y is None and state.training is None and state.trained is not None:
            matrix = frame_matrix(X, state.trained.features)
            if matrix is not None:
                rows, extra = matrix
                with self._all_or_nothing():
                    self.learn_rows(rows, t=t, key=key)
                    if extra:
                        state.counters["extra"] += extra * len(rows)
                        names = getattr(X, "column_names", getattr(X, "columns", ()))
                        self.note_ignored(state.trained.features.unexpected(dict.fromkeys(names)))
                return
        instances = intake.read_frame(state, X, y, t, key)
        with self._all_or_nothing():
            for instance in instances:
                self._learn(instance)

    @one_writer
    def learn_rows(self, rows: np.ndarray, *, t: Any = None, key: Any = None) -> None:
        """Take in unlabelled instances that are rows of numbers already: all of them, or on an error none.

        It is what :meth:`learn_one` does with each of them, without looking at each by itself.

        Parameters
        ----------
        rows
            Finite numbers, shape (n, p), in the order of the model's features (``model.trained.names``).
        t, key
            Time and key of each row, or ``None``.

        Raises
        ------
        InvalidInstance
            If they are no such rows, times and keys are not theirs, or features of the model are categories.
        NotTrained
            If training has not ended.

        Examples
        --------
        >>> model = OpenSetRecognizer(batch_size=2)
        >>> for i in range(40):
        ...     model.learn_one({"a": i % 7, "b": i % 5}, "left")
        ...     model.learn_one({"a": 20 + i % 7, "b": i % 5}, "right")
        >>> report = model.freeze()
        >>> model.learn_rows(np.array([[3.0, 2.0], [22.0, 1.0]]), key=["k1", "k2"])
        >>> [(decision.key, decision.label) for decision in model.drain()]
        [('k1', 'left'), ('k2', 'right')]
        """
        rows = check_rows(self.trained.features, rows)
        times, keys = times_of(t, len(rows)), keys_of(key, len(rows))
        with self._all_or_nothing():
            self._wait_together(rows, times, keys)
            if len(rows):
                self.value = all_met(self.value)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Take everything back if it fails half way."""
        before = copy(self.value)
        try:
            yield
        except BaseException:
            self.value = before
            raise

    def _learn(self, instance: CheckedInstance) -> None:
        features, row, label, t, key, x = instance
        state = self.value
        if row is not None and label is not None and state.training is not None:
            state, due = training.learn(state, features, row.values, label, x)
            self._go_on(*(close(state) if due else (state, BatchOutput())))
        elif row is not None:
            if state.training is not None:
                state, self._measured = training.freeze(state), None
            trained = state.running[0]
            if features is not trained.features and (features.kinds.values or trained.features.zero):
                row = intake.row_of(state, trained.features, x)
                values = row.values
            else:
                values = trained.in_order(features, row.values)
            if label is None:
                self._wait(state, BufferedInstance(values, t, key))
            else:
                state.evidence.append(labelled(state, values, label))
            intake.count_mismatches(self.value, values, x)
        intake.count(self.value, row)
        if self.value.training is None:
            self._meet(x)

    def _wait(self, state: RecognizerState, arrived: BufferedInstance) -> None:
        """Put an unlabelled instance into the micro-batch of the next state, and close those that are due."""
        t = arrived.t
        if len(state.buffer) + 1 >= state.parameters.batch_size or (t is not None and state.waited(t)):
            self._go_on(*take(state, arrived))
        else:
            state.buffer.append(arrived)
            self.value = state

    def _wait_together(self, rows: np.ndarray, times: Sequence[float | None], keys: Sequence[Any]) -> None:
        """Do what :meth:`_wait` does with each of many instances."""
        if self.value.parameters.max_wait is not None:
            for row, t, key in zip(rows, times, keys, strict=True):
                self._wait(self.value, BufferedInstance(row, t, key))
            return
        at, size = 0, self.value.parameters.batch_size
        while at < len(rows):
            end = at + size - len(self.value.buffer)
            self.value.buffer.extend(map(BufferedInstance, rows[at:end], times[at:end], keys[at:end]))
            at = end
            if len(self.value.buffer) >= size:
                self._go_on(*close(self.value))

    def _meet(self, x: Mapping[Any, Any]) -> None:
        """Note which features a record of the stream has had."""
        self.value = noted(self.value, self.value.mismatch.met_by(x, self.value.running[0].features))

    def _go_on(self, state: RecognizerState, output: BatchOutput) -> None:
        """Put the next state in the place of the present one, or change nothing if that fails."""
        queues: list[deque[Any]] = [state.decisions, state.events]
        sizes = [*map(len, queues)]
        try:
            state.decisions.extend(output.decisions)
            state.events.extend(output.events)
            self.value = state
        except BaseException:
            for queue, size in zip(queues, sizes, strict=True):
                while len(queue) > size:
                    queue.pop()
            raise
        state.counters.update(output.counts)

    def count_refused(self, records: int = 1, *, counted: int = 0) -> None:
        """Count records that a connector has refused, so that ``signals`` tell of them; nothing else changes.

        Parameters
        ----------
        records
            How many.
        counted
            How many of them :meth:`learn_one` has counted as ``bad_rows`` already.

        Examples
        --------
        >>> model = OpenSetRecognizer()
        >>> model.count_refused(3)
        >>> model.signals.data_quality, model.counters["refused"]
        (3, 3)
        """
        self.counters["refused"] += records
        self.counters["bad_rows"] += records - counted

    def note_ignored(self, names: Iterable[Name]) -> None:
        """Note columns of the stream that a connector has left out, as the model does not use them.

        Parameters
        ----------
        names
            Their names; ``summary()`` tells of the first few. Before training has ended nothing is noted.
        """
        if self.value.training is None:
            self.value = noted(self.value, self.value.mismatch.besides(names))

    # Training.

    @one_writer
    def freeze(self, progress: Callable[[int], None] | None = None) -> TrainingReport:
        """End training: sweep the training groups, sum them up, let the instances go.

        Parameters
        ----------
        progress
            Called with the number of each finished sweep.

        Returns
        -------
        What training found. When training has ended already, the same report again.

        Raises
        ------
        NotTrained
            If no labelled instance came before.
        InvalidParameter
            If a name in ``categorical`` is none of their features.
        """
        if self.value.training is not None:
            self.value = training.freeze(self.value, progress)
            self._measured = None  # of a provisional model
        return self.trained.report

    @classmethod
    def from_trained(cls, trained: TrainedModel, **arguments: Any) -> OpenSetRecognizer:
        """Make a recognizer over a trained model, which it shares and never changes.

        Parameters
        ----------
        trained
            From :attr:`trained` of another recognizer, or loaded from a file.
        arguments
            Of the constructor; those that concern training alone have no effect.
        """
        model = cls(**arguments)
        model.value = training.over(model.value, trained)
        return model

    # The micro-batch.

    @one_writer
    def flush(self) -> None:
        """Close the micro-batch as it is, however few instances it has, and hold no decision back any longer."""
        state, stream = self.value, self.value.stream
        if stream and (state.buffer or state.evidence or stream.waiting.decisions or stream.event_budget.counts):
            state, output = close(state, release=True)
            if state.evidence:
                state, later = close(state, release=True)
                output = output.then(later)
            self._go_on(state, output)

    @one_writer
    def close_batch(self) -> None:
        """Close the micro-batch as it is, however few instances it has; decisions may be held back further.

        For a caller who keeps book of where batches end: the same instances and the same ends give the same bits.

        Examples
        --------
        >>> model = OpenSetRecognizer(batch_size=100, decision_delay=1)
        >>> for i in range(40):
        ...     model.learn_one({"a": i % 7, "b": i % 5}, "left")
        ...     model.learn_one({"a": 20 + i % 7, "b": i % 5}, "right")
        >>> for a in (2, 21, 3):
        ...     model.learn_one({"a": a, "b": 2})
        >>> model.close_batch()
        >>> [decision.label for decision in model.drain()], model.pending
        (['left', 'right'], 1)
        """
        if self.value.buffer or self.value.evidence:
            self._go_on(*close(self.value))

    @one_writer
    def set_batch_aside(self, reason: str) -> list[FailedDecision]:
        """Give up the instances of the unfinished micro-batch, when closing it fails again and again.

        The stream goes on without them, and they are not decided. Labels that wait are given up too if they cannot
        take effect without these instances.

        Parameters
        ----------
        reason
            Why they were not decided.

        Returns
        -------
        What was given up, in order; ``counters["failed"]`` counts it.

        Raises
        ------
        NotTrained
            If training has not ended.

        Examples
        --------
        >>> model = OpenSetRecognizer(batch_size=100)
        >>> for i in range(40):
        ...     model.learn_one({"a": i % 7, "b": i % 5}, "left")
        >>> model.learn_one({"a": 2, "b": 3}, key="k1")
        >>> model.set_batch_aside("out of memory")
        [FailedDecision(key='k1', t=None, x={'a': 2.0, 'b': 3.0}, label=None, reason='out of memory')]
        """
        self.value, failed = set_aside(self.value, reason)
        self.value.counters["failed"] += len(failed)
        return failed

    @one_writer
    def set_min_probability(self, value: float) -> None:
        """Ask of a known label to be at least so probable, from the next decision on; 0 asks nothing.

        Nothing is trained again: probabilities stay as they are, a label below is called unknown.

        Examples
        --------
        >>> model = OpenSetRecognizer(min_probability=0.5)
        >>> model.set_min_probability(0.9)
        >>> model.min_probability
        0.9
        >>> model.set_min_probability(90)
        Traceback (most recent call last):
            ...
        stream_osr.errors.InvalidParameter: min_probability is 90: input should be less than or equal to 1
        """
        checked = parameters(**{**plain(self), "min_probability": value})
        self.value = replace(self.value, parameters=checked)
        self.min_probability = checked.min_probability

    # What people ask of a stream that runs.

    @one_writer
    def learn_label(self, key: Any, y: Label) -> None:
        """Take in a label that comes late, for an instance that was decided earlier.

        From the next micro-batch on the instance counts for its class, and no longer for the emerging subclass it
        sat in. Keys beyond ``label_horizon`` (or never seen) are counted, not fatal.

        Examples
        --------
        >>> model = OpenSetRecognizer(batch_size=1)
        >>> for i in range(40):
        ...     model.learn_one({"a": i % 7, "b": i % 5}, "left")
        ...     model.learn_one({"a": 20 + i % 7, "b": i % 5}, "right")
        >>> model.learn_one({"a": 90, "b": 2}, key="first")
        >>> [decision.label for decision in model.drain()]
        ['unknown']
        >>> model.learn_label("first", "far")
        >>> model.flush()
        >>> "far" in model.predict_proba_one({"a": 90, "b": 2})
        True
        """
        state = self.value
        label = intake.late_label(state, y)
        state.evidence.append(Evidence(label, None, key_of(key), state.asked))

    def remembers(self, key: Any) -> bool:
        """Say whether a label for the instance with this key would find it: it waits, or was decided not long ago.

        An instance whose label has taken effect is one no longer, and one whose label waits for the next batch is
        found by no second one.

        Examples
        --------
        >>> model = OpenSetRecognizer(batch_size=1)
        >>> for i in range(40):
        ...     model.learn_one({"a": i % 7, "b": i % 5}, "left")
        ...     model.learn_one({"a": 20 + i % 7, "b": i % 5}, "right")
        >>> model.learn_one({"a": 90, "b": 2}, key="first")
        >>> model.remembers("first"), model.remembers("second")
        (True, False)
        """
        state = self.value
        _, stream = state.running
        if any(each.row is None and each.key == key for each in state.evidence):
            return False
        return recall(stream.recent, key) >= 0 or any(each.key == key for each in state.buffer)

    @one_writer
    def promote(self, subclass_ids: Iterable[int], label: Label) -> None:
        """Name what emerged: make emerging subclasses subclasses of a known class, new or not.

        What they have collected becomes the class's, at once and without training: the next batch recognizes it, with
        the odds that the subclasses had. They keep their ids. Of the other ``chains`` the subclasses go with them
        that hold the same instances. A :class:`SubclassPromoted` event for each tells of it. A few labels that open
        a class (:meth:`learn_label`) have no such weight: the subclass that the instances came from keeps its seats,
        and takes most of what comes.

        Promotions take effect when they are called, labels with the next batch; the result depends on their order and
        on the batches between them, not on the instances that wait for theirs.

        Parameters
        ----------
        subclass_ids
            Ids, as decisions, events and :meth:`new_classes` tell them.
        label
            Label of the class.

        Raises
        ------
        InvalidSubclass
            If an id is not one of an emerging subclass. Nothing is changed then.
        InvalidLabel
            If the label cannot be one of a known class.
        NotTrained
            If training has not ended.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> model = OpenSetRecognizer(batch_size=64, seed=7)
        >>> for a, b in rng.normal(size=(200, 2)):
        ...     model.learn_one({"a": a, "b": b}, "left")
        ...     model.learn_one({"a": a + 20, "b": b}, "right")
        >>> for a, b in rng.normal([10, 20], size=(64, 2)):
        ...     model.learn_one({"a": a, "b": b})
        >>> candidate = model.new_classes().candidates[0]
        >>> model.promote(candidate.subclasses, "above")
        >>> model.predict_one({"a": 10, "b": 20})
        'above'
        """
        state, name = self.value, intake.late_label(self.value, label)
        stream, events = promote(*state.running, subclass_ids, name, state.parameters, state.asked)
        self._go_on(replace(state, stream=stream), BatchOutput(events=events))

    @one_writer
    def mute(self, subclass_ids: Iterable[int]) -> None:
        """Hear no more of emerging subclasses that are known and of no interest.

        Their instances stay unknown, and decisions go on naming the subclass. No event tells of it again, it is in
        no candidate of :meth:`new_classes` and does not count in their number. It keeps its place in the model before
        all others, so that it does not come back as something new.

        Parameters
        ----------
        subclass_ids
            Ids, as decisions, events and :meth:`new_classes` tell them.

        Raises
        ------
        InvalidSubclass
            If an id is not one of an emerging subclass, or muted already. Nothing is changed then.
        NotTrained
            If training has not ended.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> model = OpenSetRecognizer(batch_size=64, seed=7)
        >>> for a, b in rng.normal(size=(200, 2)):
        ...     model.learn_one({"a": a, "b": b}, "left")
        ...     model.learn_one({"a": a + 20, "b": b}, "right")
        >>> for a, b in rng.normal([10, 20], size=(64, 2)):
        ...     model.learn_one({"a": a, "b": b})
        >>> model.mute(model.new_classes().candidates[0].subclasses)
        >>> model.new_classes().number, model.predict_one({"a": 10, "b": 20})
        (0, 'unknown')
        """
        state = self.value
        stream, events = mute(*state.running, subclass_ids, state.asked)
        self._go_on(replace(state, stream=stream), BatchOutput(events=events))

    @one_writer
    def undo(self) -> None:
        """Take back the last promotion, mute or label that came after training, whichever was asked for last.

        What the stream has learnt since stays. Promoted subclasses are emerging again, under their ids, with their
        instances and seats, and with what has sat down beside those instances since; what was muted is told of again.
        An instance with a label leaves its class and goes back to where it sat, if that is still there. A label that
        waits for its batch is dropped. A class that nothing is left of is removed, unless decisions have named it:
        then it stays, and nothing is recognized as it. The last 100 actions can be taken back.

        A :class:`ActionUndone` event tells of promotions and mutes that are taken back; labels have no events.

        Raises
        ------
        NothingToUndo
            If nothing is left to be taken back.
        NotTrained
            If training has not ended.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> model = OpenSetRecognizer(batch_size=64, seed=7)
        >>> for a, b in rng.normal(size=(200, 2)):
        ...     model.learn_one({"a": a, "b": b}, "left")
        ...     model.learn_one({"a": a + 20, "b": b}, "right")
        >>> for a, b in rng.normal([10, 20], size=(64, 2)):
        ...     model.learn_one({"a": a, "b": b})
        >>> model.promote(model.new_classes().candidates[0].subclasses, "abvoe")
        >>> model.undo()
        >>> model.predict_one({"a": 10, "b": 20})
        'unknown'
        """
        state = self.value
        trained, stream = state.running
        last = max([action.number for action in stream.undo_log[-1:]], default=-1)
        if state.evidence and state.evidence[-1].number >= last:
            state.evidence.pop()
            return
        stream, events = undo(trained, stream, state.parameters)
        self._go_on(replace(state, stream=stream), BatchOutput(events=events))

    @one_writer
    def carry_over(self, earlier: Self) -> None:
        """Go on with what has emerged in the stream of a recognizer over an earlier model.

        For a model that was trained anew while a stream runs. Its recognizer, which has seen nothing yet, takes over
        the emerging subclasses, announced or not, dormant and muted ones too, with their ids, exact statistics,
        samples and lives; the classes that promotions and labels have opened and that it was not trained on; the
        instances that late labels may come for; the place in the stream and the counts. No id is given twice: those
        of its own known subclasses move above all ids that there were, and new ones follow.

        Left behind is what the new model knows: a class that it was trained on, and an emerging subclass whose
        instances one of its classes foresees, all together, about as well as a subclass of their own or better
        (:class:`SubclassForgotten` tells of it). The latest instances stay where they sit and are not re-seated. The
        learnt shift of the odds and the watch for drift begin anew, and what was asked before cannot be undone.

        Statistics are sums over whitened rows. When the models map rows differently they go through the caller's own
        features, exactly, which is possible unless the earlier model's PCA has left something out, or covariances
        are diagonal.

        Parameters
        ----------
        earlier
            Its stream; it does not change. No decision of it may be held back: call its :meth:`flush` before, and
            drain it.

        Raises
        ------
        InvalidParameter
            If this recognizer has begun its stream, the earlier one has not finished, or the models do not fit
            together: other features, another covariance model, coordinates that cannot be changed. Nothing is changed
            then.
        InvalidLabel
            If a class that was opened cannot be one beside the new model's.
        NotTrained
            If the training of one has not ended.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> def fitted():
        ...     model = OpenSetRecognizer(batch_size=64, seed=7)
        ...     for a, b in rng.normal(size=(200, 2)):
        ...         model.learn_one({"a": a, "b": b}, "left")
        ...         model.learn_one({"a": a + 20, "b": b}, "right")
        ...     report = model.freeze()
        ...     return model
        >>> earlier, model = fitted(), fitted()
        >>> for a, b in rng.normal([10, 20], size=(64, 2)):
        ...     earlier.learn_one({"a": a, "b": b})
        >>> model.carry_over(earlier)
        >>> model.new_classes().candidates[0].subclasses == earlier.new_classes().candidates[0].subclasses
        True
        """
        state, before = self.value, earlier.value
        (trained, stream), (its, old) = state.running, before.running
        if stream.state.seen or state.buffer or state.evidence or stream.undo_log:
            raise InvalidParameter("this recognizer has begun a stream; carry over to one that has seen nothing yet")
        if earlier.pending or before.evidence:
            raise InvalidParameter(
                f"the earlier recognizer holds back {earlier.pending} decisions and {len(before.evidence)} labels; "
                "call its flush() before, and drain it"
            )
        for label in opened_since(its, old, trained.labels):
            check_label(label, trained.labels, state.parameters.unknown)
        stream, events = carry_over(its, old, trained, stream)
        self._measured = None
        self._go_on(replace(state, stream=stream), BatchOutput(events=events, counts=before.counters))

    # Predictions between batches.

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Predict from the present state alone, without waiting for a batch; nothing changes.

        Returns
        -------
        Probability of each known class and of the unknown label; empty before anything was learnt.
        """
        state = self.value
        if state.trained is None:
            return {}
        row: Any = state.trained.features.plain(x)
        if row is None:
            row = intake.row_of(state, state.trained.features, check_mapping(x)).values
            self._warn_once(state.trained, row, x)
        names, probabilities = self._predict(np.array([row], dtype=float))
        return dict(zip(names, probabilities[0].tolist(), strict=True))

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Predict the label: a known class or the unknown label; ``None`` before anything was learnt."""
        return self._most_probable(self.predict_proba_one(x))

    def predict_proba_many(self, X: Any, **kwargs: Any) -> Any:
        """Predict for the rows of a data frame or array.

        Returns
        -------
        A frame of the same kind, or an array: a column for each known class and, last, for the unknown label.
        """
        names, probabilities = self._predict_frame(X)
        if isinstance(X, np.ndarray):
            return probabilities
        return to_native_frame(dict(zip(names, probabilities.T.copy(), strict=True)), like=into_frame(X))

    def predict_many(self, X: Any, **kwargs: Any) -> Any:
        """Predict the label of each row of a data frame or array; a series of the same kind, or an array."""
        names, probabilities = self._predict_frame(X)
        labels = [self._most_probable(dict(zip(names, row, strict=True))) for row in probabilities.tolist()]
        if isinstance(X, np.ndarray):
            return label_array(labels)
        return to_native_series(labels, name=None, like=into_frame(X))

    def _predict(self, rows: np.ndarray) -> tuple[tuple[Label, ...], np.ndarray]:
        """Labels, and the probability of each for rows of shape (n, p), NaN = missing."""
        trained, stream, cache = self.value.trained, self.value.stream, self._predictive_cache
        assert trained is not None
        assert stream is not None
        if cache is None or cache.stream is not stream:
            cache = self._predictive_cache = PredictiveCache(trained, stream, self.value.parameters)
        return cache.labels, cache.probabilities(rows)

    def _predict_frame(self, X: Any) -> tuple[tuple[Label, ...], np.ndarray]:
        state = self.value
        matrix = None if state.trained is None else frame_matrix(X, state.trained.features)
        if matrix is not None:
            return self._predict(matrix[0])
        _, records = frame_rows(X, state.features)
        if state.trained is None:
            return (), np.empty((len(records), 0))
        rows = [intake.row_of(state, state.trained.features, record, i).values for i, record in enumerate(records)]
        for row, record in zip(rows, records, strict=True):
            self._warn_once(state.trained, row, record)
        return self._predict(np.array(rows).reshape(len(rows), len(state.trained.names)))

    def _warn_once(self, trained: TrainedModel, row: np.ndarray, x: Mapping[Any, Any]) -> None:
        """Say once that instances to be predicted are unlike those of training."""
        reported = self._warned or self.value.counters["unlike"]
        unlike = None if reported else intake.schema_problems(trained, row, x)
        if unlike is not None:
            self._warned = True
            intake.logger.warning("%s; this is said once", unlike)

    def _most_probable(self, probabilities: dict[Label, float]) -> Label | None:
        if not probabilities:
            return None
        best = max(probabilities, key=probabilities.__getitem__)
        least = self.value.parameters.min_probability
        return best if probabilities[best] >= least else list(probabilities)[-1]

    # Decisions, events, and what the stream is made of.

    def drain(self) -> Iterator[Decision]:
        """Yield the final decisions, in order of arrival, each once: of finished micro-batches, or later (delay)."""
        while self.value.decisions:
            yield self.value.decisions.popleft()

    def drain_events(self) -> Iterator[Event]:
        """Yield the events of finished micro-batches, each once."""
        while self.value.events:
            yield self.value.events.popleft()

    def decisions_frame(self, *, probabilities: bool = False, library: Library = "pandas") -> Any:
        """Drain the final decisions into a data frame (:func:`stream_osr.frames.decisions_frame`)."""
        frame = decisions_frame(self.value.decisions, probabilities=probabilities, library=library)
        self.value.decisions.clear()
        return frame

    @property
    def pending(self) -> int:
        """Instances without a final decision: in an unfinished micro-batch, or held back by ``decision_delay``."""
        stream = self.value.stream
        return len(self.value.buffer) + (0 if stream is None else len(stream.waiting.decisions))

    def summary(self) -> Summary:
        """Sum up the known classes and what the stream is made of: the discovery table of the paper.

        The number of new classes in it is that of :meth:`new_classes`, and costs as much time.
        """
        return summarize(self.value, self.new_classes(), self.expected_recall)

    @property
    def signals(self) -> Signals:
        """Counts of what goes on beside the known, and the recall to be expected (see :class:`stream_osr.Signals`).

        Examples
        --------
        >>> model = OpenSetRecognizer()
        >>> model.learn_one({"a": 1.0, "b": None}, "left")
        >>> model.signals.data_quality, model.signals.expected_recall
        (1, None)
        """
        trained, stream, bad = self.value.trained, self.value.stream, self.value.counters["bad_rows"]
        if trained is None or stream is None:
            return Signals(data_quality=bad)
        return stream.signals._replace(
            data_quality=bad,
            expected_recall=self.expected_recall,
            recall_dropped=stream.called is not None and stream.called.dropped,
            faulty_columns=faulty_columns(trained, stream),
            dependence=dependence(trained, stream),
        )

    @property
    def expected_recall(self) -> ExpectedRecall | None:
        """Share of the known instances that get their own label now, told by the references, without a label.

        ``None``: nothing was decided yet, or the model has no references.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> model = OpenSetRecognizer(batch_size=64, seed=7)
        >>> for a, b in rng.normal(size=(200, 2)):
        ...     model.learn_one({"a": a, "b": b}, "left")
        ...     model.learn_one({"a": a + 20, "b": b}, "right")
        >>> for a, b in rng.normal(size=(64, 2)):
        ...     model.learn_one({"a": a, "b": b})
        >>> model.expected_recall.recall > 0.98
        True
        """
        trained, stream = self.value.trained, self.value.stream
        return None if trained is None or stream is None else expected_recall(trained, stream)

    @property
    def menu(self) -> MenuSize:
        """Numbers of subclasses, and the concentrations, as they are now: cheap, for monitoring.

        Raises
        ------
        NotTrained
            If the training has not ended.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> model = OpenSetRecognizer(seed=7)
        >>> for a, b in rng.normal(size=(200, 2)):
        ...     model.learn_one({"a": a, "b": b}, "left")
        >>> report = model.freeze()
        >>> model.menu.emerging, model.menu.active
        (0, 0)
        >>> model.menu.references
        200
        """
        trained, stream = self.value.running
        references = references_of(trained, stream)
        return stream.menu._replace(references=0 if references is None else len(references.group))

    def new_classes(self) -> NewClasses:
        """Gather the emerging subclasses in candidate new classes, and estimate how many classes they are.

        Subclasses belong together up to the distance at which the known subclasses fall together into the known
        classes, in each of the ``chains``, which then agree by the instances that they remember (``label_horizon``).
        Nothing changes. The first call compares all subclasses, later ones those that have changed.

        Raises
        ------
        NotTrained
            If nothing was learnt before.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> model = OpenSetRecognizer(batch_size=64, seed=7)
        >>> for a, b in rng.normal(size=(200, 2)):
        ...     model.learn_one({"a": a, "b": b}, "left")
        ...     model.learn_one({"a": a + 20, "b": b}, "right")
        >>> for key, (a, b) in enumerate(rng.normal([15, 20], size=(64, 2))):
        ...     model.learn_one({"a": a, "b": b}, key=key)
        >>> found = model.new_classes()
        >>> found.number, found.candidates[0].size, found.candidates[0].nearest_class
        (1, 64, 'right')
        """
        if self.value.stream is None:
            raise NotTrained("there are no new classes before anything was learnt")
        found, self._measured = new_classes(self.value.stream, self._measured)
        return found

    def emerged_statistics(self) -> dict[int, Statistics]:
        """Return the statistics of each emerged subclass, by identity: what it is compared and joined with others by.

        They are those of whitened rows, so recognizers over one trained model can be compared
        (:mod:`stream_osr.discovery.reconcile`). Subclasses that were set aside or muted are among them.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> model = OpenSetRecognizer(batch_size=64, seed=7)
        >>> for a, b in rng.normal(size=(200, 2)):
        ...     model.learn_one({"a": a, "b": b}, "left")
        ...     model.learn_one({"a": a + 20, "b": b}, "right")
        >>> for a, b in rng.normal([15, 20], size=(64, 2)):
        ...     model.learn_one({"a": a, "b": b})
        >>> [statistics.size.tolist() for statistics in model.emerged_statistics().values()]
        [[64]]
        """
        return {} if self.value.stream is None else emerged_statistics(self.value.stream)

    def to_frame(self, *, library: Library = "pandas") -> Any:
        """Put the discovery table into a data frame: a row for each subclass. Nothing changes.

        Parameters
        ----------
        library
            ``"pandas"`` or ``"polars"``.

        Returns
        -------
        The subclasses of each known class, then the emerging ones, the largest first, a column for each field of
        :class:`stream_osr.stream.discovery_table.SubclassRow`.

        Raises
        ------
        NotTrained
            If nothing was learnt before.
        MissingExtra
            If the library is not installed.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> model = OpenSetRecognizer(batch_size=64, seed=7)
        >>> for a, b in rng.normal(size=(200, 2)):
        ...     model.learn_one({"a": a, "b": b}, "left")
        ...     model.learn_one({"a": a + 20, "b": b}, "right")
        >>> for a, b in rng.normal([15, 20], size=(64, 2)):
        ...     model.learn_one({"a": a, "b": b})
        >>> frame = model.to_frame()
        >>> frame.loc[frame["kind"] == "new", ["size", "share", "stage", "nearest_class", "new_class"]]
           size  share   stage nearest_class  new_class
        2    64    1.0  active         right          0
        """
        found = self.new_classes()
        assert self.value.stream is not None
        return subclasses_frame(lines(self.value.stream, found), library=library)

    @property
    def plot(self) -> Any:
        """The figures of the report as charts (extra ``plot``): :class:`stream_osr_connectors.page.plot.Figures`.

        ``plot.timeline(decisions, events)``, ``plot.plane()``, ``plot.emerged()``, ``plot.calibration(decisions,
        labels)``. They stand above the recognizer, which finds them by their entry point (group
        ``stream_osr.figures``), and knows nothing else of them.

        Raises
        ------
        MissingExtra
            If the extra ``plot`` is not installed.
        """
        found = next(iter(entry_points(group="stream_osr.figures")), None)
        if found is None:
            raise MissingExtra("the installation names no figures; pip install 'stream-osr[plot]' mends it")
        return found.load()(self)

    # Archives and copies.

    def save(self, path: str | PathLike[str]) -> None:
        """Save everything, buffer included, as arrays and a JSON manifest; :meth:`load` goes on bit for bit.

        What a call that was killed has left beside the file is removed.
        """
        remove_unfinished(path)
        write_archive(path, "recognizer", self.as_state())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Load what :meth:`save` wrote. Nothing in the file is executed."""
        return cls.from_state(read_archive(path, "recognizer"), str(path))

    def as_state(self) -> dict[str, Any]:
        """Return everything as plain values and records, for an archive: both parts, buffer, what is not drained."""
        its = self.value
        state = {
            "arguments": archived(self),
            "counters": dict(its.counters),
            "training": None if its.training is None else its.training.as_state(),
            "trained": its.trained,
            "stream": its.stream,
            "buffer": [each._replace(row=np.array(each.row, dtype=float)) for each in its.buffer],
            "evidence": its.evidence,
            "decisions": list(its.decisions),
            "events": list(its.events),
        }
        return state if its.unmet is None else {**state, "unmet": its.unmet.in_order()}

    def stream_state(self) -> dict[str, Any]:
        """Return what :meth:`as_state` does, without the trained part, for recognizers that share one.

        It refers to arrays of the trained part: an archive of it is written and read beside ``trained.shared``.
        """
        return {**self.as_state(), "trained": None, "fingerprint": self.value.running[0].fingerprint}

    @classmethod
    def from_stream_state(
        cls, trained: TrainedModel, state: Mapping[str, Any], name: str = "the saved recognizer"
    ) -> Self:
        """Make the recognizer that :meth:`stream_state` described, over the trained model that it had.

        Raises
        ------
        PersistenceError
            If it describes none, or one over another trained model.
        """
        if state.get("fingerprint") != trained.fingerprint:
            raise PersistenceError(
                f"the saved stream belongs to the trained model {str(state.get('fingerprint'))[:12]}, and this is "
                f"{trained.fingerprint[:12]}; give the model that it was saved with"
            )
        return cls.from_state({**state, "trained": trained}, name)

    @classmethod
    def from_state(cls, state: Mapping[str, Any], name: str = "the saved recognizer") -> Self:
        """Make the recognizer that :meth:`as_state` described; ``name`` is what an error calls it.

        Raises
        ------
        PersistenceError
            If it describes none.
        """
        try:
            model = cls(**grouped(**state["arguments"]))
            check_recognizer(state, model.value.parameters, name)
            unmet = state.get("unmet")
            model.value = replace(
                model.value,
                training=None
                if state["training"] is None
                else TrainingSet.from_state(state["training"], model.value.parameters.markers),
                trained=state["trained"],
                stream=state["stream"],
                buffer=list(state["buffer"]),
                evidence=list(state["evidence"]),
                counters=Counter(state["counters"]),
                decisions=deque(state["decisions"]),
                events=deque(state["events"]),
                unmet=unmet and SchemaMismatch(frozenset(unmet[0]), frozenset(unmet[1]), unmet[2]),
            )
        except (LookupError, TypeError, ValueError) as error:
            why = printable(str(error), 300)
            raise PersistenceError(
                f"{name} cannot be used ({why}); was it saved by another version of stream-osr?"
            ) from error
        if model.value.training is None and model.value.trained is not None:
            model.value.trained.tell_unguarded()
        return model

    def __copy__(self) -> OpenSetRecognizer:
        """Another recognizer that goes on from here; all that never changes is shared, so that it costs nothing."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), value=copy(self.value))
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name not in _NOT_PICKLED}
