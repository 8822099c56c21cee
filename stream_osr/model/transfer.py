"""Transfer to a new trained model: the stream's subclasses in its coordinates and among its classes.

Both models whiten rows by affine maps, so a plain sum of products in one model's coordinates is one in the other's.
No parameter is estimated again. If the models transform features differently (:mod:`.yeo_johnson`),
rows are mapped exactly. Subclasses are mapped by the linear approximation about their mean. Known classes with a
class shift are translated without approximation.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.model.dish_statistics import Dishes, add, copy_slots, empty_dishes, log_predictive, settle
from stream_osr.model.edit import rewrite, with_tables
from stream_osr.model.feature_space.binary_features import BinaryFeatures, each_flag
from stream_osr.model.feature_space.whitening import Whitening, numeric
from stream_osr.model.feature_space.yeo_johnson import YeoJohnson, bend, slopes, unbend
from stream_osr.model.jit import Array, kernel
from stream_osr.model.known import Densities, Known, log_densities
from stream_osr.model.marginal import Statistics, both, dishes_of, of_nobody, of_slots
from stream_osr.model.prior import NO_COLUMN, Prior, homogeneous, same_prior
from stream_osr.model.restaurants import CLOSED, StreamState

OTHER = 1 << 30
"""Marker in place of the number of a value that this model does not have."""
GAIN = 2.0
"""Least mean gain of each row in log odds from a separate new subclass.

No class matches its density exactly, and parts of a class gain a little (``tests/test_succession.py``, on LETTER and
PENDIGITS).
"""


NOTHING = np.zeros((0, 0))


class CategoryOrigin(NamedTuple):
    """Origin of a category: its number in another model, and the numbers of the values in this model."""

    category: int
    numbers: Array


class TransformChange(NamedTuple):
    """Change between the transforms of two models, for features in the order of the second.

    Attributes
    ----------
    old, new
        Powers of both.
    center, backward
        Transformed features of a whitened row of the first model: ``center + z @ backward``.
    other_center, forward
        Its whitened row in the second: ``(x - other_center) @ forward``.
    """

    old: YeoJohnson
    new: YeoJohnson
    center: Array
    backward: Array
    other_center: Array
    forward: Array

    def of(self, z: Array) -> Array:
        """Map whitened rows, shape (n, d), to the other coordinates, shape (n, e)."""
        raw = unbend(self.old, self.center + z @ self.backward)
        return np.asarray((bend(self.new, raw) - self.other_center) @ self.forward)

    def about(self, z: Array) -> tuple[Array, Array]:
        """Matrix, shape (d, e), and offset, shape (e,), of the map about a whitened row of shape (d,)."""
        raw = unbend(self.old, self.center + z[None] @ self.backward)
        slope = slopes(self.new, raw) / slopes(self.old, raw)
        matrix = (self.backward * slope) @ self.forward
        return matrix, self.of(z[None])[0] - z @ matrix


class CoordinateMap(NamedTuple):
    """Affine map ``z' = z @ matrix + offset`` from whitened coordinates to those of another model.

    Attributes
    ----------
    matrix
        Shape (d, e).
    offset
        Shape (e,).
    columns
        Origin of each of the other model's categories, -1 if it has none and its value is missing, shape (C,).
    places
        New place of each of the first model's places, -1 if none, shape (V,).
    begins
        First place of each of the other model's categories, shape (C,).
    missing
        Within-class covariance of the features that the first model left out, in the other's coordinates, shape
        (e, e). Empty if it left out nothing.
    bends
        Non-affine part of the map. If there is one, matrix and offset are those about the centre of the first model.
    """

    matrix: Array
    offset: Array
    columns: Array = NO_COLUMN
    places: Array = NO_COLUMN
    begins: Array = NO_COLUMN
    missing: Array = NOTHING
    bends: TransformChange | None = None

    def of(self, rows: Array) -> Array:
        """Map whitened rows, shape (n, C + d), to the other coordinates, shape (n, C + e)."""
        count = rows.shape[1] - len(self.matrix)
        z = rows[:, count:]
        moved = z @ self.matrix + self.offset if self.bends is None else self.bends.of(z)
        if not len(self.columns):
            return np.asarray(moved)
        there = np.tile(self.begins, (len(rows), 1))
        had = self.columns >= 0
        there[:, had] = self.places[rows[:, self.columns[had]].astype(np.int64)]
        return np.hstack([there, moved])

    def about(self, z: Array) -> CoordinateMap:
        """Find the affine map about a whitened row without categories, shape (d,)."""
        if self.bends is None:
            return self
        matrix, offset = self.bends.about(z)
        return self._replace(matrix=matrix, offset=offset, bends=None)


def passage(
    old: Whitening, new: Whitening, order: Sequence[int], values: Sequence[CategoryOrigin | None] = ()
) -> CoordinateMap:
    """Find the map from one model's coordinates to another's, through the caller's own units.

    The old model has no information about its subclasses in the directions that it left out. The map assumes that
    they vary there like the known classes, about the same place. The covariance is the within-class covariance, 1 in
    the new coordinates, less the part that the old coordinates explain.

    Parameters
    ----------
    old, new
        Whitening maps of the models.
    order
        Positions of the new model's features among those of the old one, shape (p,).
    values
        Origin of each category of the new model: the old category, and the number that each old value has in the new
        model. ``None``: the category is new and its values are not known.

    Returns
    -------
    The map, exactly the identity between equal ones.

    Examples
    --------
    >>> from stream_osr.model.feature_space.whitening import fit_whitening, whiten
    >>> rng = np.random.default_rng(0)
    >>> X, group = rng.normal(size=(100, 2)), np.arange(100) % 2
    >>> old, new = fit_whitening(X, group), fit_whitening(3.0 * X[:, ::-1] + 1.0, group)
    >>> way = passage(old, new, [1, 0])
    >>> bool(np.allclose(whiten(old, X) @ way.matrix + way.offset, whiten(new, X[:, ::-1])))
    True
    """
    d = old.forward.shape[1]
    categories = _columns_and_places(old, new, values)
    same = list(order) == list(range(len(old.center))) and np.array_equal(old.center, new.center)
    bends = _bends(old, new, order)
    if same and bends is None and np.array_equal(old.forward, new.forward):
        return CoordinateMap(np.eye(d), np.zeros(d), *categories)
    before, now = numeric(old)[order], numeric(new)
    between = np.where(before, old.center[order] - new.center, 0.0)  # what was a flag may be anywhere
    matrix, offset = old.backward[:, order] @ new.forward, between @ new.forward
    if bends is not None:
        matrix, offset = bends.about(np.zeros(d))
    if d == before.sum() and not (now & ~before).any():
        return CoordinateMap(matrix, offset, *categories, bends=bends)
    power, axes = np.linalg.eigh(np.eye(len(offset)) - matrix.T @ matrix)
    return CoordinateMap(matrix, offset, *categories, (axes * np.maximum(power, 0.0)) @ axes.T, bends)


def _bends(old: Whitening, new: Whitening, order: Sequence[int]) -> TransformChange | None:
    """Find the non-affine part between two maps, or ``None`` if they transform the same features in the same way."""
    place = np.argsort(np.asarray(order, np.int64))
    moved = old.yeo_johnson._replace(columns=place[old.yeo_johnson.columns])
    if all(np.array_equal(a, b) for a, b in zip(moved, new.yeo_johnson, strict=True)):
        return None
    unknown = unbend(new.yeo_johnson, new.center[None])[0]  # what was a flag may be anywhere
    center = np.where(numeric(old)[order], old.center[order], unknown)
    return TransformChange(moved, new.yeo_johnson, center, old.backward[:, order], new.center, new.forward)


def _columns_and_places(
    old: Whitening, new: Whitening, values: Sequence[CategoryOrigin | None]
) -> tuple[Array, Array, Array]:
    """Map the categories: old category of each new one, new place of each old place, first places of the new ones."""
    columns, places = np.full(len(new.places), -1), np.full(int(old.places.sum()), -1)
    begin, begins = np.cumsum(old.places) - old.places, np.cumsum(new.places) - new.places
    for c, (origin, first, count) in enumerate(zip(values, begins, new.places, strict=True)):
        if origin is None:
            continue
        at = columns[c] = origin.category
        end = begin[at] + old.places[at]
        there = 1 + np.minimum(np.append(origin.numbers, count), count - 2)  # what neither had is the last of both
        places[begin[at]], places[begin[at] + 1 : end] = first, first + there
    return columns, places, begins


def origins(
    old: BinaryFeatures, names: Sequence[Hashable], new: BinaryFeatures, now: Sequence[Hashable], given: int
) -> list[CategoryOrigin | None]:
    """Find the origin of each flag in an earlier model: the flag of the same features.

    Parameters
    ----------
    old, names
        Flags and feature names of the earlier model.
    new, now
        Flags and feature names of the new model.
    given
        Number of categories of the earlier model that are not flags. They come first.
    """
    before = {
        frozenset(names[at] for at in members.tolist()): (number, [names[at] for at in members.tolist()], low + high)
        for number, (members, low, high) in enumerate(each_flag(old), given)
    }
    out = list[CategoryOrigin | None]()
    for members, low, high in each_flag(new):
        own = [now[at] for at in members.tolist()]
        if frozenset(own) not in before:
            out.append(None)
            continue
        number, its, twice = before[frozenset(own)]
        value = 0.5 * twice[:, [its.index(name) for name in own]][:, None]
        there = ((low <= value) & (value <= high)).all(axis=2)
        out.append(CategoryOrigin(number, np.where(there.any(axis=1), there.argmax(axis=1), OTHER)))
    return out


def restate(statistics: Statistics, way: CoordinateMap, prior: Prior, other: Prior) -> Statistics:
    """Express subclasses in other coordinates, under another base measure.

    A non-affine map is linearised about the mean of each subclass.
    """
    if way.bends is not None and len(statistics.size):
        sums = statistics.matrix - of_nobody(prior)
        middles = sums[:, -1, :-1] / np.maximum(statistics.size, 1)[:, None]
        parts = (restate(of_slots(statistics, [k]), way.about(z), prior, other) for k, z in enumerate(middles))
        return functools.reduce(both, parts)
    matrix, offset, n = way.matrix, way.offset, statistics.size[:, None]
    stays = np.array_equal(matrix, np.eye(len(matrix))) and not offset.any()
    if same_prior(prior, other) and stays and np.array_equal(way.places, np.arange(len(way.places))):
        return statistics
    sums = statistics.matrix - of_nobody(prior)
    lift = np.block([[matrix, np.zeros((len(matrix), 1))], [offset, np.ones(1)]])
    moved = lift.T @ sums @ lift
    if len(way.missing):
        moved[:, :-1, :-1] += n[:, :, None] * way.missing
    moved = 0.5 * (moved + moved.transpose(0, 2, 1))
    counts = np.zeros((len(n), len(other.pseudo)))
    for own, its in zip(counts, statistics.counts, strict=True):
        np.add.at(own, way.places[way.places >= 0], its[way.places >= 0])
    return Statistics(statistics.size, moved + of_nobody(other), counts)


def class_of(known: Known, frozen: Densities, rows: Array) -> int | None:
    """Find the known class to which whitened rows of shape (n, d) belong together, or ``None``.

    The class is the one that predicts the rows best. It is ``None`` if a new subclass is so much more probable that
    each row gains more than ``GAIN`` by it, on average.
    """
    instances = homogeneous(rows)
    log_density, _, log_new = log_densities(known, frozen, instances)
    alone = float(log_new[0]) + _log_rest(instances, known.prior)
    together = log_density.sum(axis=0)
    best = int(together.argmax())
    return best if alone - together[best] < GAIN * len(rows) else None


@kernel
def _log_rest(rows: Array, prior: Prior) -> float:
    """Log density of a subclass's rows after the first, each predicted from those before it."""
    own, total = empty_dishes(1, prior), 0.0
    add(own, 0, rows[0], prior)
    for i in range(1, rows.shape[0]):
        total += log_predictive(own, 0, rows[i], prior)
        add(own, 0, rows[i], prior)
    return total


def move_in(
    known: Known,
    frozen: Densities,
    fresh: StreamState,
    old: StreamState,
    dish: Array,
    ids: Array,
    statistics: Statistics,
    held: Array,
) -> StreamState:
    """Seat the subclasses of an earlier model's stream in a new stream.

    Tables continue with their weights. This includes the seats of the window's guests, which can no longer be
    re-seated. The known classes keep their initial seats. Concentration, batches and instances continue from the old
    stream.

    Parameters
    ----------
    known, frozen
        The C known classes.
    fresh
        The new stream.
    old
        The earlier stream.
    dish
        New number of each dish of the old menu, ``CLOSED`` if none.
    ids, statistics
        Identities and, in the new coordinates, statistics of the K subclasses: dishes C to C + K - 1.
    held
        1 for those that stay on the menu without a table, else 0, shape (K,).
    """
    dishes = dishes_of(statistics, known.prior)
    franchise, number = old.franchise, dish[old.franchise.table_dish]
    go_on = number != CLOSED
    tables = with_tables(
        fresh.franchise, number[go_on], franchise.table_mass[go_on], franchise.table_founder[go_on]
    )._replace(held=np.append(fresh.franchise.held, held), alpha=franchise.alpha.copy())
    next_id = int(known.ids.max()) + 1
    return rewrite(
        fresh, tables, frozen.menu, dishes=dishes, ids=ids, batches=old.batches, seen=old.seen, next_id=next_id
    )


def moved(known: Known, move: Array) -> Known:
    """Translate known classes by vectors of shape (J, d). The densities keep their shapes.

    A subclass that several classes share moves by the mean of their vectors, weighted by their instances in it.
    """
    held = known.seated.sum(axis=0)
    by = (known.seated / np.maximum(held, 1.0)).T @ move
    background_components = tuple(
        tuple(each._replace(shape=each.shape._replace(mean=each.shape.mean + way)) for each in components)
        for components, way in zip(known.background_components, move, strict=False)
    )
    return known._replace(
        dishes=_translated(known.dishes, by, known.prior), background_components=background_components
    )


def translated(known: Known, slots: Array, way: Array) -> Known:
    """Translate some subclasses of known classes by one vector of shape (C + d,), whose first C numbers are zero."""
    by = np.zeros((len(known.ids), known.prior.n_features))
    by[slots] = way[len(known.prior.first) :]
    return known._replace(dishes=_translated(known.dishes, by, known.prior))


def _translated(dishes: Dishes, by: Array, prior: Prior) -> Dishes:
    """Translate subclasses, including the prior's part in their statistics. Scatters stay the same."""
    count = len(dishes.size)
    out = copy_slots(dishes, np.arange(count), count)
    for k in np.flatnonzero(by.any(axis=1)).tolist():
        way = by[k]
        lift = np.eye(len(way) + 1)
        lift[-1, :-1] = way
        matrix = lift.T @ dishes.matrix[k] @ lift
        out.matrix[k] = 0.5 * (matrix + matrix.T)
        settle(out, k, int(dishes.size[k]), prior)
    return out
