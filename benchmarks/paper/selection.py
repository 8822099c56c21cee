"""The paper's own choice of nu and scale: a simulation of closed and open sets among the training instances.

Steps 4 to 7 of its section 4.1.1. Half of the classes play the known ones; for every point of the grid a model is
trained on 60 % of their instances, runs on the rest of them (closed) and on that with all instances of the other half
(open), and the point with the best mean of the two micro-F is taken.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.paper.protocol import validation_split
from stream_osr.errors import InvalidParameter
from stream_osr.evaluation.metrics import OpenSetReport
from stream_osr.instances.features import Features
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.parameters import Parameters
from stream_osr.stream import BufferedInstance, close_batch, open_stream
from stream_osr.support.parallel import one_thread
from stream_osr.training.coordinates import as_modelled, fit_coordinates
from stream_osr.training.trained import TrainedModel, train_model

NU_ABOVE_DIMENSION = tuple(range(21))
SCALE = (1e-5, 1e-4, 1e-3, 1e-2, *(round(0.1 * i, 1) for i in range(1, 11)))
BETA = 1.0
UNKNOWN = -1


def select_by_validation(
    features: Features,
    X: np.ndarray,
    group: np.ndarray,
    parameters: Parameters,
    *,
    nu_above_dimension: tuple[int, ...] = NU_ABOVE_DIMENSION,
    scale: tuple[float, ...] = SCALE,
) -> Parameters:
    """Choose nu and scale, where they are ``None``; beta is the paper's 1, and no chain is coarse or placed.

    Parameters
    ----------
    features, X, group
        Training part: names, rows of shape (n, p), class numbers of shape (n,).
    parameters
        All else.
    nu_above_dimension, scale
        The grid: degrees of freedom beyond the dimension of the whitened space (that of the simulation while it runs,
        then that of all rows), prior scales.

    Raises
    ------
    InvalidParameter
        With fewer than three classes: none could play an unknown one beside two known.
    """
    if len(np.unique(group)) < 3:
        raise InvalidParameter(
            f"there are {len(np.unique(group))} classes, and the simulation needs 3; give nu and scale"
        )
    parts = validation_split(X, group, parameters.seed)
    number = {label: j for j, label in enumerate(parts.known)}
    fit_group = np.array([number[label] for label in parts.y_fit.tolist()])
    labels: Any = tuple(range(len(number)))
    beta = BETA if parameters.beta is None else parameters.beta
    fixed = parameters.model_copy(update={"beta": beta, "ensemble": "drawn"})
    simulated = _dimension(features, parts.X_fit, fit_group, fixed)
    later = _dimension(features, X, group, fixed)
    nus = [(float(simulated + above), float(later + above)) for above in nu_above_dimension]
    if parameters.nu is not None:
        nus = [(parameters.nu, parameters.nu)]
    scales = list(scale) if parameters.scale is None else [parameters.scale]
    best, chosen = -1.0, fixed
    for (nu, nu_later), value in itertools.product(nus, scales):
        point = {"nu": nu, "scale": value}
        trial = fixed.model_copy(update={**point, "chains": 1, "unknown": UNKNOWN})
        trained = train_model(features, parts.X_fit, fit_group, labels, trial, draws=1)
        closed = _micro_f(trained, features, trial, parts.X_closed, parts.y_closed.tolist(), number)
        mixed = _micro_f(trained, features, trial, parts.X_open, parts.y_open.tolist(), number)
        if closed + mixed > best:
            best, chosen = closed + mixed, fixed.model_copy(update={**point, "nu": nu_later})
    return chosen


def _dimension(features: Features, X: np.ndarray, group: np.ndarray, parameters: Parameters) -> int:
    """Count the coordinates in which rows are trained: not the same for a part of them."""
    with one_thread():
        space = fit_coordinates(as_modelled(features, X, parameters), group, parameters)[-1]
    return int(space.forward.shape[1])


def _micro_f(
    trained: TrainedModel,
    features: Features,
    parameters: Parameters,
    X: np.ndarray,
    truth: list[Any],
    number: dict[Any, int],
) -> float:
    """Run a stream and count."""
    stream = open_stream(trained, parameters)
    rows = whiten(trained.whitening, np.array([trained.in_order(features, row) for row in X]))
    report = OpenSetReport(list(number.values()), UNKNOWN)
    for begin in range(0, len(rows), parameters.batch_size):
        arrived = [BufferedInstance(row, None, None) for row in rows[begin : begin + parameters.batch_size]]
        stream, batch = close_batch(trained, stream, arrived, [], parameters, release=True)
        told = [number.get(label, UNKNOWN - 1) for label in truth[begin : begin + len(arrived)]]
        report.update_many(told, [d.label for d in batch.decisions])
    return report.micro_f
