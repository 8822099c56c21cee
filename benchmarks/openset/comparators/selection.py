"""Parameters by the paper's validation split: one grid for each method, one criterion for all."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.openset.comparators.base import UNKNOWN, Decisions, OpenSetClassifier
from benchmarks.openset.comparators.evm import ExtremeValueMachine
from benchmarks.openset.comparators.gaussian import GaussianMixtures, LDAPosterior, QDAChi2
from benchmarks.openset.comparators.margin_classifier import MachinePool, MarginClassifier, Request, Rows
from benchmarks.openset.comparators.neighbours import OSNN, KNNDistance
from benchmarks.openset.comparators.one_vs_set import OneVsSet
from benchmarks.openset.comparators.weibull_machines import PISVM, WOSVM, WSVM
from benchmarks.paper.protocol import Split, validation_split

COSTS = tuple(2.0**power for power in range(-5, 6))
GAMMAS = tuple(2.0**power for power in range(-8, 4))
RHOS = tuple(10.0**power for power in range(-7, 0))
SCALINGS = "each", "one"


class Method(NamedTuple):
    """A method and what is searched for it.

    Attributes
    ----------
    make
        Its class.
    grid
        Values of the parameters that need another fit.
    cuts
        Name and values of the parameter that only moves the cut; none for 1-vs-Set.
    """

    make: type[OpenSetClassifier]
    grid: Mapping[str, tuple[Any, ...]]
    cuts: tuple[str, tuple[float, ...]] | None


def _tails(*powers: int) -> tuple[float, ...]:
    return tuple(share * 10.0**power for power in powers for share in (1.0, 3.0))


METHODS: dict[str, Method] = {
    "1-vs-Set linear": Method(OneVsSet, {"C": (1.0,)}, None),
    "1-vs-Set rbf": Method(OneVsSet, {"C": (1.0,), "gamma": ("auto",)}, None),
    "W-OSVM": Method(WOSVM, {"scaling": SCALINGS, "gamma": GAMMAS}, ("rho", (1e-3,))),
    "W-SVM": Method(WSVM, {"scaling": SCALINGS, "gamma": GAMMAS, "C": COSTS, "cap_gamma": GAMMAS}, ("rho", RHOS)),
    "P_I-SVM": Method(PISVM, {"scaling": SCALINGS, "gamma": GAMMAS, "C": COSTS}, ("rho", RHOS)),
    "OSNN": Method(OSNN, {}, ("sigma", tuple(np.linspace(0.02, 1.0, 50).tolist()))),
    "EVM": Method(
        ExtremeValueMachine, {"tail": (5, 10, 20, 50, 100, 200)}, ("delta", tuple(np.linspace(0, 0.98, 50).tolist()))
    ),
    "k-NN distance": Method(
        KNNDistance, {"k": (1, 2, 3, 5, 10)}, ("threshold", tuple(np.geomspace(0.5, 5, 60).tolist()))
    ),
    "GMM per class": Method(
        GaussianMixtures,
        {"n_components": (1, 2, 3, 5, 8), "ridge": (0.03, 0.1, 0.3)},
        ("log_density", tuple((-np.geomspace(0.05, 20, 60)).tolist())),
    ),
    "QDA + chi2": Method(QDAChi2, {"shrinkage": (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)}, ("tail", _tails(*range(-12, -2)))),
    "LDA + posterior": Method(LDAPosterior, {}, ("doubt", (*_tails(*range(-12, 0)), 0.5, 1.0))),
}
"""The comparators by name, in the order of the tables."""

VARIANTS: dict[str, Method] = {
    "OSNN whitened": METHODS["OSNN"]._replace(grid={"whiten": (True,)}),
    "EVM whitened": METHODS["EVM"]._replace(grid={"whiten": (True,), **METHODS["EVM"].grid}),
    "1-vs-Set rbf tuned": METHODS["1-vs-Set rbf"]._replace(grid={"gamma": GAMMAS, "C": COSTS}),
    "1-vs-Set rbf midway": METHODS["1-vs-Set rbf"]._replace(
        grid={"near_pressure": (1.0,), "gamma": GAMMAS, "C": COSTS}
    ),
}
"""Comparators prepared otherwise than on record: often the harder ones to beat. `select` takes their names too."""

ALL = METHODS | VARIANTS


def on_machines(name: str) -> bool:
    """Whether a method reads support vector machines, which several methods can share."""
    return issubclass(ALL[name].make, MarginClassifier)


def select(method: str, X_train: NDArray[np.float64], y_train: NDArray[np.int64], seed: int) -> OpenSetClassifier:
    """Choose the parameters of one method of `ALL`, and fit it: `select_family` with one member."""
    return select_family([method], X_train, y_train, seed)[method]


def select_family(
    methods: Iterable[str],
    X_train: Rows,
    y_train: NDArray[np.int64],
    seed: int,
    held: Mapping[str, Any] | None = None,
) -> dict[str, OpenSetClassifier]:
    """Choose the parameters of methods on the validation split of a seed, and fit them to the whole training part.

    Methods on support vector machines share them. The criterion is the mean of micro-F on the closed and on the open
    simulation; among equals the first in the grid is taken. Each method but 1-vs-Set chooses how its features are
    scaled. The ranges are those of the whole training part throughout: if the simulated unknown classes alone lay
    outside them, thresholds would be chosen for an easier problem than the test is.

    Parameters
    ----------
    methods
        Names of `ALL`.
    X_train, y_train
        Training part: instances and integer labels, 0 or above.
    seed
        Of the validation split.
    held
        Parameters that are not searched but have this value, in the methods that have them.
    """
    parts = validation_split(X_train, y_train, seed)
    pool = MachinePool(parts.X_train, parts.y_train, parts.X_test, X_train)
    chosen = {name: choose_parameters(name, parts, pool, held or {}) for name in methods}
    return {name: ALL[name].make(**parameters).fit(X_train, y_train) for name, parameters in chosen.items()}


def choose_parameters(name: str, parts: Split, pool: MachinePool, held: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a method that do best on a validation split, the first of equals.

    `pool` has machines trained on the fitting part, with the open simulation as query.
    """
    make, grid, cuts = ALL[name]
    grid = {**grid, **{key: (value,) for key, value in held.items() if key in make().get_params()}}
    truth = np.where(np.isin(parts.y_test, np.array(parts.known)), parts.y_test, UNKNOWN)
    closed = truth != UNKNOWN
    opinions: dict[Request, NDArray[np.float64]] = {}

    def decided(model: OpenSetClassifier) -> Decisions:
        if not isinstance(model, MarginClassifier):
            return model.fit(parts.X_train, parts.y_train).decide(parts.X_test)
        for request in model.requests():
            if request not in opinions:
                trained, margins = pool(request)
                opinions[request] = model.opinion(request, model.calibrate(request, trained, pool.y), margins)
        return model.combine([opinions[request] for request in model.requests()], np.unique(pool.y))

    best: tuple[float, dict[str, Any]] = (-1.0, {})
    for values in itertools.product(*grid.values()):
        setting = dict(zip(grid, values, strict=True))
        model = make(**setting)
        label, unknownness = decided(model)
        for cut in cuts[1] if cuts else (None,):
            parameters = {**setting, cuts[0]: cut} if cuts else setting
            predicted = np.where(unknownness > model.set_params(**parameters).cut(), UNKNOWN, label)
            value = (micro_f(truth[closed], predicted[closed]) + micro_f(truth, predicted)) / 2
            if value > best[0]:
                best = value, parameters
    return best[1]


def micro_f(y_true: NDArray[np.int64], y_pred: NDArray[np.int64]) -> float:
    """Micro-F over the known classes of labels with -1 for unknown; nan without known instances and predictions.

    `stream_osr.evaluation.OpenSetReport` counts the same one by one.

    Examples
    --------
    >>> import numpy as np
    >>> round(micro_f(np.array([0, 1, 1, -1, -1]), np.array([0, 0, -1, -1, 1])), 3)
    0.333
    """
    accepted = int((y_pred != UNKNOWN).sum())
    known = int((y_true != UNKNOWN).sum())
    right = int(((y_pred == y_true) & (y_true != UNKNOWN)).sum())
    return 2 * right / (accepted + known) if accepted + known else float("nan")
