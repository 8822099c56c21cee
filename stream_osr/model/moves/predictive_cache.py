"""Predictive cache: the density of every guest under every emerging subclass, updated as guests move.

Most visits move no guest, and then no density changes. So the sampler computes the densities of all guests of a step
once. It corrects them when a subclass gains or loses a guest. The correction has rank one: the update of the inverse
Q also updates the quadratic forms ``h = x~' Q x~`` (``docs/inference.md``, "Predictive cache").

The cache holds densities, not logarithms, each relative to a reference of the guest. A visit then computes only
products. If the densities drift far from the reference, :func:`restate` chooses another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model import categories, dish_statistics, gaussian
from stream_osr.model.dish_statistics import Dishes
from stream_osr.model.elementwise import exp_each, exp_each_using, largest, log_each_using
from stream_osr.model.jit import Array, borrowing_kernel, called_kernel, fused_borrowing_kernel, kernel
from stream_osr.model.missing_features import MissingPattern, form_without, log_open_density
from stream_osr.model.prior import Prior
from stream_osr.model.restaurants import Franchise, Guests, menu_weight
from stream_osr.model.student_t import packed_forms, products


@fused_borrowing_kernel
def quadratic_forms(inverse: Array, columns: Array, side: Array, out: Array) -> None:
    """Write ``x~' Q x~`` of each column, shape (d + 1, n), to ``out``, shape (n,), using ``side``, shape (n,)."""
    width, n = columns.shape
    out[:] = 0.0
    for a in range(width):
        for i in range(n):
            side[i] = 0.5 * inverse[a, a] * columns[a, i]
        for b in range(a):
            for i in range(n):
                side[i] += inverse[a, b] * columns[b, i]
        for i in range(n):
            out[i] += 2.0 * columns[a, i] * side[i]


@fused_borrowing_kernel
def shift_forms(form: Array, columns: Array, v: Array, factor: float, side: Array) -> None:
    """Add ``factor (x~' v)^2`` of each column to its quadratic form, shape (n,), using ``side``, shape (n,)."""
    width, n = columns.shape
    side[:] = 0.0
    whole = width - width % 4
    for a in range(0, whole, 4):  # four at a time: the sums are read and written a quarter as often
        p, q, r, s = v[a], v[a + 1], v[a + 2], v[a + 3]
        for i in range(n):
            side[i] += p * columns[a, i] + q * columns[a + 1, i] + r * columns[a + 2, i] + s * columns[a + 3, i]
    for a in range(whole, width):
        for i in range(n):
            side[i] += v[a] * columns[a, i]
    for i in range(n):
        form[i] += factor * side[i] * side[i]


TABULATED = 2048
"""Numbers of instances for which computed constants are cached."""

HIGHEST = 700.0
"""Nats above the guest's reference at which a density is cut off. :func:`restate` is due long before."""


class SamplerState(NamedTuple):
    """State that a move of the sampler reads and changes, except the predictive cache.

    Attributes
    ----------
    guests, franchise, dishes
        The state of n guests, changed in place. It is invalid when ``franchise.overflow`` is set.
    prior
        Base measure.
    log_frozen
        Log density of each guest under each of the C frozen dishes, shape (n, C).
    log_new
        Log density of each guest under a new subclass, shape (n,).
    exclusive
        Whether a subclass belongs to the group that opened it.
    weights
        Scratch space for the weights of the dishes up to the extent of the menu, then of a new dish, shape
        (C + K + 1,).
    missing
        Missing values of the guests. ``log_frozen`` and ``log_new`` have them integrated out already.
    """

    guests: Guests
    franchise: Franchise
    dishes: Dishes
    prior: Prior
    log_frozen: Array
    log_new: Array
    exclusive: bool
    weights: Array
    missing: MissingPattern


class Likelihood(NamedTuple):
    """Densities of n guests under C frozen and K Gaussian dishes. An empty slot may hold any number.

    Attributes
    ----------
    density
        Posterior predictive density of each guest under each dish, divided by the guest's reference, shape
        (n, C + K). For the guest's own dish the statistics include the guest (:func:`log_density_without` excludes
        it).
    fresh
        Density of each guest under a new subclass, divided by its reference, shape (n,).
    reference
        Log of the density by which a guest's densities are divided, shape (n,).
    form
        Quadratic forms of the guests' rows, shape (K, n).
    start
        Quadratic forms under the prior, shape (n,).
    columns
        The homogeneous rows transposed, without categories, shape (d + 1, n).
    scratch
        Scratch space for one row, shape (d + 1,).
    side, room
        Scratch space for one number of each guest, twice, shape (n,).
    constant
        Part of the log predictive that depends on the number of instances alone, by that number, NaN if not computed
        yet, shape (m,).
    trace, exponent
        Scratch space for one number of each Gaussian dish, twice, shape (K,).
    missing
        Missing values of the guests.
    places, values
        Places of the guests' categories, shape (C, n), and their log probability under each dish, shape (K, n). Both
        have shape (0, 0) without categories.
    logs, exponents
        Scratch space for one number of each place, twice, shape (V,).
    """

    density: Array
    fresh: Array
    reference: Array
    form: Array
    start: Array
    columns: Array
    scratch: Array
    side: Array
    room: Array
    constant: Array
    trace: Array
    exponent: Array
    missing: MissingPattern
    places: Array
    values: Array
    logs: Array
    exponents: Array


@kernel
def remember(state: SamplerState, product: Array | None = None) -> Likelihood:
    """Compute the densities of the guests under all dishes that are not empty.

    ``product`` (:func:`~stream_osr.model.student_t.products` of their rows) is computed if it is not given.
    """
    rows, dishes, prior = state.guests.rows, state.dishes, state.prior
    log_frozen, log_new, skip = state.log_frozen, state.log_new, prior.first.shape[0]
    columns = categories.numbers_of(rows, skip)
    n, frozen, count = rows.shape[0], log_frozen.shape[1], dishes.size.shape[0]
    start = np.full(n, 1.0 / prior.beta)
    for a in range(prior.n_features):
        for i in range(n):
            start[i] += columns[a, i] * columns[a, i] / (prior.psi * prior.spread[a])
    form = np.empty((count, n))
    density, fresh, reference = np.zeros((n, frozen + count)), np.empty(n), np.empty(n)
    relative = np.empty((n, frozen + 1))
    for i in range(n):
        relative[i, :frozen] = log_frozen[i]
        relative[i, frozen] = log_new[i]
        reference[i] = largest(relative[i])
        relative[i] -= reference[i]
    exp_each(relative.reshape(relative.size))
    density[:, :frozen] = relative[:, :frozen]
    fresh[:] = relative[:, frozen]
    scratch, side, room = np.empty(prior.n_features + 1), np.empty(n), np.empty(n)
    constant, trace, exponent = np.full(TABULATED, np.nan), np.empty(count), np.empty(count)
    values = np.empty((count, n)) if skip > 0 else np.empty((0, 0))
    logs, exponents = np.empty(prior.pseudo.shape[0]), np.empty(prior.pseudo.shape[0])
    own = (state.missing, categories.places_of(rows, skip), values, logs, exponents)
    out = Likelihood(
        density, fresh, reference, form, start, columns, scratch, side, room, constant, trace, exponent, *own
    )
    used = np.flatnonzero(dishes.size > 0)
    for k in range(count):
        if dishes.size[k] == 0 and menu_weight(state.franchise, frozen + k) > 0.0:
            restart(out, k)  # held, though all its instances have left
    if len(used) > 0:
        forms = packed_forms(used, dishes) @ (products(rows, skip) if product is None else product).T
        for position in range(len(used)):
            form[used[position]] = forms[position]
            weigh_values(out, used[position], dishes, prior)
            tell(out, used[position], dishes, prior)
    return out


@called_kernel
def compute(likelihood: Likelihood, k: int, dishes: Dishes, prior: Prior) -> None:
    """Compute the densities under dish k from its statistics."""
    quadratic_forms(dishes.inverse[k], likelihood.columns, likelihood.side, likelihood.form[k])
    weigh_values(likelihood, k, dishes, prior)
    tell(likelihood, k, dishes, prior)


@called_kernel
def weigh_values(likelihood: Likelihood, k: int, dishes: Dishes, prior: Prior) -> None:
    """Write the log probability of the guests' categories under dish k."""
    places, logs, columns = likelihood.places, likelihood.logs, prior.first.shape[0]
    if columns == 0:
        return
    out, n = likelihood.values[k], places.shape[1]
    for place in range(logs.shape[0]):
        logs[place] = dishes.counts[k, place] + prior.pseudo[place]
    log_each_using(likelihood.exponents, logs)
    out[:] = 0.0
    for c in range(columns):
        whole = logs[prior.first[c]]
        for i in range(n):
            out[i] += logs[places[c, i]] - whole


@fused_borrowing_kernel
def tell(likelihood: Likelihood, k: int, dishes: Dishes, prior: Prior) -> None:
    """Write the densities from the quadratic forms of dish k and the guests' categories."""
    form, logs = likelihood.form[k], likelihood.side
    n = form.shape[0]
    for i in range(n):
        logs[i] = 1.0 + (form[i] if form[i] > 0.0 else 0.0)
    log_each_using(likelihood.room, logs)
    head = dishes.constant[k, 0] - 0.5 * dishes.log_det[k]
    power = 0.5 * (prior.nu + dishes.size[k] + 1.0)
    for i in range(n):
        logs[i] = head - power * logs[i]
    if likelihood.missing.rank.shape[0] > 0:
        for i in range(n):
            if likelihood.missing.pattern[i] >= 0:
                logs[i] = _log_open(likelihood, i, dishes.inverse[k], head, power)
    if likelihood.values.shape[0] > 0:
        for i in range(n):
            logs[i] += likelihood.values[k, i]
    _write(logs, likelihood.room, likelihood.reference, likelihood.density, k - dishes.size.shape[0])


@called_kernel
def _log_open(likelihood: Likelihood, i: int, form: Array, head: float, power: float) -> float:
    """Log density of guest i, an incomplete row, under a dish of that form."""
    missing, x = likelihood.missing, likelihood.scratch
    for a in range(x.shape[0]):
        x[a] = likelihood.columns[a, i]
    pattern = missing.pattern[i]
    return missing.shift[i] + log_open_density(
        form, head, power, x, missing.basis[pattern], missing.rank[pattern], missing.room
    )


@called_kernel
def _write(logs: Array, room: Array, reference: Array, density: Array, column: int) -> None:
    """Write densities, given their logarithms, to a column, counted from the end of the table (below 0)."""
    n, column = logs.shape[0], density.shape[1] + column
    for i in range(n):
        v = logs[i] - reference[i]
        logs[i] = v if v < HIGHEST else HIGHEST
    exp_each_using(room.view(np.int64), logs)
    for i in range(n):
        density[i, column] = logs[i]


@borrowing_kernel
def log_density(likelihood: Likelihood, i: int, k: int, dishes: Dishes, prior: Prior) -> float:
    """Log predictive density of guest i under Gaussian dish k. The statistics of the guest's own dish include it."""
    power = 0.5 * (prior.nu + dishes.size[k] + 1.0)
    head = dishes.constant[k, 0] - 0.5 * dishes.log_det[k]
    if likelihood.missing.rank.shape[0] > 0 and likelihood.missing.pattern[i] >= 0:
        out = _log_open(likelihood, i, dishes.inverse[k], head, power)
    else:
        out = head - power * np.log1p(max(likelihood.form[k, i], 0.0))
    return out + likelihood.values[k, i] if likelihood.values.shape[0] > 0 else out


@borrowing_kernel
def restate(likelihood: Likelihood, i: int, own: int, state: SamplerState) -> None:
    """Make the largest density of guest i its reference, and recompute its densities.

    ``own`` is the dish of the guest, or ``CLOSED``. Under that dish its density given the other guests counts.
    """
    rows, franchise, dishes, prior = state.guests.rows, state.franchise, state.dishes, state.prior
    density, frozen, log_new = likelihood.density[i], state.log_frozen.shape[1], state.log_new[i]
    highest = log_new
    for dish in range(franchise.extent[0]):
        if menu_weight(franchise, dish) > 0.0:
            if dish < frozen:
                density[dish] = state.log_frozen[i, dish]
            else:
                density[dish] = log_density(likelihood, i, dish - frozen, dishes, prior)
            beside = density[dish]
            if dish == own:
                beside = log_density_without(likelihood, i, dish - frozen, rows, dishes, prior)
            highest = max(highest, beside)
    likelihood.reference[i] = highest
    likelihood.fresh[i] = np.exp(log_new - highest)
    for dish in range(franchise.extent[0]):
        if menu_weight(franchise, dish) > 0.0:
            density[dish] = np.exp(min(density[dish] - highest, HIGHEST))


@borrowing_kernel
def restart(likelihood: Likelihood, k: int) -> None:
    """Replace the quadratic forms of dish k by those under the prior."""
    for i in range(likelihood.start.shape[0]):
        likelihood.form[k, i] = likelihood.start[i]


@borrowing_kernel
def add(dishes: Dishes, k: int, i: int, rows: Array, prior: Prior, likelihood: Likelihood | None = None) -> None:
    """Put guest i into dish k and update the predictive cache, if a ``likelihood`` is given."""
    x = rows[i]
    if likelihood is None:
        dish_statistics.add(dishes, k, x, prior)
    else:
        if dishes.size[k] == 0:
            restart(likelihood, k)
        v = likelihood.scratch
        dish_statistics.add_telling(dishes, k, x, prior, v)
        z = x[prior.first.shape[0] :]
        _follow(likelihood, k, dishes, v, -1.0 / (1.0 + max(gaussian.dot(z, v), 0.0)), prior)


@borrowing_kernel
def remove(dishes: Dishes, k: int, i: int, rows: Array, prior: Prior, likelihood: Likelihood | None = None) -> None:
    """Take guest i out of dish k and update the predictive cache, if a ``likelihood`` is given."""
    x = rows[i]
    if likelihood is None:
        dish_statistics.remove(dishes, k, x, prior)
    elif dishes.size[k] == 1:
        dish_statistics.remove(dishes, k, x, prior)
        restart(likelihood, k)
        if likelihood.values.shape[0] > 0:
            weigh_values(likelihood, k, dishes, prior)
        tell(likelihood, k, dishes, prior)
    else:
        v = likelihood.scratch
        dish_statistics.remove_telling(dishes, k, x, prior, v)
        left = 1.0 - gaussian.dot(x[prior.first.shape[0] :], v)
        if left < gaussian.LOSES_DIGITS:
            compute(likelihood, k, dishes, prior)
        else:
            _follow(likelihood, k, dishes, v, 1.0 / left, prior)


@borrowing_kernel
def _follow(likelihood: Likelihood, k: int, dishes: Dishes, v: Array, factor: float, prior: Prior) -> None:
    """Apply an update of rank one of dish k to the cache. If its inverse was recomputed, recompute the forms."""
    if dishes.updates[k] == 0:
        compute(likelihood, k, dishes, prior)
    else:
        shift_forms(likelihood.form[k], likelihood.columns, v, factor, likelihood.side)
        if likelihood.values.shape[0] > 0:
            weigh_values(likelihood, k, dishes, prior)
        tell(likelihood, k, dishes, prior)


@borrowing_kernel
def log_density_without(likelihood: Likelihood, i: int, k: int, rows: Array, dishes: Dishes, prior: Prior) -> float:
    """Log predictive density of guest i of dish k under the other guests of the dish."""
    left = 1.0 - likelihood.form[k, i]
    if left >= gaussian.LOSES_DIGITS:
        half_power = 0.5 * (prior.nu + dishes.size[k] - 1.0)
        if likelihood.missing.rank.shape[0] > 0 and likelihood.missing.pattern[i] >= 0:
            head = dishes.constant[k, 1] - 0.5 * (dishes.log_det[k] + np.log(left))
            width, apart = prior.n_features + 1, likelihood.missing.apart
            form_without(dishes.inverse[k], rows[i, rows.shape[1] - width :], apart)
            out = _log_open(likelihood, i, apart[:width], head, half_power + 0.5)
        else:
            out = dishes.constant[k, 1] - 0.5 * dishes.log_det[k] + half_power * np.log(left)
        if likelihood.values.shape[0] > 0:
            out += categories.log_predictive_without(dishes.counts[k], rows[i], prior)
        return out
    return dish_statistics.log_predictive_without(dishes, k, rows[i], prior)


@borrowing_kernel
def constants(likelihood: Likelihood, n: int, size: int, prior: Prior) -> float:
    """Sum the count-dependent parts of the log predictives of ``size`` rows added to n, one by one."""
    known, total = likelihood.constant, 0.0
    for m in range(n, n + size):
        if m >= known.shape[0]:
            total += gaussian.log_constant(m, prior)
        else:
            if np.isnan(known[m]):
                known[m] = gaussian.log_constant(m, prior)
            total += known[m]
    return total
