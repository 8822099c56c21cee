"""Parameters by the paper's validation split: one grid for each method, one criterion for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.openset.comparators.base import UNKNOWN, Decisions, OpenSetClassifier
from benchmarks.openset.comparators.evm import ExtremeValueMachine
from benchmarks.openset.comparators.gmm import GaussianMixtures
from benchmarks.openset.comparators.knn import KNNDistance
from benchmarks.openset.comparators.lda import LDAPosterior
from benchmarks.openset.comparators.margin_classifier import MachinePool, MarginClassifier, Request
from benchmarks.openset.comparators.one_vs_set import OneVsSet
from benchmarks.openset.comparators.osnn import OSNN
from benchmarks.openset.comparators.pi_svm import PISVM
from benchmarks.openset.comparators.qda import QDAChi2
from benchmarks.openset.comparators.w_svm import WOSVM, WSVM
from benchmarks.paper.protocol import ValidationSplit, validation_split
from stream_osr.errors import InvalidParameter

COSTS = tuple(2.0**power for power in range(-5, 6))
GAMMAS = tuple(2.0**power for power in range(-8, 4))
RHOS = tuple(10.0**power for power in range(-7, 0))
SCALINGS = ("each", "one")


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

    make: Callable[..., OpenSetClassifier]
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


def select(method: str, X_train: NDArray[np.float64], y_train: NDArray[np.int64], seed: int) -> OpenSetClassifier:
    """Choose a method's parameters on the validation split, and fit it to the whole training part.

    Parameters
    ----------
    method
        One of `METHODS` or `VARIANTS`.
    X_train, y_train
        Training part: instances and integer labels, 0 or above.
    seed
        Of the validation split.

    Raises
    ------
    InvalidParameter
        If there is no method of that name, or the training part cannot be divided.
    """
    return select_family([method], X_train, y_train, seed)[method]


def select_family(
    methods: Iterable[str],
    X_train: NDArray[np.float64],
    y_train: NDArray[np.int64],
    seed: int,
    held: Mapping[str, Any] | None = None,
) -> dict[str, OpenSetClassifier]:
    """`select` for several methods, those on support vector machines sharing them.

    The criterion is the mean of micro-F on the closed and on the open simulation; among equals the first in
    the grid is taken. Where features are scaled, how is a choice of the method's own, but for 1-vs-Set; they are so
    by the ranges of the whole training part throughout: if the simulated unknown classes alone lay outside them,
    thresholds would be chosen for an easier problem than the test is. `held` are parameters that are not searched but
    have this value, in the methods that have them.
    """
    names = list(methods)
    for name in names:
        if name not in METHODS | VARIANTS:
            raise InvalidParameter(f"no method {name!r}: expected one of {', '.join(METHODS | VARIANTS)}")
    parts = validation_split(X_train, y_train, seed)
    pool = MachinePool(parts.X_fit, parts.y_fit, parts.X_open, X_train)
    return {
        name: (METHODS | VARIANTS)[name].make(**choose_parameters(name, parts, pool, held)).fit(X_train, y_train)
        for name in names
    }


def choose_parameters(
    name: str, parts: ValidationSplit, pool: MachinePool, held: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Parameters of a method that do best on a validation split, the first of equals."""
    best: tuple[float, dict[str, Any]] = (-1.0, {})
    for value, parameters in judged(name, parts, pool, held):
        if value > best[0]:
            best = value, parameters
    return best[1]


def judged(
    name: str, parts: ValidationSplit, pool: MachinePool, held: Mapping[str, Any] | None = None
) -> Iterator[tuple[float, dict[str, Any]]]:
    """Yield the mean of micro-F closed and open on a validation split, for all of a method's grid in order.

    Parameters
    ----------
    name
        One of `METHODS` or `VARIANTS`.
    parts
        The validation split.
    pool
        Machines trained on its fitting part, with the open simulation as query.
    held
        Parameters that are not searched; those that the method does not have are passed over.
    """
    method = (METHODS | VARIANTS)[name]
    has = method.make().get_params()
    grid = {**method.grid, **{key: (value,) for key, value in (held or {}).items() if key in has}}
    truth = np.where(np.isin(parts.y_open, np.array(parts.known)), parts.y_open, UNKNOWN)
    decide = _Shared(pool) if issubclass(method.make, MarginClassifier) else _Fitted(parts)  # type: ignore[arg-type]
    for setting in _settings(grid):
        model, decisions = decide(method.make(**setting))
        for cut in method.cuts[1] if method.cuts else (None,):
            parameters = setting if method.cuts is None else {**setting, method.cuts[0]: cut}
            predicted = np.where(
                decisions.unknownness > model.set_params(**parameters).cut(), UNKNOWN, decisions.label
            )
            closed = truth != UNKNOWN
            yield (micro_f(truth[closed], predicted[closed]) + micro_f(truth, predicted)) / 2, parameters


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


class _Fitted:
    """Fits a model to the fitting part and asks it about the open simulation."""

    def __init__(self, parts: ValidationSplit) -> None:
        self._parts = parts

    def __call__(self, model: OpenSetClassifier) -> tuple[OpenSetClassifier, Decisions]:
        model.fit(self._parts.X_fit, self._parts.y_fit)
        return model, model.decide(self._parts.X_open)


class _Shared:
    """The same for models on support vector machines, each set of which is trained and calibrated once."""

    def __init__(self, pool: MachinePool) -> None:
        self._pool = pool
        self._opinions: dict[Request, NDArray[np.float64]] = {}

    def __call__(self, model: OpenSetClassifier) -> tuple[OpenSetClassifier, Decisions]:
        assert isinstance(model, MarginClassifier)
        opinions = [self._opinion(model, request) for request in model.requests()]
        return model, model.combine(opinions, np.unique(self._pool.y))

    def _opinion(self, model: MarginClassifier, request: Request) -> NDArray[np.float64]:
        if request not in self._opinions:
            trained, margins = self._pool(request)
            self._opinions[request] = model.opinion(request, model.calibrate(request, trained, self._pool.y), margins)
        return self._opinions[request]


def _settings(grid: Mapping[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Every combination; the first parameter changes slowest."""
    settings: list[dict[str, Any]] = [{}]
    for name, values in grid.items():
        settings = [{**setting, name: value} for setting in settings for value in values]
    return settings
