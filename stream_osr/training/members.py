"""Kinds of models in the ensemble, with the base measure that each starts from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.categories import EXCLUSIVE, base_of, with_base
from stream_osr.model.feature_space.whitening import Whitening, even_where_open
from stream_osr.model.location_fit import FLAT_BETA, fit_location, share_among_neighbours
from stream_osr.model.moves.hyperparameters import Grid, make_grid
from stream_osr.model.prior import NO_COLUMN, Prior, make_prior
from stream_osr.model.student_t import CONJUGATE, Location
from stream_osr.model.training import Training
from stream_osr.parameters import Parameters

COARSE_NU_ABOVE_DIMENSION = 20.0
COARSE_SCALE = 0.1
COARSE_BETA = 0.1
FIRST_CONCENTRATION = 1.0
"""Concentration of categories, until the concentrations are drawn."""

"""The constants above define a base measure without evidence. Subclasses start near the pooled within-class
covariance."""


MODE_PRIORS = {20.0: (0.3, 1.0), 400.0: (1.0,)}
"""Base measures for the search of modes: mean variances of a mode, in units of the variance within classes, for each
number of degrees of freedom above d.

Few degrees of freedom show modes of different shapes, and many show modes of one shape in many dimensions.
"""


class EnsembleMember(NamedTuple):
    """Kind of model.

    Attributes
    ----------
    drawn
        Whether the hyperparameters are drawn, and the base measure has the spread of the modes of the classes.
        Otherwise they are coarse, without the spread: it would narrow the prior of a mean as well, and the fixed
        ``beta`` cannot widen it again.
    placed
        Whether a Student-t places new subclasses.
    """

    drawn: bool
    placed: bool


DRAWN = (EnsembleMember(drawn=True, placed=False),)
MIXED = (
    EnsembleMember(drawn=False, placed=False),
    EnsembleMember(drawn=True, placed=True),
    EnsembleMember(drawn=True, placed=False),
    EnsembleMember(drawn=True, placed=True),
)
"""Kinds of models of successive chains. Subclasses come from the first, which has smaller and purer ones.

The order changes if a typical class has fewer instances than the coarse prior has degrees of freedom. That kind then
puts several new classes into one subclass, and comes second (YALEB, COIL20: ``benchmarks/results/discovery.md``).

The known classes reveal little about the base measure of new classes, and the kinds err on different instances. On
most data sets their average is more accurate than the best kind (``benchmarks/results/experiments.md``).
"""

LEAST_DESCRIBED = 0.9
"""Least share of the training set in the kept subclasses of a placed member. With a smaller share it is not used."""
LEAST_IN_COMPANY = 0.25
"""Least share of training instances that are likelier beside one of their class than by themselves."""


def comes_apart(training: Training, group: np.ndarray, epsilon: float) -> bool:
    """Check whether a placed member makes too many small subclasses of known or of future classes."""
    seated = training.seating.franchise.seated
    kept = seated >= epsilon * seated.sum(axis=1, keepdims=True)
    if seated[kept].sum() < LEAST_DESCRIBED * seated.sum():
        return True
    rows, prior, location = training.seating.guests.rows, training.prior, training.location
    return share_among_neighbours(rows, group, prior, location) < LEAST_IN_COMPANY


def priors_of_modes(d: int, p: Parameters) -> list[list[Prior]]:
    """Return the base measures for the search of modes in d numeric dimensions."""
    beta = COARSE_BETA if p.beta is None else p.beta
    if p.nu is not None or p.scale is not None:
        nu = d + COARSE_NU_ABOVE_DIMENSION if p.nu is None else p.nu
        return [[make_prior(d, nu, COARSE_SCALE if p.scale is None else p.scale, beta)]]
    return [
        [make_prior(d, d + above, mean * (above - 1.0) / (d + above), beta) for mean in means]
        for above, means in MODE_PRIORS.items()
    ]


def base_measure(
    member: EnsembleMember,
    rows: np.ndarray,
    group: np.ndarray,
    whitening: Whitening,
    p: Parameters,
    spread: np.ndarray | None = None,
    alarms: np.ndarray = NO_COLUMN,
) -> tuple[Prior, Grid | None, Location]:
    """Return the base measure of one kind of model. Parameters that the user has set apply to every kind.

    ``spread`` is the variance within modes of each numeric coordinate, by default 1. ``alarms`` are the categories
    of which a new value alone means unknown.
    """
    columns = len(whitening.places)
    d = rows.shape[1] - columns
    location = fit_location(rows[:, columns:], group) if member.placed else CONJUGATE
    beta = FLAT_BETA if p.beta is None and location.freedom > 0.0 else p.beta
    drawn = member.drawn and None in (p.nu, p.scale, beta)
    grid = make_grid(d, p.nu, p.scale, beta) if drawn else None
    nu, own = d + COARSE_NU_ABOVE_DIMENSION if p.nu is None else p.nu, spread if member.drawn else None
    scale = COARSE_SCALE if p.scale is None else p.scale
    prior = make_prior(d, nu=nu, scale=scale, beta=COARSE_BETA if beta is None else beta, spread=own)
    if columns:
        base = even_where_open(base_of(rows, group, whitening.places), whitening)
        concentration = np.full(len(whitening.places), FIRST_CONCENTRATION)
        concentration[alarms] = EXCLUSIVE
        prior = with_base(prior, whitening.places, base, concentration)
    return prior, grid, location
