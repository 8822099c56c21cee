"""Reference check of the known classes, and its effect on decisions and counts.

The check runs in each chain after the sampler has seated a batch. It scores the batch and part of the references
under the current state, each instance left out. :mod:`stream_osr.trust.balance` estimates which share of each
emerging subclass is known, and to which class it belongs. The probability of unknown from the sampler is then divided
accordingly.

An emerging subclass has an owner if more than half its instances are known: it repeats a known class. Such a subclass
causes no events, does not count as a new class, and its tables are no evidence of new classes (alpha0). Results that
depend on the frozen densities alone are cached for each set of references (:class:`ReferenceModel`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.config import Parameters
from stream_osr.model.class_runs import Neighbours, Runs, average_odds, follow_runs
from stream_osr.model.franchise import StreamState
from stream_osr.model.jit import kernel
from stream_osr.model.known import Known, log_new
from stream_osr.model.prior import Prior, homogeneous
from stream_osr.model.responsibilities import QueryDensities, QueryRows, place_of, query_rows, terms_of, weigh_into
from stream_osr.stream.chain import Chain, Chains, ReferenceCheck, opening_seats
from stream_osr.stream.seating import BatchPosterior, ChainResult, mean_of
from stream_osr.support.parallel import each
from stream_osr.trust.balance import KnownShares, ReferenceCounts, balance, cell_shares, class_shares, counted, votes
from stream_osr.trust.levels import (
    DEMANDED,
    N_LEVELS,
    Typical,
    known_by_typicality,
    level_bounds,
    levels_of,
    log_odds_of_new,
    mean_known,
    mean_log_odds,
    nearest,
    references_below,
    typical_of,
    typicality,
)
from stream_osr.trust.references import References, call_known, once, plausible

ASKED = 256
"""Most references scored with each batch, in turn. A smaller batch is scored with as many as it has instances."""
KEPT = 1 << 22
"""Most cached products of the references' coordinates. Larger ones are recomputed each time."""
REMEMBERED = 1000.0
"""Half-life of the counts, in instances of the stream."""
DEPENDENT = 400.0
"""Half-life if neighbours are dependent, because a class comes in runs."""
INTERVAL = 256
"""Instances between two estimates of the stream's known share."""
TYPICAL = N_LEVELS - 2
"""Least level (four fifths of the references) at which an instance counts for class shares, whatever its label.

Otherwise a class labelled unknown would lose its share, and then even more instances would be labelled unknown.
"""
LEAST_SUPPORT = 8.0
"""Remembered instances that a subclass needs before its owner may change."""
OWNED_ABOVE, UNOWNED_BELOW = 0.5, 0.4
"""Known shares above which a subclass gets an owner, and below which it loses it."""
MANY, EXPECTED, MOSTLY_NEW = 20.0, 4.0, 0.3
"""Conditions for a subclass to be mostly new: remembered instances, expected references, and largest known share."""
NOBODY = -1
NOT_TYPICAL = Typical(np.zeros((2, 0, 0)), np.zeros(0), np.zeros(0), 0.0)
"""Typicality if neighbours are independent."""


# The references by themselves


class ReferenceLevels(NamedTuple):
    """Densities of the references of J classes, by L levels.

    Attributes
    ----------
    many, total
        Number of references of each class, and the sum of their log densities under it, shape (J,).
    below
        References of each class below each bound of the levels except the first, shape (J, L).
    spread
        Weighted mean weight of the references of each class on each level, shape (J, L).
    bounds
        Bounds of the levels.
    confusion
        Mean probability of each class over the references of each class, shape (J, J).
    """

    many: np.ndarray
    total: np.ndarray
    below: np.ndarray
    spread: np.ndarray
    bounds: np.ndarray
    confusion: np.ndarray


class ReferenceModel(NamedTuple):
    """References under the frozen densities of one chain alone.

    Columns over the R references repeat the first :data:`ASKED` at the end, so that the references of a batch are
    always adjacent.

    Attributes
    ----------
    levels
        Their density levels.
    theirs
        Columns of the references.
    log_new
        Log densities under a new subclass, by base measure.
    asked
        Rows prepared for all states, by covariance model.
    rows
        Whitened rows of the references, shape (R, d).
    typicality
        Their typicality, by known classes.
    """

    levels: ReferenceLevels
    theirs: ReferenceRows
    log_new: dict[int, tuple[Known, np.ndarray]]
    asked: list[QueryRows]
    rows: np.ndarray
    typicality: dict[int, tuple[Known, ReferenceTypicality]]

    def new_of(self, known: Known) -> np.ndarray:
        """Log density of each reference as the first instance of a new subclass, which no label changes."""
        key = id(known.prior)
        if key not in self.log_new:
            self.log_new[key] = (known, _twice(log_new(known, homogeneous(self.rows))))
        return self.log_new[key][1]

    def asked_of(self, prior: Prior) -> QueryRows | None:
        """Prepare the rows of the references, or return ``None`` if they would take too much memory."""
        if (len(self.rows) + ASKED) * (prior.n_features + 1) * (prior.n_features + 2) // 2 > KEPT:
            return None
        if not self.asked:
            self.asked.append(query_rows(_twice(self.rows), prior))
        return self.asked[0]

    def levels_of(self, log_density: np.ndarray) -> np.ndarray:
        """Level of each instance, shape (n,), by its log densities under the known classes, shape (n, J)."""
        levels = self.levels
        return levels_of(log_density, levels.many, levels.total, levels.bounds, levels.below)


class ReferenceRows(NamedTuple):
    """Columns over n references.

    Attributes
    ----------
    group, level
        Class and level of each, shape (n,).
    log_density, vote
        Log density under each known class, given earlier instances if neighbours are dependent. Then the probability
        of the class by that alone, shape (n, J).
    weight
        Weight of each reference within its class, shape (n,).
    """

    group: np.ndarray
    level: np.ndarray
    log_density: np.ndarray
    vote: np.ndarray
    weight: np.ndarray


def _twice(column: np.ndarray) -> np.ndarray:
    """Append the beginning of a column to its end."""
    return np.concatenate([column, column[:ASKED]])


def _spread(group: np.ndarray, level: np.ndarray, weight: np.ndarray, n_classes: int) -> np.ndarray:
    """Weighted mean weight of the references of each class on each level, 1 without references."""
    sums = np.zeros((2, n_classes, N_LEVELS))
    for power in range(2):
        np.add.at(sums[power], (group, level), weight ** (1 + power))
    return np.asarray(np.divide(sums[1], sums[0], out=np.ones(sums[0].shape), where=sums[0] > 0.0))


@once
def model_of(references: References, number: int) -> ReferenceModel:
    """Summarise the references under the densities of chain ``number``."""
    if number >= len(references.log_density):
        return model_of(references, number % len(references.log_density))
    log_density, group = references.log_density[number], references.group
    n_classes, weight = log_density.shape[1], references.weights
    count = np.bincount(group, minlength=n_classes).astype(float)
    total = np.bincount(group, weight * log_density[np.arange(len(group)), group], minlength=n_classes)
    score = nearest(log_density, count, total, group, weight)[1]
    below = references_below(log_density, group, references.weight)
    bounds = level_bounds(score, group, below, references.weight)
    vote, level = votes(log_density), levels_of(log_density, count, total, bounds, below, group, weight)
    confusion = np.eye(n_classes)
    for j in np.unique(group):
        own = group == j
        confusion[j] = (weight[own, None] * vote[own]).sum(axis=0) / own.sum()
    theirs = ReferenceRows(*map(_twice, (group, level, log_density + references.gains[:, None], vote, weight)))
    spread = _spread(group, level, weight, n_classes)
    levels = ReferenceLevels(count, total, below, spread, bounds, confusion)
    return ReferenceModel(levels, theirs, {}, [], references.rows, {})


class ReferenceTypicality(NamedTuple):
    """Typicality of the references, and columns as in :class:`ReferenceRows`: their levels and odds, both (2R,)."""

    typical: Typical
    level: np.ndarray
    odds: np.ndarray


def typicality_of(references: References, chains: Sequence[Chain]) -> ReferenceTypicality:
    """Compute typicality from the references under the frozen densities of all chains."""
    kept, known = model_of(references, 0).typicality, chains[0].known
    if id(known) not in kept:
        own = []
        for number, chain in enumerate(chains):
            density = references.log_density[number % len(references.log_density)]
            fresh = model_of(references, number).new_of(chain.known)[: len(density)]
            own.append(_log_odds(chain, density, fresh))
        log_odds = mean_log_odds(own)
        typical = typical_of(references, log_odds)
        found = typicality(np.mean(references.log_density, axis=0), log_odds, references.gains, typical)
        kept[id(known)] = known, ReferenceTypicality(typical, *map(_twice, found))
    return kept[id(known)][1]


def _log_odds(chain: Chain, log_density: np.ndarray, log_density_new: np.ndarray) -> np.ndarray:
    """Log odds of a new class by the frozen classes of a chain, as a stream opens, shape (n,)."""
    return log_odds_of_new(log_density, log_density_new, opening_seats(chain.known, chain.frozen))


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
    begin, many = before.state.seen % count, min(len(rows), ASKED, count)
    at = slice(begin, begin + many)
    prior = before.known.prior
    kept = model_of(references, 0).asked_of(prior) if shifts is None else None
    if kept is None:
        number = np.arange(begin, begin + many) % count
        moved = 0.0 if shifts is None else shifts[references.group[number]]
        theirs = query_rows(references.rows[number] + moved, prior)
    else:
        theirs = QueryRows(kept.rows[at], kept.product[at] if kept.product.size else kept.product)
    waiting = len(chain_results[0].result.window_seq) if parameters.decision_delay else 0
    ours = query_rows(np.concatenate([rows, before.state.window.rows[:waiting, :-1]]) if waiting else rows, prior)
    level, odds, typical, independent = np.zeros(0, np.int64), np.zeros(0), NOT_TYPICAL, 1.0
    runs, expected = None, np.zeros((0, 0))
    if dependent is not None:
        independent = dependent.independent
        of_references = typicality_of(references, [one.before for one in chain_results])
        typical = of_references.typical
        density, level, odds = _typicality(chain_results, waiting, typical)
        window = parameters.window_after(len(rows)) if parameters.decision_delay else 0
        runs, expected, odds = _in_runs(before, dependent, density, odds, waiting, window)
        level, odds = np.concatenate([of_references.level[at], level]), np.concatenate([of_references.odds[at], odds])
    turn = _CheckRows(at, shifts is None, theirs, ours, level, odds, typical, independent, expected)
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
    runs, odds = average_odds(runs, odds, DEMANDED, among)
    prior, odds = np.concatenate([prior[waiting:], prior[:waiting]]), np.concatenate([odds[waiting:], odds[:waiting]])
    return runs, prior, odds


def _typicality(
    chain_results: Sequence[ChainResult], waiting: int, typical: Typical
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
        log_odds.append(_log_odds(chain, density, fresh) + gain)
    density = mean_of(densities)
    return density, *typicality(density, mean_log_odds(log_odds), gain, typical)


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
    level, odds
        Level and odds of the references and of the others (:func:`.typicality`). Empty if neighbours are independent.
    typical
        Typicality of the references.
    independent
        Number of independent instances with the information of one stream instance.
    prior
        Prior of the classes of each of the others, shape (m, J). Empty if neighbours are independent.
    """

    at: slice
    stay: bool
    theirs: QueryRows
    ours: QueryRows
    level: np.ndarray
    odds: np.ndarray
    typical: Typical
    independent: float
    prior: np.ndarray


class _Sides(NamedTuple):
    """The Q references and the m other scored instances: rows, densities, and columns of the references.

    ``unknown`` is the sampler's probability that each of the others is unknown, shape (m,).
    """

    references: QueryRows
    of_references: QueryDensities
    theirs: ReferenceRows
    others: QueryRows
    of_others: QueryDensities
    unknown: np.ndarray


def _follow_balance(
    chain_result: ChainResult, number: int, references: References, turn: _CheckRows, parameters: Parameters
) -> ChainResult:
    """Add a batch to the counts of a chain, and balance its probabilities."""
    chain, state, result = chain_result[:3]
    known, (at, stay, rows, ours, level, odds, typical, independent, prior) = chain.known, turn
    n_classes, first, n = len(known.size), at.stop - at.start, len(result.subclass)
    model, waiting = model_of(references, number), len(ours.rows) - n
    theirs = ReferenceRows(*(column[at] for column in model.theirs))
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
        chain.check or start_check(n_classes),
        state,
        sides,
        model.levels,
        known.size / known.size.sum(),
        n,
        due,
        level,
        odds,
        typical,
        independent,
        prior,
        known.prior,
    )
    result = result._replace(probabilities=probabilities[first : first + n])
    if waiting:
        result = result._replace(window_probabilities=probabilities[first + n :])
    return chain_result._replace(
        state=without_openings(state, check, n_classes),
        result=result,
        check=check,
        references=np.arange(at.start, at.stop) % len(references.group),
        probabilities=probabilities[:first],
        mostly_new=mostly_new(check, model.levels.many),
    )


@kernel
def _count_references(
    check: ReferenceCheck,
    state: StreamState,
    sides: _Sides,
    levels: ReferenceLevels,
    trained: np.ndarray,
    n: int,
    due: bool,
    level: np.ndarray,
    odds: np.ndarray,
    typical: Typical,
    independent: float,
    neighbours: np.ndarray,
    prior: Prior,
) -> tuple[ReferenceCheck, np.ndarray]:
    """Add a batch of n instances to the counts of a check.

    The function returns the check and the balanced probabilities of all scored instances.

    ``trained`` has the shares of the training set, shape (J,). ``level``, ``odds``, ``typical``, ``independent`` and
    ``neighbours`` (the prior) are those of a :class:`_CheckRows`. If the estimate is ``due``, the known share of the
    stream is estimated again.
    """
    references, of_references, theirs, others, of_others, said_unknown = sides
    first, n_classes = len(theirs.group), len(trained)
    if not _fits(check, state.ids, n_classes):
        check = fitted(check, state.ids, n_classes)
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
        level[first:] = levels_of(of_others.log_density, levels.many, levels.total, levels.bounds, levels.below)
    fade = 0.5 ** (n / (DEPENDENT if dependent else REMEMBERED))
    counts = counted(check.counts, responsibilities, level, theirs.group, theirs.weight, n, fade)
    classes = class_shares(independent * counts.votes, levels.confusion, trained, check.shares.classes)
    shares = cell_shares(counts, classes, levels.many, levels.spread, check.shares.kappa, check.known, due)
    if dependent:
        hypotheses = known_by_typicality(counts.stream, typical, independent)
        by_level = np.repeat(mean_known(hypotheses), counts.stream.shape[1]).reshape(counts.stream.shape)
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
    owner, part = owners_of(check.owner, check.known, counts.stream, shares)
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
    fitted = (chain.check and fit_check(chain.check, chain.state.ids, len(chain.known.size)) for chain in chains)
    return [check and check.shares for check in fitted]


# The counts of a chain, and whose each subclass is


def owned_by(chain: Chain) -> set[int]:
    """Identities of the subclasses that have an owner."""
    return set() if chain.check is None else set(chain.check.ids[chain.check.owner != NOBODY].tolist())


@kernel
def mostly_new(check: ReferenceCheck, many: np.ndarray) -> np.ndarray:
    """Identities of the subclasses with a small known share, supported by enough members, shape (m,).

    The members are enough if they would correspond to ``EXPECTED`` references of any class at its share of the
    stream, or at an even share if that is larger.

    Parameters
    ----------
    check
        The check after a batch.
    many
        Number of references of each class, shape (J,).
    """
    known, counts, classes = check.known, check.counts, check.shares.classes
    out, n_classes, instances = np.zeros(len(known), np.bool_), len(classes), 0.0
    for j in range(n_classes):  # how many instances a reference stands for
        instances = max(instances, max(classes[j], 1.0 / n_classes) / max(many[j], 1.0))
    for k in range(len(known)):
        support = counts.stream[n_classes + k].sum()
        enough = support >= max(MANY, EXPECTED * instances * counts.seen[n_classes + k])
        out[k] = enough and 0.0 <= known[k] <= MOSTLY_NEW
    return check.ids[out]


def start_check(n_classes: int) -> ReferenceCheck:
    """Begin with empty counts."""
    cells, even = n_classes + 1, np.full(n_classes, 1.0 / n_classes)
    by_class = np.zeros((n_classes, cells, N_LEVELS)), np.zeros((n_classes, cells)), np.zeros(n_classes)
    counts = ReferenceCounts(np.zeros((cells, N_LEVELS)), np.zeros(cells), *by_class)
    shares = KnownShares(np.ones((cells, N_LEVELS)), even[:, None].copy(), even, 1.0)
    return ReferenceCheck(np.zeros(0, np.int64), counts, shares, np.zeros(0, np.int64), np.zeros(0), -1)


def fit_check(check: ReferenceCheck, ids: np.ndarray, n_classes: int) -> ReferenceCheck:
    """Add new subclasses and classes, and delete those that have gone.

    Until the next batch a new subclass has the known share of the cell for new subclasses, and a new class has the
    mean share.
    """
    return check if _fits(check, ids, n_classes) else fitted(check, ids, n_classes)


@kernel
def _fits(check: ReferenceCheck, ids: np.ndarray, n_classes: int) -> bool:
    """Return whether a check has these classes and subclasses."""
    return len(check.counts.votes) == n_classes and np.array_equal(ids, check.ids)


@kernel
def fitted(check: ReferenceCheck, ids: np.ndarray, n_classes: int) -> ReferenceCheck:
    """Do the work of :func:`fit_check` if something has changed."""
    counts, shares, before, new = check.counts, check.shares, len(check.counts.votes), len(check.ids)
    levels, count = counts.stream.shape[1], n_classes + len(ids) + 1
    places = np.full(count, -1)  # where each cell was; what is new comes last
    places[:n_classes] = np.where(np.arange(n_classes) < before, np.arange(n_classes), -1)
    places[count - 1] = before + new
    stream, seen, known = np.zeros((count, levels)), np.zeros(count), np.ones((count, levels))
    taken, asked_of = np.zeros((n_classes, count, levels)), np.zeros((n_classes, count))
    votes_of, classes, whose = np.zeros(n_classes), np.zeros(n_classes), np.zeros((n_classes, len(ids) + 1))
    owner, share = np.full(len(ids), NOBODY), np.full(len(ids), -1.0)
    old = min(before, n_classes)
    for k in range(len(ids)):
        slot = place_of(check.ids, ids[k])
        if slot >= 0:
            places[n_classes + k] = before + slot
            owner[k] = check.owner[slot] if check.owner[slot] < n_classes else NOBODY
            share[k] = check.known[slot]
    votes_of[:old], classes[:old] = counts.votes[:old], shares.classes[:old]
    for c in range(count):
        place = places[c]
        if place >= 0:
            stream[c], seen[c] = counts.stream[place], counts.seen[place]
        if c >= n_classes:
            known[c] = shares.known[place]  # one that has come is what new ones are
    old_asked, old_taken, old_whose = counts.total, counts.taken, shares.owner
    for j in range(old):
        asked_of[j, :old], taken[j, :old] = old_asked[j, :old], old_taken[j, :old]
        for c in range(n_classes, count):
            place = places[c]
            if place >= 0:
                asked_of[j, c], taken[j, c] = old_asked[j, place], old_taken[j, place]
            whose[j, c - n_classes] = old_whose[j, place - before if place >= 0 else new]
    for j in range(n_classes):
        classes[j] = classes[j] if classes[j] > 0.0 else 1.0 / n_classes
    return ReferenceCheck(
        ids,
        ReferenceCounts(stream, seen, taken, asked_of, votes_of),
        KnownShares(known, whose, classes / classes.sum(), shares.kappa),
        owner,
        share,
        check.estimated_at,
        check.dependent,
    )


@kernel
def owners_of(
    owner: np.ndarray, known: np.ndarray, stream: np.ndarray, shares: KnownShares
) -> tuple[np.ndarray, np.ndarray]:
    """Find the owner of each emerging subclass (:data:`NOBODY` if most is new) and its known share.

    Parameters
    ----------
    owner, known
        Results of the check before, shape (K,).
    stream, shares
        The counts, and the shares derived from them.
    """
    owner, known, n_classes = owner.copy(), known.copy(), len(shares.classes)
    for k in range(len(owner)):
        support, kept = 0.0, 0.0
        for level in range(stream.shape[1]):
            support += stream[n_classes + k, level]
            kept += stream[n_classes + k, level] * shares.known[n_classes + k, level]
        if support < LEAST_SUPPORT:
            continue
        known[k] = kept / support
        if known[k] > OWNED_ABOVE or (owner[k] != NOBODY and known[k] >= UNOWNED_BELOW):
            owner[k] = shares.owner[:, k].argmax()
        elif known[k] < UNOWNED_BELOW:
            owner[k] = NOBODY
    return owner, known


def without_openings(state: StreamState, check: ReferenceCheck, n_classes: int) -> StreamState:
    """Reset the openings of tables of subclasses that have an owner, because they are not evidence of new classes."""
    if (check.owner == NOBODY).all():
        return state
    owned = np.append(check.owner != NOBODY, False)
    dish = state.franchise.table_dish - n_classes
    founder = np.where(owned[np.where(dish >= 0, dish, -1)], 0.0, state.franchise.table_founder)
    return state._replace(franchise=state.franchise._replace(table_founder=founder))
