"""The river component: phases, buffering, and nothing else."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from os import PathLike
from typing import Any, Literal, NamedTuple

import numpy as np
from river.base import MiniBatchClassifier

from stream_osr.archive import check_recognizer, read_archive, write_archive
from stream_osr.config import Label, Parameters, parameters
from stream_osr.conformal import check_references
from stream_osr.decision import Decision
from stream_osr.discovery.candidates import Measured, NewClasses
from stream_osr.discovery.events import Event
from stream_osr.discovery.signals import Signals
from stream_osr.discovery.summary import Group, Summary
from stream_osr.engine import (
    Arrived,
    Evidence,
    Glance,
    Menu,
    Stream,
    carry_over,
    close_batch,
    expect_known,
    expected_recall,
    mute,
    new_classes,
    open_stream,
    opened_since,
    promote,
    references_of,
    undo,
)
from stream_osr.engine.summaries import emerged_statistics
from stream_osr.errors import (
    InvalidFeature,
    InvalidInstance,
    InvalidLabel,
    InvalidParameter,
    NotTrained,
    PersistenceError,
)
from stream_osr.features import (
    LARGEST,
    Features,
    Row,
    check_mapping,
    column_values,
    frame_matrix,
    frame_rows,
    key_of,
    keys_of,
    number_of,
    time_of,
    times_of,
)
from stream_osr.hdp.marginal import Statistics
from stream_osr.hdp.space import whiten
from stream_osr.labels import check_label, unknown_label
from stream_osr.limits import check_label as check_length
from stream_osr.limits import check_names, check_room
from stream_osr.recall import ExpectedRecall
from stream_osr.selection import select_by_validation
from stream_osr.showing import printable, typed
from stream_osr.trained import TrainedModel, TrainingReport, train_model
from stream_osr.training_set import TrainingSet
from stream_osr.unlike import difference, least_features

logger = logging.getLogger("stream_osr")

PROVISIONAL_SWEEPS = 5

_CHANGING = ("counters", "_training", "_buffer", "_evidence", "_decisions", "_events")
"""Attributes that learning changes in place; the others are values, and replaced."""


class _Read(NamedTuple):
    """An instance that has been checked; nothing has changed yet. ``row`` is None: it is to be skipped."""

    features: Features
    row: Row | None
    label: Label | None
    t: float | None
    key: Any
    x: Mapping[Any, Any]


class OpenSetRecognizer(MiniBatchClassifier):
    """Open-set recognition of a stream: which known class, or *unknown*, and what the unknown is made of.

    Labelled instances train the known classes. The first unlabelled one (or :meth:`freeze`) ends training; from
    then on the stream is decided in micro-batches, collectively: an instance that resembles none of the known
    classes is unknown, and unknown instances that resemble each other gather in emerging subclasses, which keep
    their ids as the stream runs. No threshold is set anywhere. The model is a hierarchical Dirichlet process over
    Gaussians [1]_ whose training groups are frozen.

    With full covariances and no PCA the model is affine-invariant: scaling the features changes nothing. A scaler
    in front of it that goes on learning moves the coordinates under the frozen classes (``MinMaxScaler`` at the
    first instance of a new class that is larger than all before): leave it out.

    Parameters
    ----------
    batch_size
        Instances of a micro-batch.
    max_wait
        Close a batch before an instance whose ``t`` is this much later than that of the batch's first; ``None``:
        batches close by count alone. Time is what the caller says, never the clock.
    unknown
        Label of unknown instances; ``None``: ``"unknown"`` beside string labels, ``-1`` beside others.
    covariance
        ``"full"``, ``"diagonal"``, or ``"tied"`` (one covariance, estimated in training, for all subclasses).
    pca_components, pca_variance
        Project to so many principal components of the training instances, or to as many as hold this share of
        their variance. For high dimensions; not both.
    nu, scale, beta
        Normal-inverse-Wishart base measure: degrees of freedom (above d - 1), prior covariance as a multiple of
        the pooled within-class one, precision of the prior mean. ``None``: drawn once a training sweep from the
        marginal likelihood given the partition (some chains: d + 20, 0.1, 0.1; see ``ensemble``).
    epsilon
        A known subclass with less than this share of its class is dropped when training ends; its weight goes to the
        broad term of the class, if there are such.
    exclusive
        A subclass belongs to one known class only.
    chains
        Models, trained and run side by side, whose probabilities are averaged; time and memory grow with it.
    ensemble
        ``"exact"``: every chain is the normal-inverse-Wishart model with its hyperparameters drawn. ``"mixed"``: the
        chains differ in their base measure, in turn: coarse; drawn, with new subclasses placed by a Student-t that
        the known classes teach (three or more of them); drawn; drawn and placed. Only with full covariances and
        several chains.
    broad
        Add to the density of each known class a broad term: where it lies that its subclasses do not describe. For
        classes of many scattered centres, with a halo, or of few instances. Not with tied covariances.
    learn_odds
        Shift the odds of unknown so that what is accepted as known looks like known training instances.
    select
        ``"evidence"``, or ``"validation"``: choose ``nu`` and ``scale`` on a simulation of closed and open sets among
        the training instances, over the grid of the paper [1]_; takes some hundred trainings, needs three classes.
    training_sweeps
        Gibbs sweeps of training.
    sweeps
        Re-seating sweeps over each micro-batch; probabilities are averaged over the later half.
    window
        Latest instances that are re-seated together with each micro-batch.
    half_life
        Instances after which a seat in the stream's restaurant weighs half. It keeps the model from ageing: with
        seats that never fade, nothing new is seen after a million instances.
    decision_delay
        Hold each decision back until so many later instances have come, while later batches re-seat its instance in
        the window; ``first_label`` of a decision is what it was at once. At most ``window``.
    min_probability
        Call an instance unknown when no known class has this probability. It may be set on a trained recognizer:
        ``model.set_min_probability(0.9)``.
    max_training
        Training instances kept of each class (a uniform sample beyond it).
    max_classes
        Known classes that there may be, in training and by labels and promotions that come later: a label that would
        open one more is refused. Time and memory of a micro-batch, and the length of each decision, grow with them.
    max_subclasses
        Emerged subclasses that are compared with every instance however long nothing arrives in them. Of the others
        the statistics are kept, and compared when something new emerges.
    max_dormant
        Subclasses that are kept in that way; beyond it the smallest are forgotten. Each takes (d + 1)^2 numbers and a
        few rows, in every chain.
    label_horizon
        Decided instances that are remembered for labels that come late (:meth:`learn_label`).
    references
        Training instances that are kept with the model, shared among its classes, and asked again as the stream runs:
        an emerging subclass that takes them at the rate at which it takes the stream's instances describes a known
        class anew and is not new. 0: none are kept, and nothing guards the known classes.
    max_false_unknown
        Call an instance unknown only if it is, in each known class, among the least usual so large a share of the
        reference instances: at most this share of a class is called unknown then, whatever its distribution. It costs
        new classes that lie close to known ones; ``None``: no such promise.
    follow_drift
        Known classes follow slow movement of their instances: each as a whole, by at most .004 of its standard
        deviations for each of them; a jump is not followed. Shape and width stay. The risk: nobody can tell a class
        that moves from a new one that takes its place step by step, and a new class that overlaps a known one pulls
        it until it is found, and somewhat afterwards. ``ClassDrifted`` then tells only of what is too fast, or of
        another kind. Off, whatever moves away turns unknown.
    drift_interval
        Watch the known classes for drift (``ClassDrifted``), with so many instances of a class between two false
        alarms on average, at least 1000; ``None``: do not.
    n_jobs
        Threads for the chains, in training and in each micro-batch; ``None``: as many as there are chains, and cores.
        Results do not depend on it.
    freezing
        ``"auto"``: the first unlabelled instance ends training. ``"manual"``: before :meth:`freeze` it is an error.
    on_missing
        Missing or NaN features: ``"impute"`` the training mean, raise an ``"error"``, or ``"skip"`` the instance.
    seed
        All randomness flows from it: the same seed, input and flushes give the same bits.

    Attributes
    ----------
    counters
        What happened to the data: ``missing`` values imputed, ``extra`` features ignored, instances ``skipped``,
        ``unknown_keys`` of late labels; ``unlike``: instances of the stream that had none of the model's features, or
        fewer than half where training had nearly all, and were imputed; ``refused``: records that a connector has
        refused; ``bad_rows``: those, and rows with a missing value or one that is no finite number, whether they were
        filled, skipped or refused; ``events_summed``: events that only an :class:`EventsSummed` tells of.
    limited
        Labels, keys and names beyond the bounds (:mod:`stream_osr.limits`) are refused, and floods of events summed
        up. ``False``, as in releases that had no bounds: for the replay of a stream that one has run. Not saved.

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
    >>> any(type(event).__name__ == "SubclassEmerged" for event in model.drain_events())
    True
    """

    limited: bool = True

    def __init__(
        self,
        batch_size: int = 256,
        max_wait: float | None = None,
        unknown: Label | None = None,
        covariance: Literal["full", "diagonal", "tied"] = "full",
        pca_components: int | None = None,
        pca_variance: float | None = None,
        nu: float | None = None,
        scale: float | None = None,
        beta: float | None = None,
        epsilon: float = 0.01,
        exclusive: bool = True,
        chains: int = 4,
        ensemble: Literal["mixed", "exact"] = "mixed",
        broad: bool = True,
        learn_odds: bool = True,
        select: Literal["evidence", "validation"] = "evidence",
        training_sweeps: int = 25,
        sweeps: int = 5,
        window: int = 256,
        half_life: float = 200.0,
        decision_delay: int = 0,
        min_probability: float = 0.0,
        max_training: int = 5000,
        max_classes: int = 1000,
        max_subclasses: int = 200,
        max_dormant: int = 1000,
        label_horizon: int = 10_000,
        references: int = 1000,
        max_false_unknown: float | None = None,
        follow_drift: bool = False,
        drift_interval: float | None = 1e6,
        n_jobs: int | None = None,
        freezing: Literal["auto", "manual"] = "auto",
        on_missing: Literal["impute", "error", "skip"] = "impute",
        seed: int = 0,
    ) -> None:
        self.batch_size = batch_size
        self.max_wait = max_wait
        self.unknown = unknown
        self.covariance = covariance
        self.pca_components = pca_components
        self.pca_variance = pca_variance
        self.nu = nu
        self.scale = scale
        self.beta = beta
        self.epsilon = epsilon
        self.exclusive = exclusive
        self.chains = chains
        self.ensemble = ensemble
        self.broad = broad
        self.learn_odds = learn_odds
        self.select = select
        self.training_sweeps = training_sweeps
        self.sweeps = sweeps
        self.window = window
        self.half_life = half_life
        self.decision_delay = decision_delay
        self.min_probability = min_probability
        self.max_training = max_training
        self.max_classes = max_classes
        self.max_subclasses = max_subclasses
        self.max_dormant = max_dormant
        self.label_horizon = label_horizon
        self.references = references
        self.max_false_unknown = max_false_unknown
        self.follow_drift = follow_drift
        self.drift_interval = drift_interval
        self.n_jobs = n_jobs
        self.freezing = freezing
        self.on_missing = on_missing
        self.seed = seed
        self._parameters: Parameters = parameters(**self._get_params())
        self.counters: Counter[str] = Counter()
        self._training: TrainingSet | None = TrainingSet(self._parameters.max_training, self._parameters.seed)
        self._trained: TrainedModel | None = None
        self._stream: Stream | None = None
        self._buffer: list[Arrived] = []
        self._evidence: list[Evidence] = []
        self._decisions: deque[Decision] = deque()
        self._events: deque[Event] = deque()
        self._glance: Glance | None = None
        self._measured: tuple[Measured, ...] | None = None

    # What river asks about an estimator.

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"batch_size": 16}

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
        """
        if y is None and self._training is None and self._trained is not None:
            values = self._trained.features.plain(x)
            if values is not None:
                self._wait(values, time_of(t), key_of(key, limited=self.limited))
                if len(x) > len(values):
                    self.counters["extra"] += len(x) - len(values)
                return
        try:
            read = self._read(check_mapping(x), y, t, key)
        except InvalidFeature:
            self.counters["bad_rows"] += 1
            raise
        self._learn(read)

    def learn_many(self, X: Any, y: Any = None, *, t: Any = None, key: Any = None) -> None:
        """Take in the rows of a data frame (pandas, polars, pyarrow): all of them, or on an error none.

        After training, unlabelled rows of plain finite numbers are read all at once.

        Parameters
        ----------
        X
            Features in columns.
        y, t, key
            Label, time and key of each row (series, arrays or lists), or ``None``. Rows whose label is None or NaN
            are unlabelled.
        """
        if y is None and self._training is None and self._trained is not None:
            matrix = frame_matrix(X, self._trained.features)
            if matrix is not None:
                rows, extra = matrix
                with self._all_or_nothing():
                    self.learn_rows(rows, t=t, key=key)
                    if extra:
                        self.counters["extra"] += extra * len(rows)
                return
        _, records = frame_rows(X)
        columns = [column_values(v, len(records), name) for v, name in ((y, "y"), (t, "t"), (key, "key"))]
        read: list[_Read] = []
        earlier: list[Label] = []
        for number, (record, label, time, name) in enumerate(zip(records, *columns, strict=True)):
            try:
                instance = self._read(record, label, time, name, number, earlier)
            except InvalidFeature:  # it names the row
                self.counters["bad_rows"] += 1
                raise
            except (InvalidInstance, InvalidLabel, NotTrained) as error:
                raise type(error)(f"row {number}: {error}") from None
            read.append(instance)
            if instance.row is not None and instance.label is not None and instance.label not in earlier:
                earlier.append(instance.label)
        with self._all_or_nothing():
            for instance in read:
                self._learn(instance)

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
            If they are no such rows, or times and keys are not theirs.
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
        names = self._frozen()[0].names
        if not isinstance(rows, np.ndarray) or rows.dtype.kind != "f" or rows.shape[1:] != (len(names),):
            raise InvalidInstance(
                f"rows are {typed(rows)}; expected an array of floats with {len(names)} columns, a feature each, "
                "in the order of model.trained.names. Dicts go to learn_one, data frames to learn_many"
            )
        rows = rows.astype(np.float64)
        usable = np.abs(rows) <= LARGEST
        if not usable.all():
            at, column = np.argwhere(~usable)[0].tolist()
            number_of(names[column], rows[at, column], at)
            raise InvalidFeature(names[column], None, "it is missing; such instances go to learn_one", at)
        times, keys = times_of(t, len(rows)), keys_of(key, len(rows), limited=self.limited)
        with self._all_or_nothing():
            self._wait_together(rows, times, keys)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Take everything back if it fails half way."""
        before = {**vars(self), **{name: copy(getattr(self, name)) for name in _CHANGING}}
        try:
            yield
        except BaseException:
            vars(self).update(before)
            raise

    def _read(
        self,
        x: Mapping[Any, Any],
        y: object,
        t: object,
        key: object,
        number: int | None = None,
        earlier: Sequence[Label] = (),
    ) -> _Read:
        """Check an instance wholly before anything changes.

        ``number`` is its row in a data frame, ``earlier`` are labels of earlier rows, which will have been learnt.
        """
        labels = [*self._known_labels(), *earlier]
        label = None
        if y is not None:
            label = self._label(y, labels)
        elif self._training is not None and self._parameters.freezing == "manual":
            raise NotTrained(
                "an unlabelled instance came before freeze(), and freezing='manual'; call freeze() first"
            )
        elif not labels:
            raise NotTrained("an unlabelled instance came before any labelled one; learn labelled instances first")
        if self._training is None:
            features = self._frozen()[0].features
        else:
            features = self._training.features
            if label is not None or earlier:
                features = self._joined(features, x)
            if not features.names:
                raise InvalidInstance("the instance has no features; give it one at least")
        row: Row | None = self._row(features, x, number)
        if row is not None and row.missing and self._parameters.on_missing == "skip":
            row = None
        return _Read(features, row, label, time_of(t), key_of(key, limited=self.limited), x)

    def _label(self, y: object, known: Sequence[Label]) -> Label:
        """Check a label beside those of the known classes; one that opens a class has to find room for it."""
        label = check_label(y, known, self._parameters.unknown)
        if self.limited and label not in known:
            check_length(label)
            check_room(label, {*known, *(e.label for e in self._evidence)}, self._parameters.max_classes)
        return label

    def _joined(self, features: Features, x: Mapping[Any, Any]) -> Features:
        """Add the features of an instance to those of training."""
        joined = features.joined(x)
        if self.limited and joined is not features:
            there = frozenset(features.names)
            check_names((name for name in joined.names if name not in there), len(joined.names))
        return joined

    def _row(self, features: Features, x: Mapping[Any, Any], number: int | None = None) -> Row:
        row = features.row(x, number)
        if row.missing and self._parameters.on_missing == "error":
            name = features.names[int(np.flatnonzero(np.isnan(row.values))[0])]
            remedy = "it is missing; give a number, or set on_missing='impute' or 'skip'"
            raise InvalidFeature(name, x.get(name), remedy, number)
        return row

    def _learn(self, read: _Read) -> None:
        if read.row is None:
            self.counters["skipped"] += 1
            self.counters["bad_rows"] += 1
        elif self._training is not None and read.label is not None:
            self._learn_training(self._training, read.features, read.row.values, read.label)
            self._count(read.row)
        else:
            self.freeze()
            self._learn_stream(read, read.row)

    def _learn_stream(self, read: _Read, row: Row) -> None:
        trained = self._frozen()[0]
        values = self._in_order(trained, read.features, row.values)
        if read.label is not None:
            whitened = whiten(trained.space, values[None])[0]
            self._evidence.append(Evidence(read.label, whitened, number=self._asked()))
        else:
            self._wait(values, read.t, read.key)
        self._count(row)
        self._count_unlike(trained, values, read.x)

    def _wait(self, values: Any, t: float | None, key: Any) -> None:
        """Put an unlabelled instance into the micro-batch, and close those that are due."""
        buffer = self._buffer
        if t is not None and buffer and self._waited(t):
            self._close()
            buffer = self._buffer
        buffer.append(Arrived(values, t, key))
        if len(buffer) >= self._parameters.batch_size:
            self._close()

    def _wait_together(self, rows: np.ndarray, times: Sequence[float | None], keys: Sequence[Any]) -> None:
        """Do what :meth:`_wait` does with each of many instances."""
        if self._parameters.max_wait is not None:
            for row, t, key in zip(rows, times, keys, strict=True):
                self._wait(row, t, key)
            return
        at = 0
        while at < len(rows):
            end = at + self._parameters.batch_size - len(self._buffer)
            self._buffer.extend(map(Arrived, rows[at:end], times[at:end], keys[at:end]))
            at = end
            if len(self._buffer) >= self._parameters.batch_size:
                self._close()

    def _count(self, row: Row) -> None:
        self.counters["missing"] += row.missing
        self.counters["bad_rows"] += row.missing > 0
        self.counters["extra"] += row.extra

    def _count_unlike(self, trained: TrainedModel, values: np.ndarray, x: Mapping[Any, Any]) -> None:
        """Count a row that is imputed altogether, or for the most part though training had nearly all; warn once."""
        missing = np.isnan(values)
        if len(values) - np.count_nonzero(missing) >= least_features(trained):
            return
        self.counters["unlike"] += 1
        if self.counters["unlike"] == 1:
            told = difference(trained, [trained.names[at] for at in np.flatnonzero(missing)], list(x))
            logger.warning(
                "an instance is unlike those of training: %s. Its missing values are imputed, and it looks more "
                'usual than it may be; counters["unlike"] counts such instances, this is said once',
                told,
            )

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

    @staticmethod
    def _in_order(trained: TrainedModel, features: Features, values: np.ndarray) -> np.ndarray:
        """Put a row that was read before, perhaps over other features than the model was trained on, in its order."""
        if features.names == trained.names:
            return values
        return trained.features.row(dict(zip(features.names, values.tolist(), strict=True))).values

    def _waited(self, t: float | None) -> bool:
        first, longest = self._buffer[0].t, self._parameters.max_wait
        return longest is not None and t is not None and first is not None and t - first >= longest

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
        _, stream = self._frozen()
        label = self._label(y, self._expected_labels(stream))
        self._evidence.append(Evidence(label, None, key_of(key, limited=self.limited), self._asked()))

    def _expected_labels(self, stream: Stream) -> Sequence[Label]:
        """List the labels that are known, or wait to be."""
        return [*stream.labels, *(e.label for e in self._evidence)]

    def _asked(self) -> int:
        """Place of what is asked now in the order of all that can be taken back."""
        assert self._stream is not None
        return 1 + max([each.number for each in (*self._evidence[-1:], *self._stream.actions[-1:])], default=0)

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
        trained, stream = self._frozen()
        name = self._label(label, self._expected_labels(stream))
        self._stream, events = promote(trained, stream, subclass_ids, name, self._parameters, self._asked())
        self._events.extend(events)

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
        trained, stream = self._frozen()
        self._stream, events = mute(trained, stream, subclass_ids, self._parameters, self._asked())
        self._events.extend(events)

    def undo(self) -> None:
        """Take back the last promotion, mute or label that came after training, whichever was asked for last.

        What the stream has learnt since stays. Promoted subclasses are emerging again, under their ids, with their
        instances and seats, and with what has sat down beside those instances since; what was muted is told of again.
        An instance with a label leaves its class and goes back to where it sat, if that is still there. A label that
        waits for its batch is dropped. A class that nothing is left of is removed, unless decisions have named it:
        then it stays, and nothing is recognized as it. The last 100 actions can be taken back.

        A :class:`NamingUndone` event tells of promotions and mutes that are taken back; labels have no events.

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
        trained, stream = self._frozen()
        last = max([action.number for action in stream.actions[-1:]], default=-1)
        if self._evidence and self._evidence[-1].number >= last:
            self._evidence.pop()
            return
        self._stream, events = undo(trained, stream, self._parameters)
        self._events.extend(events)

    def _learn_training(self, training: TrainingSet, features: Features, values: np.ndarray, label: Label) -> None:
        """Keep a training instance; extend the provisional model by micro-batches, re-train it on doubling."""
        new_class = label not in training.labels
        n = sum(training.seen) + 1
        if n & (n - 1) == 0:
            grown = copy(training)
            grown.add(features, values, label)
            trained = self._provisional(grown)
            self._training = grown
            if trained is not None:
                self._trained, self._stream = trained, expect_known(trained, self._parameters)
                self._evidence.clear()
                return
        else:
            training.add(features, values, label)
        if self._trained is None:
            return
        values = self._in_order(self._trained, features, values)
        self._evidence.append(Evidence(label, whiten(self._trained.space, values[None])[0]))
        if new_class or len(self._evidence) >= self._parameters.batch_size:
            self._close()

    def _provisional(self, training: TrainingSet) -> TrainedModel | None:
        """Train in passing; ``None`` while the instances do not span the components of a PCA."""
        try:
            return self._train(training, sweeps=min(PROVISIONAL_SWEEPS, self._parameters.training_sweeps), draws=1)
        except InvalidParameter:
            if self._parameters.pca_components is None and self._parameters.pca_variance is None:
                raise
            return None

    def _train(
        self,
        training: TrainingSet,
        parameters: Parameters | None = None,
        *,
        sweeps: int | None = None,
        draws: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> TrainedModel:
        features, X, group = training.matrix()
        labels = tuple(training.labels)
        chosen = self._parameters if parameters is None else parameters
        return train_model(features, X, group, labels, chosen, sweeps=sweeps, draws=draws, progress=progress)

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
        """
        if self._training is None:
            return self._frozen()[0].report
        if not len(self._training):
            raise NotTrained("freeze() needs labelled instances; learn some first")
        chosen = self._parameters
        if chosen.select == "validation":
            features, X, group = self._training.matrix()
            chosen = select_by_validation(features, X, group, chosen)
        trained = self._train(self._training, chosen, progress=progress)
        check_references(trained, self._parameters.max_false_unknown)
        self._trained = trained
        self._stream = open_stream(self._trained, self._parameters)
        self._training = None
        self._evidence.clear()
        self._trained.tell_unguarded()
        return self._trained.report

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
        for label in trained.labels:
            check_label(label, trained.labels, model._parameters.unknown)
        check_references(trained, model._parameters.max_false_unknown)
        model._training = None
        model._trained = trained
        model._stream = open_stream(trained, model._parameters)
        trained.tell_unguarded()
        return model

    def carry_over(self, earlier: OpenSetRecognizer) -> None:
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
        trained, stream = self._frozen()
        its, before = earlier._frozen()
        if stream.state.seen or self._buffer or self._evidence or stream.actions:
            raise InvalidParameter("this recognizer has begun a stream; carry over to one that has seen nothing yet")
        if earlier.pending or earlier._evidence:
            raise InvalidParameter(
                f"the earlier recognizer holds back {earlier.pending} decisions and {len(earlier._evidence)} labels; "
                "call its flush() before, and drain it"
            )
        for label in opened_since(its, before, trained.labels):
            check_label(label, trained.labels, self._parameters.unknown)
        self._stream, events = carry_over(its, before, trained, stream)
        self._measured = None
        self._events.extend(events)
        self.counters.update(earlier.counters)

    @property
    def trained(self) -> TrainedModel:
        """The frozen known classes, to be shared with other recognizers."""
        return self._frozen()[0]

    # The stream.

    def _frozen(self) -> tuple[TrainedModel, Stream]:
        if self._training is not None or self._trained is None or self._stream is None:
            raise NotTrained("training has not ended; call freeze() first")
        return self._trained, self._stream

    def _close(self, release: bool = False) -> None:
        """Decide the buffered instances and let buffered labels take effect; on an error all stays as it is."""
        assert self._trained is not None
        assert self._stream is not None
        waiting = {a.key for a in self._buffer}
        now: list[Evidence] = []
        later: list[Evidence] = []
        for evidence in self._evidence:
            (later if evidence.row is None and evidence.key in waiting else now).append(evidence)
        arrived = []
        if self._buffer:
            values, times, keys = zip(*self._buffer, strict=True)
            rows = whiten(self._trained.space, np.array(values, dtype=float))
            arrived = list(map(Arrived, rows, times, keys))
        self._stream, batch = close_batch(
            self._trained, self._stream, arrived, now, self._parameters, release=release, limited=self.limited
        )
        self._buffer = []
        self._evidence = later
        self._decisions.extend(batch.decisions)
        self._events.extend(batch.events)
        if batch.summed:
            self.counters["events_summed"] += batch.summed
        self.counters["unknown_keys"] += len(batch.unknown_keys)

    def flush(self) -> None:
        """Close the micro-batch as it is, however few instances it has, and hold no decision back any longer."""
        if self._stream is None:
            return
        if self._buffer or self._evidence or self._stream.waiting.decisions or self._stream.telling.counts:
            self._close(release=True)
            if self._evidence:
                self._close(release=True)

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
        if self._buffer or self._evidence:
            self._close()

    def drain(self) -> Iterator[Decision]:
        """Yield the final decisions, in order of arrival, each once: of finished micro-batches, or later (delay)."""
        while self._decisions:
            yield self._decisions.popleft()

    def drain_events(self) -> Iterator[Event]:
        """Yield the events of finished micro-batches, each once."""
        while self._events:
            yield self._events.popleft()

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
        self._parameters = parameters(**{**self._get_params(), "min_probability": value})
        self.min_probability = self._parameters.min_probability

    @property
    def pending(self) -> int:
        """Instances without a final decision: in an unfinished micro-batch, or held back by ``decision_delay``."""
        return len(self._buffer) + (0 if self._stream is None else len(self._stream.waiting.decisions))

    # Prediction: immediate, pure.

    def _known_labels(self) -> Sequence[Label]:
        if self._training is not None:
            return self._training.labels
        return self._stream.labels if self._stream is not None else ()

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Predict from the present state alone, without waiting for a batch; nothing changes.

        Returns
        -------
        Probability of each known class and of the unknown label; empty before anything was learnt.
        """
        if self._trained is None:
            return {}
        plain = self._trained.features.plain(x)
        values = self._row(self._trained.features, check_mapping(x)).values if plain is None else plain
        return self._proba(np.array([values], dtype=float))[0]

    def _most_probable(self, probabilities: dict[Label, float]) -> Label | None:
        if not probabilities:
            return None
        best = max(probabilities, key=probabilities.__getitem__)
        return best if probabilities[best] >= self._parameters.min_probability else list(probabilities)[-1]

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Predict the label: a known class or the unknown label; ``None`` before anything was learnt."""
        return self._most_probable(self.predict_proba_one(x))

    def _proba(self, values: np.ndarray) -> list[dict[Label, float]]:
        """Probabilities of rows of shape (n, p), NaN = missing."""
        assert self._trained is not None
        assert self._stream is not None
        if self._glance is None or self._glance.stream is not self._stream:
            self._glance = Glance(self._trained, self._stream, self._parameters.max_false_unknown)
        names = self._names(self._stream)
        return [dict(zip(names, row, strict=True)) for row in self._glance.probabilities(values).tolist()]

    def __copy__(self) -> OpenSetRecognizer:
        """Another recognizer that goes on from here; all that never changes is shared, so that it costs nothing."""
        twin = object.__new__(type(self))
        vars(twin).update({**vars(self), **{name: copy(getattr(self, name)) for name in _CHANGING}})
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_glance": None, "_measured": None}  # derived, and made again when asked

    def _names(self, stream: Stream) -> tuple[Label, ...]:
        return (*stream.labels, unknown_label(self._parameters.unknown, stream.labels))

    def _proba_rows(self, X: Any) -> list[dict[Label, float]]:
        _, records = frame_rows(X)
        if self._trained is None:
            return [{} for _ in records]
        rows = [self._row(self._trained.features, record, i).values for i, record in enumerate(records)]
        return self._proba(np.array(rows).reshape(len(rows), len(self._trained.names)))

    def predict_proba_many(self, X: Any, **kwargs: Any) -> Any:
        """Predict for the rows of a data frame; a frame of the same kind, a column for each label."""
        from river.utils.dataframe import into_frame, to_native_frame

        out = self._proba_rows(X)
        names = () if self._stream is None else self._names(self._stream)
        return to_native_frame({name: np.array([row[name] for row in out]) for name in names}, like=into_frame(X))

    def predict_many(self, X: Any, **kwargs: Any) -> Any:
        """Predict the label of each row of a data frame; a series of the same kind."""
        from river.utils.dataframe import into_frame, to_native_series

        labels = [self._most_probable(row) for row in self._proba_rows(X)]
        return to_native_series(labels, name=None, like=into_frame(X))

    # What the model looks like.

    def summary(self) -> Summary:
        """Sum up the known classes and what the stream is made of: the discovery table of the paper.

        The number of new classes in it is that of :meth:`new_classes`, and costs as much time.
        """
        if self._stream is None:
            raise NotTrained("there is nothing to sum up before anything was learnt")
        stream, found = self._stream, self.new_classes()
        known = stream.known
        groups = []
        for j, label in enumerate(stream.labels):
            shares = {int(known.ids[k]): float(known.seated[j, k] / known.size[j]) for k in _members(known.seated[j])}
            largest = sorted(shares.items(), key=lambda item: -item[1])
            groups.append(Group(label, int(known.size[j]), tuple(largest)))
        trained = self._trained if self._training is None else None
        lives = stream.life.subclasses
        emerging = [
            (key, size, key in lives and lives[key].emerged)
            for key, size in zip(stream.state.ids.tolist(), stream.state.dishes.size.tolist(), strict=True)
            if not (key in lives and lives[key].owned)
        ]
        aside = stream.chains[0].aside
        emerging += [(int(key), int(size), True) for key, size in zip(aside.ids, aside.statistics.size, strict=True)]
        emerging.sort(key=lambda item: (-item[1], item[0]))
        total = sum(stream.decided)
        unknown = stream.decided[-1] / total if total else 0.0
        return Summary(
            known=tuple(groups),
            stream_size=total,
            known_share=1.0 - unknown if total else 0.0,
            unknown_share=unknown,
            emerging=tuple(emerging),
            delta=found.delta,
            new_classes=found.estimate,
            promised_recall=None if trained is None else trained.report.known_recall,
            expected_recall=self.expected_recall,
            guarded=trained is None or not trained.unguarded,
        )

    @property
    def signals(self) -> Signals:
        """What goes on beside the known, counted, and the recall to be expected (see :class:`stream_osr.Signals`).

        Examples
        --------
        >>> model = OpenSetRecognizer()
        >>> model.learn_one({"a": 1.0, "b": None}, "left")
        >>> model.signals.data_quality, model.signals.expected_recall
        (1, None)
        """
        stream = self._stream
        if stream is None:
            return Signals(data_quality=self.counters["bad_rows"])
        return stream.signals._replace(
            data_quality=self.counters["bad_rows"],
            expected_recall=self.expected_recall,
            recall_dropped=stream.called is not None and stream.called.dropped,
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
        trained, stream = self._trained, self._stream
        return None if trained is None or stream is None else expected_recall(trained, stream)

    @property
    def menu(self) -> Menu:
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
        trained, stream = self._frozen()
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
        if self._stream is None:
            raise NotTrained("there are no new classes before anything was learnt")
        found, self._measured = new_classes(self._stream, self._measured)
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
        return {} if self._stream is None else emerged_statistics(self._stream)

    def save(self, path: str | PathLike[str]) -> None:
        """Save everything, buffer included, as arrays and a JSON manifest; :meth:`load` goes on bit for bit."""
        write_archive(path, "recognizer", self.as_state())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> OpenSetRecognizer:
        """Load what :meth:`save` wrote. Nothing in the file is executed."""
        return cls.from_state(read_archive(path, "recognizer"), str(path))

    def as_state(self) -> dict[str, Any]:
        """Return everything as plain values and records, for an archive: both parts, buffer, what is not drained."""
        return {
            "arguments": self._get_params(),
            "counters": dict(self.counters),
            "training": None if self._training is None else self._training.as_state(),
            "trained": self._trained,
            "stream": self._stream,
            "buffer": [a._replace(row=np.array(a.row, dtype=float)) for a in self._buffer],
            "evidence": self._evidence,
            "decisions": list(self._decisions),
            "events": list(self._events),
        }

    def stream_state(self) -> dict[str, Any]:
        """Return what :meth:`as_state` does, without the trained part, for recognizers that share one.

        It refers to arrays of the trained part: an archive of it is written and read beside ``trained.shared``.
        """
        return {**self.as_state(), "trained": None, "fingerprint": self.trained.fingerprint}

    @classmethod
    def from_stream_state(
        cls, trained: TrainedModel, state: Mapping[str, Any], name: str = "the saved recognizer"
    ) -> OpenSetRecognizer:
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
    def from_state(cls, state: Mapping[str, Any], name: str = "the saved recognizer") -> OpenSetRecognizer:
        """Make the recognizer that :meth:`as_state` described; ``name`` is what an error calls it.

        Raises
        ------
        PersistenceError
            If it describes none.
        """
        try:
            model = cls(**state["arguments"])
            check_recognizer(state, model._parameters, name)
            model.counters = Counter(state["counters"])
            model._training = None if state["training"] is None else TrainingSet.from_state(state["training"])
            model._trained, model._stream = state["trained"], state["stream"]
            model._buffer, model._evidence = state["buffer"], state["evidence"]
            model._decisions, model._events = deque(state["decisions"]), deque(state["events"])
        except (LookupError, TypeError, ValueError) as error:
            told = printable(str(error), 300)
            raise PersistenceError(
                f"{name} cannot be used ({told}); was it saved by another version of stream-osr?"
            ) from error
        if model._training is None and model._trained is not None:
            model._trained.tell_unguarded()
        return model


def _members(seated: np.ndarray) -> np.ndarray:
    return np.flatnonzero(seated > 0)
