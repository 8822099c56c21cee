"""Subclasses and rows in the caller's units.

The module compares an emerging subclass with the nearest known subclass, and converts remembered instances to the
caller's units.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from stream_osr.discovery.event_base import NEW_VALUE, Explanation, Movement
from stream_osr.discovery.lifecycle import EXEMPLARS
from stream_osr.discovery.reservoir import Reservoir
from stream_osr.model.categories import log_table
from stream_osr.model.dish_statistics import Dishes, copy_slots
from stream_osr.model.feature_space.binary_features import texts_of
from stream_osr.model.feature_space.whitening import Whitening, bent_scale, in_deviations, numeric, unwhiten
from stream_osr.model.jit import Array
from stream_osr.model.known import Densities, Known
from stream_osr.model.nearest import beside, by_distance, means_and_scales

MOST_MOVED = 5
"""Number of features that an explanation names as most moved."""


def explain(
    dishes: Dishes,
    slot: int,
    known: Known,
    frozen: Densities,
    whitening: Whitening,
    names: Sequence[Hashable],
    labels: Sequence[Any],
    categories: Sequence[Sequence[str]] = (),
) -> Explanation:
    """Explain the subclass in ``slot`` of ``dishes`` (:class:`Explanation`), with the values of the categories."""
    (near, owner, distance, _), *reported = beside(dishes, slot, known, frozen, whitening)
    numbers = _numeric_places(whitening)
    mean, difference, shift = _by_name(names, numbers, *reported)
    order = np.argsort(-np.abs(reported[-1][numbers]), kind="stable")[:MOST_MOVED]
    moved = tuple(names[numbers[at]] for at in order.tolist())
    values = dict[Hashable, dict[str, Any]]()
    if categories:
        counts = np.array([dishes.counts[slot], known.dishes.counts[near]])
        shares = np.split(np.exp(log_table(counts, known.prior)), known.prior.first[1:], axis=1)
        values = _values(category_names(whitening, names), categories, shares)
    return Explanation(mean, difference, shift, moved, labels[owner], int(known.ids[near]), distance, values)


def _values(
    names: Sequence[Hashable], categories: Sequence[Sequence[str]], shares: Sequence[Array]
) -> dict[Hashable, dict[str, Any]]:
    """Return the commonest values, from the probabilities here and in the nearest subclass."""
    reported = list[tuple[float, Hashable, dict[str, Any]]]()
    for name, texts, own in zip(names, categories, shares, strict=True):
        p, q = own[:, 1:]
        at, its = int(p.argmax()), int(q.argmax())
        value, other = (None if place == len(texts) else texts[place] for place in (at, its))
        record = {"value": value, "share": float(p[at]), "usual": other, "usual_share": float(q[its])}
        reported.append((float(p @ np.log(p / q)), name, record))
    reported.sort(key=lambda each: -each[0])
    return {name: record for _, name, record in reported}


def exemplars(dishes: Dishes, slot: int, kept: Reservoir, known: Known) -> tuple[Any, ...]:
    """Return the keys of the sampled rows nearest to the mean of the subclass in ``slot``."""
    if not len(kept.seq):
        return ()
    return tuple(kept.keys[at] for at in by_distance(dishes, slot, kept.rows, known)[:EXEMPLARS])


def explain_move(mean: Array, j: int, known: Known, whitening: Whitening, names: Sequence[Hashable]) -> Movement:
    """Describe the movement of known class ``j`` to a mean of whitened rows, shape (d,) (:class:`Movement`)."""
    members = np.flatnonzero(known.seated[j] > 0)
    share = known.seated[j, members] / known.seated[j, members].sum()
    means, covariances = means_and_scales(copy_slots(known.dishes, members, len(members)), known.prior)
    centre = share @ means
    covariance = np.tensordot(share, covariances, axes=1) + (share * (means - centre).T) @ (means - centre)
    shift = in_deviations(whitening, mean, centre, covariance)
    columns = *unwhiten(whitening, np.array([mean, centre])), shift
    return Movement(*_by_name(names, _numeric_places(whitening), *columns))


def _numeric_places(whitening: Whitening) -> list[int]:
    places: list[int] = np.flatnonzero(numeric(whitening)).tolist()
    return places


def category_names(whitening: Whitening, names: Sequence[Hashable]) -> list[Hashable]:
    """Name the categories, those of binary features last."""
    given = [names[at] for at in whitening.columns.tolist()]
    return [*given, *(name for name, _ in texts_of(whitening.binary_features, names))]


def _by_name(names: Sequence[Hashable], numbers: Sequence[int], *columns: Array) -> list[dict[Hashable, float]]:
    own = [names[at] for at in numbers]
    return [dict(zip(own, values[numbers].tolist(), strict=True)) for values in columns]


ROUNDING = 1e-9
"""Largest value that counts as rounding about zero, in within-class standard deviations of a feature."""


def values_of(
    rows: Array, whitening: Whitening, names: Sequence[Hashable], categories: Sequence[Sequence[str]] = ()
) -> dict[Hashable, list[Any]]:
    """Convert whitened rows to raw values, as far as the model keeps them.

    Directions that training left out are at their mean, and missing values are imputed.

    Parameters
    ----------
    rows
        Whitened rows, shape (n, C + d).
    whitening
        Map that made the rows.
    names
        Names of the raw features, shape (p,).
    categories
        Values of each of the C categories. Those of binary features are last.

    Returns
    -------
    dict
        A list of n values for each numeric feature, then for each category. A missing category is None.

    Examples
    --------
    >>> from stream_osr.model.feature_space.whitening import fit_whitening, whiten
    >>> X = np.array([[1.0, 5.0], [2.0, 5.5], [3.0, 4.0], [7.0, 9.0]])
    >>> space = fit_whitening(X, np.array([0, 0, 1, 1]))
    >>> {name: np.round(values, 6).tolist() for name, values in values_of(whiten(space, X), space, "ab").items()}
    {'a': [1.0, 2.0, 3.0, 7.0], 'b': [5.0, 5.5, 4.0, 9.0]}
    """
    count = len(whitening.places)
    raw = unwhiten(whitening, rows[:, count:])
    raw[np.abs(raw) < ROUNDING * bent_scale(whitening, np.eye(whitening.backward.shape[0]))] = 0.0
    out: dict[Hashable, list[Any]] = {names[at]: raw[:, at].tolist() for at in _numeric_places(whitening)}
    given, begins = category_names(whitening, names), np.cumsum([0, *whitening.places.tolist()])
    for name, texts, begin, column in zip(given, categories, begins[:-1], rows.T[:count], strict=True):
        values = [None, *texts, NEW_VALUE]
        out[name] = [values[place] for place in (column - begin).astype(np.int64).tolist()]
    return out
