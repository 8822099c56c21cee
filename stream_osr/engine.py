"""One micro-batch from rows to decisions and events: the sampler's step, discovery, late labels.

``Stream`` is a value: :func:`close_batch` takes one and returns the next. A batch that fails leaves nothing behind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.config import Label, Parameters
from stream_osr.decision import Decision
from stream_osr.discovery import events as ev
from stream_osr.discovery.explain import explain
from stream_osr.discovery.lifecycle import Lifecycle, estimate_new_classes, forget, observe, to_hold
from stream_osr.hdp import stream as sampler
from stream_osr.hdp.blas import one_thread
from stream_osr.hdp.dishes import mahalanobis_each
from stream_osr.hdp.known import Densities, Known, densities, density_rank, learn_labelled
from stream_osr.hdp.prior import homogeneous
from stream_osr.labels import unknown_label
from stream_osr.trained import TrainedModel


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
    """A decided batch, kept for labels that come late: rows (b, d), keys, first position, subclass ids (b,)."""

    rows: np.ndarray
    keys: tuple[Any, ...]
    seq: int
    subclass: np.ndarray


class Stream(NamedTuple):
    """The stream's part of a recognizer.

    Attributes
    ----------
    labels
        Labels of the known classes: the trained ones, then those that late labels opened.
    known, frozen
        Known classes: the trained ones, or this stream's own copy once a label has changed them.
    state
        The sampler's state.
    life
        Lives of the emerging subclasses.
    past
        Latest decided batches, ``label_horizon`` instances or a little more.
    decided
        Instances decided so far as each known class and, last, as unknown.
    """

    labels: tuple[Label, ...]
    known: Known
    frozen: Densities
    state: sampler.StreamState
    life: Lifecycle
    past: tuple[Past, ...]
    decided: tuple[int, ...]


class Batch(NamedTuple):
    """What a closed batch yields: decisions, events, and the keys of late labels that nobody remembers."""

    decisions: list[Decision]
    events: list[ev.Event]
    unknown_keys: list[Any]


def open_stream(trained: TrainedModel) -> Stream:
    """Begin a stream over a trained model."""
    return Stream(
        labels=trained.labels,
        known=trained.known,
        frozen=trained.densities,
        state=sampler.open_stream(trained.known, trained.densities),
        life=Lifecycle(),
        past=(),
        decided=(0,) * (len(trained.labels) + 1),
    )


def expect_known(trained: TrainedModel, half_life: float) -> Stream:
    """Begin a stream as if it had run on known instances for long, in the shares of the training set.

    That is what immediate predictions assume while training goes on: labelled instances say that known classes are
    what comes. A stream proper begins with nobody seated.
    """
    stream = open_stream(trained)
    known, franchise = stream.known, stream.state.franchise
    lasting = min(half_life / math.log(2.0), 1e6)
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
    )
    return stream._replace(state=stream.state._replace(franchise=tables))


def learn_evidence(stream: Stream, evidence: Sequence[Evidence], parameters: Parameters) -> tuple[Stream, list[Any]]:
    """Let labels take effect, in order: each is a sequential update of its class (or opens a class).

    Returns
    -------
    The next stream, and keys that are not (or no longer) remembered.
    """
    if not evidence:
        return stream, []
    rng = np.random.default_rng([parameters.seed, stream.state.batches, int(stream.known.size.sum())])
    before = stream.known
    known, labels, state, past = stream.known, list(stream.labels), stream.state, stream.past
    decided = list(stream.decided)
    unknown_keys = []
    for label, row, key in evidence:
        if row is None:
            found = _recall(past, key)
            if found is None:
                unknown_keys.append(key)
                continue
            chunk, at = found
            old = past[chunk]
            row = old.rows[at]
            seat = 0.5 ** ((state.seen - old.seq) / parameters.half_life)
            state = sampler.withdraw(before, state, row, old.seq + at, int(old.subclass[at]), seat)
            subclass, keys = old.subclass.copy(), list(old.keys)
            subclass[at], keys[at] = -1, None  # a label counts once
            past = (*past[:chunk], old._replace(subclass=subclass, keys=tuple(keys)), *past[chunk + 1 :])
        if label not in labels:
            labels.append(label)
            decided.insert(-1, 0)
        known = learn_labelled(known, homogeneous(row[None])[0], labels.index(label), rng, state.next_id)
        state = state._replace(next_id=max(state.next_id, int(known.ids.max()) + 1))
    frozen = densities(known)
    state = sampler.refresh_classes(state, before, known, frozen)
    return (
        stream._replace(
            labels=tuple(labels), known=known, frozen=frozen, state=state, past=past, decided=tuple(decided)
        ),
        unknown_keys,
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
    """
    with one_thread():
        stream, unknown_keys = learn_evidence(stream, evidence, parameters)
        if not arrived:
            return stream, Batch([], [], unknown_keys)
        settings = sampler.Settings(parameters.sweeps, parameters.window, parameters.half_life)
        number, first = stream.state.batches, stream.state.seen
        rows = np.array([a.row for a in arrived])
        rng = np.random.default_rng([parameters.seed, number])
        state, result = sampler.step(stream.known, stream.frozen, stream.state, rows, rng, settings)
        decisions = _decide(stream, arrived, rows, result, number, first, parameters.unknown)
        life, state, events = _discover(trained, stream, state, decisions, result, parameters)
    counts = list(stream.decided)
    position = {label: j for j, label in enumerate(stream.labels)}
    for decision in decisions:
        counts[position.get(decision.label, -1)] += 1
    chunk = Past(rows, tuple(a.key for a in arrived), first, result.subclass)
    past = _remember(_follow(stream.past, result), chunk, parameters.label_horizon)
    following = stream._replace(state=state, life=life, past=past, decided=tuple(counts))
    return following, Batch(decisions, events, unknown_keys)


def _decide(
    stream: Stream,
    arrived: Sequence[Arrived],
    rows: np.ndarray,
    result: sampler.BatchResult,
    number: int,
    first: int,
    unknown: Label | None,
) -> list[Decision]:
    known = stream.known
    names = (*stream.labels, unknown_label(unknown, stream.labels))
    best = result.probabilities.argmax(axis=1)
    nearest = result.log_density.argmax(axis=1)
    everyone = np.arange(len(rows))
    ranks = density_rank(known, result.log_density[everyone, nearest], nearest)
    responsible = result.responsible[everyone, nearest]
    distances = mahalanobis_each(known.dishes, responsible, homogeneous(rows), known.prior).tolist()
    decisions = []
    for i, instance in enumerate(arrived):
        j, near = int(best[i]), int(nearest[i])
        probabilities = result.probabilities[i].tolist()
        if j < len(stream.labels):
            subclass: int | None = int(known.ids[result.responsible[i, j]])
        else:
            subclass = int(result.subclass[i]) if result.subclass[i] >= 0 else None
        decisions.append(
            Decision(
                key=instance.key,
                t=instance.t,
                label=names[j],
                probability=probabilities[j],
                p_unknown=probabilities[-1],
                probabilities=dict(zip(names, probabilities, strict=True)),
                subclass_id=subclass,
                nearest_class=names[near],
                distance=distances[i],
                density_rank=float(ranks[i]),
                batch=number,
                seq=first + i,
            )
        )
    return decisions


def _discover(
    trained: TrainedModel,
    before: Stream,
    state: sampler.StreamState,
    decisions: Sequence[Decision],
    result: sampler.BatchResult,
    parameters: Parameters,
) -> tuple[Lifecycle, sampler.StreamState, list[ev.Event]]:
    n_classes = len(before.labels)
    ids = state.ids.tolist()
    sizes = dict(zip(ids, state.dishes.size.tolist(), strict=True))
    support = dict(zip(ids, state.franchise.seated[0, n_classes:].tolist(), strict=True))
    arrivals = [
        (int(key), ev.Moment(d.seq, d.t, d.key), d.p_unknown)
        for key, d in zip(result.subclass, decisions, strict=True)
        if int(key) in sizes
    ]
    life, changes = observe(before.life, arrivals, sizes)
    state = sampler.hold(before.known, state, to_hold(life, support, sizes, parameters.max_subclasses))
    slot = {int(key): k for k, key in enumerate(state.ids)}
    life, ended = forget(life, slot)
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
                        before.known,
                        before.frozen,
                        trained.space,
                        trained.names,
                        before.labels,
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


def _follow(past: tuple[Past, ...], result: sampler.BatchResult) -> tuple[Past, ...]:
    """Note where window instances have moved to."""
    if not len(result.moved):
        return past
    out = []
    for chunk in past:
        inside = (result.moved >= chunk.seq) & (result.moved < chunk.seq + len(chunk.keys))
        if inside.any():
            subclass = chunk.subclass.copy()
            subclass[result.moved[inside] - chunk.seq] = result.moved_to[inside]
            chunk = chunk._replace(subclass=subclass)
        out.append(chunk)
    return tuple(out)


def _remember(past: tuple[Past, ...], chunk: Past, horizon: int) -> tuple[Past, ...]:
    """Append a batch and drop those that lie wholly beyond the horizon."""
    past = (*past, chunk)
    total = sum(len(p.keys) for p in past)
    while past and total - len(past[0].keys) >= horizon:
        total -= len(past[0].keys)
        past = past[1:]
    return past
