"""What tests use of the inside of ``stream_osr.trust``."""

from __future__ import annotations

import numpy as np

from stream_osr.trust import balance as law
from stream_osr.trust import references
from stream_osr.trust.balance import (
    EXTREME,
    MIXED,
    PRIOR_SHARES,
    KnownShares,
    ReferenceCounts,
    balance,
    cell_shares,
    class_shares,
    counted,
    votes,
)
from stream_osr.trust.levels import (
    DEMANDED,
    FROZEN,
    LEAST_BELOW,
    LEVELS,
    N_LEVELS,
    TEMPERED,
    USUAL,
    known_by_typicality,
    level_bounds,
    levels_of,
    levels_within,
    nearest,
    odds_of_new,
    references_below,
    typical_of,
    with_odds,
)
from stream_osr.trust.prior_odds import (
    FADES_SLOWER,
    PRIOR_SHIFT,
    SHIFTS,
    PriorOdds,
    learn_odds,
    shift_odds,
    start_odds,
)
from stream_osr.trust.recall import (
    DISPUTED_SPREAD,
    ENOUGH,
    LEAST_ASKED,
    REMEMBERED,
    WIDEST,
    ExpectedRecall,
    ReferenceResults,
    Z,
    call,
    doubt,
    expect,
    has_dropped,
    instances_that_would_do,
    no_results,
    promise,
)
from stream_osr.trust.references import (
    FOLDS,
    LEAST,
    LEAST_OF_CLASS,
    PLENTY,
    References,
    _folds,
    call_known,
    choose_references,
    least_references,
    mislabelled,
    plausible,
    unseen_densities,
    with_ranks,
)


def share_out(books, classes, distinct, kappa=np.nan, before=None, spread=None):
    """Shares of cells; by default nothing was known before, and all references weigh the same."""
    spread = np.ones((len(classes), books.stream.shape[1])) if spread is None else spread
    before = np.full(len(books.stream) - len(classes) - 1, -1.0) if before is None else before
    return cell_shares(books, classes, distinct, spread, kappa, before)


def known_share(stream: float, taken: float, stands_for: float, before: float) -> tuple[float, float]:
    """Posterior mean of the known share of a cell, and the log evidence."""
    return law.known_share(np.empty((2, len(law.T_GRID))), stream, taken, stands_for, before)
