"""Training with dependent neighbours: densities by blocks of arrival, tempered statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stream_osr.config import Parameters
from stream_osr.model.dependence import ArrivalOrder, effective_share, refit, training_in_order
from stream_osr.model.known import Known
from stream_osr.model.training import Training, summarize
from stream_osr.trust.recall import promise
from stream_osr.trust.references import own_density

FEWER_RIGHT = 0.005
"""Additional share of training instances that tempered statistics may label wrong, in blocks of arrival."""


def judge_in_order(
    found: ArrivalOrder,
    group: np.ndarray,
    order: np.ndarray,
    trainings: Sequence[Training],
    draws: list[Known],
    seen: Callable[..., list[np.ndarray]],
    p: Parameters,
) -> tuple[ArrivalOrder, list[Known], list[np.ndarray], np.ndarray, float, bool]:
    """Score the instances by the other blocks of arrival, and temper the class statistics if that is likelier.

    Parameters
    ----------
    found
        Dependence of neighbours, with a process.
    group, order
        Class of each instance, and its position in the order of arrival, both of shape (n,).
    trainings, draws
        Trained models, and the known classes in each.
    seen
        The function :func:`stream_osr.trust.references.unseen_densities`, as a function of the order and of the
        effective number of instances.
    p
        Hyperparameters.

    Returns
    -------
    Dependence of neighbours, and the known classes in each model. Then the log class densities of the n instances in
    each model, by the other blocks of arrival, shape (n, J). Then the gain in log likelihood of each instance given
    those before it, (n,). Then the effective number of independent instances, as a share of the instances. The last
    value is True if the class statistics are tempered to that number.
    """
    process = found.process
    assert process is not None
    share, whole = effective_share(found.pairs, process), seen(order)
    fewer = seen(order, share)
    denser = own_density(fewer, group) > own_density(whole, group)
    tempered = denser and promise(fewer, group).recall >= promise(whole, group).recall - FEWER_RIGHT
    if tempered:
        draws = [summarize(training, p.epsilon, p.background_component, share)[0] for training in trainings]
        whole, process = fewer, refit(found, group, order)
        found, share = found._replace(process=process), effective_share(found.pairs, process)
    rows, mean = trainings[0].seating.guests.rows, np.mean(whole, axis=0)
    gain = training_in_order(process, found.residuals, rows, order, mean, draws[0])
    return found, draws, whole, gain, share, tempered
