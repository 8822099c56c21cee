"""Contributions of the features to the log-odds of a row, in the caller's units.

They are computed on request, from the present state alone (:mod:`stream_osr.model.log_odds_parts`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stream_osr.discovery.event_base import NEW_VALUE
from stream_osr.discovery.explain import category_names
from stream_osr.instances.kinds import Name
from stream_osr.instances.labels import unknown_label
from stream_osr.model.feature_space.whitening import numeric
from stream_osr.model.log_odds_parts import LogOddsParts, QueryForms, query_forms, split_log_odds
from stream_osr.model.responsibilities import log_seats_of, view
from stream_osr.parameters import Label, Parameters
from stream_osr.printable_text import printable
from stream_osr.stream.faults import believable
from stream_osr.stream.odd_columns import ForeignColumns
from stream_osr.stream.state import Stream
from stream_osr.training.trained import TrainedModel


class FeatureContribution(NamedTuple):
    """Contribution of one feature to a log-odds.

    Attributes
    ----------
    name
        Name of the feature. One-hot columns count as one feature.
    value
        Its value: a number in the caller's unit, the text of a category, or ``None`` if it is missing.
    contribution
        Change of the log-odds by this value, given the features that follow. A positive number supports the first
        class.
    """

    name: Name
    value: float | str | None
    contribution: float

    def __str__(self) -> str:
        value = "missing" if self.value is None else _short(self.value)
        return f"{_short(self.name)} {value}: {self.contribution:+.1f}"


class LogOdds(NamedTuple):
    """Log-odds of one class against another one, split by features.

    ``log_odds`` is ``prior``, plus the contributions of all ``features``, plus ``rest``.

    Attributes
    ----------
    label, against
        The class, and the other one. ``None``: all known classes together.
    log_odds
        Natural logarithm of the ratio of their probabilities.
    prior
        The log-odds of a row whose features are all missing: how frequent the classes are in the stream.
    features
        The features in the order of their removal. In the log-odds of unknown, unusual values come first. The others
        follow: first the feature whose absence changes the log-odds most, and so on.
    rest
        Contributions of the features that are not in ``features``, and rounding.
    """

    label: Label
    against: Label | None
    log_odds: float
    prior: float
    features: tuple[FeatureContribution, ...]
    rest: float

    def __str__(self) -> str:
        against = "all known classes" if self.against is None else _short(self.against)
        head = f"{_short(self.label)} against {against}: log-odds {self.log_odds:+.1f}, prior {self.prior:+.1f}"
        return "; ".join([head, *map(str, self.features), f"rest {self.rest:+.1f}"])


class Contributions(NamedTuple):
    """Reasons for the label of one row, feature by feature.

    Attributes
    ----------
    unknown
        Log-odds of unknown against all known classes together.
    nearest
        Log-odds of the known class with the highest density against the next one. ``None``: only one class is known.
    """

    unknown: LogOdds
    nearest: LogOdds | None

    def __str__(self) -> str:
        return "\n".join(str(each) for each in self if each is not None)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, with labels and names as text."""
        return {name: None if each is None else _plain(each) for name, each in self._asdict().items()}


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else printable(str(value), 60)


def _plain(odds: LogOdds) -> dict[str, Any]:
    against = None if odds.against is None else str(odds.against)
    features = [{**each._asdict(), "name": str(each.name)} for each in odds.features]
    return {**odds._asdict(), "label": str(odds.label), "against": against, "features": features}


def contributions(
    trained: TrainedModel, stream: Stream, parameters: Parameters, values: np.ndarray, top: int | None = None
) -> list[Contributions]:
    """Split the log-odds of raw rows, NaN = missing, shape (n, p).

    ``top`` is the number of features to name. ``None``: all of them.
    """
    n_classes, chains = len(stream.labels), stream.chains
    views = [view(chain.known, chain.frozen, chain.state, trained.whitening) for chain in chains]
    seats = [log_seats_of(chain.state.franchise) for chain in chains]
    weights = np.array([[*own[:n_classes], np.logaddexp.reduce(own[n_classes:])] for own in seats])
    classes = np.eye(n_classes + 1, dtype=bool)
    labels = (*stream.labels, unknown_label(parameters.unknown, stream.labels))
    table, out = _Table(trained, values, top), dict[int, Contributions]()
    shift = stream.odds.shift
    believed = ForeignColumns(trained, stream).without(believable(stream, values))
    for at, query in query_forms(believed, views, trained.whitening):
        unknown = np.tile(classes[-1], (len(at), 1))
        first = split_log_odds(query, unknown, ~unknown, weights, usual_in=~classes[-1], shift=shift, most=top)
        near, second = _by_density(query, weights[0, :-1]), None
        if n_classes > 1:
            second = split_log_odds(query, classes[near[:, 0]], classes[near[:, 1]], weights, most=top)
        for i, row in enumerate(at.tolist()):
            of_unknown = table.log_odds(row, query.places[i], first, i, (labels[-1], None))
            of_nearest = None
            if second is not None:
                pair = labels[near[i, 0]], labels[near[i, 1]]
                of_nearest = table.log_odds(row, query.places[i], second, i, pair)
            out[row] = Contributions(of_unknown, of_nearest)
    return [out[row] for row in range(len(values))]


def _by_density(query: QueryForms, log_seats: np.ndarray) -> np.ndarray:
    """Order the known classes of each row by their density in the leading chain, densest first, shape (n, J)."""
    end = query.begin[1] if len(query.begin) > 1 else len(query.owner)
    log_weight, owner = query.log_densities()[:, :end], query.owner[:end]
    density = np.full((len(log_weight), len(log_seats)), -np.inf)
    for j in np.flatnonzero(np.isfinite(log_seats)).tolist():
        density[:, j] = np.logaddexp.reduce(log_weight[:, owner == j], axis=1) - log_seats[j]
    return np.argsort(-density, axis=1, kind="stable")


class _Table:
    """Names and values of the features of some rows."""

    def __init__(self, trained: TrainedModel, values: np.ndarray, top: int | None) -> None:
        space = trained.whitening
        self._values, self._first, self._top, self._texts = values, values.shape[1], top, trained.categories
        self._begins = np.cumsum([0, *space.places.tolist()])
        self._names = dict(enumerate([*trained.names, *category_names(space, trained.names)]))
        for at in np.flatnonzero(~numeric(space)).tolist():
            del self._names[at]

    def log_odds(
        self, row: int, places: np.ndarray, parts: LogOddsParts, i: int, labels: tuple[Label, Label | None]
    ) -> LogOdds:
        """Describe one row whose parts have the number i."""
        removed = [k for k in parts.order[i].tolist() if k >= 0]
        others = [k for k in self._names if k not in removed]
        features = tuple(
            FeatureContribution(self._names[k], self._value(row, k, places), float(parts.contributions[i, k]))
            for k in [*removed, *others][: self._top]
        )
        return LogOdds(*labels, float(parts.log_odds[i]), float(parts.prior[i]), features, float(parts.rest[i]))

    def _value(self, row: int, k: int, places: np.ndarray) -> float | str | None:
        if k < self._first:
            value = float(self._values[row, k])
            return None if np.isnan(value) else value
        c = k - self._first
        values: list[str | None] = [None, *self._texts[c], NEW_VALUE]
        return values[int(places[c] - self._begins[c])]
