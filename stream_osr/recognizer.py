"""The river component: a recognizer that takes instances one by one."""

from __future__ import annotations

from collections import Counter
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

from stream_osr.archive.checks import recognizer
from stream_osr.archive.files import Surroundings, from_bytes, kind_over, read_archive, to_bytes, write_archive
from stream_osr.archive.recognizers import content_of, restored
from stream_osr.config import Arguments, documented, plain, refusing, regrouped
from stream_osr.decision import Decision, FailedDecision
from stream_osr.discovery.event_base import Event
from stream_osr.discovery.grouping import SubclassDistances
from stream_osr.discovery.new_classes import NewClasses
from stream_osr.discovery.summaries import Signals, Summary
from stream_osr.errors import InvalidParameter, MissingExtra, NotTrained
from stream_osr.frames import Library, decisions_frame, subclasses_frame
from stream_osr.instances.blocks import frame_matrix
from stream_osr.instances.features import check_mapping
from stream_osr.instances.tables import check_rows, frame_like, frame_rows, series_like
from stream_osr.instances.times_and_keys import key_of, keys_of, time_of, times_of
from stream_osr.parameters import Label, parameters
from stream_osr.stream import intake, recognizer_state, state_changes, training_phase
from stream_osr.stream.batch import BatchOutput
from stream_osr.stream.contributions import Contributions, contributions
from stream_osr.stream.discovery_table import lines, signals_of, summarize
from stream_osr.stream.intake import CheckedInstance
from stream_osr.stream.late_labels import Evidence
from stream_osr.stream.monitoring import expected_recall
from stream_osr.stream.predictions import PredictiveCache
from stream_osr.stream.state import BufferedInstance, new_classes
from stream_osr.stream.training_blocks import learn_frame
from stream_osr.support.atomic import remove_unfinished
from stream_osr.support.one_writer import WRITERS, one_writer, refuse
from stream_osr.training.trained import TrainedModel
from stream_osr.training.training_report import TrainingReport
from stream_osr.training.training_set import TrainingSet
from stream_osr.trust.recall import ExpectedRecall

_NOT_PICKLED = ("_predictive_cache", "_measured", "_warned", "_provisional")


@documented
@refusing
@dataclass(eq=False, repr=False)
class OpenSetRecognizer(Arguments, MiniBatchClassifier):
    """Open-set recognition of a data stream.

    The model assigns each instance to a known class or calls it *unknown*. Labelled instances train the known
    classes. The first unlabelled instance, or :meth:`freeze`, ends training. From then on the model decides the
    stream in micro-batches. An instance that resembles no known class is unknown. Unknown instances that resemble
    each other form emerging subclasses with stable ids. There is no threshold to set. The model is a hierarchical
    Dirichlet process over Gaussians [1]_ whose training groups are frozen.

    The model is affine-invariant as long as ``pca`` is not set: scaling the features changes nothing. Do not scale
    them with a scaler that keeps learning, which would move the coordinates under the frozen classes. For example,
    ``MinMaxScaler`` does so at the first value that is larger than all before.

    Only one thread at a time may call the methods that change the recognizer. A second thread gets a
    :class:`ConcurrentChange` error. Any thread may predict. A call that raises an error changes nothing.

    Parameters
    ----------
    The parameters of :class:`stream_osr.config.Arguments`.

    Attributes
    ----------
    counters
        Counts of data problems: ``missing`` values that were imputed, ``extra`` features that were ignored, instances
        ``skipped``, and ``unknown_keys`` of late labels. ``unlike`` counts instances of the stream with none of the
        model's features, or with fewer than half of them where training had nearly all. ``refused`` counts records
        that a connector refused. ``failed`` counts instances and labels that :meth:`set_batch_aside` gave up.
        ``bad_rows`` counts refused records and rows with a missing or non-finite value, even if the value was
        imputed. ``events_summed`` counts events that appear only in an :class:`EventsSummed`.

    References
    ----------
    .. [1] Geng, C. and Chen, S., 2020. Collective Decision for Open Set Recognition. IEEE TKDE (arXiv 1806.11258).

    Examples
    --------
    Three of the seven classes of river's ImageSegments are known. Then *sky* turns up.

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

    value: recognizer_state.RecognizerState = field(init=False)

    _predictive_cache: PredictiveCache | None = field(init=False, default=None)
    _measured: tuple[SubclassDistances, ...] | None = field(init=False, default=None)
    _warned: bool = field(init=False, default=False)
    _provisional: recognizer_state.RecognizerState | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        checked = parameters(**plain(self))
        self.value = recognizer_state.RecognizerState(
            checked, TrainingSet(checked.max_training, checked.seed, checked.markers)
        )

    # What river asks about an estimator.

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"batch_size": 16}

    def clone(self, new_params: dict[str, Any] | None = None, include_attributes: bool = False) -> Self:
        """Make a recognizer with the same arguments, except for those in ``new_params``.

        Arguments of a group may have their plain names.

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
        """The frozen known classes, which other recognizers can share."""
        return self.value.running[0]

    # Learning.

    def learn_one(
        self,
        x: Mapping[Any, Any],
        y: Label | None = None,
        *,
        t: float | None = None,
        key: Any = None,
        group: str | float | None = None,
    ) -> None:
        """Add one instance: a labelled one trains, an unlabelled one waits for the next micro-batch.

        Parameters
        ----------
        x
            Names and values of the features.
        y
            Label, or ``None`` for an instance to decide.
        t
            Time as a number in any unit, or ``None``. ``max_wait``, decisions and events use it.
        key
            Identifier that the decision returns, and by which a late label finds the instance. It can be any hashable
            value. Only text, numbers, and tuples of them can be saved.
        group
            Person, device, day or the like that a training instance comes from. The expected recall is then that for
            a new group (:class:`stream_osr.trust.recall.RecallByGroup`). After training it has no effect.

        Raises
        ------
        InvalidFeature, InvalidLabel, InvalidInstance
            If a value cannot be used. The model then learns nothing from the instance.
        NotTrained
            If the instance is unlabelled and ``freezing="manual"`` waits for :meth:`freeze`, or if there was no
            labelled instance.
        InvalidParameter
            If the model cannot be trained on the instances with these parameters.
        ConcurrentChange
            If another thread is changing the recognizer.

        Notes
        -----
        Closing a micro-batch may fail (``MemoryError``, Ctrl-C). The call then adds nothing and can be repeated.
        :meth:`set_batch_aside` gives up the instances that make it fail every time.
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
                        self.value = recognizer_state.met(self.value, x)
                    else:
                        self.value = recognizer_state.all_met(self.value)
                    return
            self._learn(intake.read(state, x, y, t, key, group=group))
        finally:
            WRITERS.pop(id(self), None)

    @one_writer
    def learn_many(self, X: Any, y: Any = None, *, t: Any = None, key: Any = None, group: Any = None) -> None:
        """Add the rows of a data frame (pandas, polars, pyarrow), a numpy array, or a list of dicts.

        If a row causes an error, the call adds none. After training, the method reads unlabelled rows of finite
        numbers all at once.

        An iterator of data frames is added frame by frame. If a row causes an error, its frame adds no row. The
        frames before it stay, and a further call with the same iterator continues after it. The decisions wait in
        memory until :meth:`drain`.

        Parameters
        ----------
        X
            Data with one column for each feature. The columns of an array are named 0 to p - 1.
        y, t, key, group
            Label, time, key and group (:meth:`learn_one`) of each row (series, arrays or lists), or ``None``. A row
            whose label is None or NaN is unlabelled. With an iterator, they are the names of columns of the frames.

        Examples
        --------
        >>> model = OpenSetRecognizer(batch_size=2)
        >>> rows = [{"a": a} for a in (*range(40), *range(100, 140))]
        >>> model.learn_many(rows, ["low"] * 40 + ["high"] * 40)
        >>> model.learn_many(iter([[{"a": 7}, {"a": 21}], [{"a": 108}, {"a": 121}]]))
        >>> [decision.label for decision in model.drain()]
        ['low', 'low', 'high', 'high']
        """
        if isinstance(X, Iterator):
            for number, frame, columns in intake.frames_of(X, y=y, t=t, key=key, group=group):
                with intake.in_frame(number):
                    self._learn_frame(frame, *columns)
        else:
            self._learn_frame(X, y, t, key, group)

    def _learn_frame(self, X: Any, y: Any, t: Any, key: Any, group: Any) -> None:
        state = self.value
        decides = y is None and state.training is None and state.trained is not None
        if decides and (matrix := frame_matrix(X, self.trained.features)) is not None:
            with self._all_or_nothing():
                self.learn_rows(matrix[0], t=t, key=key)
                if matrix[1]:
                    state.counters["extra"] += len(matrix[1]) * len(matrix[0])
                    self.value = recognizer_state.with_ignored(self.value, matrix[1])
            return
        if (learnt := learn_frame(state, X, y, t, key, group)) is not None:
            self.value, self._provisional = learnt, None
            return
        instances = intake.read_frame(state, X, y, t, key, group)
        with self._all_or_nothing():
            if self.value.training is not None and isinstance(name := getattr(group, "name", None), str):
                self.value.training.group_name = name
            for instance in instances:
                self._learn(instance)

    @one_writer
    def learn_rows(self, rows: np.ndarray, *, t: Any = None, key: Any = None) -> None:
        """Add unlabelled instances that are already rows of numbers.

        If a row causes an error, the call adds none. The result is that of :meth:`learn_one` for each row, in less
        time.

        Parameters
        ----------
        rows
            Finite numbers, shape (n, p), in the order of the model's features (``model.trained.names``).
        t, key
            Time and key of each row, or ``None``.

        Raises
        ------
        InvalidInstance
            If the rows have another shape or type, if their number differs from that of the times or keys, or if
            features of the model are categories.
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
                self.value = recognizer_state.all_met(self.value)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Restore the previous state if an error occurs half way."""
        before = copy(self.value)
        try:
            yield
        except BaseException:
            self.value = before
            raise

    def _learn(self, instance: CheckedInstance) -> None:
        features, row, label, t, key, x, group = instance
        state = self.value
        if row is not None and label is not None and state.training is not None:
            state, due = training_phase.learn(state, features, row.values, label, x, group, self._provisional)
            self._provisional = None
            self._go_on(*(recognizer_state.close(state) if due else (state, BatchOutput())))
        elif row is not None:
            if state.training is not None:
                state = training_phase.freeze(state)
                self._measured = self._provisional = None
            trained = state.running[0]
            if features is not trained.features and (features.kinds.values or trained.features.zero):
                row = intake.row_of(state, trained.features, x)
                values = row.values
            else:
                values = trained.in_order(features, row.values)
            if label is None:
                self._wait(state, BufferedInstance(values, t, key))
            else:
                state.evidence.append(recognizer_state.labelled(state, values, label))
            intake.count_mismatches(self.value, values, x)
        intake.count(self.value, row)
        if self.value.training is None:
            self.value = recognizer_state.met(self.value, x)

    def _wait(self, state: recognizer_state.RecognizerState, arrived: BufferedInstance) -> None:
        """Add an unlabelled instance to the micro-batch, and close the batches that are due."""
        t = arrived.t
        if len(state.buffer) + 1 >= state.parameters.batch_size or (t is not None and state.waited(t)):
            self._go_on(*recognizer_state.take(state, arrived))
        else:
            state.buffer.append(arrived)
            self.value = state

    def _wait_together(
        self, rows: np.ndarray | Sequence[np.ndarray], times: Sequence[float | None], keys: Sequence[Any]
    ) -> None:
        """Do the same as :meth:`_wait` for each of many instances."""
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
                self._go_on(*recognizer_state.close(self.value))

    def _go_on(self, state: recognizer_state.RecognizerState, output: BatchOutput) -> None:
        """Replace the present state by the next one, or change nothing if that fails."""
        recognizer_state.publish(state, output)
        self.value = state
        state.counters.update(output.counts)

    # Training.

    @one_writer
    def freeze(self, progress: Callable[[int], None] | None = None) -> TrainingReport:
        """End training: run the training sweeps, keep the statistics and drop the instances.

        Parameters
        ----------
        progress
            Function that is called with the number of each finished sweep.

        Returns
        -------
        Report of training. After training has ended, the call returns the same report.

        Raises
        ------
        NotTrained
            If there was no labelled instance.
        InvalidParameter
            If a name in ``categorical`` is not a feature of the instances.
        """
        if self.value.training is not None:
            self.value = training_phase.freeze(self.value, progress)
            self._measured = self._provisional = None
        return self.trained.report

    @classmethod
    def from_trained(cls, trained: TrainedModel, **arguments: Any) -> OpenSetRecognizer:
        """Make a recognizer that shares a trained model and never changes it.

        Parameters
        ----------
        trained
            Model from :attr:`trained` of another recognizer, or loaded from a file.
        arguments
            Arguments of the constructor. Those that affect only training have no effect.
        """
        model = cls(**arguments)
        model.value = training_phase.over(model.value, trained)
        return model

    # The micro-batch.

    @one_writer
    def flush(self) -> None:
        """Close the present micro-batch, whatever its size, and release all delayed decisions."""
        self._go_on(*state_changes.flush(self.value))

    @one_writer
    def close_batch(self) -> None:
        """Close the present micro-batch, whatever its size, without releasing delayed decisions.

        Use it if the caller controls where batches end. The same instances with the same ends give the same results,
        bit for bit.

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
            self._go_on(*recognizer_state.close(self.value))

    @one_writer
    def set_batch_aside(self, reason: str) -> list[FailedDecision]:
        """Give up the instances and labels that make the closing of a micro-batch fail.

        The stream continues without them, and they get no decision. The others stay in the micro-batch. If those that
        make it fail cannot be found, the call gives up all instances, and waiting labels that fail without them.

        Parameters
        ----------
        reason
            Reason that each :class:`FailedDecision` reports.

        Returns
        -------
        The instances and labels that were given up, in order. ``counters["failed"]`` counts them.

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
        self.value, failed = recognizer_state.set_aside(self.value, reason)
        self.value.counters["failed"] += len(failed)
        return failed

    @one_writer
    def set_min_probability(self, value: float) -> None:
        """Set the least probability of a known label, from the next decision on. 0 sets no minimum.

        Training and probabilities do not change. An instance whose label is less probable is called unknown.

        Examples
        --------
        >>> model = OpenSetRecognizer(min_probability=0.5)
        >>> model.set_min_probability(0.9)
        >>> model.min_probability
        0.9
        """
        checked = parameters(**{**plain(self), "min_probability": value})
        self.value = replace(self.value, parameters=checked)
        self.min_probability = checked.min_probability

    # What people ask of a stream that runs.

    @one_writer
    def learn_label(self, key: Any, y: Label) -> None:
        """Add a late label, for an instance that was decided earlier.

        From the next micro-batch on, the instance counts for its class and no longer for its emerging subclass. A key
        that was never seen or is older than ``label_horizon`` is counted and causes no error.

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

    @one_writer
    def promote(self, subclass_ids: Iterable[int], label: Label) -> None:
        """Name emerging subclasses: make them part of a known class, an existing one or a new one.

        The class takes over their instances at once, without training. The next batch recognizes it with the odds
        that the subclasses had. The subclasses keep their ids. In the other ``chains``, the subclasses with the same
        instances are promoted too. Each promotion emits a :class:`SubclassPromoted` event. A few labels that open a
        class (:meth:`learn_label`) have less effect: the old subclass keeps its weight and attracts most of the new
        instances.

        Promotions take effect at once, labels with the next batch. The result depends on their order and on the
        batches between them. It does not depend on the instances that wait for a batch.

        Parameters
        ----------
        subclass_ids
            Ids from decisions, events or :meth:`new_classes`.
        label
            Name of the class.

        Raises
        ------
        InvalidSubclass
            If an id is not that of an emerging subclass. The call then changes nothing.
        InvalidLabel
            If the label cannot name a known class.
        NotTrained
            If training has not ended.
        """
        self._go_on(*state_changes.promote(self.value, subclass_ids, label))

    @one_writer
    def mute(self, subclass_ids: Iterable[int]) -> None:
        """Mute emerging subclasses that are of no interest: no further events.

        Their instances stay unknown, and decisions still name the subclass. A muted subclass is in no candidate of
        :meth:`new_classes` and does not count in their number. The model drops it last, so that it does not emerge
        again as a new subclass.

        Parameters
        ----------
        subclass_ids
            Ids from decisions, events or :meth:`new_classes`.

        Raises
        ------
        InvalidSubclass
            If an id is not that of an emerging subclass, or the subclass is muted already. The call then changes
            nothing.
        NotTrained
            If training has not ended.
        """
        self._go_on(*state_changes.mute(self.value, subclass_ids))

    @one_writer
    def accept_frame(self) -> None:
        """Accept the present place of the known classes as the reference, after a :class:`FrameMoved` event.

        The new place is theirs from now on: a repaired instrument, another season. Instances are judged as before,
        announcements continue, and :attr:`signals` has no ``frame``. :meth:`undo` takes this back.

        Raises
        ------
        NothingToJudge
            If the known classes have not moved.
        NotTrained
            If training has not ended.
        """
        self._go_on(*state_changes.judge_frame(self.value, accept=True))

    @one_writer
    def reject_frame(self) -> None:
        """Treat the present place of the known classes as new, after a :class:`FrameMoved` event.

        Instances are judged at the training place again. Those at the new place become unknown and are announced.
        Another offset is found as before. :meth:`undo` takes this back. Errors are those of :meth:`accept_frame`.
        """
        self._go_on(*state_changes.judge_frame(self.value, accept=False))

    @one_writer
    def undo(self) -> None:
        """Undo the last promotion, mute, late label, or verdict on a moved frame.

        Everything that the stream has taught since then stays. Promoted subclasses become emerging ones again, with
        their ids, instances and weights. Muted subclasses emit events again. An instance with a late label returns to
        its former subclass, if that still exists. A label that waits for its batch is dropped. An empty class is
        removed. If a decision has named the class, it stays in the list of classes, but no instance is assigned to
        it. The last 100 actions can be undone.

        Undoing anything but a label emits an :class:`ActionUndone` event.

        Raises
        ------
        NothingToUndo
            If no action is left to undo.
        NotTrained
            If training has not ended.
        """
        self._go_on(*state_changes.undo(self.value))

    @one_writer
    def carry_over(self, earlier: Self) -> None:
        """Continue the stream of a recognizer that has an earlier model.

        Use it after training a new model while a stream runs. The new recognizer must not have seen any instance of
        the stream. It takes over all emerging subclasses, including dormant and muted ones, with their ids,
        statistics and samples. It also takes over classes that promotions and labels opened, instances that late
        labels may refer to, the stream position and the counts. Each id stays unique: the known subclasses of the new
        model get ids above all earlier ones.

        The call drops what the new model already knows. This applies to a class that was in its training data. It
        also applies to an emerging subclass whose instances a known class describes about as well as the subclass
        itself (:class:`SubclassForgotten`). The latest instances are not re-seated. The learnt odds and the drift
        monitor start again, and earlier actions cannot be undone.

        Statistics are sums over whitened rows. If the two models whiten differently, the statistics are converted
        exactly through the original features. This is impossible if the earlier model's PCA left something out, or if
        covariances are diagonal.

        Parameters
        ----------
        earlier
            Recognizer of the earlier stream, which does not change. It must have no delayed decision: call its
            :meth:`flush` first and drain it.

        Raises
        ------
        InvalidParameter
            If this recognizer has begun its stream, the earlier one has pending decisions, or the models differ in
            features, covariance model or convertible coordinates. The call then changes nothing.
        InvalidLabel
            If an opened class cannot be a class of the new model.
        NotTrained
            If one of the two recognizers has not finished training.
        """
        self._go_on(*state_changes.carry_over(self.value, earlier.value))
        self._measured = None

    # Predictions between batches.

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Predict the probabilities for one instance from the present state, without changing it.

        Returns
        -------
        Probability of each known class and of the unknown label. The result is empty before training.
        """
        state = self._current
        if state.trained is None:
            return {}
        row: Any = state.trained.features.plain(x)
        if row is None:
            x = state.trained.features.expanded(check_mapping(x))
            row = intake.row_of(state, state.trained.features, x).values
            self._warn_once(row, x)
        names, probabilities = self._predict(np.array([row], dtype=float))
        return dict(zip(names, probabilities[0].tolist(), strict=True))

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Predict a known class or the unknown label for one instance, or ``None`` before training."""
        return self._most_probable(self.predict_proba_one(x))

    def score_one(self, x: Mapping[Any, Any], **kwargs: Any) -> float:
        """Predict the probability of unknown for one instance, as river's anomaly detectors do: 0 before training.

        Larger is more anomalous.

        Examples
        --------
        >>> model = OpenSetRecognizer(seed=1)
        >>> for n in range(40):
        ...     model.learn_one({"a": n % 7, "b": n % 5}, "left")
        >>> report = model.freeze()
        >>> round(model.score_one({"a": 3, "b": 2}), 1), round(model.score_one({"a": 90, "b": 2}), 1)
        (0.0, 1.0)
        """
        found = self.predict_proba_one(x)
        return [*found.values()][-1] if found else 0.0

    def predict_proba_many(self, X: Any, **kwargs: Any) -> Any:
        """Predict for the rows of a data frame, an array, or a list of dicts.

        Returns
        -------
        Frame of the same kind (for a list: an array), with one column for each known class and a last one for the
        unknown label.
        """
        return frame_like(X, *self._predict_frame(X))

    def predict_many(self, X: Any, **kwargs: Any) -> Any:
        """Predict the label of each row of a data frame, an array, or a list of dicts.

        Returns
        -------
        Series of the same kind, or an array for arrays and lists.
        """
        names, probabilities = self._predict_frame(X)
        found = [self._most_probable(dict(zip(names, row, strict=True))) for row in probabilities.tolist()]
        return series_like(X, found)

    @property
    def _current(self) -> recognizer_state.RecognizerState:
        """The state with a provisional model during training. It serves until the instances have doubled."""
        state = self.value
        if state.training is not None and state.trained is None:
            state = self._provisional = training_phase.predicting(state, self._provisional)
        return state

    def _predict(self, rows: np.ndarray) -> tuple[tuple[Label, ...], np.ndarray]:
        """Return the labels, and the probability of each for rows of shape (n, p), NaN = missing."""
        trained, stream, cache = self._current.trained, self._current.stream, self._predictive_cache
        assert trained is not None
        assert stream is not None
        if cache is None or cache.stream is not stream:
            cache = self._predictive_cache = PredictiveCache(trained, stream, self.value.parameters)
        return cache.labels, cache.probabilities(rows)

    def _predict_frame(self, X: Any) -> tuple[tuple[Label, ...], np.ndarray]:
        state = self._current
        if state.trained is None:
            return (), np.empty((len(frame_rows(X, state.features)[1]), 0))
        return self._predict(intake.rows_of(state, X, self._warn_once))

    def contributions_one(self, x: Mapping[Any, Any], *, top: int | None = None) -> Contributions:
        """Split the log-odds of one instance by features (:meth:`contributions_many`)."""
        return self.contributions_many([x], top=top)[0]

    def contributions_many(self, X: Any, *, top: int | None = None) -> list[Contributions]:
        """Split the log-odds of the rows of a data frame, an array, or a list of dicts by features.

        The present state is used and does not change. Decisions take no more time than before. ``top`` shortens the
        call.

        Parameters
        ----------
        X
            Rows, as for :meth:`predict_many`.
        top
            Number of features to name, at least 1. The others count for ``rest``. ``None``: all features.

        Returns
        -------
        Contributions of each row, in the order of the rows.

        Raises
        ------
        NotTrained
            If training has not ended.
        InvalidParameter
            If ``top`` is below 1.
        InvalidFeature, InvalidInstance
            If a value cannot be used.

        Notes
        -----
        The log-odds are those of the densities and of the learnt odds of unknown. The reference check and
        ``max_false_unknown`` can change ``p_unknown`` further.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> model = OpenSetRecognizer(seed=7)
        >>> for a, b in rng.normal(size=(200, 2)):
        ...     model.learn_one({"a": a, "b": b}, "left")
        ...     model.learn_one({"a": a + 20, "b": b}, "right")
        >>> report = model.freeze()
        >>> found = model.contributions_one({"a": 1.0, "b": 9.0})
        >>> [(each.name, each.value) for each in found.unknown.features]
        [('b', 9.0), ('a', 1.0)]
        >>> found.nearest.label, found.nearest.features[0].name
        ('left', 'a')
        """
        trained, stream = self.value.running
        if top is not None and top < 1:
            raise InvalidParameter(f"top is {top}: give a whole number from 1 on, or None for all features")
        return contributions(
            trained, stream, self.value.parameters, intake.rows_of(self.value, X, self._warn_once), top
        )

    def _warn_once(self, row: np.ndarray, x: Mapping[Any, Any]) -> None:
        """Warn once if instances to predict are unlike those of training."""
        trained = self._current.trained
        if trained is None or self._warned or self.value.counters["unlike"]:
            return
        if (unlike := intake.schema_problems(trained, row, x)) is not None:
            self._warned = True
            intake.logger.warning("%s (shown once)", unlike)

    def _most_probable(self, probabilities: dict[Label, float]) -> Label | None:
        if not probabilities:
            return None
        best = max(probabilities, key=probabilities.__getitem__)
        least = self.value.parameters.min_probability
        return best if probabilities[best] >= least else list(probabilities)[-1]

    # Decisions, events, and what the stream is made of.

    def drain(self) -> Iterator[Decision]:
        """Yield the final decisions, each once, in order of arrival."""
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
        """Number of instances without a final decision: in an unfinished micro-batch or in ``decision_delay``."""
        return self.value.pending

    def summary(self) -> Summary:
        """Summarize the known classes and the emerging subclasses: the discovery table of the paper.

        The number of new classes is that of :meth:`new_classes` and takes as long to compute.
        """
        return summarize(self._current, self.new_classes(), self.expected_recall)

    @property
    def signals(self) -> Signals:
        """Counts of novelty, drift, outliers and data faults, and the expected recall (:class:`.Signals`)."""
        return signals_of(self.value)

    @property
    def expected_recall(self) -> ExpectedRecall | None:
        """Estimated share of known instances that get their own label now.

        The estimate comes from the reference instances and needs no label. It is ``None`` before the first decision
        and for a model without references.
        """
        trained, stream = self._current.trained, self._current.stream
        return None if trained is None or stream is None else expected_recall(trained, stream)

    def new_classes(self) -> NewClasses:
        """Group the emerging subclasses into candidate new classes, and estimate the number of new classes.

        The known classes set the distance up to which subclasses belong together. Each of the ``chains`` groups on
        its own. The chains are then combined by the instances that they remember (``label_horizon``). The model does
        not change. The first call compares all subclasses, later calls only those that have changed.

        Raises
        ------
        NotTrained
            If the model has not been trained.
        """
        if (stream := self._current.stream) is None:
            raise NotTrained("there are no new classes before anything was learnt")
        found, self._measured = new_classes(stream, self._measured)
        return found

    def to_frame(self, *, library: Library = "pandas") -> Any:
        """Return the discovery table as a data frame, with one row for each subclass.

        Parameters
        ----------
        library
            ``"pandas"`` or ``"polars"``.

        Returns
        -------
        The subclasses of each known class, then the emerging ones from large to small. There is one column for each
        field of :class:`stream_osr.stream.discovery_table.SubclassRow`.

        Raises
        ------
        NotTrained
            If the model has not been trained.
        MissingExtra
            If the library is not installed.
        """
        found, stream = self.new_classes(), self._current.stream
        assert stream is not None
        return subclasses_frame(lines(stream, found), library=library)

    @property
    def plot(self) -> Any:
        """Charts of a stream (extra ``plot``): :class:`stream_osr_connectors.page.plot.Figures`.

        The charts are ``plot.timeline(decisions, events)``, ``plot.plane()``, ``plot.emerged()`` and
        ``plot.calibration(decisions, labels)``. The recognizer finds them through the entry point group
        ``stream_osr.figures``.

        Raises
        ------
        MissingExtra
            If the extra ``plot`` is not installed.
        """
        found = next(iter(entry_points(group="stream_osr.figures")), None)
        if found is None:
            raise MissingExtra("the charts are not installed. Install them with pip install 'stream-osr[plot]'")
        return found.load()(self)

    # Archives and copies.

    def save(self, path: str | PathLike[str]) -> None:
        """Save the whole state, including the unfinished micro-batch (``docs/archives.md``).

        :meth:`load` continues with bit-identical results. The call also removes unfinished files of earlier calls
        that were killed.
        """
        remove_unfinished(path)
        write_archive(path, "recognizer", content_of(self, self.value))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Load a recognizer that :meth:`save` wrote. Loading executes no code from the file."""
        return restored(cls, read_archive(path, "recognizer", recognizer))

    def state_bytes(self) -> bytes:
        """Return the state without the trained part, for recognizers that share one trained model.

        The bytes are versioned like archives, compressed, and contain no code. :meth:`from_state_bytes` continues
        with bit-identical results.

        Returns
        -------
        The state.

        Raises
        ------
        NotTrained
            If the recognizer is not trained yet.
        """
        trained = self.value.running[0]
        return to_bytes(kind_over(trained), content_of(self, self.value), Surroundings.of(trained), checked=False)

    @classmethod
    def from_state_bytes(cls, trained: TrainedModel, data: bytes, name: str = "the data") -> Self:
        """Make a recognizer from :meth:`state_bytes` and the trained model of that recognizer.

        Parameters
        ----------
        trained
            Trained model, which the new recognizer shares.
        data
            Bytes from :meth:`state_bytes`. They are checked completely.
        name
            Source of the bytes, for messages.

        Raises
        ------
        PersistenceError
            If the bytes are damaged, or belong to another trained model.
        """
        return restored(cls, from_bytes(data, kind_over(trained), recognizer, Surroundings.of(trained), name))

    def __copy__(self) -> OpenSetRecognizer:
        """Make an independent copy cheaply: both share everything that never changes."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), value=copy(self.value))
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name not in _NOT_PICKLED}
