"""Training whose neighbouring instances depend on each other: densities by blocks of arrival, tempered statistics."""

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
"""Share of the training instances, in blocks of arrival, that tempered statistics may label wrong in addition."""


def judge_in_order(
    found: ArrivalOrder,
    group: np.ndarray,
    order: np.ndarray,
    trainings: Sequence[Training],
    draws: list[Known],
    seen: Callable[..., list[np.ndarray]],
    p: Parameters,
) -> tuple[ArrivalOrder, list[Known], list[np.ndarray], np.ndarray, float, bool]:
    """Judge the instances by the other blocks of arrival; temper the statistics of the classes if that is likelier.

    Parameters
    ----------
    found
        Dependence of neighbours; it has a process.
    group, order
        Class of each instance, and its position in the order of arrival, both of shape (n,).
    trainings, draws
        The models as training left them, and the known classes in each.
    seen
        :func:`stream_osr.trust.references.unseen_densities` of the order and of the effective number of instances.
    p
        Hyperparameters.

    Returns
    -------
    Dependence of neighbours; the known classes in each model; log class densities of the n instances, by the other
    blocks of arrival, in each model, shape (n, J); by how much more likely each was given those before it, (n,);
    number of independent instances that say as much, as a share of the instances; and True if the statistics of the
    classes count as so many.
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
