"""One micro-batch from rows to decisions and events: the sampler's step, discovery, late labels.

``Stream`` is a value: :func:`close_batch` takes one and returns the next. A batch that fails leaves nothing behind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from stream_osr.config import Label, Parameters
from stream_osr.decision import Decision
from stream_osr.discovery import events as ev
from stream_osr.discovery.candidates import Emerging, Measured, NewClasses, find_new_classes, measure_subclasses
from stream_osr.discovery.explain import explain
from stream_osr.discovery.lifecycle import Lifecycle, estimate_new_classes, forget, observe, to_hold
from stream_osr.hdp import stream as sampler
from stream_osr.hdp.blas import one_thread
from stream_osr.hdp.dishes import mahalanobis_each
from stream_osr.hdp.glance import look, view
from stream_osr.hdp.known import Densities, Known, densities, density_rank, learn_labelled
from stream_osr.hdp.prior import FULL, homogeneous
from stream_osr.hdp.restaurant import StreamState
from stream_osr.hdp.space import whiten
from stream_osr.labels import unknown_label
from stream_osr.odds import Odds, learn_odds, shift_odds, start_odds
from stream_osr.parallel import each
from stream_osr.trained import TrainedModel

PRIOR_SEATS = 50.0
"""Seats that the known classes hold when a stream begins; they fade like all others."""


class Arrived(NamedTuple):
    """An unlabelled instance that waits for its batch: whitened row of shape (d,), time, key."""

    row: np.ndarray
    t: float | None
    key: Any


class Evidence(NamedTuple):
    """A label that waits for the next batch: for a new row, or (``row`` is None) for an earlier key."""

    label: Label
    row: np.ndarray | None
    key: Any = None


class Past(NamedTuple):
    """A decided batch, kept for labels that come late.

    Rows of shape (b, d), keys, first position in the stream, subclass ids in each of R chains, (R, b).
    """

    rows: np.ndarray
    keys: tuple[Any, ...]
    seq: int
    subclass: np.ndarray


class Chain(NamedTuple):
    """One of the models that are averaged: known classes, sampler state, lives of its emerging subclasses.

    Attributes
    ----------
    known, frozen
        Known classes: the trained ones, or this stream's own copy once a label has changed them.
    state
        The sampler's state.
    life
        Lives of the emerging subclasses.
    """

    known: Known
    frozen: Densities
    state: StreamState
    life: Lifecycle


class Waiting(NamedTuple):
    """Decisions that are held back while later batches re-seat their instances.

    Attributes
    ----------
    decisions
        As they were made at first, in order of arrival.
    probabilities
        Of each known class and, last, unknown, as of the latest batch, before the shift of the odds, (n, J + 1).
    subclass
        Emerging subclass that each sits in, -1: none, shape (n,).
    responsible
        Most responsible subclass (its position) of each known class, -1: not known, shape (n, J).
    """

    decisions: tuple[Decision, ...]
    probabilities: np.ndarray
    subclass: np.ndarray
    responsible: np.ndarray


class Stream(NamedTuple):
    """The stream's part of a recognizer.

    Attributes
    ----------
    labels
        Labels of the known classes: the trained ones, then those that late labels opened.
    chains
        The models that are averaged. Ids, events and explanations are the first one's.
    odds
        The learnt shift of the odds of unknown.
    past
        Latest decided batches, ``label_horizon`` instances or a little more.
    waiting
        Decisions held back by ``decision_delay``.
    decided
        Instances decided so far as each known class and, last, as unknown.
    """

    labels: tuple[Label, ...]
    chains: tuple[Chain, ...]
    odds: Odds
    past: tuple[Past, ...]
    waiting: Waiting
    decided: tuple[int, ...]

    @property
    def known(self) -> Known:
        """Known classes of the first chain."""
        return self.chains[0].known

    @property
    def state(self) -> StreamState:
        """Sampler state of the first chain."""
        return self.chains[0].state

    @property
    def life(self) -> Lifecycle:
        """Lives of the emerging subclasses of the first chain."""
        return self.chains[0].life


def new_classes(stream: Stream, before: Sequence[Measured] | None = None) -> tuple[NewClasses, tuple[Measured, ...]]:
    """Find candidate new classes by what all chains say; the stream does not change.

    Parameters
    ----------
    stream
        The stream so far.
    before
        The distances that an earlier call returned: they save time and change nothing.

    Returns
    -------
    Candidates and their estimated number, and the distances in each chain.
    """
    chains = stream.chains
    known = repeat(None) if before is None else before
    with one_thread():
        measured = tuple(measure_subclasses(c.known, c.state, old) for c, old in zip(chains, known, strict=False))
        nobody = np.zeros((len(chains), 0), np.int64)
        seats = np.concatenate([nobody, *(chunk.subclass for chunk in stream.past)], axis=1)
        return find_new_classes([Emerging(*chain) for chain in chains], measured, seats, stream.labels), measured


class Batch(NamedTuple):
    """What a closed batch yields: final decisions, events, and the keys of late labels that nobody remembers."""

    decisions: list[Decision]
    events: list[ev.Event]
    unknown_keys: list[Any]


def open_stream(trained: TrainedModel, parameters: Parameters) -> Stream:
    """Begin a stream over a trained model: a few seats are taken, by the known classes in their training shares.

    With nobody seated the first instances would be new with the odds of gamma against the trained tables, 100 to 3
    with a single class of few subclasses, which in low dimensions no density makes up for.
    """
    n_classes = len(trained.labels)
    count = len(trained.draws)
    chains = []
    for number in range(parameters.chains):
        known, frozen = trained.draws[number % count], trained.densities[number % count]
        chain = Chain(known, frozen, sampler.open_stream(known, frozen), Lifecycle())
        chains.append(_seat_known(chain, PRIOR_SEATS))
    return Stream(
        labels=trained.labels,
        chains=tuple(chains),
        odds=start_odds(parameters.learn_odds),
        past=(),
        waiting=Waiting((), np.zeros((0, n_classes + 1)), np.zeros(0, np.int64), np.zeros((0, n_classes), np.int64)),
        decided=(0,) * (n_classes + 1),
    )


def expect_known(trained: TrainedModel, parameters: Parameters) -> Stream:
    """Begin a stream as if it had run on known instances for long, in the shares of the training set.

    That is what immediate predictions assume while training goes on: labelled instances say that known classes are
    what comes. A stream proper begins with few seats taken.
    """
    stream = open_stream(trained, parameters.model_copy(update={"chains": len(trained.draws), "learn_odds": False}))
    lasting = min(parameters.half_life / math.log(2.0), 1e6)
    chains = (chain._replace(state=sampler.open_stream(chain.known, chain.frozen)) for chain in stream.chains)
    return stream._replace(chains=tuple(_seat_known(chain, lasting) for chain in chains))


def _seat_known(chain: Chain, lasting: float) -> Chain:
    known, franchise = chain.known, chain.state.franchise
    seats = known.size * min(1.0, lasting / known.size.sum())
    n = len(seats)
    tables = franchise._replace(
        table_dish=np.arange(n),
        table_group=np.zeros(n, np.int64),
        table_live=np.zeros(n, np.int64),
        table_residual=seats.copy(),
        table_mass=seats.copy(),
        table_founder=np.zeros(n),
        seated=seats[None].copy(),
        menu=franchise.menu + 1.0,
        total=franchise.total + n,
        extent=np.array([len(franchise.menu), n]),
    )
    return chain._replace(state=chain.state._replace(franchise=tables))


def predict(trained: TrainedModel, stream: Stream, rows: np.ndarray) -> np.ndarray:
    """Probabilities from the present state alone: nobody is seated, nothing changes.

    Parameters
    ----------
    rows
        Whitened rows, shape (n, d).

    Returns
    -------
    Probability of each known class and, last, unknown, shape (n, J + 1).
    """
    return Glance(trained, stream).of_whitened(rows)


class Glance:
    """What immediate predictions need of a stream's present state: made once, good for as long as it is that stream.

    Attributes
    ----------
    stream
        The stream it was made of.
    """

    def __init__(self, trained: TrainedModel, stream: Stream) -> None:
        self.stream = stream
        self._trained = trained
        self._views = None
        self._alone = len(stream.chains) == 1
        if stream.known.prior.covariance == FULL:
            shift = stream.odds.shift if self._alone else 0.0
            self._views = [view(chain.known, chain.frozen, chain.state, shift) for chain in stream.chains]
        space = trained.space
        self._map = (space.fill, space.center, space.forward)

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Probabilities of raw rows, NaN = missing, shape (n, p): each known class and, last, unknown."""
        if self._views is None:
            return self.of_whitened(whiten(self._trained.space, values))
        if self._alone:
            return look(values, *self._map, *self._views[0])
        return self._average([look(values, *self._map, *each) for each in self._views])

    def of_whitened(self, rows: np.ndarray) -> np.ndarray:
        """Probabilities of whitened rows, shape (n, d)."""
        chains = self.stream.chains
        with one_thread():
            return self._average([sampler.immediate(c.known, c.frozen, c.state, rows) for c in chains])

    def _average(self, found: list[np.ndarray]) -> np.ndarray:
        mean = found[0] if len(found) == 1 else np.mean(found, axis=0)
        return shift_odds(self.stream.odds, mean)


def learn_evidence(stream: Stream, evidence: Sequence[Evidence], parameters: Parameters) -> tuple[Stream, list[Any]]:
    """Let labels take effect, in order: each is a sequential update of its class (or opens a class).

    Returns
    -------
    The next stream, and keys that are not (or no longer) remembered.
    """
    if not evidence:
        return stream, []
    labels, past, decided = list(stream.labels), stream.past, list(stream.decided)
    unknown_keys = []
    rows: list[_Labelled] = []
    for label, row, key in evidence:
        earlier = None
        if row is None:
            found = _recall(past, key)
            if found is None:
                unknown_keys.append(key)
                continue
            chunk, at = found
            old = past[chunk]
            row = old.rows[at]
            earlier = _Earlier(old.seq + at, old.seq, old.subclass[:, at].copy())
            subclass, keys = old.subclass.copy(), list(old.keys)
            subclass[:, at], keys[at] = -1, None  # a label counts once
            past = (*past[:chunk], old._replace(subclass=subclass, keys=tuple(keys)), *past[chunk + 1 :])
        if label not in labels:
            labels.append(label)
            decided.insert(-1, 0)
        rows.append(_Labelled(labels.index(label), row, earlier))
    chains = tuple(_learn_labelled(chain, number, rows, parameters) for number, chain in enumerate(stream.chains))
    return (
        stream._replace(
            labels=tuple(labels),
            chains=chains,
            past=past,
            waiting=_widen(stream.waiting, len(labels)),
            decided=tuple(decided),
        ),
        unknown_keys,
    )


class _Earlier(NamedTuple):
    """Where a labelled instance sat: its place in the stream, that of its batch, its subclass in each chain."""

    seq: int
    batch_seq: int
    subclass: np.ndarray


class _Labelled(NamedTuple):
    """A whitened row of shape (d,), its class number, and its seat if it was decided before."""

    j: int
    row: np.ndarray
    earlier: _Earlier | None


def _learn_labelled(chain: Chain, number: int, rows: Sequence[_Labelled], parameters: Parameters) -> Chain:
    """Update the known classes of one chain by labelled rows, in order."""
    before, state = chain.known, chain.state
    rng = np.random.default_rng([parameters.seed, state.batches, int(before.size.sum()), number])
    known = before
    for j, row, earlier in rows:
        if earlier is not None:
            seat = 0.5 ** ((state.seen - earlier.batch_seq) / parameters.half_life)
            state = sampler.withdraw(before, state, row, earlier.seq, int(earlier.subclass[number]), seat)
        known = learn_labelled(known, homogeneous(row[None])[0], j, rng, state.next_id)
        state = state._replace(next_id=max(state.next_id, int(known.ids.max()) + 1))
    frozen = densities(known)
    return chain._replace(known=known, frozen=frozen, state=sampler.refresh_classes(state, before, known, frozen))


def _widen(waiting: Waiting, n_classes: int) -> Waiting:
    """Make room for classes that labels have opened."""
    old = waiting.responsible.shape[1]
    return waiting._replace(
        probabilities=np.insert(waiting.probabilities, [old] * (n_classes - old), 0.0, axis=1),
        responsible=np.insert(waiting.responsible, [old] * (n_classes - old), -1, axis=1),
    )


def _recall(past: Sequence[Past], key: Any) -> tuple[int, int] | None:
    for chunk in range(len(past) - 1, -1, -1):
        keys = past[chunk].keys
        for at in range(len(keys) - 1, -1, -1):
            if keys[at] is not None and keys[at] == key:
                return chunk, at
    return None


def close_batch(
    trained: TrainedModel,
    stream: Stream,
    arrived: Sequence[Arrived],
    evidence: Sequence[Evidence],
    parameters: Parameters,
    *,
    release: bool = False,
) -> tuple[Stream, Batch]:
    """Decide a micro-batch.

    Parameters
    ----------
    trained
        The trained model (shared, never changed).
    stream
        The stream so far (never changed).
    arrived
        The batch, in order of arrival.
    evidence
        Labels that take effect before it.
    parameters
        Sampler settings and seed.
    release
        Hold no decision back.
    """
    with one_thread():
        stream, unknown_keys = learn_evidence(stream, evidence, parameters)
        events: list[ev.Event] = []
        if arrived:
            stream, events = _seat_batch(trained, stream, arrived, parameters)
    decisions, stream = _release(stream, 0 if release else parameters.decision_delay, parameters)
    return stream, Batch(decisions, events, unknown_keys)


def _seat_batch(
    trained: TrainedModel, stream: Stream, arrived: Sequence[Arrived], parameters: Parameters
) -> tuple[Stream, list[ev.Event]]:
    """Step every chain, learn the odds, decide for now, follow the emerging subclasses."""
    settings = sampler.Settings(parameters.sweeps, parameters.window, parameters.half_life)
    first = stream.state.seen
    rows = np.array([a.row for a in arrived])
    stepped = each(
        lambda number: _step(stream.chains[number], number, rows, parameters, settings),
        range(len(stream.chains)),
        parameters.n_jobs,
    )
    results = [result for _, result in stepped]
    raw = np.mean([result.probabilities for result in results], axis=0)
    nearest = [result.log_density.argmax(axis=1) for result in results]
    own = [result.log_density[np.arange(len(rows)), near] for result, near in zip(results, nearest, strict=True)]
    ranks = [
        density_rank(chain.known, log_density, near)
        for chain, log_density, near in zip(stream.chains, own, nearest, strict=True)
    ]
    odds = stream.odds
    if parameters.learn_odds:
        odds = learn_odds(odds, raw, np.mean(ranks, axis=0), parameters.half_life)
    probabilities = shift_odds(odds, raw)
    decisions = _decide(stream, arrived, rows, results[0], probabilities, nearest[0], ranks[0], parameters)
    chains: list[Chain] = []
    events: list[ev.Event] = []
    for (moved, result), chain in zip(stepped, stream.chains, strict=True):
        tells = not chains
        life, state, told = _discover(trained, stream.labels, chain, moved, decisions, result, parameters, tells)
        chains.append(chain._replace(state=state, life=life))
        events += told
    past = stream.past
    chunk = Past(rows, tuple(a.key for a in arrived), first, np.array([result.subclass for result in results]))
    past = _remember(_follow(past, results), chunk, parameters.label_horizon)
    waiting = _wait(stream.waiting, decisions, results, raw)
    return stream._replace(chains=tuple(chains), odds=odds, past=past, waiting=waiting), events


def _step(
    chain: Chain, number: int, rows: np.ndarray, parameters: Parameters, settings: sampler.Settings
) -> tuple[StreamState, sampler.BatchResult]:
    batch = chain.state.batches
    rng = np.random.default_rng([parameters.seed, batch, number] if number else [parameters.seed, batch])
    return sampler.step(chain.known, chain.frozen, chain.state, rows, rng, settings)


def _decide(
    stream: Stream,
    arrived: Sequence[Arrived],
    rows: np.ndarray,
    result: sampler.BatchResult,
    probabilities: np.ndarray,
    nearest: np.ndarray,
    ranks: np.ndarray,
    parameters: Parameters,
) -> list[Decision]:
    """Decide for now; why, and the subclass, are told from the first chain."""
    known = stream.known
    names = (*stream.labels, unknown_label(parameters.unknown, stream.labels))
    responsible = result.responsible[np.arange(len(rows)), nearest]
    distances = mahalanobis_each(known.dishes, responsible, homogeneous(rows), known.prior).tolist()
    label = _labels(probabilities, parameters.min_probability)
    subclass = _subclasses(known, label, result.responsible, result.subclass)
    batch, first = stream.state.batches, stream.state.seen
    _, times, keys = zip(*arrived, strict=True)
    told = [names[own] for own in label.tolist()]
    columns = zip(  # in the order of the fields
        keys,
        times,
        told,
        told,
        probabilities[np.arange(len(rows)), label].tolist(),
        probabilities[:, -1].tolist(),
        [dict(zip(names, row, strict=True)) for row in probabilities.tolist()],
        subclass,
        [names[near] for near in nearest.tolist()],
        distances,
        ranks.tolist(),
        repeat(batch, len(rows)),
        range(first, first + len(rows)),
        strict=True,
    )
    return list(map(Decision._make, columns))


def _labels(probabilities: np.ndarray, least: float) -> np.ndarray:
    """Choose the most probable label of each row; a known one below the least probability asked for is unknown."""
    label = probabilities.argmax(axis=1)
    if least > 0.0:
        label[probabilities.max(axis=1) < least] = probabilities.shape[1] - 1
    return np.asarray(label)


def _subclasses(known: Known, label: np.ndarray, responsible: np.ndarray, emerging: np.ndarray) -> list[int | None]:
    """Subclass that each label stands for: the most responsible known one, or the emerging one it sits in."""
    n, n_classes = responsible.shape
    of_class = responsible[np.arange(n), np.minimum(label, n_classes - 1)]
    told = np.where(label < n_classes, np.where(of_class >= 0, known.ids[of_class], -1), emerging)
    return [key if key >= 0 else None for key in told.tolist()]


def _wait(
    waiting: Waiting, decisions: Sequence[Decision], results: Sequence[sampler.BatchResult], raw: np.ndarray
) -> Waiting:
    """Append a batch to the decisions held back, and note what the others look like after it."""
    probabilities, subclass = waiting.probabilities, waiting.subclass
    if waiting.decisions and len(results[0].window_seq):
        begin = waiting.decisions[0].seq
        again = np.mean([result.window_probabilities for result in results], axis=0)
        inside = results[0].window_seq >= begin
        probabilities = probabilities.copy()
        probabilities[results[0].window_seq[inside] - begin] = again[inside]
        moved, moved_to = results[0].moved, results[0].moved_to
        subclass = subclass.copy()
        subclass[moved[moved >= begin] - begin] = moved_to[moved >= begin]
    return Waiting(
        (*waiting.decisions, *decisions),
        np.concatenate([probabilities, raw]),
        np.concatenate([subclass, results[0].subclass]),
        np.concatenate([waiting.responsible, results[0].responsible]),
    )


def _release(stream: Stream, delay: int, parameters: Parameters) -> tuple[list[Decision], Stream]:
    """Let go of the decisions that ``delay`` later instances have followed, as they are now."""
    waiting = stream.waiting
    ready = len(waiting.decisions)
    while ready and stream.state.seen - waiting.decisions[ready - 1].seq <= delay:
        ready -= 1
    if not ready:
        return [], stream
    names = (*stream.labels, unknown_label(parameters.unknown, stream.labels))
    counts = list(stream.decided)
    out = list(waiting.decisions[:ready])
    if parameters.decision_delay:
        probabilities = shift_odds(stream.odds, waiting.probabilities[:ready])
        label = _labels(probabilities, parameters.min_probability)
        subclass = _subclasses(stream.known, label, waiting.responsible[:ready], waiting.subclass[:ready])
        for i, (row, own) in enumerate(zip(probabilities.tolist(), label.tolist(), strict=True)):
            out[i] = out[i]._replace(
                label=names[own],
                probability=row[own],
                p_unknown=row[-1],
                probabilities=dict(zip(names, row, strict=True)),
                subclass_id=subclass[i],
            )
    number = {name: j for j, name in reversed(list(enumerate(names)))}
    for decision in out:
        counts[number[decision.label]] += 1
    rest = Waiting(
        waiting.decisions[ready:],
        waiting.probabilities[ready:],
        waiting.subclass[ready:],
        waiting.responsible[ready:],
    )
    return out, stream._replace(waiting=rest, decided=tuple(counts))


def _discover(
    trained: TrainedModel,
    labels: Sequence[Label],
    chain: Chain,
    state: StreamState,
    decisions: Sequence[Decision],
    result: sampler.BatchResult,
    parameters: Parameters,
    tells: bool,
) -> tuple[Lifecycle, StreamState, list[ev.Event]]:
    """Follow the emerging subclasses of one chain through a batch; the first chain ``tells`` of it in events."""
    n_classes = len(labels)
    ids = state.ids.tolist()
    sizes = dict(zip(ids, state.dishes.size.tolist(), strict=True))
    support = dict(zip(ids, state.franchise.seated[0, n_classes:].tolist(), strict=True))
    arrivals = [
        (key, ev.Moment(d.seq, d.t, d.key), d.p_unknown)
        for key, d in zip(result.subclass.tolist(), decisions, strict=True)
        if key in sizes
    ]
    life, changes = observe(chain.life, arrivals, sizes)
    state = sampler.hold(chain.known, state, to_hold(life, support, sizes, parameters.max_subclasses))
    slot = {int(key): k for k, key in enumerate(state.ids)}
    life, ended = forget(life, slot)
    if not tells:
        return life, state, []
    told: dict[str, Any] = {"batch": decisions[0].batch, "seq": decisions[-1].seq, "model": trained.fingerprint}
    events: list[ev.Event] = []
    for kind, keys in ((ev.SubclassEmerged, changes.emerged), (ev.SubclassGrew, changes.grew)):
        for key in keys:
            subclass = life.subclasses[key]
            events.append(
                kind(
                    subclass_id=key,
                    first_seen=subclass.first,
                    last_seen=subclass.last,
                    size=sizes[key],
                    share=sizes[key] / state.seen,
                    support=support[key],
                    exemplars=subclass.exemplars,
                    explanation=explain(
                        state.dishes,
                        slot[key],
                        chain.known,
                        chain.frozen,
                        trained.space,
                        trained.names,
                        labels,
                    ),
                    **told,
                )
            )
    for key, subclass in ended.items():
        events.append(ev.SubclassForgotten(subclass_id=key, last_seen=subclass.last, **told))
    emerged = tuple(key for key, subclass in life.subclasses.items() if subclass.emerged)
    delta = estimate_new_classes(len(emerged), len(trained.known.ids), len(trained.labels))
    if delta != life.delta:
        events.append(ev.NewClassesChanged(delta=delta, before=life.delta, subclasses=emerged, **told))
    return life._replace(delta=delta), state, events


def _follow(past: tuple[Past, ...], results: Sequence[sampler.BatchResult]) -> tuple[Past, ...]:
    """Note where window instances have moved to."""
    moved = [result.moved for result in results if len(result.moved)]
    if not moved:
        return past
    earliest = min(int(positions.min()) for positions in moved)
    out = list(past)
    for at in range(len(past) - 1, -1, -1):
        chunk = past[at]
        if chunk.seq + len(chunk.keys) <= earliest:
            break
        subclass = chunk.subclass.copy()
        for number, result in enumerate(results):
            inside = (result.moved >= chunk.seq) & (result.moved < chunk.seq + len(chunk.keys))
            subclass[number, result.moved[inside] - chunk.seq] = result.moved_to[inside]
        out[at] = chunk._replace(subclass=subclass)
    return tuple(out)


def _remember(past: tuple[Past, ...], chunk: Past, horizon: int) -> tuple[Past, ...]:
    """Append a batch and drop those that lie wholly beyond the horizon."""
    past = (*past, chunk)
    total = sum(len(p.keys) for p in past)
    while past and total - len(past[0].keys) >= horizon:
        total -= len(past[0].keys)
        past = past[1:]
    return past
