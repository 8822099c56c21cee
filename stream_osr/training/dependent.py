"""Training with dependent neighbours: blocks of arrival, partitions without runs, tempered statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stream_osr.errors import InvalidParameter
from stream_osr.model.dependence import ArrivalOrder, effective_share, refit, training_in_order
from stream_osr.model.known import Known
from stream_osr.model.training import Training, summarize
from stream_osr.parameters import Parameters
from stream_osr.trust.recall import promise
from stream_osr.trust.unseen_densities import own_density

FEWER_RIGHT = 0.005
"""Additional share of training instances that tempered statistics may label wrong, in blocks of arrival."""


class Ensemble(NamedTuple):
    """Trained models, one for each chain.

    Attributes
    ----------
    trainings
        Results of the training sweeps.
    draws
        Known classes.
    left_out
        Log class densities of the n training instances, each left out alone, shape (n, J).
    """

    trainings: list[Training]
    draws: list[Known]
    left_out: list[np.ndarray]


Unseen = Callable[..., list[np.ndarray]]
"""The function :func:`stream_osr.trust.unseen_densities.unseen_densities`, as a function of the models, the order
and the effective number of instances."""


def summarized(trainings: list[Training], p: Parameters) -> Ensemble:
    """Summarise the training of each chain.

    Raises
    ------
    InvalidParameter
        If a chain would have no known class.
    """
    summaries = [summarize(training, p.epsilon, p.background_component) for training in trainings]
    if not all(len(known.ids) for known, _ in summaries):
        raise InvalidParameter(
            f"epsilon is {p.epsilon:g}, and every subclass has a smaller share of the class: no class would "
            "be known. Lower it (the default is 0.01)"
        )
    return Ensemble(trainings, [known for known, _ in summaries], [found for _, found in summaries])


def without_runs(
    swept: Ensemble, merged: Ensemble, group: np.ndarray, order: np.ndarray, unseen: Unseen
) -> tuple[Ensemble, list[np.ndarray]]:
    """Choose between the partitions of the training sweeps and those of the search for modes.

    The sweeps treat instances as independent. If neighbours depend on each other, a run of similar instances may
    become a subclass, which fits no other block of arrival. So the partitions of the sweeps are used only if the
    instances are likelier by the other blocks of arrival than with the partitions of the search, and not fewer of
    them are recognised.

    Returns
    -------
    The chosen models, and the log class densities of the instances by the other blocks of arrival, shape (n, J).
    """
    of_swept, of_merged = (unseen(each, order) for each in (swept, merged))
    likelier = own_density(of_swept, group) > own_density(of_merged, group)
    if likelier and promise(of_swept, group).recall >= promise(of_merged, group).recall:
        return swept, of_swept
    return merged, of_merged


def judge_in_order(
    found: ArrivalOrder,
    group: np.ndarray,
    order: np.ndarray,
    ensemble: Ensemble,
    whole: list[np.ndarray],
    unseen: Unseen,
    p: Parameters,
) -> tuple[ArrivalOrder, list[Known], list[np.ndarray], np.ndarray, float, bool]:
    """Score the instances by the other blocks of arrival, and temper the class statistics if that is likelier.

    Parameters
    ----------
    found
        Dependence of neighbours, with a process.
    group, order
        Class of each instance, and its position in the order of arrival, both of shape (n,).
    ensemble
        Trained models.
    whole
        Log class densities of the n instances in each model, by the other blocks of arrival, shape (n, J).
    unseen
        Function that scores the instances as unseen.
    p
        Hyperparameters.

    Returns
    -------
    Dependence of neighbours, and the known classes in each model. Then the log class densities of the n instances in
    each model, by the other blocks of arrival, shape (n, J). Then the gain in log likelihood of each instance given
    those before it, (n,). Then the effective number of independent instances, as a share of the instances. The last
    value is True if the class statistics are tempered to that number.
    """
    process, draws = found.process, ensemble.draws
    assert process is not None
    share = effective_share(found.pairs, process)
    fewer = unseen(ensemble, order, share)
    denser = own_density(fewer, group) > own_density(whole, group)
    tempered = denser and promise(fewer, group).recall >= promise(whole, group).recall - FEWER_RIGHT
    if tempered:
        draws = [summarize(training, p.epsilon, p.background_component, share)[0] for training in ensemble.trainings]
        whole, process = fewer, refit(found, group, order)
        found, share = found._replace(process=process), effective_share(found.pairs, process)
    rows, mean = ensemble.trainings[0].seating.guests.rows, np.mean(whole, axis=0)
    gain = training_in_order(process, found.residuals, rows, order, mean, draws[0])
    return found, draws, whole, gain, share, tempered
