"""Kinds of model in the ensemble: the base measure that each starts from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.config import Parameters
from stream_osr.model.categories import base_of, with_base
from stream_osr.model.moves.hyperparameters import Grid, make_grid
from stream_osr.model.prior import Prior, make_prior
from stream_osr.model.student_t import CONJUGATE, FLAT_BETA, Location, fit_location, share_among_neighbours
from stream_osr.model.training import Training
from stream_osr.model.whitening import Whitening, even_where_open

COARSE_NU_ABOVE_DIMENSION = 20.0
COARSE_SCALE = 0.1
COARSE_BETA = 0.1
FIRST_CONCENTRATION = 1.0
"""Of categories, until their concentrations are drawn."""

"""A base measure that no evidence has shaped: subclasses begin near the pooled within-class covariance."""


class EnsembleMember(NamedTuple):
    """A kind of model in the ensemble: hyperparameters drawn (or coarse), new subclasses placed by a Student-t."""

    drawn: bool
    placed: bool


DRAWN = (EnsembleMember(drawn=True, placed=False),)
MIXED = (
    EnsembleMember(drawn=False, placed=False),
    EnsembleMember(drawn=True, placed=True),
    EnsembleMember(drawn=True, placed=False),
    EnsembleMember(drawn=True, placed=True),
)
"""Kinds of model, one chain after the other. Subclasses are told from the first: its are the smaller, purer ones.

Not so where a typical class has fewer instances than the coarse prior has degrees of freedom: that one gathers
several new classes in a subclass, and comes second (YALEB, COIL20: ``benchmarks/results/discovery.md``).

The known classes say little about the base measure of what they are not, and the kinds err on different instances:
their average is more accurate than the best of them on most data sets (``benchmarks/results/experiments.md``).
"""

LEAST_DESCRIBED = 0.9
"""A placed member whose kept subclasses hold a smaller share of the training set has come apart: it is not used."""
LEAST_IN_COMPANY = 0.25
"""Nor is one in which fewer training instances are likelier beside one of their class than by themselves."""


def comes_apart(training: Training, group: np.ndarray, epsilon: float) -> bool:
    """Say whether a placed member makes too many small subclasses: of known classes, or of new ones to come."""
    seated = training.seating.franchise.seated
    kept = seated >= epsilon * seated.sum(axis=1, keepdims=True)
    if seated[kept].sum() < LEAST_DESCRIBED * seated.sum():
        return True
    rows, prior, location = training.seating.guests.rows, training.prior, training.location
    return share_among_neighbours(rows, group, prior, location) < LEAST_IN_COMPANY


def base_measure(
    member: EnsembleMember, rows: np.ndarray, group: np.ndarray, whitening: Whitening, p: Parameters
) -> tuple[Prior, Grid | None, Location]:
    """Choose what one kind of model starts from; parameters that the user has set hold in every kind."""
    columns = len(whitening.places)
    d = rows.shape[1] - columns
    location = fit_location(rows[:, columns:], group) if member.placed else CONJUGATE
    beta = FLAT_BETA if p.beta is None and location.freedom > 0.0 else p.beta
    drawn = member.drawn and None in (p.nu, p.scale, beta)
    grid = make_grid(d, p.nu, p.scale, beta) if drawn else None
    nu = d + COARSE_NU_ABOVE_DIMENSION if p.nu is None else p.nu
    scale = COARSE_SCALE if p.scale is None else p.scale
    prior = make_prior(d, nu=nu, scale=scale, beta=COARSE_BETA if beta is None else beta)
    if columns:
        base = even_where_open(base_of(rows, group, whitening.places), whitening)
        prior = with_base(prior, whitening.places, base, FIRST_CONCENTRATION)
    return prior, grid, location
