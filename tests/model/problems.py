"""Small random problems in two forms: the library's arrays, and plain lists for the oracles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.model.dish_statistics import Dishes, add, empty_dishes
from stream_osr.model.known import Known
from stream_osr.model.marginal import Statistics, _log_whole
from stream_osr.model.moves.hyperparameters import STREAM_ALPHA
from stream_osr.model.moves.predictive_cache import SamplerState
from stream_osr.model.prior import Prior, homogeneous, make_prior, width_of
from stream_osr.model.restaurants import ANYONE, CLOSED, Franchise, Guests, empty_franchise, join
from stream_osr.model.student_t import CONJUGATE, Location
from tests.model import chains
from tests.oracles import crf, niw, stream
from tests.oracles.categories import Categories, Mixed

KINDS = ["numbers", "categories"]
"""Whitened numbers alone, or two categories beside them; without numbers for ``d=0``."""

DIRICHLET = ((0.7, 0.4, 0.1), (1.5, 0.5))
"""Parameters of the categories; the last value of each stands for all that training did not have."""


def log_marginals(statistics: Statistics, prior: Prior, location: Location = CONJUGATE) -> np.ndarray:
    """Log marginal likelihood of each of K subclasses, up to a factor that all partitions of the rows share, (K,)."""
    return np.array([_log_whole(*each, prior, location) for each in zip(*statistics, strict=True)])


def assert_equal(values: Iterable[Any], expected: Iterable[Any]) -> None:
    """Each value is the expected one, bit for bit."""
    for value, other in zip(values, expected, strict=True):
        np.testing.assert_array_equal(value, other)


def make_base(
    d: int, kind: str = "numbers", *, nu: float | None = None, psi: float = 1.7, beta: float = 0.3
) -> tuple[Prior, niw.BaseMeasure]:
    """One base measure for the library and for the oracles; ``psi`` is ``nu * scale``.

    The numbers beside categories have different spreads.
    """
    nu = d + 1.5 if nu is None else nu
    if kind == "categories":
        spread = np.geomspace(0.3, 1.0, d)
        prior, gaussian = make_prior(d, nu, psi / nu, beta, spread), niw.Full(d, psi * spread, nu, beta)
        mixed = Mixed(Categories(DIRICHLET), gaussian if d else None)
        pseudo = np.concatenate([[sum(column), *column] for column in DIRICHLET])
        return prior._replace(first=np.array(mixed.first), pseudo=pseudo), mixed
    prior = make_prior(d, nu, psi / nu, beta)
    return prior, niw.Full(d, psi, nu, beta)


def fill(prior: Prior, blocks: list[np.ndarray], capacity: int | None = None) -> Dishes:
    """Subclasses that hold the given blocks of whitened rows."""
    dishes = empty_dishes(len(blocks) if capacity is None else capacity, prior)
    for k, block in enumerate(blocks):
        for row in homogeneous(np.asarray(block).reshape(-1, width_of(prior))):
            add(dishes, k, row, prior)
    return dishes


def random_rows(rng: np.random.Generator, n: int, prior: Prior, scale: float = 1.5) -> np.ndarray:
    """Draw whitened rows, a fifth of their categories missing, shape (n, C + d)."""
    ends = [*prior.first[1:].tolist(), len(prior.pseudo)][: len(prior.first)]
    values = [rng.integers(first + 1, end, size=n) for first, end in zip(prior.first, ends, strict=True)]
    there = [np.where(rng.random(n) < 0.2, first, own) for first, own in zip(prior.first, values, strict=True)]
    return np.column_stack([*there, rng.normal(scale=scale, size=(n, prior.n_features))])


def known_of(
    prior: Prior, blocks: Sequence[np.ndarray], owner: Sequence[int], tables: Sequence[float], **others
) -> Known:
    """Known classes whose subclasses hold the blocks; ``owner`` and ``tables`` are those of each."""
    each, n_classes = np.arange(len(blocks)), max(owner) + 1
    seated, served = np.zeros((2, n_classes, len(blocks)))
    seated[owner, each], served[owner, each] = [len(block) for block in blocks], tables
    usual = {"alpha": 2.0, "gamma": 30.0, "epsilon": 0.01, "ranks": np.zeros((n_classes, 101))}
    return Known(prior, fill(prior, list(blocks)), each, seated, served, seated.sum(axis=1), **{**usual, **others})


class Problem(NamedTuple):
    """A franchise in the middle of a run.

    ``settled[k]`` are the rows of Gaussian slot k that can no longer be re-seated.
    """

    prior: Prior
    base: niw.BaseMeasure
    guests: Guests
    franchise: Franchise
    dishes: Dishes
    log_frozen: np.ndarray
    settled: list[np.ndarray]

    @property
    def n_frozen(self) -> int:
        return self.log_frozen.shape[1]

    @property
    def trained(self) -> np.ndarray:
        """Tables on the menu that are none of this franchise's own, for each dish."""
        f = self.franchise
        return f.menu - np.bincount(f.table_dish[f.table_dish >= 0], minlength=len(f.menu))

    def copy(self) -> Problem:
        return self._replace(
            guests=Guests(*(v.copy() for v in self.guests)),
            franchise=Franchise(*(v.copy() for v in self.franchise)),
            dishes=Dishes(*(v.copy() for v in self.dishes)),
        )

    def sitting(self, *, exclusive: bool = False) -> SamplerState:
        """What the library's moves work on, the same arrays."""
        state = self.guests, self.franchise, self.dishes, self.prior
        return chains.sampler_state(*state, self.log_frozen, exclusive)

    def rows_of(self, dish: int, without: tuple[int, ...] = ()) -> np.ndarray:
        """All whitened rows that Gaussian dish ``dish`` should hold, some guests left out."""
        seated = [
            self.guests.rows[i, :-1]
            for i, table in enumerate(self.guests.table.tolist())
            if i not in without and table != CLOSED and self.franchise.table_dish[table] == dish
        ]
        return np.concatenate([self.settled[dish - self.n_frozen], self.base.block(seated)])


def random_problem(
    seed: int,
    kind: str = "numbers",
    *,
    d: int = 2,
    groups: tuple[int, ...] = (0, 0, 0, 0, 1, 1, 1, 2, 2, 2),
    n_frozen: int = 0,
    n_settled: int = 0,
    exclusive: bool = False,
    fading: bool = False,
    scale: float = 2.0,
) -> Problem:
    """Guests seated at random, with settled subclasses, and, optionally, faded weights."""
    rng = np.random.default_rng(seed)
    prior, base = make_base(d, kind)
    n, n_groups = len(groups), max(groups) + 1
    n_slots, n_tables = n + n_settled + 6, n + 2 * (n_settled + n_frozen) + 6
    franchise = empty_franchise(n_groups, n_frozen + n_slots, n_tables, 1.3, 0.9)
    rows = homogeneous(random_rows(rng, n, prior, scale))
    weight = rng.uniform(0.3, 1.0, n) if fading else np.ones(n)
    guests = Guests(rows, np.array(groups, np.int64), weight, np.full(n, CLOSED))
    settled = [np.empty((0, width_of(prior))) for _ in range(n_slots)]
    franchise.menu[:n_frozen] = rng.integers(1, 4, n_frozen)  # trained tables
    franchise.held[:n_frozen] = True
    franchise.total[0] = franchise.menu.sum()
    table = 0
    for dish in range(n_frozen + n_settled):
        if dish >= n_frozen:
            settled[dish - n_frozen] = random_rows(rng, int(rng.integers(1, 5)), prior, scale)
        for _ in range(rng.integers(1, 3) if dish >= n_frozen else rng.integers(0, 2)):
            group = int(rng.integers(n_groups)) if not exclusive else dish % n_groups
            mass = rng.uniform(0.2, 3.0) if fading else float(rng.integers(1, 4))
            join(franchise, table, group, dish, mass)
            franchise.table_residual[table], franchise.table_live[table] = mass, 0
            franchise.owner[dish] = group if exclusive else ANYONE
            table += 1
    dishes = fill(prior, settled)
    problem = Problem(prior, base, guests, franchise, dishes, rng.normal(-3.0, 1.0, (n, n_frozen)), settled)
    for i in rng.permutation(n):
        group = groups[i]
        open_tables = np.flatnonzero((franchise.table_dish != CLOSED) & (franchise.table_group == group))
        menu = np.flatnonzero((franchise.menu > 0) & np.isin(franchise.owner, (ANYONE, group)))
        free_dish = int(np.flatnonzero(franchise.menu[n_frozen:] == 0)[0]) + n_frozen
        if len(open_tables) and rng.random() < 0.5:
            table = int(rng.choice(open_tables))
            dish = int(franchise.table_dish[table])
        else:
            table = int(np.flatnonzero(franchise.table_dish == CLOSED)[0])
            dish = int(rng.choice([*menu, free_dish]))
        if franchise.menu[dish] == 0:
            franchise.owner[dish] = group if exclusive else ANYONE
        join(franchise, table, group, dish, float(guests.weight[i]))
        guests.table[i] = table
        if dish >= n_frozen:
            add(dishes, dish - n_frozen, guests.rows[i], prior)
    return problem


def check_counts(problem: Problem, trained: np.ndarray, exclusive: bool = False) -> None:
    """Recount what the franchise and the dishes store, from the seats of the guests.

    ``trained`` are the tables on the menu that are none of this franchise's own, for each dish.
    """
    f, guests = problem.franchise, problem.guests
    used = f.table_dish != CLOSED
    assert (guests.table >= 0).all()
    assert used[guests.table].all()
    np.testing.assert_array_equal(f.table_group[guests.table], guests.group)
    live = np.bincount(guests.table, minlength=len(used))
    np.testing.assert_array_equal(f.table_live[used], live[used])
    assert ((live > 0) | (f.table_residual > 0))[used].all(), "an empty table is open"
    mass = f.table_residual + np.bincount(guests.table, guests.weight, minlength=len(used))
    np.testing.assert_allclose(f.table_mass[used], mass[used], rtol=1e-9, atol=1e-12)
    seated = np.zeros_like(f.seated)
    np.add.at(seated, (f.table_group[used], f.table_dish[used]), mass[used])
    np.testing.assert_allclose(f.seated, seated, rtol=1e-9, atol=1e-12)
    menu = trained + np.bincount(f.table_dish[used], minlength=len(f.menu))
    np.testing.assert_allclose(f.menu, menu, rtol=0, atol=0)
    weight = np.maximum(menu, f.held)
    assert f.total[0] == weight.sum()
    for k in range(len(problem.dishes.size)):
        dish = problem.n_frozen + k
        rows = problem.rows_of(dish) if weight[dish] > 0 else np.empty((0, width_of(problem.prior)))
        assert problem.dishes.size[k] == len(rows)
        if weight[dish] == 0:
            continue  # the next subclass in the slot writes it
        fresh = fill(problem.prior, [rows])
        np.testing.assert_allclose(problem.dishes.matrix[k], fresh.matrix[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(problem.dishes.inverse[k], fresh.inverse[0], rtol=1e-7, atol=1e-9)
        assert abs(problem.dishes.log_det[k] - fresh.log_det[0]) < 1e-8
        np.testing.assert_array_equal(problem.dishes.constant[k], fresh.constant[0])
        np.testing.assert_array_equal(problem.dishes.counts[k], fresh.counts[0])
    if exclusive:
        serving = f.table_dish[used]
        np.testing.assert_array_equal(f.owner[serving], f.table_group[used])


# A few instances, seated as an oracle's seating says: for the statistical tests


def seat(
    seating: crf.Seating,
    rows: np.ndarray,
    groups: Sequence[int],
    prior: Prior,
    *,
    alpha: float,
    gamma: float,
    exclusive: bool,
) -> SamplerState:
    """Training groups whose guests sit as in ``seating``; tables and dishes keep the seating's numbers."""
    n = len(groups)
    franchise = empty_franchise(max(groups) + 1, n + 2, n + 2, alpha, gamma)
    dishes = empty_dishes(n + 2, prior)
    guests = Guests(homogeneous(rows), np.array(groups, np.int64), np.ones(n), np.array(seating.tables, np.int64))
    for i, table in enumerate(seating.tables):
        dish = seating.dishes[table]
        franchise.owner[dish] = groups[i] if exclusive else ANYONE
        join(franchise, table, groups[i], dish, 1.0)
        add(dishes, dish, guests.rows[i], prior)
    return chains.sampler_state(guests, franchise, dishes, prior, np.empty((n, 0)), exclusive)


class StreamProblem(NamedTuple):
    """A stream's restaurant with a past, and a few instances to be seated in it, for library and oracle.

    Two known classes (of two subclasses and of one), one emerging subclass with settled rows, and two tables.
    """

    oracle: stream.StreamState
    known_blocks: list[np.ndarray]
    state: SamplerState
    frozen: chains.Frozen
    settled: chains.Settled
    emerging: chains.Sources

    def run(
        self, rng: np.random.Generator, steps: int, first: int = 0, proposals: int = 0, *, redraw: bool = False
    ) -> chains.Record:
        past = self.frozen, self.settled, self.emerging
        return chains.stream_chain(rng, steps, first, proposals, self.state, *past, redraw=redraw)


def sources(base: niw.Full, blocks: list[np.ndarray]) -> chains.Sources:
    """Distributions of mean and covariance after each block."""
    posteriors = [base.posterior(block) for block in blocks]
    return chains.Sources(
        np.array([p.mean for p in posteriors]),
        np.array([np.linalg.cholesky(p.scale_matrix) for p in posteriors]),
        np.array([p.nu for p in posteriors]),
        np.array([p.beta for p in posteriors]),
    )


def stream_problem(
    rows: np.ndarray, seating: crf.Seating, *, nu: float, psi: float = 0.4, beta: float = 0.1
) -> StreamProblem:
    """The batch ``rows`` of shape (n, d) seated as in ``seating``; d is 1 or 2, the covariances are full."""
    n, d = rows.shape
    prior, base = make_base(d, nu=nu, psi=psi, beta=beta)
    assert isinstance(base, niw.Full)
    shape = np.array([[1.0, 0.4]])[:, :d]
    known_blocks = [
        shape + np.linspace(-0.6, 0.6, 5)[:, None],
        -shape + np.array([[0.2, 0.1], [-0.3, 0.2], [0.1, -0.2]])[:, :d],
        -1.5 * shape + np.array([[0.5, -0.5], [-0.2, 0.0], [0.1, 0.3], [0.0, 0.1]])[:, :d],
    ]
    settled_rows = 2.5 * shape + np.array([[0.2, -0.3], [-0.2, 0.1], [0.3, 0.4]])[:, :d]
    oracle = stream.StreamState(
        base=base,
        alpha=STREAM_ALPHA,
        gamma=3.0,
        known_weights=[4.0, 2.5],
        emerging_rows=[settled_rows],
        emerging_weights=[1.25],
        tables=[(0, 2.75), (2, 1.125)],
    )
    with np.errstate(divide="ignore"):
        log_weight = np.log(np.array([[0.6, 0.4, 0.0], [0.0, 0.0, 1.0]]))
    franchise = empty_franchise(1, 3 + n + 1, 2 + n + 1, 10.0, oracle.gamma)
    dishes = fill(prior, [settled_rows], n + 2)
    franchise.held[:2] = True
    franchise.menu[:3] = [*oracle.known_weights, *oracle.emerging_weights]
    franchise.total[0] = franchise.menu.sum()
    for t, (dish, seats) in enumerate(oracle.tables):
        franchise.table_dish[t] = dish
        franchise.table_residual[t] = franchise.table_mass[t] = seats
        franchise.seated[0, dish] += seats
    guests = Guests(homogeneous(rows), np.zeros(n, np.int64), np.ones(n), np.array(seating.tables, np.int64))
    for i, table in enumerate(seating.tables):
        dish = int(franchise.table_dish[table]) if table < 2 else seating.dishes[table - 2]
        join(franchise, table, 0, dish, 1.0)
        if dish >= 2:
            add(dishes, dish - 2, guests.rows[i], prior)
    each = np.array([[base.log_predictive(row, block) for block in known_blocks] for row in rows])
    log_known = np.logaddexp.reduce(each[:, None, :] + log_weight, axis=2)
    return StreamProblem(
        oracle,
        known_blocks,
        chains.sampler_state(guests, franchise, dishes, prior, log_known, False),
        chains.Frozen(fill(prior, known_blocks), sources(base, known_blocks), log_weight),
        chains.Settled(homogeneous(settled_rows), np.zeros(len(settled_rows), np.int64)),
        sources(base, [settled_rows, np.empty((0, d))]),
    )
