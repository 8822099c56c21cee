"""What tests use of the inside of ``stream_osr.trust``."""

from __future__ import annotations

import numpy as np

from stream_osr.trust import balance as law
from stream_osr.trust import levels, prior_odds, recall, references
from stream_osr.trust.balance import KnownShares, ReferenceCounts, balance, cell_shares, votes
from stream_osr.trust.levels import N_LEVELS
from stream_osr.trust.prior_odds import PriorOdds, learn_odds, shift_odds, start_odds
from stream_osr.trust.recall import ExpectedRecall
from stream_osr.trust.references import (
    LEAST,
    References,
    call_known,
    choose_references,
    mislabelled,
    plausible,
)


def share_out(books, classes, distinct, kappa=np.nan, before=None, spread=None, due=None):
    """Shares of cells; by default nothing was known before, and all references weigh the same."""
    spread = np.ones((len(classes), books.stream.shape[1])) if spread is None else spread
    before = np.full(len(books.stream) - len(classes) - 1, -1.0) if before is None else before
    return cell_shares(books, classes, distinct, spread, kappa, before, np.isnan(kappa) if due is None else due)


def known_share(stream: float, taken: float, stands_for: float, before: float) -> tuple[float, float]:
    """Posterior mean of the known share of a cell, and the log evidence."""
    return law.known_share(np.empty((2, len(law.T_GRID))), stream, taken, stands_for, before)
