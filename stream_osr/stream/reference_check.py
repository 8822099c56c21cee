"""Reference check of the known classes, and its effect on decisions and counts.

The check runs in each chain after the sampler has seated a batch. It scores the batch and part of the references
under the current state, each instance left out. :mod:`stream_osr.trust.balance` estimates which share of each
emerging subclass is known, and to which class it belongs. The probability of unknown from the sampler is then divided
accordingly.

A subclass whose instances are mostly known has an owner (:mod:`stream_osr.stream.subclass_owners`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.model.class_runs import Neighbours, Runs, average_odds, follow_runs
from stream_osr.model.jit import kernel
from stream_osr.model.known import log_new
from stream_osr.model.prior import Prior
from stream_osr.model.responsibilities import QueryDensities, QueryRows, query_rows, terms_of, weigh_into
from stream_osr.model.restaurants import StreamState
from stream_osr.parameters import Parameters
from stream_osr.stream import reference_models, subclass_owners
from stream_osr.stream.batch_seating import BatchPosterior, mean_of
from stream_osr.stream.chain import Chain, Chains, ReferenceCheck
from stream_osr.stream.subclass_identities import ChainResult
from stream_osr.support.parallel import each
from stream_osr.trust import density_levels
from stream_osr.trust.balance import balance, votes
from stream_osr.trust.false_unknown_bound import call_known, plausible
from stream_osr.trust.known_shares import KnownShares, cell_shares, class_shares
from stream_osr.trust.reference_counts import counted
from stream_osr.trust.references import References

REMEMBERED = 1000.0
"""Half-life of the counts, in instances of the stream."""
DEPENDENT = 400.0
"""Half-life if neighbours are dependent, because a class comes in runs."""
INTERVAL = 256
"""Instances between two estimates of the stream's known share."""
TYPICAL = density_levels.N_LEVELS - 2
"""Least level (four fifths of the references) at which an instance counts for class shares, whatever its label.

Otherwise a class labelled unknown would lose its share, and then even more instances would be labelled unknown. With
this rule and coarser levels, 0.87 of a class with 5 training instances is right, before 0.41. If all instances
counted that are not beyond all references, BALANCE would lose 0.034 of micro-F
(``benchmarks/results/experiments.md``).
"""


# The references by themselves


# The check of a batch


def score_references(
    chain_results: Sequence[ChainResult],
    references: References,
    rows: np.ndarray,
    parameters: Parameters,
    shifts: np.ndarray | None = None,
    *,
    dependent: Dependence | None = None,
) -> tuple[list[ChainResult], Runs | None]:
    """Score the references in each chain, in threads, and balance the sampler's result.

    Parameters
    ----------
    chain_results
        The chains, and the sampler's results for the batch.
    references
        References of the stream's known classes.
    rows
        Whitened rows of the batch, shape (b, d).
    parameters
        Settings: half-life of the seats, threads, and whether decisions wait.
    shifts
        Class shift of each known class, whitened, shape (J, d). Its references move with it.
    dependent
        Dependence of the stream. Typicality, and not location, then decides which instances are known. ``None`` if
        neighbours are independent.

    Returns
    -------
    The balanced results, and the runs of the classes after the batch.
    """
    before = chain_results[0].before
    count = len(references.group)
    begin, many = before.state.seen % count, min(len(rows), reference_models.BATCH_REFERENCES, count)
    at = slice(begin, begin + many)
    prior = before.known.prior
    kept = reference_models.model_of(references, 0).asked_of(prior) if shifts is None else None
    if kept is None:
        number = np.arange(begin, begin + many) % count
        moved = 0.0 if shifts is None else shifts[references.group[number]]
        theirs = query_rows(references.rows[number] + moved, prior)
    else:
        theirs = QueryRows(kept.rows[at], kept.product[at] if kept.product.size else kept.product)
    waiting = len(chain_results[0].result.window_seq) if parameters.decision_delay else 0
    ours = query_rows(np.concatenate([rows, before.state.window.rows[:waiting, :-1]]) if waiting else rows, prior)
    runs, evidence = None, INDEPENDENT
    if dependent is not None:
        of_references = reference_models.typicality_of(references, [one.before for one in chain_results])
        density, level, odds = _typicality(chain_results, waiting, of_references.typical)
        window = parameters.window_after(len(rows)) if parameters.decision_delay else 0
        runs, expected, odds = _in_runs(before, dependent, density, odds, waiting, window)
        level, odds = np.concatenate([of_references.level[at], level]), np.concatenate([of_references.odds[at], odds])
        evidence = NeighbourEvidence(level, odds, of_references.typical, dependent.independent, expected)
    turn = _CheckRows(at, shifts is None, theirs, ours, evidence)
    balanced = each(
        lambda number: _follow_balance(chain_results[number], number, references, turn, parameters),
        range(len(chain_results)),
        parameters.n_jobs,
    )
    return balanced, runs


def _in_runs(
    leader: Chain, dependent: Dependence, density: np.ndarray, odds: np.ndarray, waiting: int, window: int
) -> tuple[Runs, np.ndarray, np.ndarray]:
    """Follow the runs through the batch, and return the priors, (m, J), and the averaged odds of a new class, (m,).

    The batch is before the ``waiting`` instances in the log densities, shape (m, J), and in the odds, shape (m,).
    ``window`` is the number of instances that may wait with the next batch.
    """
    n, size = len(odds) - waiting, leader.known.size
    shares = size / size.sum() if leader.check is None else leader.check.shares.classes
    if len(shares) != len(size):  # a label has opened a class, or taken one back
        shares = size / size.sum()
    empty = np.isin(np.arange(-waiting, n), dependent.repeats)
    among = Neighbours(dependent.persistence, dependent.independent, waiting, window + 1, empty)
    vote, odds = votes(np.concatenate([density[n:], density[:n]])), np.concatenate([odds[n:], odds[:n]])
    runs, prior = follow_runs(dependent.runs, vote, shares, among)
    runs, odds = average_odds(runs, odds, density_levels.DEMANDED, among)
    prior, odds = np.concatenate([prior[waiting:], prior[:waiting]]), np.concatenate([odds[waiting:], odds[:waiting]])
    return runs, prior, odds


def _typicality(
    chain_results: Sequence[ChainResult], waiting: int, typical: density_levels.Typical
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log densities, level and odds (:func:`.typicality`) of the batch and the delayed decisions.

    They are means of the chains.
    """
    first, densities, log_odds = chain_results[0].result, [], []
    gain = np.zeros(len(first.log_density) + waiting)
    if first.gain is not None:
        at = len(first.window_log_density)
        gain = np.concatenate([first.gain[at:], first.gain[:waiting]])
    for chain, result in (one[:3:2] for one in chain_results):
        density, fresh = result.log_density, result.log_density_new
        if waiting:
            density = np.concatenate([density, result.window_log_density[:waiting]])
            fresh = np.concatenate([fresh, log_new(chain.known, chain.state.window.rows[:waiting])])
        densities.append(density)
        log_odds.append(reference_models.log_odds_of_chain(chain, density, fresh) + gain)
    density = mean_of(densities)
    return density, *density_levels.typicality(density, density_levels.mean_log_odds(log_odds), gain, typical)


class Dependence(NamedTuple):
    """Dependence of neighbours in a stream.

    Attributes
    ----------
    independent
        Number of independent instances with the information of one stream instance.
    persistence
        Persistence of the training labels (:func:`stream_osr.model.class_runs.persistence_of`).
    runs
        Runs of the known classes before the batch.
    repeats
        Rows of the batch that were drawn in place of repeated ones. They have no information.
    """

    independent: float
    persistence: float
    runs: Runs | None
    repeats: Sequence[int] = ()


class NeighbourEvidence(NamedTuple):
    """Evidence about the scored instances if neighbours are dependent. The arrays are empty if they are independent.

    Attributes
    ----------
    level, odds
        Level and odds of the references and of the others (:func:`.typicality`).
    typical
        Typicality of the references.
    independent
        Number of independent instances with the information of one stream instance.
    prior
        Prior of the classes of each of the others, shape (m, J).
    """

    level: np.ndarray
    odds: np.ndarray
    typical: density_levels.Typical
    independent: float
    prior: np.ndarray


_NOTHING, _NO_ROWS = np.zeros(0), np.zeros((0, 0))
_NOT_TYPICAL = density_levels.Typical(np.zeros((2, 0, 0)), _NOTHING, _NOTHING, 0.0)
INDEPENDENT = NeighbourEvidence(np.zeros(0, np.int64), _NOTHING, _NOT_TYPICAL, 1.0, _NO_ROWS)
"""Evidence if neighbours are independent."""


class _CheckRows(NamedTuple):
    """Instances scored with a batch in every chain: Q references, the batch, and the window if decisions wait.

    Attributes
    ----------
    at
        Positions of the references in columns of a :class:`ReferenceModel`.
    stay
        Whether they have the same location as in training.
    theirs, ours
        Rows of the references, and of the others.
    evidence
        Evidence about each of them.
    """

    at: slice
    stay: bool
    theirs: QueryRows
    ours: QueryRows
    evidence: NeighbourEvidence


class _Sides(NamedTuple):
    """The Q references and the m other scored instances: rows, densities, and columns of the references.

    ``unknown`` is the sampler's probability that each of the others is unknown, shape (m,).
    """

    references: QueryRows
    of_references: QueryDensities
    theirs: reference_models.ReferenceRows
    others: QueryRows
    of_others: QueryDensities
    unknown: np.ndarray


def _follow_balance(
    chain_result: ChainResult, number: int, references: References, turn: _CheckRows, parameters: Parameters
) -> ChainResult:
    """Add a batch to the counts of a chain, and balance its probabilities."""
    chain, state, result = chain_result[:3]
    known, (at, stay, rows, ours, evidence) = chain.known, turn
    n_classes, first, n = len(known.size), at.stop - at.start, len(result.subclass)
    model, waiting = reference_models.model_of(references, number), len(ours.rows) - n
    theirs = reference_models.ReferenceRows(*(column[at] for column in model.theirs))
    fresh = model.new_of(known)[at] if stay else log_new(known, rows.rows)
    nobody = np.full(first, -1)
    of_references = QueryDensities(theirs.log_density, fresh, nobody, np.zeros(first))
    weight = np.full(n + waiting, 0.5 ** (n / parameters.half_life))
    densities = QueryDensities(result.log_density, result.log_density_new, result.subclass, weight)
    unknown = result.probabilities[:, -1]
    if waiting:
        weight[n:] *= chain.state.window.weight[:waiting]
        window = result.window_log_density, log_new(known, ours.rows[n:]), result.window_subclass
        columns = [np.concatenate([own, more[:waiting]]) for own, more in zip(densities[:3], window, strict=True)]
        densities = QueryDensities(columns[0], columns[1], columns[2], weight)
        unknown = np.concatenate([unknown, result.window_probabilities[:waiting, -1]])
    sides = _Sides(rows, of_references, theirs, ours, densities, np.ascontiguousarray(unknown))
    due = chain.check is None or chain.check.estimated_at < 0 or state.seen - chain.check.estimated_at >= INTERVAL
    check, probabilities = _count_references(
        chain.check or subclass_owners.start_check(n_classes),
        state,
        sides,
        model.levels,
        known.size / known.size.sum(),
        n,
        due,
        evidence,
        known.prior,
    )
    result = result._replace(probabilities=probabilities[first : first + n])
    if waiting:
        result = result._replace(window_probabilities=probabilities[first + n :])
    return chain_result._replace(
        state=subclass_owners.without_openings(state, check, n_classes),
        result=result,
        check=check,
        references=np.arange(at.start, at.stop) % len(references.group),
        probabilities=probabilities[:first],
        mostly_new=subclass_owners.mostly_new(check, model.levels.many),
    )


@kernel
def _count_references(
    check: ReferenceCheck,
    state: StreamState,
    sides: _Sides,
    levels: reference_models.ReferenceLevels,
    trained: np.ndarray,
    n: int,
    due: bool,
    evidence: NeighbourEvidence,
    prior: Prior,
) -> tuple[ReferenceCheck, np.ndarray]:
    """Add a batch of n instances to the counts of a check.

    The function returns the check and the balanced probabilities of all scored instances.

    ``trained`` has the shares of the training set, shape (J,). If the estimate is ``due``, the known share of the
    stream is estimated again.
    """
    level, odds, typical, independent, neighbours = evidence
    references, of_references, theirs, others, of_others, said_unknown = sides
    first, n_classes = len(theirs.group), len(trained)
    if not subclass_owners.fits(check, state.ids, n_classes):
        check = subclass_owners.refitted(check, state.ids, n_classes)
    parameters = terms_of(state.dishes, prior)
    many = first + len(of_others.weight)
    responsibilities, vote = np.empty((many, len(state.franchise.menu) + 1)), np.empty((many, n_classes))
    weigh_into(responsibilities[:first], state, parameters, references, of_references, prior)
    weigh_into(responsibilities[first:], state, parameters, others, of_others, prior)
    vote[:first] = theirs.vote
    vote[first:] = votes(of_others.log_density)
    dependent = len(level) > 0
    if not dependent:
        level = np.empty(many, np.int64)
        level[:first] = theirs.level
        level[first:] = density_levels.levels_of(
            of_others.log_density, levels.many, levels.total, levels.bounds, levels.below
        )
    fade = 0.5 ** (n / (DEPENDENT if dependent else REMEMBERED))
    counts = counted(check.counts, responsibilities, level, theirs.group, theirs.weight, n, fade)
    classes = class_shares(independent * counts.votes, levels.confusion, trained, check.shares.classes)
    shares = cell_shares(counts, classes, levels.many, levels.spread, check.shares.kappa, check.known, due)
    if dependent:
        hypotheses = density_levels.known_by_typicality(counts.stream, typical, independent)
        by_level = np.repeat(density_levels.mean_known(hypotheses), counts.stream.shape[1]).reshape(
            counts.stream.shape
        )
        shares = KnownShares(by_level, shares.owner, shares.classes, shares.kappa)
    unknown = np.full(many, np.nan)  # of references what the cells say
    unknown[first:] = said_unknown
    if dependent:
        expected = np.empty((many, n_classes))
        expected[:first], expected[first:] = shares.classes, neighbours
        probabilities = balance(shares, unknown, responsibilities, level, vote, odds, hypotheses, expected)
    else:
        probabilities = balance(shares, unknown, responsibilities, level, vote)
    for i in range(first, first + n):
        weight = 1.0 if level[i] >= TYPICAL else 1.0 - probabilities[i, n_classes]
        for j in range(n_classes):
            counts.votes[j] += weight * vote[i, j]
    owner, part = subclass_owners.owners_of(check.owner, check.known, counts.stream, shares)
    estimated_at = state.seen if due else check.estimated_at
    return ReferenceCheck(check.ids, counts, shares, owner, part, estimated_at, dependent), probabilities


def mean_of_references(posterior: BatchPosterior) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Average the chains' results for the references: their numbers, probabilities, and the shares of the classes."""
    shares = [one.check.shares.classes for one in posterior.seated if one.check is not None]
    probabilities = mean_of([one.probabilities for one in posterior.seated])
    return posterior.seated[0].references, probabilities, mean_of(shares)


def limit_false_unknown(
    chain_results: Sequence[ChainResult], references: References, max_false_unknown: float | None
) -> list[ChainResult]:
    """Do not label an instance unknown that is plausible for a known class, if ``max_false_unknown`` is set."""
    results = [one.result for one in chain_results]
    if max_false_unknown is None:
        return list(chain_results)
    batch = plausible(references, np.mean([r.log_density for r in results], axis=0), max_false_unknown)
    results = [r._replace(probabilities=call_known(r.probabilities, batch)) for r in results]
    if len(results[0].window_seq):  # only looked at where decisions wait
        window = plausible(references, np.mean([r.window_log_density for r in results], axis=0), max_false_unknown)
        results = [r._replace(window_probabilities=call_known(r.window_probabilities, window)) for r in results]
    return [one._replace(result=result) for one, result in zip(chain_results, results, strict=True)]


def current_shares(chains: Chains) -> list[KnownShares | None]:
    """Compute the known shares of each chain from its counts and present state."""
    fitted = (
        chain.check and subclass_owners.fit_check(chain.check, chain.state.ids, len(chain.known.size))
        for chain in chains
    )
    return [check and check.shares for check in fitted]


# The counts of a chain, and whose each subclass is
