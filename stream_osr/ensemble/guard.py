"""The guard of the known classes: references asked beside the stream, and what follows for decisions and books.

Chain by chain, after the sampler has seated a batch: the batch and a stretch of the references are asked of the
state as it is now, each without itself; :mod:`stream_osr.trust.balance` says what share of each emerging subclass is
known, and whose. What the sampler calls unknown is then divided accordingly. An emerging subclass of which more than
half is known has an owner: it describes a known class anew. No event tells of it, it counts as no new class, and its
tables are no evidence that new things come (alpha0).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.config import Parameters
from stream_osr.discovery.lives import places_of
from stream_osr.ensemble.asked import ASKED, Theirs, model_of, typicality_of
from stream_osr.ensemble.chain import Chains, Guard, opening_seats
from stream_osr.ensemble.owners import fit_guard, fitted, mostly_new, owners_of, start_guard, without_openings
from stream_osr.ensemble.past import Past
from stream_osr.ensemble.step import Judged, Seated, mean_of
from stream_osr.model.franchise import StreamState
from stream_osr.model.jit import kernel
from stream_osr.model.known import log_densities, log_new
from stream_osr.model.prior import Prior
from stream_osr.model.responsibilities import Asked, Said, asked, terms_of, weigh_into
from stream_osr.model.step import BatchResult
from stream_osr.parallel import each
from stream_osr.trust.balance import Shares, balance, class_shares, counted, share_of_cells, votes
from stream_osr.trust.levels import N_LEVELS, Typical, known_by_typicality, levels_of, levels_within, odds_of_new
from stream_osr.trust.references import References, call_known, plausible

REMEMBERED = 1000.0
"""Instances of the stream after which what was counted weighs half."""
DEPENDENT = 400.0
"""The same where neighbours are dependent: a class comes in runs."""
ANEW = 256
"""Instances after which the share of the stream that is known is estimated again."""
RECOUNTED = 2000
"""Latest instances that are counted anew when neighbours are found to be dependent."""
TYPICAL = N_LEVELS - 2
"""From this level on (four fifths of the references) an instance votes for class shares, whatever it is called: a
class that is called unknown would lose its share, and be called unknown the more."""


def ask_references(
    seated: Sequence[Seated],
    references: References,
    rows: np.ndarray,
    parameters: Parameters,
    shifts: np.ndarray | None = None,
    *,
    independent: float | None = None,
) -> list[Seated]:
    """Ask the references in each chain, in threads, and balance what the sampler has found.

    Parameters
    ----------
    seated
        The chains, and what the sampler has made of the batch.
    references
        Those of the stream's known classes.
    rows
        Whitened rows of the batch, shape (b, d).
    parameters
        Of the seats' half-life, of threads, and whether decisions wait.
    shifts
        How far each known class has moved with its instances, whitened, shape (J, d): its references go with it.
    independent
        Number of independent instances that say as much as one of the stream, where neighbours are dependent:
        typicality says what is known then, and not location. ``None``: neighbours are independent.
    """
    before = seated[0].before
    count = len(references.group)
    begin, many = before.state.batches * ASKED % count, min(ASKED, count)
    at = slice(begin, begin + many)
    prior = before.known.prior
    kept = model_of(references, 0).asked_of(prior) if shifts is None else None
    if kept is None:
        number = np.arange(begin, begin + many) % count
        moved = 0.0 if shifts is None else shifts[references.group[number]]
        theirs = asked(references.rows[number] + moved, prior)
    else:
        theirs = Asked(kept.rows[at], kept.product[at] if kept.product.size else kept.product)
    waiting = len(seated[0].result.window_seq) if parameters.decision_delay else 0
    ours = asked(np.concatenate([rows, before.state.window.rows[:waiting, :-1]]) if waiting else rows, prior)
    level, tail = np.zeros(0, np.int64), np.zeros(0)
    if independent is not None:
        typical, of_references = typicality_of(references)
        level = np.concatenate([of_references[at], _levels([one.result for one in seated], waiting, typical)])
        tail = typical.tail
    turn = _Turn(at, shifts is None, theirs, ours, level, tail, independent or 1.0)
    return each(
        lambda number: _follow_balance(seated[number], number, references, turn, parameters),
        range(len(seated)),
        parameters.n_jobs,
    )


def _levels(results: Sequence[BatchResult], waiting: int, typical: Typical) -> np.ndarray:
    """Level of typicality of the batch and of those that wait, by the mean of the chains."""
    density = np.mean([one.log_density for one in results], axis=0)
    gain = np.zeros(len(density) + waiting)
    given, first = results[0].gain, len(results[0].window_log_density)
    if given is not None:
        gain = np.concatenate([given[first:], given[:waiting]])
    if waiting:
        window = np.mean([one.window_log_density[:waiting] for one in results], axis=0)
        density = np.concatenate([density, window])
    return levels_within(density, gain, typical.bounds)


class _Turn(NamedTuple):
    """Who is asked with a batch in every chain: Q references, the batch, and the window where decisions wait.

    Attributes
    ----------
    at
        Where the references are in columns of a :class:`Model`.
    stay
        They lie where they lay in training.
    theirs, ours
        Rows of the references, and of the others.
    level, tail
        Levels of typicality of the references and of the others, and the share of known instances up to each level;
        empty where neighbours are independent: location says what is known.
    independent
        Number of independent instances that say as much as one of the stream.
    """

    at: slice
    stay: bool
    theirs: Asked
    ours: Asked
    level: np.ndarray
    tail: np.ndarray
    independent: float


class _Sides(NamedTuple):
    """The Q references and the m others who are asked: rows, what is said of them, what is known of references.

    Of the others ``unknown`` says how probable the sampler has it that they are unknown, shape (m,).
    """

    references: Asked
    of_references: Said
    theirs: Theirs
    others: Asked
    of_others: Said
    unknown: np.ndarray


class _Known(NamedTuple):
    """What the guard knows of the known classes: fields of a :class:`Model`, and three more.

    Attributes
    ----------
    trained, opening
        Shares of the training set, shape (J,), and the log weights with which a stream opens, shape (J + 1,); these
        are empty where location says what is known.
    tempered
        As in :class:`References`.
    """

    many: np.ndarray
    total: np.ndarray
    below: np.ndarray
    spread: np.ndarray
    bounds: np.ndarray
    confusion: np.ndarray
    trained: np.ndarray
    opening: np.ndarray
    tempered: bool


def _follow_balance(
    seated: Seated, number: int, references: References, turn: _Turn, parameters: Parameters
) -> Seated:
    """Take a batch into the books of a chain, and balance its probabilities."""
    chain, state, result = seated[:3]
    known, (at, stay, rows, ours, level, tail, independent) = chain.known, turn
    n_classes, first, n = len(known.size), at.stop - at.start, len(result.subclass)
    model, waiting = model_of(references, number), len(ours.rows) - n
    theirs = Theirs(*(column[at] for column in model.theirs))
    fresh = model.new_of(known)[at] if stay else log_new(known, rows.rows)
    nobody = np.full(first, -1)
    of_references = Said(theirs.log_density, fresh, nobody, np.zeros(first))
    weight = np.full(n + waiting, 0.5 ** (n / parameters.half_life))
    said = Said(result.log_density, result.log_density_new, result.subclass, weight)
    unknown = result.probabilities[:, -1]
    if waiting:
        weight[n:] *= chain.state.window.weight[:waiting]
        window = result.window_log_density, log_new(known, ours.rows[n:]), result.window_subclass
        columns = [np.concatenate([own, more[:waiting]]) for own, more in zip(said[:3], window, strict=True)]
        said = Said(columns[0], columns[1], columns[2], weight)
        unknown = np.concatenate([unknown, result.window_probabilities[:waiting, -1]])
    sides = _Sides(rows, of_references, theirs, ours, said, np.ascontiguousarray(unknown))
    due = chain.guard is None or chain.guard.estimated_at < 0 or state.seen - chain.guard.estimated_at >= ANEW
    opening = opening_seats(known, chain.frozen) if len(tail) else tail
    guard, probabilities = _take_in(
        chain.guard or start_guard(n_classes),
        state,
        sides,
        _Known(*model[:6], known.size / known.size.sum(), opening, references.tempered),
        n,
        due,
        level,
        tail,
        independent,
        known.prior,
    )
    result = result._replace(probabilities=probabilities[first : first + n])
    if waiting:
        result = result._replace(window_probabilities=probabilities[first + n :])
    return seated._replace(
        state=without_openings(state, guard, n_classes),
        result=result,
        guard=guard,
        references=np.arange(at.start, at.stop) % len(references.group),
        probabilities=probabilities[:first],
        mostly_new=mostly_new(guard, model.many),
    )


@kernel
def _take_in(
    guard: Guard,
    state: StreamState,
    sides: _Sides,
    known: _Known,
    n: int,
    due: bool,
    typical: np.ndarray,
    tail: np.ndarray,
    independent: float,
    prior: Prior,
) -> tuple[Guard, np.ndarray]:
    """Take a batch of n instances into the books; the guard then, and the balanced probabilities of all asked.

    ``typical``, ``tail`` and ``independent`` are those of a :class:`_Turn`. When it is ``due`` the share of the
    stream that is known is estimated again.
    """
    references, of_references, theirs, others, of_others, said_unknown = sides
    first, n_classes = len(theirs.group), len(known.trained)
    guard = fitted(guard, state.ids, n_classes)
    terms = terms_of(state.dishes, prior)
    many = first + len(of_others.weight)
    cells, vote = np.empty((many, len(state.franchise.menu) + 1)), np.empty((many, n_classes))
    weigh_into(cells[:first], state, terms, references, of_references, prior)
    weigh_into(cells[first:], state, terms, others, of_others, prior)
    vote[:first] = theirs.vote
    vote[first:] = votes(of_others.log_density)
    level, dependent = typical, len(tail) > 0
    if not dependent:
        level = np.empty(many, np.int64)
        level[:first] = theirs.level
        level[first:] = levels_of(of_others.log_density, known.many, known.total, known.bounds, known.below)
    fade = 0.5 ** (n / (DEPENDENT if dependent else REMEMBERED))
    books = counted(guard.books, cells, level, theirs.group, theirs.weight, n, fade)
    classes = class_shares(books.votes, known.confusion, known.trained)
    kappa = np.nan if due else guard.shares.kappa
    shares = share_of_cells(books, classes, known.many, known.spread, kappa, guard.known)
    if dependent:
        share = known_by_typicality(books.stream, tail, independent)
        shares = Shares(share, shares.owner, shares.classes, shares.kappa)
    unknown = np.full(many, np.nan)  # of references what the cells say
    unknown[first:] = said_unknown
    if dependent:
        odds = np.empty(many)
        fresh = of_references.log_density_new, of_others.log_density_new
        odds[:first] = odds_of_new(of_references.log_density, fresh[0], known.opening, known.tempered)
        odds[first:] = odds_of_new(of_others.log_density, fresh[1], known.opening, known.tempered)
        probabilities = balance(shares, unknown, cells, level, vote, odds)
    else:
        probabilities = balance(shares, unknown, cells, level, vote)
    for i in range(first, first + n):
        weight = 1.0 if level[i] >= TYPICAL else 1.0 - probabilities[i, n_classes]
        for j in range(n_classes):
            books.votes[j] += weight * vote[i, j]
    owner, part = owners_of(guard.owner, guard.known, books.stream, shares)
    estimated_at = state.seen if due else guard.estimated_at
    return Guard(guard.ids, books, shares, owner, part, estimated_at, dependent), probabilities


def recounted(chains: Chains, past: Past, references: References) -> Chains:
    """Count the latest instances anew, by typicality, when neighbours are found to be dependent.

    What was announced before is judged by the next batch as if this had been known from the beginning.
    """
    rows = past.rows[-RECOUNTED:]
    if not len(rows):
        return chains
    who = asked(rows, chains[0].known.prior)
    product = who.product if who.product.size else None
    density = np.mean([log_densities(c.known, c.frozen, who.rows, product)[0] for c in chains], axis=0)
    level = levels_within(density, np.zeros(len(rows)), typicality_of(references).typical.bounds)
    weight, near = 0.5 ** (np.arange(len(rows))[::-1] / DEPENDENT), density.argmax(axis=1)
    out = []
    for number, chain in enumerate(chains):
        if chain.guard is not None:
            n_classes, seat = len(chain.guard.books.votes), past.subclass[number, -len(rows) :]
            place = places_of(chain.guard.ids, seat)
            cell = np.where(seat < 0, np.minimum(near, n_classes - 1), n_classes + place)
            there, stream = (seat < 0) | (place >= 0), np.zeros_like(chain.guard.books.stream)
            np.add.at(stream, (cell[there], level[there]), weight[there])
            chain = chain._replace(guard=chain.guard._replace(books=chain.guard.books._replace(stream=stream)))
        out.append(chain)
    return tuple(out)


def asked_together(judged: Judged) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Average what the chains say of the references: their numbers, probabilities, and the shares of the classes."""
    shares = [one.guard.shares.classes for one in judged.seated if one.guard is not None]
    probabilities = mean_of([one.probabilities for one in judged.seated])
    return judged.seated[0].references, probabilities, mean_of(shares)


def keep_promise(seated: Sequence[Seated], references: References, max_false_unknown: float | None) -> list[Seated]:
    """Call nobody unknown who is plausible for a known class, if that is promised."""
    results = [one.result for one in seated]
    if max_false_unknown is None:
        return list(seated)
    batch = plausible(references, np.mean([r.log_density for r in results], axis=0), max_false_unknown)
    results = [r._replace(probabilities=call_known(r.probabilities, batch)) for r in results]
    if len(results[0].window_seq):  # only looked at where decisions wait
        window = plausible(references, np.mean([r.window_log_density for r in results], axis=0), max_false_unknown)
        results = [r._replace(window_probabilities=call_known(r.window_probabilities, window)) for r in results]
    return [one._replace(result=result) for one, result in zip(seated, results, strict=True)]


def shares_of(chains: Chains) -> list[Shares | None]:
    """Say what the books of each chain make of the present state."""
    fitted = (chain.guard and fit_guard(chain.guard, chain.state.ids, len(chain.known.size)) for chain in chains)
    return [guard and guard.shares for guard in fitted]
