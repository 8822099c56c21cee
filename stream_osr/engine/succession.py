"""A stream goes on under another trained model: what has emerged is carried over, chain by chain.

Chain number r takes over from chain ``r mod R`` of the R that there were, as it does from the trained models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.config import Label
from stream_osr.discovery import events as ev
from stream_osr.discovery.drift import start_drift
from stream_osr.discovery.life import Subclass
from stream_osr.discovery.lives import lifecycle
from stream_osr.engine.discover import estimate_anew
from stream_osr.engine.naming import adopt
from stream_osr.engine.opened import with_references
from stream_osr.engine.past import Decided, Past, read, remembered, written
from stream_osr.engine.state import Chain, Stream
from stream_osr.errors import InvalidParameter
from stream_osr.model.blas import one_thread
from stream_osr.model.dishes import empty_dishes, means_and_scales
from stream_osr.model.franchise import CLOSED
from stream_osr.model.marginal import Statistics, both, of_slots, pour, statistics_of
from stream_osr.model.prior import DIAGONAL, Prior
from stream_osr.model.regroup import Aside, nobody_aside, only_aside
from stream_osr.model.transfer import Passage, class_of, move_in, passage, restate
from stream_osr.trained import TrainedModel

MOST_ROWS = 128
"""Where no sample of a subclass is kept, so many of its latest rows say whether the new model knows it."""

_REMEDY = "train on the same features, or begin anew"


def carry_over(
    its: TrainedModel, earlier: Stream, trained: TrainedModel, stream: Stream
) -> tuple[Stream, list[ev.Event]]:
    """Carry what has emerged in the stream of an earlier model over to a stream that has just begun.

    Parameters
    ----------
    its, earlier
        The earlier model and its stream; no decision of it is held back.
    trained, stream
        The model that goes on, and its stream.

    Returns
    -------
    The stream that goes on, and what there is to tell.

    Raises
    ------
    InvalidParameter
        If the models do not fit together.
    """
    with one_thread():
        way = find_way(its, trained)
        opened = opened_since(its, earlier, trained.labels)
        moved = [_moved(batch, way, len(stream.chains)) for batch in written(earlier.past)]
        past = read(moved, len(stream.chains), trained.known.prior.n_features)
        taken = [
            _take_over(number, its, earlier, trained, chain, way, opened, past)
            for number, chain in enumerate(stream.chains)
        ]
        alive = [[*_carried(one.chain), *(key for keys in one.named for key in keys)] for one in taken]
        stream = stream._replace(
            chains=tuple(one.chain for one in taken),
            past=_only(past, alive),
            signals=earlier.signals,
            drift=start_drift(0, trained.known.prior.n_features),  # positions begin with the next batch
        )
        for at, label in enumerate(opened):
            stream = adopt(stream, [one.named[at] for one in taken], label)
        counts = dict(zip(earlier.labels, earlier.decided, strict=False))
        decided = (*(counts.get(label, 0) for label in stream.labels), earlier.decided[-1])
        batch, seq = stream.state.batches - 1, stream.state.seen - 1
        told: dict[str, Any] = {"batch": batch, "seq": seq, "model": trained.fingerprint}
        ended = earlier.life.subclasses
        events: list[ev.Event] = [
            ev.SubclassForgotten(subclass_id=key, last_seen=ended[key].last, **told)
            for key in taken[0].left
            if key in ended and ended[key].emerged and not ended[key].muted
        ]
        first = stream.chains[0]
        life, changed = estimate_anew(trained, first.life, told)
        chains = (first._replace(life=life), *stream.chains[1:])
        stream = with_references(trained, stream._replace(chains=chains, decided=decided))
        return stream, [*events, *changed]


def find_way(its: TrainedModel, trained: TrainedModel) -> Passage:
    """Find the way from one model's coordinates to another's.

    Raises
    ------
    InvalidParameter
        If there is none, with the reason.
    """
    lacking = [repr(name) for name in its.names if name not in trained.names]
    added = [repr(name) for name in trained.names if name not in its.names]
    if lacking or added:
        differ = [
            *([f"the earlier model has {', '.join(lacking)}"] if lacking else []),
            *([f"the new one has {', '.join(added)}"] if added else []),
        ]
        raise InvalidParameter(
            f"the features differ, so that nothing can be carried over: {' and '.join(differ)}; {_REMEDY}"
        )
    if its.known.prior.covariance != trained.known.prior.covariance:
        raise InvalidParameter(
            "the models differ in covariance (full, diagonal, tied), so that nothing can be carried over; train with "
            "the same, or begin anew"
        )
    way = passage(its.space, trained.space, [its.names.index(name) for name in trained.names])
    if way is None:
        raise InvalidParameter(
            "the earlier model's PCA has left out what the new model needs of its subclasses, so that nothing can be "
            "carried over; begin anew (models without a PCA, or with all its components, can be carried over)"
        )
    if trained.known.prior.covariance == DIAGONAL and not way.apart:
        raise InvalidParameter(
            "with diagonal covariances subclasses cannot be put into the coordinates of another training, so that "
            "nothing can be carried over; begin anew (models with full or tied covariances can be carried over)"
        )
    return way


def opened_since(its: TrainedModel, earlier: Stream, known: Sequence[Label]) -> tuple[Label, ...]:
    """Name the classes that people have made in the stream and that a model with these known labels does not know."""
    return tuple(
        label
        for j, label in enumerate(earlier.labels)
        if label not in known and (j >= len(its.labels) or len(_made_since(its, earlier, 0, j)))
    )


def _made_since(its: TrainedModel, earlier: Stream, number: int, j: int) -> np.ndarray:
    """Find the subclasses (their slots) that class j of a chain has from the stream and not from training.

    Of a class that was trained those count that a person has named.
    """
    known = earlier.chains[number].known
    slots = np.arange(len(its.draws[number % len(its.draws)].ids), len(known.ids))  # those of training come first
    made = (known.tables[j, slots] > 0) & (known.dishes.size[slots] > 0)
    if j < len(its.labels):
        made &= np.isin(known.ids[slots], known.named)
    return np.asarray(slots[made])


def _moved(batch: Decided, way: Passage, n_chains: int) -> Decided:
    """Put remembered instances into the new coordinates, and their seats into the new chains."""
    seats = batch.subclass[np.arange(n_chains) % len(batch.subclass)]
    return batch._replace(rows=batch.rows @ way.matrix + way.offset, subclass=seats)


def _only(past: Past, alive: Sequence[Sequence[int]]) -> Past:
    """Forget the seats in subclasses that were left behind."""
    there = np.array([np.isin(own, keys) for own, keys in zip(past.subclass, alive, strict=True)])
    return past._replace(subclass=np.where(there, past.subclass, -1))


def _carried(chain: Chain) -> list[int]:
    return [*chain.state.ids.tolist(), *chain.aside.ids.tolist()]


class _Taken(NamedTuple):
    """What a chain has taken over.

    Attributes
    ----------
    chain
        The chain, with the subclasses of the opened classes still among the emerging ones.
    named
        These, for each of the opened classes.
    left
        Emerging subclasses that were left behind: the new model knows them.
    """

    chain: Chain
    named: list[list[int]]
    left: list[int]


def _take_over(
    number: int,
    its: TrainedModel,
    earlier: Stream,
    trained: TrainedModel,
    fresh: Chain,
    way: Passage,
    opened: Sequence[Label],
    past: Past,
) -> _Taken:
    """Carry one chain over to a fresh one."""
    source = number % len(earlier.chains)
    old = earlier.chains[source]
    prior, other, n_classes = old.known.prior, fresh.known.prior, len(trained.labels)
    known = fresh.known._replace(ids=fresh.known.ids + old.state.next_id)
    lives = {key: _with_rows(life, way, number) for key, life in old.life.subclasses.items()}
    here = restate(statistics_of(old.state.dishes, np.arange(len(old.state.ids))), way, prior, other)
    aside = nobody_aside(other)
    if not number:
        aside = Aside(old.aside.ids, restate(old.aside.statistics, way, prior, other))
    left: dict[int, int] = {}
    changed = its.fingerprint != trained.fingerprint  # other settings alone make no class known
    for ids, statistics in ((old.state.ids, here), aside) if changed else ():
        for at, key in enumerate(ids.tolist()):
            rows = _rows_of(key, number, lives.get(key), past)
            if not len(rows):
                rows = _mean_of(of_slots(statistics, [at]), other)
            owner = class_of(known, fresh.frozen, rows)
            if owner is not None:
                left[key] = owner
    kept = np.flatnonzero(~np.isin(old.state.ids, list(left)))
    aside = only_aside(aside, set(aside.ids.tolist()) - set(left))
    made = [_made_since(its, earlier, source, earlier.labels.index(label)) for label in opened]
    slots = np.concatenate([np.zeros(0, np.int64), *made])
    ids = np.append(old.state.ids[kept], old.known.ids[slots])
    statistics = both(
        Statistics(here.size[kept], here.matrix[kept]),
        restate(statistics_of(old.known.dishes, slots), way, prior, other),
    )
    dish = np.full(len(old.state.franchise.menu), CLOSED)
    for j, label in enumerate(earlier.labels):
        if label in trained.labels:
            dish[j] = trained.labels.index(label)
    at = len(kept)
    for label, own in zip(opened, made, strict=True):
        if len(own):
            dish[earlier.labels.index(label)] = n_classes + at + int(np.argmax(old.known.dishes.size[own]))
        at += len(own)
    dish[len(earlier.labels) :] = [left.get(key, CLOSED) for key in old.state.ids.tolist()]
    dish[len(earlier.labels) + kept] = n_classes + np.arange(len(kept))
    held = np.append(old.state.franchise.held[len(earlier.labels) + kept], np.ones(len(slots)))
    state = move_in(known, fresh.frozen, fresh.state, old.state, dish, ids, statistics, held)
    there = {*old.state.ids[kept].tolist(), *aside.ids.tolist()}
    life = lifecycle({key: life for key, life in lives.items() if key in there}, old.life.delta)
    chain = fresh._replace(known=known, state=state, life=life, aside=aside)
    return _Taken(chain, [old.known.ids[own].tolist() for own in made], list(left))


def _with_rows(life: Subclass, way: Passage, number: int) -> Subclass:
    """Put the sample of a subclass into the new coordinates; only the first chain keeps samples."""
    if life.kept is None or number:
        return life._replace(kept=None)
    return life._replace(kept=life.kept._replace(rows=life.kept.rows @ way.matrix + way.offset))


def _rows_of(key: int, number: int, life: Subclass | None, past: Past) -> np.ndarray:
    """Rows of a subclass that are there, in the new coordinates: the sample, or the latest that are remembered."""
    if life is not None and life.kept is not None and len(life.kept.rows):
        return np.ascontiguousarray(life.kept.rows)
    return np.asarray(past.rows[remembered(past, number, key)[-MOST_ROWS:]])


def _mean_of(statistics: Statistics, prior: Prior) -> np.ndarray:
    dishes = empty_dishes(1, prior)
    pour(dishes, 0, statistics, prior)
    return means_and_scales(dishes, prior)[0]
