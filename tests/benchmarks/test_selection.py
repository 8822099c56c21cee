"""Choosing nu and scale on a simulation of closed and open sets among the training instances."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.paper.selection import select_by_validation
from stream_osr.errors import InvalidParameter
from stream_osr.instances.features import Features
from stream_osr.parameters import Parameters
from stream_osr.training.trained import train_model

GRID = {"nu_above_dimension": (2, 15), "scale": (1e-4, 0.5)}
PARAMETERS = Parameters(training_sweeps=3, batch_size=32, sweeps=2, seed=1)


def classes(count: int, n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(count)
    group = np.repeat(np.arange(count), n)
    return rng.normal(scale=12.0, size=(count, 3))[group] + rng.normal(size=(len(group), 3)), group


def select(X: np.ndarray, group: np.ndarray, parameters: Parameters = PARAMETERS, **grid: tuple) -> Parameters:
    return select_by_validation(Features(("a", "b", "c")), X, group, parameters, **{**GRID, **grid})


def test_the_best_point_of_the_grid_is_chosen_and_nothing_else_is_changed():
    X, group = classes(4)
    chosen = select(X, group)
    assert chosen.nu in (5.0, 18.0)
    assert chosen.scale in GRID["scale"]
    changes = {"nu": chosen.nu, "scale": chosen.scale, "beta": 1.0, "ensemble": "drawn"}
    assert select(X, group) == chosen == PARAMETERS.model_copy(update=changes)
    # with covariances of 1e-9 of what they are, everything is unknown
    assert select(X, group, nu_above_dimension=(500,), scale=(1e-9, 0.5, 1e-8)).scale == 0.5


def test_values_that_are_given_stay():
    X, group = classes(3)
    given = PARAMETERS.model_copy(update={"nu": 7.0, "beta": 0.3})
    chosen = select(X, group, given)
    assert (chosen.nu, chosen.beta) == (7.0, 0.3)
    assert chosen.scale in GRID["scale"]
    assert select(X, group, given.model_copy(update={"scale": 0.2})).scale == 0.2


def test_two_classes_do_not_suffice():
    for count in (1, 2):
        message = f"there are {count} classes, and the simulation needs 3; give nu"
        with pytest.raises(InvalidParameter, match=message):
            select(*classes(count))


@pytest.mark.parametrize("n", [30, 9], ids=["flags in the simulation", "none there: too few rows"])
def test_flags_are_no_dimensions_when_selecting_either(n):
    """The simulation and the training that follows each have so many degrees of freedom more than coordinates."""
    X, group = classes(3, n)
    rng = np.random.default_rng(1)
    flags = rng.random((len(X), 3)) < [[0.5, 0.3, 0.4]]
    X = np.column_stack([X, 2.0 * flags, np.eye(3)[rng.integers(3, size=len(X))]])
    features = Features(tuple(f"f{at}" for at in range(X.shape[1])))
    chosen = select_by_validation(features, X, group, PARAMETERS, **GRID)
    trained = train_model(features, X, group, ("one", "two", "three"), chosen, draws=1)
    assert trained.report.two_valued_features == ("f3", "f4", "f5")
    assert trained.report.dimensions == 3
    assert chosen.nu in (5.0, 18.0)
