"""Trained part of a recognizer: immutable, without training instances, shared without copying."""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Annotated, Any, cast

import numpy as np

from stream_osr.discovery.data_quality import UsualColumns, usual_columns
from stream_osr.errors import InvalidParameter
from stream_osr.instances.features import Features
from stream_osr.instances.kinds import Kinds, Name, numbers_of, recoded
from stream_osr.instances.labels import doubtful
from stream_osr.instances.reading import Comma
from stream_osr.model.autocorrelation import correlation_of
from stream_osr.model.background_components import BackgroundComponent
from stream_osr.model.dependence import ArrivalOrder, find_order
from stream_osr.model.feature_space.binary_features import OF_CONSTANT, texts_of
from stream_osr.model.feature_space.subspace import MOST
from stream_osr.model.feature_space.whitening import Whitening, whiten
from stream_osr.model.known import Densities, Known, densities
from stream_osr.model.location_fit import share_among_neighbours
from stream_osr.model.noise import Background, NoiseModel, fit_noise_range, noise_model_of
from stream_osr.model.prior import Prior, homogeneous
from stream_osr.model.training import Training, train
from stream_osr.parameters import Label, Parameters
from stream_osr.support import rules
from stream_osr.support.memory import warn_of_memory
from stream_osr.support.parallel import each, one_thread
from stream_osr.training import members, training_report
from stream_osr.training.coordinates import Coordinates, Modes, as_modelled, fit_coordinates, search_modes, whitened
from stream_osr.training.dependent import Ensemble, judge_in_order, summarized, without_runs
from stream_osr.trust.mislabelled import mislabelled
from stream_osr.trust.recall import promise
from stream_osr.trust.references import References, choose_references
from stream_osr.trust.unseen_densities import TrainingRows, divided, unseen_densities, unseen_rows, with_ranks

logger = logging.getLogger("stream_osr")


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """The frozen known classes, as :meth:`stream_osr.OpenSetRecognizer.freeze` trains them.

    Several recognizers can share one model, for example one for each Kafka partition. None of them changes it.

    Attributes
    ----------
    names
        Names of the features, in the order of the rows.
    labels
        Labels of the known classes.
    whitening
        Map to whitened coordinates.
    draws
        Statistics of the known subclasses, in each of the averaged models.
    report
        Report of training.
    references
        Reference instances that monitor the known classes during the stream. ``None``: the reference check is off.
    noise_range
        Range of the training data, for the density of instances that resemble nothing.
    categories
        Values of each category, in the order of the features. Then the texts of the values of binary features.
    order
        Dependence of neighbouring training instances. ``None``: the order carries no information.
    usual
        Usual values of raw columns and rows. ``None``: the model is provisional.
    absent_zero
        Features that are zero in an instance that does not name them.
    commas
        Meaning of a comma in the numbers of each feature: ``""``, ``"decimal"`` or ``"thousands"``. Empty: there are
        no commas.
    missing
        Additional markers of a missing value.
    """

    names: Annotated[tuple[Name, ...], rules.length("p"), rules.distinct]
    labels: Annotated[tuple[Label, ...], rules.length("J"), rules.distinct]
    whitening: Annotated[Whitening, rules.sizes("p d")]
    draws: Annotated[tuple[Annotated[Known, rules.sizes("J d")], ...], rules.length("R"), rules.some]
    report: training_report.TrainingReport = field(compare=False)
    references: Annotated[References, rules.sizes("J R")] | None
    noise_range: Annotated[Background, rules.sizes("d")]
    categories: tuple[Annotated[tuple[str, ...], rules.distinct], ...] = ()
    order: Annotated[ArrivalOrder, rules.sizes("J d")] | None = None
    usual: Annotated[UsualColumns, rules.sizes("p")] | None = None
    absent_zero: tuple[Name, ...] = ()
    commas: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def known(self) -> Known:
        """The leading draw, which subclasses and events refer to."""
        return self.draws[0]

    @property
    def prior(self) -> Prior:
        """Base measure of the leading draw."""
        return self.known.prior

    @cached_property
    def features(self) -> Features:
        """Reader of rows."""
        commas = {name: cast(Comma, comma) for name, comma in zip(self.names, self.commas, strict=False) if comma}
        kinds = Kinds(self.values, commas=commas, missing=frozenset(self.missing))
        return Features(self.names, kinds, self.absent_zero, self.report.left_out)

    @property
    def values(self) -> dict[Name, tuple[str, ...]]:
        """Values of the features that are categories, by name."""
        columns = [self.names[at] for at in self.whitening.columns.tolist()]
        return dict(zip(columns, self.categories, strict=False))

    def in_order(self, features: Features, values: np.ndarray) -> np.ndarray:
        """Reorder a row that was read with other features into the order of this model."""
        its, own = features.kinds.values, self.values
        zero = self.features.zero - features.zero
        if features.names == self.names and its == own and not zero:
            return values
        out, at = np.full(len(self.names), np.nan), {name: at for at, name in enumerate(features.names)}
        for place, name in enumerate(self.names):
            if name in at and (name in its) == (name in own):
                value = values[at[name]]
                out[place] = recoded(np.array(value), its[name], own[name]) if name in its else value
            elif name in at and name in its:  # text that training takes for numbers
                code = np.array([values[at[name]]])
                out[place] = numbers_of(code, its[name], self.features.kinds.commas.get(name, ""))[0][0]
            if name in zero and np.isnan(out[place]):
                out[place] = 0.0
        return out

    @cached_property
    def densities(self) -> tuple[Densities, ...]:
        """Frozen densities of the known classes, in each draw."""
        return tuple(densities(known) for known in self.draws)

    @property
    def is_dependent(self) -> bool:
        """True if neighbouring training instances of a class depend on each other."""
        return self.order is not None and self.order.process is not None

    @cached_property
    def noise(self) -> NoiseModel:
        """Noise model: density of instances that resemble no class."""
        return noise_model_of(self.noise_range)

    @cached_property
    def unguarded(self) -> str:
        """Reason why the reference check is off, with a remedy. Empty: it is on."""
        if self.references is not None and len(self.references.group):
            return ""
        return (
            "no reference instances were kept: nothing guards the known classes. They may turn unknown as the stream "
            "goes on, without a warning. Train with limits=Limits(references=1000), and with more than one instance "
            "of a class"
        )

    @cached_property
    def _progress(self) -> None:
        if self.unguarded:
            logger.warning("%s", self.unguarded)

    def with_chains(self, count: int) -> TrainedModel:
        """Return this model with only its first chains: faster, and somewhat less accurate.

        The expected recall still refers to all chains.

        Raises
        ------
        InvalidParameter
            If the model has fewer chains.

        Examples
        --------
        >>> from stream_osr import OpenSetRecognizer
        >>> model = OpenSetRecognizer(chains=3)
        >>> for i in range(40):
        ...     model.learn_one({"a": i % 7, "b": i % 5}, "left")
        ...     model.learn_one({"a": 20 + i % 7, "b": i % 5}, "right")
        >>> report = model.freeze()
        >>> len(model.trained.draws), len(model.trained.with_chains(2).draws)
        (3, 2)
        >>> model.trained.with_chains(4)
        Traceback (most recent call last):
            ...
        stream_osr.errors.InvalidParameter: chains is 4: the model was trained with 3. Take 1 to 3, or train with more
        """
        there = len(self.draws)
        if not 1 <= count <= there:
            raise InvalidParameter(
                f"chains is {count}: the model was trained with {there}. Take 1 to {there}, or train with more"
            )
        if count == there:
            return self
        asked = self.references
        if asked is not None:
            asked = asked._replace(log_density=asked.log_density[:count])
        return replace(self, draws=self.draws[:count], references=asked)

    def tell_unguarded(self) -> None:
        """Log a warning if the reference check is off, once for each model."""
        self._progress  # noqa: B018  # evaluated once

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decisions depend on, as 64 hexadecimal digits."""
        digest = hashlib.sha256(repr((self.names, self.labels)).encode())
        if self.absent_zero:
            digest.update(repr(self.absent_zero).encode())
        if self.categories:
            digest.update(repr(self.categories).encode())
        if any(self.commas) or self.missing:
            digest.update(repr((self.commas, self.missing)).encode())
        asked: tuple[Any, ...] | None = self.references
        if asked is not None and not self.is_dependent:
            asked = asked[:4]
        order = self.order if self.is_dependent else None
        for part in _leaves((self.whitening, self.draws, asked, self.noise_range, order)):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    def __getstate__(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _leaves(value: Any) -> Iterator[Any]:
    """Walk through nested tuples."""
    if isinstance(value, Prior):
        yield 0  # a number of the covariance model, of which there is one
        if (value.spread == 1.0).all():  # as in archives of version 11
            value = tuple(part for name, part in value._asdict().items() if name != "spread")
    if isinstance(value, BackgroundComponent) and value.share == 1.0:
        value = value.shape
    if isinstance(value, tuple):
        for part in value:
            yield from _leaves(part)
    elif value is not None:
        yield value


def train_model(
    features: Features,
    X: np.ndarray,
    group: np.ndarray,
    labels: tuple[Label, ...],
    parameters: Parameters,
    *,
    order: np.ndarray | None = None,
    units: np.ndarray | None = None,
    sweeps: int | None = None,
    draws: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> TrainedModel:
    """Train on labelled rows.

    Parameters
    ----------
    features
        Names of the columns.
    X
        Rows, NaN = missing, shape (n, p), n >= 1.
    group
        Class number of each row, shape (n,).
    labels
        Label of each class number.
    parameters
        Hyperparameters and seed.
    order
        Position of each row in the order of arrival, shape (n,). ``None``: the order carries no information.
    units
        Number of the person, device or day of each row, shape (n,). ``None``: not known.
    sweeps
        Number of training sweeps. It overrides ``parameters.training_sweeps``.
    draws
        Number of models to train. The default is one for each chain.
    progress
        Function that is called with the number of each finished sweep over all models.

    Raises
    ------
    InvalidParameter
        If the instances are unsuitable for the hyperparameters.
    """
    p = parameters
    zero, modelled = features.zero, as_modelled(features, X, p)
    features, X, binary_features, places = modelled[:4]
    sweeps = p.training_sweeps if sweeps is None else sweeps
    count = p.chains if draws is None else draws
    kinds = members.MIXED if p.ensemble == "mixed" and count > 1 else members.DRAWN
    numeric = int((places == 0).sum())
    kept = min(numeric, MOST + 1 if p.pca is None else len(X))
    if draws is None and (question := doubtful(len(labels), len(group))):
        logger.warning(question)
    warn_of_memory(X.shape[1], min(kept, p.pca if isinstance(p.pca, int) else kept), len(labels), count)
    missing, missing_numeric = int(np.isnan(X).sum()), float(np.isnan(X[:, places == 0]).mean()) if numeric else 0.0
    with one_thread():
        fitted = fit_coordinates(modelled, group, p, order)
        modes, found_order = Modes(fitted, None, None), None
        if draws is None:  # a provisional model does not search for modes
            found_order = _order_of(fitted, group, order)
            modes = search_modes(fitted, modelled, group, found_order, p)
            if modes.spread is not None:
                found_order = _order_of(modes.fitted, group, order)
        (X, plan, whitening), start, spread = modes
        raw, rows = TrainingRows(X, group, units), whiten(whitening, X)
        swept = partial(train, rows, group, whitening, sweeps=sweeps, start=start)
        done = itertools.count(1)

        def tell(_: int) -> None:
            whole, rest = divmod(next(done), count)
            if progress is not None and not rest:
                progress(whole)

        def fit(number: int, moves: bool = True) -> Training:
            rng = np.random.default_rng([p.seed, len(X), number] if number else [p.seed, len(X)])
            member = kinds[number % len(kinds)]
            unplaced = member._replace(placed=False)
            base_measure = partial(members.base_measure, spread=spread, alarms=modelled.alarms)
            prior, grid, location = base_measure(member, rows, group, whitening, p)
            if share_among_neighbours(homogeneous(rows), group, prior, location) < members.LEAST_IN_COMPANY:
                prior, grid, location = base_measure(unplaced, rows, group, whitening, p)
            training = swept(prior, rng, grid=grid, location=location, moves=moves, progress=tell if moves else None)
            if location.freedom > 0.0 and members.comes_apart(training, group, p.epsilon):
                prior, grid, location = base_measure(unplaced, rows, group, whitening, p)
                training = swept(prior, rng, grid=grid, location=location, moves=moves)
            return training

        least = rows.shape[1] + members.COARSE_NU_ABOVE_DIMENSION
        few = kinds is members.MIXED and np.median(np.bincount(group)) < least

        def fit_all(moves: bool = True) -> Ensemble:
            trainings = each(partial(fit, moves=moves), range(count), p.n_jobs)
            if few:
                trainings[:2] = reversed(trainings[:2])
            return summarized(trainings, p)

        def unseen(ensemble: Ensemble, *blocks: Any, **apart: Any) -> list[np.ndarray]:
            return unseen_densities(raw, p, ensemble.trainings, ensemble.left_out, plan, *blocks, **apart)

        ensemble = fit_all()
        draws_of, log_density = ensemble.draws, ensemble.left_out
        references, wrong, among_neighbours = None, np.zeros(len(group), bool), None
        if draws is None:  # a provisional model guards nothing
            gain, effective, tempered = None, 1.0, False
            if order is None or found_order is None or found_order.process is None:
                log_density = unseen(ensemble)
            else:
                ensemble, whole = without_runs(ensemble, fit_all(moves=False), group, order, unseen)
                if units is None:
                    among_neighbours = promise(unseen(ensemble), group).recall
                judged = judge_in_order(found_order, group, order, ensemble, whole, unseen, p)
                found_order, draws_of, log_density, gain, effective, tempered = judged
            draws_of = [with_ranks(known, group, found) for known, found in zip(draws_of, log_density, strict=True)]
            blocks = () if gain is None else (order, effective if tempered else 1.0)
            within = log_density if units is None else unseen(ensemble, *blocks, within=True)
            if gain is None:  # a block of arrival without its neighbours may look like another class
                wrong = mislabelled(within, group)
            first = ensemble.trainings[0]
            rows_unseen = unseen_rows(raw, p, first, None if gain is None else order)
            part = None if gain is None else divided(raw, p, first, order)
            references = choose_references(rows_unseen, group, log_density, p, wrong, gain, effective, tempered, part)
        right, apart = group[~wrong], None if units is None or draws is not None else units[~wrong]
        promised, by_group = promise([found[~wrong] for found in log_density], right, apart), None
        if apart is not None:
            same = promise([found[~wrong] for found in within], right).recall
            by_group = training_report.report_units(apart, right, labels, same)
    counts = np.bincount(group, minlength=len(labels))
    report = training_report.TrainingReport(
        instances=dict(zip(labels, counts.tolist(), strict=True)),
        subclasses=dict(zip(labels, (draws_of[0].seated > 0).sum(axis=1).tolist(), strict=True)),
        **training_report.report_groups(draws_of[0], labels),
        known_recall=promised.recall,
        recall_interval=(promised.low, promised.high),
        references=0 if references is None else len(references.group),
        small_classes=tuple(label for label, n in zip(labels, counts, strict=True) if n < rows.shape[1]),
        constant_features=tuple(n for n, c in zip(features.names, whitening.constant, strict=True) if c),
        missing_values=missing,
        missing_numeric=missing_numeric,
        absent_zero=tuple(name for name in features.names if name in zero),
        mislabelled=int(wrong.sum()),
        variance_left_out=whitening.variance_left,
        dimensions=whitening.forward.shape[1],
        **training_report.report_plan(
            plan, [name for name, count in zip(features.names, places, strict=True) if not count]
        ),
        **training_report.report_binary_features(binary_features, features.names),
        correlation=correlation_of(found_order.pairs)[0] if found_order is not None and found_order.process else None,
        recall_among_neighbours=among_neighbours,
        by_group=by_group,
        bent_features=tuple(features.names[at] for at in whitening.yeo_johnson.columns.tolist()),
    )
    categories = [features.kinds.values[features.names[at]] for at in whitening.columns.tolist()]
    categories += [texts for _, texts in texts_of(binary_features, features.names)]
    usual = None
    if draws is None:
        turn = np.arange(len(X)) if order is None else np.argsort(order, kind="stable")
        usual = usual_columns(modelled.X[turn], group[turn], places == 0, places == OF_CONSTANT)
    found = tuple(draws_of), report, references, fit_noise_range(X, whitening), tuple(categories), found_order, usual
    commas = tuple(str(features.kinds.commas.get(name, "")) for name in features.names)
    read = commas if any(commas) else (), tuple(sorted(features.kinds.missing))
    return TrainedModel(features.names, labels, whitening, *found, report.absent_zero, *read)


def _order_of(fitted: Coordinates, group: np.ndarray, order: np.ndarray | None) -> ArrivalOrder | None:
    """Find the dependence of neighbouring instances in whitened coordinates."""
    return find_order(whitened(fitted), group, order)
