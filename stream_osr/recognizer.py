"""The river component: a recognizer to be used instance by instance, over the value that it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from threading import get_ident
from typing import Any

import numpy as np
from river.base import MiniBatchClassifier

from stream_osr.config import Label, documented, parameters
from stream_osr.features import check_rows, frame_matrix
from stream_osr.one_writer import WRITERS, one_writer, refuse
from stream_osr.results import Results
from stream_osr.saved import Saved
from stream_osr.stream import Arrived
from stream_osr.stream import training as trainer
from stream_osr.stream.batches import Batches
from stream_osr.stream.intake import Read, count, count_unlike, read, read_frame, row_of
from stream_osr.stream.recognizer_state import Outcome, Value, close, labelled, take
from stream_osr.stream.requests import Requests
from stream_osr.times_and_keys import key_of, keys_of, time_of, times_of
from stream_osr.trained import TrainedModel
from stream_osr.training_report import TrainingReport


@documented
class OpenSetRecognizer(Batches, Requests, Results, Saved, MiniBatchClassifier):
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

    # What river asks about an estimator.

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"batch_size": 16}

    @property
    def counters(self) -> Counter[str]:
        """What happened to the data."""
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
            value = self.value
            if y is None and value.training is None and value.trained is not None:
                row: Any = value.trained.features.plain(x)
                if row is not None:
                    self._wait(value, Arrived(row, time_of(t), key_of(key)))
                    if len(x) > len(row):
                        value.counters["extra"] += len(x) - len(row)
                        self._meet(x)
                    else:
                        self._met_all()
                    return
            self._learn(read(value, x, y, t, key))
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
        value = self.value
        if y is None and value.training is None and value.trained is not None:
            matrix = frame_matrix(X, value.trained.features)
            if matrix is not None:
                rows, extra = matrix
                with self._all_or_nothing():
                    self.learn_rows(rows, t=t, key=key)
                    if extra:
                        value.counters["extra"] += extra * len(rows)
                        names = getattr(X, "column_names", getattr(X, "columns", ()))
                        self.note_ignored(value.trained.features.unexpected(dict.fromkeys(names)))
                return
        instances = read_frame(value, X, y, t, key)
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
                self._met_all()

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Take everything back if it fails half way."""
        before = copy(self.value)
        try:
            yield
        except BaseException:
            self.value = before
            raise

    def _learn(self, instance: Read) -> None:
        features, row, label, t, key, x = instance
        value = self.value
        if row is not None and label is not None and value.training is not None:
            value, due = trainer.learn(value, features, row.values, label, x)
            self._go_on(*(close(value) if due else (value, Outcome())))
        elif row is not None:
            if value.training is not None:
                value, self._measured = trainer.freeze(value), None
            trained = value.running[0]
            if features is not trained.features and (features.kinds.values or trained.features.zero):
                row = row_of(value, trained.features, x)
                values = row.values
            else:
                values = trained.in_order(features, row.values)
            if label is None:
                self._wait(value, Arrived(values, t, key))
            else:
                value.evidence.append(labelled(value, values, label))
            count_unlike(self.value, values, x)
        count(self.value, row)
        if self.value.training is None:
            self._meet(x)

    def _wait(self, value: Value, arrived: Arrived) -> None:
        """Put an unlabelled instance into the micro-batch of the next value, and close those that are due."""
        t = arrived.t
        if len(value.buffer) + 1 >= value.parameters.batch_size or (t is not None and value.waited(t)):
            self._go_on(*take(value, arrived))
        else:
            value.buffer.append(arrived)
            self.value = value

    def _wait_together(self, rows: np.ndarray, times: Sequence[float | None], keys: Sequence[Any]) -> None:
        """Do what :meth:`_wait` does with each of many instances."""
        if self.value.parameters.max_wait is not None:
            for row, t, key in zip(rows, times, keys, strict=True):
                self._wait(self.value, Arrived(row, t, key))
            return
        at, size = 0, self.value.parameters.batch_size
        while at < len(rows):
            end = at + size - len(self.value.buffer)
            self.value.buffer.extend(map(Arrived, rows[at:end], times[at:end], keys[at:end]))
            at = end
            if len(self.value.buffer) >= size:
                self._close()

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
            self.value = trainer.freeze(self.value, progress)
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
        model.value = trainer.over(model.value, trained)
        return model

    # The stream.

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
        checked = parameters(**{**self.arguments, "min_probability": value})
        self.value = replace(self.value, parameters=checked)
        self.min_probability = checked.min_probability

    def __copy__(self) -> OpenSetRecognizer:
        """Another recognizer that goes on from here; all that never changes is shared, so that it costs nothing."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), value=copy(self.value))
        return twin
