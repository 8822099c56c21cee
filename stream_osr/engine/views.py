"""What can be seen of a recognizer as it is now: predictions, sums, signals. Nothing changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stream_osr.config import Label
from stream_osr.discovery.new_classes import Measured, NewClasses
from stream_osr.discovery.summaries import ALL_MET, Group, Signals, Summary
from stream_osr.engine import Glance, Menu, Stream, expected_recall, new_classes, references_of
from stream_osr.engine.faults import faulty_columns
from stream_osr.engine.intake import logger, row_of, unlike_training
from stream_osr.engine.order import dependence
from stream_osr.engine.summaries import emerged_statistics
from stream_osr.engine.value import Holder
from stream_osr.ensemble.chain import sizes_of
from stream_osr.errors import NotTrained
from stream_osr.features import check_mapping, frame_matrix, frame_rows
from stream_osr.labels import label_array, unknown_label
from stream_osr.model.marginal import Statistics
from stream_osr.trained import TrainedModel
from stream_osr.trust.recall import ExpectedRecall


class Views(Holder):
    """What a recognizer says of itself, and predicts between batches."""

    _glance: Glance | None = None
    _names: tuple[Label, ...] = ()
    _measured: tuple[Measured, ...] | None = None
    _warned = False

    def __getstate__(self) -> dict[str, Any]:
        seen = ("_glance", "_names", "_measured", "_warned")
        return {name: part for name, part in vars(self).items() if name not in seen}

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Predict from the present state alone, without waiting for a batch; nothing changes.

        Returns
        -------
        Probability of each known class and of the unknown label; empty before anything was learnt.
        """
        value = self.value
        if value.trained is None:
            return {}
        row: Any = value.trained.features.plain(x)
        if row is None:
            row = row_of(value, value.trained.features, check_mapping(x)).values
            self._warn_once(value.trained, row, x)
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
        from river.utils.dataframe import into_frame, to_native_frame

        names, probabilities = self._predict_frame(X)
        if isinstance(X, np.ndarray):
            return probabilities
        return to_native_frame(dict(zip(names, probabilities.T.copy(), strict=True)), like=into_frame(X))

    def predict_many(self, X: Any, **kwargs: Any) -> Any:
        """Predict the label of each row of a data frame or array; a series of the same kind, or an array."""
        from river.utils.dataframe import into_frame, to_native_series

        names, probabilities = self._predict_frame(X)
        labels = [self._most_probable(dict(zip(names, row, strict=True))) for row in probabilities.tolist()]
        if isinstance(X, np.ndarray):
            return label_array(labels)
        return to_native_series(labels, name=None, like=into_frame(X))

    def _predict(self, rows: np.ndarray) -> tuple[tuple[Label, ...], np.ndarray]:
        """Labels, and the probability of each for rows of shape (n, p), NaN = missing."""
        trained, stream = self.value.trained, self.value.stream
        assert trained is not None
        assert stream is not None
        if self._glance is None or self._glance.stream is not stream:
            self._glance = Glance(trained, stream, self.value.parameters.max_false_unknown)
            self._names = (*stream.labels, unknown_label(self.value.parameters.unknown, stream.labels))
        return self._names, self._glance.probabilities(rows)

    def _predict_frame(self, X: Any) -> tuple[tuple[Label, ...], np.ndarray]:
        value = self.value
        matrix = None if value.trained is None else frame_matrix(X, value.trained.features)
        if matrix is not None:
            return self._predict(matrix[0])
        _, records = frame_rows(X, value.features)
        if value.trained is None:
            return (), np.empty((len(records), 0))
        rows = [row_of(value, value.trained.features, record, i).values for i, record in enumerate(records)]
        for row, record in zip(rows, records, strict=True):
            self._warn_once(value.trained, row, record)
        return self._predict(np.array(rows).reshape(len(rows), len(value.trained.names)))

    def _warn_once(self, trained: TrainedModel, row: np.ndarray, x: Mapping[Any, Any]) -> None:
        """Say once that instances to be predicted are unlike those of training."""
        told = self._warned or self.value.counters["unlike"]
        unlike = None if told else unlike_training(trained, row, x)
        if unlike is not None:
            self._warned = True
            logger.warning("%s; this is said once", unlike)

    def _most_probable(self, probabilities: dict[Label, float]) -> Label | None:
        if not probabilities:
            return None
        best = max(probabilities, key=probabilities.__getitem__)
        least = self.value.parameters.min_probability
        return best if probabilities[best] >= least else list(probabilities)[-1]

    @property
    def pending(self) -> int:
        """Instances without a final decision: in an unfinished micro-batch, or held back by ``decision_delay``."""
        stream = self.value.stream
        return len(self.value.buffer) + (0 if stream is None else len(stream.waiting.decisions))

    def summary(self) -> Summary:
        """Sum up the known classes and what the stream is made of: the discovery table of the paper.

        The number of new classes in it is that of :meth:`new_classes`, and costs as much time.
        """
        value, found = self.value, self.new_classes()
        assert value.stream is not None
        trained = value.trained if value.training is None else None
        decided = value.stream.decided
        total = sum(decided)
        unknown = decided[-1] / total if total else 0.0
        return Summary(
            known=tuple(_groups(value.stream)),
            stream_size=total,
            known_share=1.0 - unknown if total else 0.0,
            unknown_share=unknown,
            emerging=tuple(sorted(_emerging(value.stream), key=lambda item: (-item[1], item[0]))),
            delta=found.delta,
            new_classes=found.estimate,
            promised_recall=None if trained is None else trained.report.known_recall,
            expected_recall=self.expected_recall,
            guarded=trained is None or not trained.unguarded,
            unmet=value.unmet or ALL_MET,
        )

    @property
    def signals(self) -> Signals:
        """What goes on beside the known, counted, and the recall to be expected (see :class:`stream_osr.Signals`).

        Examples
        --------
        >>> from stream_osr import OpenSetRecognizer
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
        >>> from stream_osr import OpenSetRecognizer
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
    def menu(self) -> Menu:
        """Numbers of subclasses, and the concentrations, as they are now: cheap, for monitoring.

        Raises
        ------
        NotTrained
            If the training has not ended.

        Examples
        --------
        >>> from stream_osr import OpenSetRecognizer
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
        >>> from stream_osr import OpenSetRecognizer
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
        >>> from stream_osr import OpenSetRecognizer
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


def _groups(stream: Stream) -> list[Group]:
    """Sum up the known classes: of each, the shares of its subclasses."""
    known, out = stream.known, []
    for j, label in enumerate(stream.labels):
        seated = known.seated[j]
        shares = {int(known.ids[k]): float(seated[k] / known.size[j]) for k in np.flatnonzero(seated > 0)}
        out.append(Group(label, int(known.size[j]), tuple(sorted(shares.items(), key=lambda item: -item[1]))))
    return out


def _emerging(stream: Stream) -> list[tuple[int, int, bool]]:
    """List the emerging subclasses that are not known classes anew: id, size, and whether it was announced."""
    life, aside = stream.life, stream.chains[0].aside
    emerged, owned = (set(life.ids[flag].tolist()) for flag in (life.emerged, life.owned))
    there = [(key, size, key in emerged) for key, size in sizes_of(stream.state).items() if key not in owned]
    return there + [(int(key), int(size), True) for key, size in zip(aside.ids, aside.statistics.size, strict=True)]
