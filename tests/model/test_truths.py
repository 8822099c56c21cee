"""What is said of rows whose truth was drawn from the model has the law of the truth: training, and the stream step.

A truth is drawn from the model and rows from the truth; the library is given the rows, and ends in a draw from the
posterior of the truth. So draw and truth have the same joint law with the rows, and for *any* function of both the
mean of its difference is 0 (Geweke 2004; Cook, Gelman and Rubin 2006). The truths are independent, the standard
errors plain, and nothing has to be enumerated: these are runs of `train` and `step` as the library calls them, from
where they begin, with the base measure drawn on the way, and with the densities of known classes that have broad
terms. What is reported as a probability is looked at in the same way, against what is true.

Both need a model to draw from. With drawn hyperparameters it is that of ``docs/inference.md``, section 1, with the
flat prior of section 7. In the stream it needs known classes whose densities integrate to one: those with a broad
term. Without, ``F_j`` has less mass, and no row can be drawn from it.
"""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.model import known as library_known
from stream_osr.model import student_t
from stream_osr.model import training as library
from stream_osr.model.known import densities, log_class_densities
from stream_osr.model.moves import hyperparameters
from stream_osr.model.moves.hyperparameters import Grid, make_grid
from stream_osr.model.prior import Prior, homogeneous
from stream_osr.model.step import Settings, open_stream, step
from stream_osr.model.whitening import fit_whitening
from tests.model.problems import DIRICHLET, make_base
from tests.model.truths import Past, draw_batch, draw_groups, draw_rows
from tests.oracles import niw
from tests.oracles.categories import Categories, Mixed

LARGEST = 4.5
"""Largest standardised difference allowed, as in the other statistical tests."""


def scores(true: list[dict[str, float]], drawn: list[dict[str, float]]) -> dict[str, float]:
    """Standardised mean difference of each function, largest first."""
    out = {}
    for name in true[0]:
        difference = np.array([b[name] - a[name] for a, b in zip(true, drawn, strict=True)])
        out[name] = float(difference.mean() / (difference.std(ddof=1) / np.sqrt(len(difference)) + 1e-300))
    return dict(sorted(out.items(), key=lambda item: -abs(item[1])))


# Training

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


def told(training: library.Training, drawn: np.ndarray, rows: np.ndarray) -> dict[str, float]:
    seating = training.seating
    tables = len(set(seating.guests.table.tolist()))
    concentrations = float(seating.franchise.alpha[0]), float(seating.franchise.gamma[0])
    return of_training(concentrations, tables, library.dish_of_guests(seating), drawn, rows)


@pytest.mark.thorough
def test_training_with_a_drawn_base_measure_ends_in_the_posterior():
    d, rng = 2, np.random.default_rng(31)
    grid, group = thinned(d), np.array(GROUPS)
    space, start = fit_whitening(rng.normal(size=(6, d)), group), make_base(d)[0]
    true, drawn = [], []
    for _ in range(600):
        a, p, b = (int(rng.integers(size)) for size in (len(grid.nu), grid.psi.shape[1], len(grid.beta)))
        nu, psi, beta = grid.nu[a], grid.psi[a, p], grid.beta[b]
        truth = draw_groups(GROUPS, rng)
        rows = draw_rows(truth.dish, niw.Full(d, psi, nu, beta), rng)
        values = np.log([nu - d, psi, beta])
        true.append(of_training(truth[:2], truth.tables, truth.dish, values, rows))
        training = library.train(rows, group, space, start, rng, sweeps=10, grid=grid)
        own = training.prior
        drawn.append(told(training, np.log([own.nu - d, own.psi, own.beta]), rows))
    found = scores(true, drawn)
    assert max(map(abs, found.values())) < LARGEST, found


def mixed_prior(start: Prior, concentration: np.ndarray, d: int) -> tuple[Prior, Mixed]:
    shares = [np.array(own) / sum(own) for own in DIRICHLET]
    alpha = [c * share for c, share in zip(concentration.tolist(), shares, strict=True)]
    pseudo = np.concatenate([[own.sum(), *own] for own in alpha])
    gaussian = niw.Full(d, start.psi, start.nu, start.beta)
    return start._replace(pseudo=pseudo), Mixed(Categories([own.tolist() for own in alpha]), gaussian)


@pytest.mark.thorough
def test_training_with_drawn_concentrations_of_categories_ends_in_the_posterior():
    d, rng, group = 1, np.random.default_rng(32), np.array(GROUPS)
    space, start = fit_whitening(rng.normal(size=(6, d)), group), make_base(d, "categories", nu=6.0)[0]
    first, _ = mixed_prior(start, np.ones(2), d)
    true, drawn = [], []
    for _ in range(600):
        concentration = rng.choice(hyperparameters.CONCENTRATION, 2)
        truth = draw_groups(GROUPS, rng)
        rows = draw_rows(truth.dish, mixed_prior(start, concentration, d)[1], rng)
        true.append(of_training(truth[:2], truth.tables, truth.dish, np.log(concentration), rows))
        training = library.train(rows, group, space, first, rng, sweeps=25)
        own = training.prior
        drawn.append(told(training, np.log(own.pseudo[own.first]), rows))
    found = scores(true, drawn)
    assert max(map(abs, found.values())) < LARGEST, found


# The stream step, known classes with broad terms


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
        library.Training(fit_whitening(rows, group), prior, seating), 0.2, background_components=True
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
    alpha: float, tables: float, kind: np.ndarray, joined: np.ndarray, asked: np.ndarray
) -> dict[str, float]:
    """Functions of a truth, or of what steps ended with, and of the rows.

    ``kind`` says of each instance which known class or emerging subclass it eats, the last being all new ones, shape
    (n, C + E + 1); ``joined`` which eat the same, (n, n); ``asked`` are functions of the rows, (n, F).
    """
    tests = {"alpha0": alpha, "alpha0 squared": alpha**2, "tables": tables, "alpha0 times tables": alpha * tables}
    new = joined * np.outer(kind[:, -1], kind[:, -1])
    tests |= {"joined": joined.sum(), "new together": new.sum(), "alpha0 times new": alpha * kind[:, -1].sum()}
    for f, value in enumerate(asked.T):
        tests[f"new together, {f}"] = float(value @ new @ value)
        for k, eats in enumerate(kind.T):
            tests[f"eats {k}, {f}"] = float(eats @ value)
            tests[f"first eats {k}, {f}"] = float(eats[0] * value[0])
    return tests


@pytest.mark.thorough
@pytest.mark.parametrize(("d", "truths"), [(2, 4000), (1, 2000)])
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
            [student_t.log_student_t(points, shape) for shape in known.background_components if shape is not None]
        )
        share = np.exp(
            library_known.log_missing(frozen.log_weight) + broad - whole
        )  # of the broad term in each density
        asked = np.column_stack([np.ones(n), np.tanh(truth.rows[:, 0] / 4.0), share])
        state = past.state
        for batch in (truth.rows[:3], truth.rows[3:]):
            state, result = step(known, frozen, state, batch, rng, settings)
        tables, ids = len(state.franchise.table_dish) - settled, state.ids.tolist()
        number = {k: k for k in range(n_known)}  # of every dish: known, emerging before, new
        for slot, key in enumerate(ids):
            before = past.state.ids.tolist()
            number[n_known + slot] = n_known + before.index(key) if key in before else n_kinds + slot
        dish = np.array([number[k] for k in state.franchise.table_dish[state.window.table].tolist()])
        reported = np.concatenate([result.window_probabilities, result.probabilities])
        for out, alpha, opened, own, probabilities in (
            (true, truth.alpha, truth.tables, truth.dish, None),
            (drawn, float(state.franchise.alpha[0]), tables, dish, reported),
        ):
            kind = np.eye(n_kinds + 1)[np.minimum(own, n_kinds)]
            tests = of_batch(alpha, opened, kind, np.equal.outer(own, own).astype(float), asked)
            unknown = kind[:, n_known:].sum(axis=1)
            told = np.column_stack([kind[:, :n_known], unknown]) if probabilities is None else probabilities
            for f, value in enumerate(asked.T):
                tests |= {f"probability of {j}, {f}": float(told[:, j] @ value) for j in range(n_known + 1)}
            out.append(tests)
    found = scores(true, drawn)
    assert max(map(abs, found.values())) < LARGEST, found
