"""Training and the stream step end in draws from the posterior of truths that were drawn from the model.

A truth is drawn from the model and rows from the truth; the library has the rows, and ends in a draw from the
posterior of the truth. So draw and truth have the same joint distribution with the rows, and for *any* function of
both the mean of its difference is 0 (Geweke 2004; Cook, Gelman and Rubin 2006). The truths are independent, the
standard errors plain, and nothing has to be enumerated: these are runs of `train` and `step` as the library calls
them, with the base measure drawn on the way, and with the densities of known classes that have broad terms. Reported
probabilities are compared with the truth in the same way.

Both need a model to draw from. With drawn hyperparameters it is that of ``docs/inference.md``, section 1, with the
flat prior of section 7. In the stream it needs known classes whose densities integrate to one: those with a broad
term. Without, ``F_j`` has less mass, and no row can be drawn from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
import scipy

from stream_osr.model import student_t
from stream_osr.model import training as library
from stream_osr.model.background_components import log_missing
from stream_osr.model.feature_space import whitening
from stream_osr.model.known import Densities, Known, densities, log_class_densities
from stream_osr.model.moves import hyperparameters
from stream_osr.model.moves.hyperparameters import ALPHA, GAMMA, STREAM_ALPHA, Grid, make_grid
from stream_osr.model.prior import Prior, homogeneous
from stream_osr.model.restaurants import StreamState
from stream_osr.model.sampler import Settings, open_stream, step
from tests.model.problems import DIRICHLET, make_base
from tests.oracles import concentration, crf, niw
from tests.oracles.categories import Categories, Mixed

pytestmark = pytest.mark.thorough
LARGEST = 4.5
"""Largest standardised difference allowed, as in the other statistical tests."""


def check(true: list[dict[str, float]], drawn: list[dict[str, float]]) -> None:
    """Standardised mean difference of each function."""
    differences = {name: np.array([b[name] - a[name] for a, b in zip(true, drawn, strict=True)]) for name in true[0]}
    scores = {
        name: float(value.mean() / (value.std(ddof=1) / np.sqrt(len(value)) + 1e-300))
        for name, value in differences.items()
    }
    assert max(map(abs, scores.values())) < LARGEST, scores


# Training


def draw_one(rng: np.random.Generator, weights: Sequence[float]) -> int:
    total = np.cumsum(weights)
    return min(int(np.searchsorted(total, rng.random() * total[-1])), len(total) - 1)


class Groups(NamedTuple):
    """A training set's truth: concentrations, number of tables, and the dish of each instance."""

    alpha: float
    gamma: float
    tables: int
    dish: np.ndarray


def draw_groups(groups: Sequence[int], rng: np.random.Generator) -> Groups:
    """Draw from the franchise, one instance after the other, until no dish is served in two groups (section 1)."""
    while True:
        alpha, gamma = rng.gamma(ALPHA.shape) / ALPHA.rate, rng.gamma(GAMMA.shape) / GAMMA.rate
        tables: list[list[int]] = []  # group, seats, dish
        menu: list[int] = []
        dish = []
        for j in groups:
            own = [table for table in tables if table[0] == j]
            at = draw_one(rng, [*(seats for _, seats, _ in own), alpha])
            if at == len(own):
                k = draw_one(rng, [*menu, gamma])
                if k == len(menu):
                    menu.append(0)
                menu[k] += 1
                own.append([j, 0, k])
                tables.append(own[-1])
            own[at][1] += 1
            dish.append(own[at][2])
        if len({(j, k) for j, _, k in tables}) == len(menu):
            return Groups(alpha, gamma, len(tables), np.array(dish))


GROUPS = (0, 0, 0, 0, 1, 1)


def thinned(d: int) -> Grid:
    """The library's grid from end to end, with fewer points."""
    grid = make_grid(d)
    return Grid(grid.nu[::2], grid.psi[::2, ::8], grid.beta[::2])


def of_training(
    concentrations: tuple[float, float], tables: int, dish: np.ndarray, drawn: np.ndarray, rows: np.ndarray
) -> dict[str, float]:
    """Functions of a truth, or of what training ended with, and of the rows.

    ``drawn`` are the logarithms of what is drawn beside seats and concentrations: three of the base measure, or one
    for each category.
    """
    alpha, gamma = concentrations
    dishes, joined, last = len(set(dish.tolist())), float(dish[0] == dish[1]), float(dish[4] == dish[5])
    apart, out = np.log(((rows[0] - rows[1]) ** 2).sum() + 1e-3), np.log((rows**2).sum())
    equal = float((rows[:, 0, None] == rows[:, 0]).mean())  # of categories; else the same for all
    tests = {
        "alpha0": alpha,
        "gamma": gamma,
        "tables": tables,
        "dishes": dishes,
        "joined": joined,
        "joined, last": last,
        "joined and apart": joined * apart,
        "dishes times size": dishes * out,
        "dishes times apart": dishes * apart,
        "alpha0 times tables": alpha * tables,
        "joined times equal": joined * equal,
    }
    for number, value in enumerate(drawn.tolist()):
        tests |= {
            f"{number}": value,
            f"{number} squared": value**2,
            f"{number} times next": value * drawn[(number + 1) % len(drawn)],
            f"{number} times joined": value * joined,
            f"{number} times dishes": value * dishes,
            f"{number} times apart": value * apart,
            f"{number} times size": value * out,
            f"{number} times equal": value * equal,
        }
    return tests


def of_result(training: library.Training, drawn: np.ndarray, rows: np.ndarray) -> dict[str, float]:
    seating = training.seating
    tables = len(set(seating.guests.table.tolist()))
    concentrations = float(seating.franchise.alpha[0]), float(seating.franchise.gamma[0])
    return of_training(concentrations, tables, library.dish_of_guests(seating), drawn, rows)


def test_training_with_a_drawn_base_measure_ends_in_the_posterior():
    d, rng = 2, np.random.default_rng(31)
    grid, group = thinned(d), np.array(GROUPS)
    space, start = whitening.fit_whitening(rng.normal(size=(6, d)), group), make_base(d)[0]
    true, drawn = [], []
    for _ in range(300):
        a, p, b = (int(rng.integers(size)) for size in (len(grid.nu), grid.psi.shape[1], len(grid.beta)))
        nu, psi, beta = grid.nu[a], grid.psi[a, p], grid.beta[b]
        truth = draw_groups(GROUPS, rng)
        rows = crf.draw_rows(truth.dish, niw.Full(d, psi, nu, beta), rng)
        values = np.log([nu - d, psi, beta])
        true.append(of_training(truth[:2], truth.tables, truth.dish, values, rows))
        training = library.train(rows, group, space, start, rng, sweeps=10, grid=grid)
        own = training.prior
        drawn.append(of_result(training, np.log([own.nu - d, own.psi, own.beta]), rows))
    check(true, drawn)


def mixed_prior(start: Prior, concentration: np.ndarray, d: int) -> tuple[Prior, Mixed]:
    shares = [np.array(own) / sum(own) for own in DIRICHLET]
    alpha = [c * share for c, share in zip(concentration.tolist(), shares, strict=True)]
    pseudo = np.concatenate([[own.sum(), *own] for own in alpha])
    gaussian = niw.Full(d, start.psi * start.spread, start.nu, start.beta)
    return start._replace(pseudo=pseudo), Mixed(Categories([own.tolist() for own in alpha]), gaussian)


def test_training_with_drawn_concentrations_of_categories_ends_in_the_posterior():
    d, rng, group = 1, np.random.default_rng(32), np.array(GROUPS)
    space, start = whitening.fit_whitening(rng.normal(size=(6, d)), group), make_base(d, "categories", nu=6.0)[0]
    first, _ = mixed_prior(start, np.ones(2), d)
    true, drawn = [], []
    for _ in range(300):
        concentration = rng.choice(hyperparameters.CONCENTRATION, 2)
        truth = draw_groups(GROUPS, rng)
        rows = crf.draw_rows(truth.dish, mixed_prior(start, concentration, d)[1], rng)
        true.append(of_training(truth[:2], truth.tables, truth.dish, np.log(concentration), rows))
        training = library.train(rows, group, space, first, rng, sweeps=25)
        own = training.prior
        drawn.append(of_result(training, np.log(own.pseudo[own.first]), rows))
    check(true, drawn)


# The stream step, known classes with broad terms


class Past(NamedTuple):
    """Where a stream stands: the known classes, the state, and the rows behind the statistics of both.

    Attributes
    ----------
    known_rows
        Rows of each known subclass.
    emerging_rows
        Rows of each emerging subclass, all of them settled.
    """

    known: Known
    frozen: Densities
    state: StreamState
    base: niw.BaseMeasure
    known_rows: list[np.ndarray]
    emerging_rows: list[np.ndarray]


class Batch(NamedTuple):
    """The truth of some instances: alpha0, the tables that they opened, their dishes, and their rows.

    Dishes are numbered: the J known classes, the emerging subclasses, new ones in any order.
    """

    alpha: float
    tables: int
    dish: np.ndarray
    rows: np.ndarray


def draw_batch(past: Past, n: int, rng: np.random.Generator) -> Batch:
    """Draw alpha0 given the past, seats one after the other, and a row each from the distribution of its dish."""
    franchise, n_known = past.state.franchise, len(past.known.size)
    dishes, seats = franchise.table_dish.tolist(), franchise.table_mass.tolist()
    menu, settled = np.maximum(franchise.menu, franchise.held).tolist(), len(franchise.table_dish)
    alpha = concentration.draw(STREAM_ALPHA, settled, [sum(seats)], rng)
    there = [*past.emerging_rows]
    dish, rows = [], []
    for _ in range(n):
        t = draw_one(rng, [*seats, alpha])
        if t == len(seats):
            k = draw_one(rng, [*menu, float(franchise.gamma[0])])
            if k == len(menu):
                menu.append(0.0)
                there.append(past.base.block([]))
            menu[k] += 1.0
            seats.append(0.0)
            dishes.append(k)
        seats[t] += 1.0
        k = dishes[t]
        if k < n_known:
            rows.append(draw_known(past, k, rng))
        else:
            rows.append(draw_next(past.base, there[k - n_known], rng))
            there[k - n_known] = np.vstack([there[k - n_known], rows[-1]])
        dish.append(k)
    return Batch(alpha, len(seats) - settled, np.array(dish), np.array(rows))


def draw_known(past: Past, j: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a row of a known class: of one of its kept subclasses, or of its broad term, which has what they leave."""
    shares = np.exp(past.frozen.log_weight[j]).tolist()
    k = draw_one(rng, [*shares, 1.0 - sum(shares)])
    if k < len(shares):
        return draw_next(past.base, past.known_rows[k], rng)
    components = past.known.background_components[j]
    shape = components[draw_one(rng, [each.share for each in components])].shape
    normal = np.linalg.solve(shape.factor, rng.standard_normal(len(shape.mean)))
    return np.asarray(shape.mean + normal * np.sqrt(shape.freedom / rng.chisquare(shape.freedom)))


def draw_next(base: niw.BaseMeasure, block: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one more row of a subclass from its posterior predictive."""
    location, scale = base.predictive_scale(block)
    freedom = base.posterior(block).nu - base.dimension + 1
    return np.asarray(scipy.stats.multivariate_t.rvs(location, scale, freedom, random_state=rng)).reshape(-1)


SIZES = ((8, 4, 1, 1), (10, 5, 1))
"""Instances of the subclasses of two classes; those of one are dropped."""


def stream_past(d: int) -> Past:
    """Two known classes with broad terms, and a stream in which a subclass has emerged and settled."""
    rng = np.random.default_rng(33)
    dish = np.repeat(np.arange(7), np.concatenate(SIZES))
    group = np.repeat([0, 1], [sum(own) for own in SIZES])
    centres = rng.normal(scale=2.0, size=(7, d))
    rows = centres[dish] + rng.normal(scale=0.5, size=(len(dish), d))
    prior, base = make_base(d, nu=d + 5.0, psi=2.0)
    seating = library.seat_by_groups(homogeneous(rows), group, dish, prior, True)
    known, _ = library.summarize(
        library.Training(whitening.fit_whitening(rows, group), prior, seating), 0.2, background_components=True
    )
    assert known.dishes.size.tolist() == [8, 4, 10, 5]
    known = known._replace(gamma=3.0)  # small, so that a new table often serves what is on the menu
    frozen = densities(known)
    batch = np.concatenate([rows[:4], rows[-4:], 8.0 + 0.3 * rng.normal(size=(4, d))])
    state, result = step(known, frozen, open_stream(known, frozen), batch, rng, Settings(5, 0, np.inf))
    emerging = [batch[result.subclass == key] for key in state.ids.tolist()]
    assert len(emerging)
    return Past(known, frozen, state, base, [rows[dish == k] for k in (0, 1, 4, 5)], emerging)


def of_batch(
    alpha: float, tables: float, kind: np.ndarray, joined: np.ndarray, functions: np.ndarray
) -> dict[str, float]:
    """Functions of a truth, or of what steps ended with, and of the rows.

    ``kind`` says of each instance which known class or emerging subclass it eats, the last being all new ones, shape
    (n, C + E + 1); ``joined`` which eat the same, (n, n); ``functions`` are functions of the rows, (n, F).
    """
    tests = {"alpha0": alpha, "alpha0 squared": alpha**2, "tables": tables, "alpha0 times tables": alpha * tables}
    new = joined * np.outer(kind[:, -1], kind[:, -1])
    tests |= {"joined": joined.sum(), "new together": new.sum(), "alpha0 times new": alpha * kind[:, -1].sum()}
    for f, value in enumerate(functions.T):
        tests[f"new together, {f}"] = float(value @ new @ value)
        for k, eats in enumerate(kind.T):
            tests[f"eats {k}, {f}"] = float(eats @ value)
            tests[f"first eats {k}, {f}"] = float(eats[0] * value[0])
    return tests


@pytest.mark.parametrize(("d", "truths"), [(1, 2000), pytest.param(2, 4000, marks=pytest.mark.long)])
def test_steps_beside_known_classes_with_broad_terms_end_in_the_posterior(d, truths):
    # two batches of three: the first is re-seated in the window of the second
    past, rng, n = stream_past(d), np.random.default_rng(34), 6
    known, frozen, n_known = past.known, past.frozen, len(past.known.size)
    n_kinds = n_known + len(past.emerging_rows)
    settings, settled = Settings(8, n, np.inf), len(past.state.franchise.table_dish)
    true, drawn = [], []
    for _ in range(truths):
        truth = draw_batch(past, n, rng)
        points = homogeneous(truth.rows)
        whole = log_class_densities(known, frozen, points)[0]
        broad = np.column_stack(
            [
                np.logaddexp.reduce([np.log(share) + student_t.log_student_t(points, shape) for shape, share in each])
                for each in known.background_components
            ]
        )
        share = np.exp(log_missing(frozen.log_weight) + broad - whole)  # of the broad term in each density
        functions = np.column_stack([np.ones(n), np.tanh(truth.rows[:, 0] / 4.0), share])
        state = past.state
        for batch in (truth.rows[:3], truth.rows[3:]):
            state, result = step(known, frozen, state, batch, rng, settings)
        tables, ids = len(state.franchise.table_dish) - settled, state.ids.tolist()
        number = {k: k for k in range(n_known)}  # of every dish: known, emerging before, new
        for slot, key in enumerate(ids):
            before = past.state.ids.tolist()
            number[n_known + slot] = n_known + before.index(key) if key in before else n_kinds + slot
        dish = np.array([number[k] for k in state.franchise.table_dish[state.window.table].tolist()])
        found = np.concatenate([result.window_probabilities, result.probabilities])
        for out, alpha, opened, own, probabilities in (
            (true, truth.alpha, truth.tables, truth.dish, None),
            (drawn, float(state.franchise.alpha[0]), tables, dish, found),
        ):
            kind = np.eye(n_kinds + 1)[np.minimum(own, n_kinds)]
            tests = of_batch(alpha, opened, kind, np.equal.outer(own, own).astype(float), functions)
            unknown = kind[:, n_known:].sum(axis=1)
            reported = np.column_stack([kind[:, :n_known], unknown]) if probabilities is None else probabilities
            for f, value in enumerate(functions.T):
                tests |= {f"probability of {j}, {f}": float(reported[:, j] @ value) for j in range(n_known + 1)}
            out.append(tests)
    check(true, drawn)
