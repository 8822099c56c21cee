"""What tests use of the inside of ``stream_osr.model``."""

from __future__ import annotations

import numpy as np

from stream_osr.model import (
    binary_features,
    categories,
    compiler,
    contributions,
    dependence,
    dishes,
    edit,
    elementwise,
    franchise,
    gaussian,
    imputation,
    jit,
    kernel_cache,
    known,
    lifecycle_moves,
    missing,
    responsibilities,
    student_t,
    subspace,
    training,
    whitening,
    yeo_johnson,
)
from stream_osr.model import step as step_module
from stream_osr.model.dishes import Dishes, add, empty_dishes, log_predictives, log_prior_predictives, refill
from stream_osr.model.franchise import (
    ANYONE,
    CLOSED,
    Franchise,
    Guests,
    StreamState,
    derive,
    empty_franchise,
    fade,
    join,
    leave,
)
from stream_osr.model.gaussian import quadratic
from stream_osr.model.imputation import fill_groups
from stream_osr.model.jit import kernel
from stream_osr.model.known import N_RANKS, Densities, Known, densities, log_class_densities, log_densities, log_new
from stream_osr.model.marginal import (
    Statistics,
    _best_partition,
    _log_whole,
    add_statistics,
    both,
    dishes_of,
    log_ratios_together,
    of_nobody,
    of_rows,
    split_test,
    statistics_of,
)
from stream_osr.model.missing import nothing_missing
from stream_osr.model.moves import hyperparameters, likelihood, seating, splitting
from stream_osr.model.moves.hyperparameters import (
    ALPHA,
    GAMMA,
    STREAM_ALPHA,
    Grid,
    draw_prior,
    log_evidence,
    make_grid,
)
from stream_osr.model.moves.likelihood import SamplerState
from stream_osr.model.moves.seating import HOPELESS, redish_tables, visit, weigh_block, weigh_dishes, weigh_remembered
from stream_osr.model.moves.splitting import make_proposal, split_or_merge
from stream_osr.model.moves.sweeps import sweep_batch, sweep_groups
from stream_osr.model.nearest import means_and_scales, typical_rows
from stream_osr.model.prior import Prior, homogeneous, make_prior, same_prior, width_of
from stream_osr.model.responsibilities import look, nearby, query_rows, responsibilities_of, terms_of, view
from stream_osr.model.step import BatchResult, Settings, open_stream, step
from stream_osr.model.student_t import CONJUGATE, Location, StudentTerms, fit_location, log_new_densities
from stream_osr.model.subspace import MOST, follow, is_clock, is_constant, make_plan
from stream_osr.model.subspace import RIDGE as SUBSPACE_RIDGE
from stream_osr.model.training import Training, seat_by_groups, summarize, tempered, train
from stream_osr.model.transfer import GAIN, OTHER, CoordinateMap, class_of, moved, origins, passage, restate
from stream_osr.model.unassigned import (
    LATELY,
    LOOKED,
    NARROWEST,
    PASSES,
    SIZES,
    Alternatives,
    Background,
    UnassignedRows,
    _of_nothing,
    _Scene,
    find_group,
    gain,
    is_broad,
    log_density,
    noise_model_of,
)
from stream_osr.model.whitening import Whitening, find_open, fit_mixed, fit_whitening, unwhiten, whiten
from stream_osr.model.yeo_johnson import NO_YEO_JOHNSON, YeoJohnson, bend, bent, find_yeo_johnson, slopes, unbend


def log_marginals(statistics: Statistics, prior: Prior, location: Location = CONJUGATE) -> np.ndarray:
    """Log marginal likelihood of each of K subclasses, up to a factor that all partitions of the rows share, (K,)."""
    return np.array([_log_whole(*each, prior, location) for each in zip(*statistics, strict=True)])


def menu_weights(tables: Franchise) -> np.ndarray:
    """Weight of every dish on the menu, shape (C + K,)."""
    return np.maximum(tables.menu, tables.held)
