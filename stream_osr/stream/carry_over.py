"""Carry-over of a stream to another trained model: its emerging subclasses move chain by chain.

Chain number r continues chain ``r mod R`` of the R earlier chains, in the same way as it uses the trained models.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from stream_osr.discovery.drift import start_drift
from stream_osr.discovery.event_base import Event
from stream_osr.discovery.events import SubclassForgotten
from stream_osr.discovery.histories import SubclassHistory, lifecycle
from stream_osr.errors import InvalidParameter
from stream_osr.instances.kinds import recoded
from stream_osr.model.lifecycle_moves import DormantSubclasses, no_dormant, only_dormant
from stream_osr.model.marginal import both, dishes_of, of_slots, statistics_of
from stream_osr.model.nearest import typical_rows
from stream_osr.model.prior import width_of
from stream_osr.model.restaurants import CLOSED
from stream_osr.model.transfer import CategoryOrigin, CoordinateMap, class_of, move_in, origins, passage, restate
from stream_osr.parameters import Label
from stream_osr.stream.announcements import about
from stream_osr.stream.chain import Chain
from stream_osr.stream.naming import adopt, with_estimate
from stream_osr.stream.new_class_references import with_references
from stream_osr.stream.recent_instances import RecentInstances, as_batches, from_batches, remembered
from stream_osr.stream.state import Stream
from stream_osr.support.parallel import one_thread
from stream_osr.training.trained import TrainedModel

MOST_ROWS = 128
"""Latest rows of a subclass that test whether the new model knows it, if the subclass has no sample."""
_REMEDY = "Train on the same features, or start a new stream"


def carry_stream(
    its: TrainedModel, earlier: Stream, trained: TrainedModel, stream: Stream
) -> tuple[Stream, list[Event]]:
    """Carry the emerging subclasses of an earlier model's stream over to a new stream.

    Parameters
    ----------
    its, earlier
        The earlier model and its stream, without delayed decisions.
    trained, stream
        The new model and its stream.

    Returns
    -------
    The new stream, and the events.

    Raises
    ------
    InvalidParameter
        If the models do not fit together.
    """
    with one_thread():
        way, new_classes = find_way(its, trained), opened_since(its, earlier, trained.labels)
        count = len(stream.chains)
        source = np.arange(count) % len(earlier.chains)
        batches = [
            batch._replace(rows=way.of(batch.rows), subclass=batch.subclass[source])
            for batch in as_batches(earlier.recent)
        ]
        recent = from_batches(batches, count, width_of(trained.known.prior))
        earlier = earlier._replace(recent=recent)
        carried = [
            _carry(number, its, earlier, trained, fresh, way, new_classes)
            for number, fresh in enumerate(stream.chains)
        ]
        alive = [
            [*c.state.ids.tolist(), *c.dormant.ids.tolist(), *chain.from_iterable(named)] for c, named, _ in carried
        ]
        there = np.array([np.isin(own, keys) for own, keys in zip(recent.subclass, alive, strict=True)])
        stream = stream._replace(
            chains=tuple(each for each, _, _ in carried),
            recent=recent._replace(subclass=np.where(there, recent.subclass, -1)),
            signals=earlier.signals,
            drift=start_drift(0, trained.known.prior.n_features),  # positions begin with the next batch
        )
        for at, label in enumerate(new_classes):
            stream = adopt(stream, [named[at] for _, named, _ in carried], label)
        counts = dict(zip(earlier.labels, earlier.decided, strict=False))
        decided = (*(counts.get(label, 0) for label in stream.labels), earlier.decided[-1])
        common, ended = about(trained, stream.state), earlier.life.subclasses
        told_of = set(earlier.life.ids[earlier.life.announced_unmuted].tolist())
        events: list[Event] = [
            SubclassForgotten(subclass_id=key, last_seen=ended[key].last, **common)
            for key in carried[0][2]
            if key in told_of
        ]
        return with_estimate(trained, with_references(trained, stream._replace(decided=decided)), events)


def find_way(its: TrainedModel, trained: TrainedModel) -> CoordinateMap:
    """Find the map from one model's coordinates to another's.

    Raises
    ------
    InvalidParameter
        If there is no map, with the reason.
    """
    both = (("the earlier model", its.names, trained.names), ("the new one", trained.names, its.names))
    alone = [(who, [repr(name) for name in own if name not in others]) for who, own, others in both]
    differ = [f"{who} has {', '.join(names)}" for who, names in alone if names]
    if differ:
        raise InvalidParameter(
            f"the features differ, so that nothing can be carried over: {' and '.join(differ)}. {_REMEDY}"
        )
    order, numbers = [its.names.index(name) for name in trained.names], _values_there(its, trained)
    return passage(its.whitening, trained.whitening, order, numbers)


def _values_there(its: TrainedModel, trained: TrainedModel) -> list[CategoryOrigin | None]:
    """Find the origin of each category of a model in the earlier model, and the numbers that values have there."""
    before, now = its.values, trained.values
    if before.keys() != now.keys():
        differ = ", ".join(repr(name) for name in trained.names if (name in before) != (name in now))
        raise InvalidParameter(
            f"features are numbers in one model and categories in the other, so that nothing can be carried over: "
            f"{differ}. {_REMEDY}"
        )
    numbers = [recoded(np.arange(float(len(before[name]))), before[name], own) for name, own in now.items()]
    given = [CategoryOrigin(list(before).index(name), number) for name, number in zip(now, numbers, strict=True)]
    old, new = its.whitening.binary_features, trained.whitening.binary_features
    return [*given, *origins(old, its.names, new, trained.names, len(before))]


def opened_since(its: TrainedModel, earlier: Stream, known: Sequence[Label]) -> tuple[Label, ...]:
    """Find the classes that people opened in the stream and that a model with these known labels lacks."""
    return tuple(
        label
        for j, label in enumerate(earlier.labels)
        if label not in known and (j >= len(its.labels) or len(_made_since(its, earlier, 0, j)))
    )


def _made_since(its: TrainedModel, earlier: Stream, number: int, j: int) -> np.ndarray:
    """Find the slots of class j's subclasses in a chain that come from the stream and not from training.

    For a trained class these are the subclasses that a person has named.
    """
    known = earlier.chains[number].known
    slots = np.arange(len(its.draws[number % len(its.draws)].ids), len(known.ids))  # those of training come first
    made = (known.tables[j, slots] > 0) & (known.dishes.size[slots] > 0)
    if j < len(its.labels):
        made &= np.isin(known.ids[slots], known.named)
    return np.asarray(slots[made])


def _carry(
    number: int,
    its: TrainedModel,
    earlier: Stream,
    trained: TrainedModel,
    fresh: Chain,
    way: CoordinateMap,
    new_classes: Sequence[Label],
) -> tuple[Chain, list[list[int]], list[int]]:
    """Carry one chain over to a new chain.

    Parameters
    ----------
    number
        Number of the chain.
    its, earlier
        The earlier model and its stream, with the remembered instances in the new coordinates.
    trained, fresh
        The new model, and its chain.
    way
        Map from the earlier model's coordinates to the new ones.
    new_classes
        Classes that people opened in the earlier stream and that the new model lacks.

    Returns
    -------
    The chain, with the subclasses of the opened classes among the emerging ones. Then these subclasses for each
    opened class, and the emerging subclasses that were dropped because the new model knows them.
    """
    source, labels = number % len(earlier.chains), earlier.labels
    old = earlier.chains[source]
    prior, other, n_classes = old.known.prior, fresh.known.prior, len(trained.labels)
    known = fresh.known._replace(ids=fresh.known.ids + old.state.next_id)
    lives = {key: _with_rows(life, way, number) for key, life in old.life.subclasses.items()}
    here = restate(statistics_of(old.state.dishes, np.arange(len(old.state.ids))), way, prior, other)
    dormant = no_dormant(other)
    if not number:
        dormant = DormantSubclasses(old.dormant.ids, restate(old.dormant.statistics, way, prior, other))
    left: dict[int, int] = {}
    changed = its.fingerprint != trained.fingerprint  # other settings alone make no class known
    for ids, statistics in ((old.state.ids, here), dormant) if changed else ():
        for at, key in enumerate(ids.tolist()):
            rows = _rows_of(key, number, lives.get(key), earlier.recent)
            if not len(rows):
                rows = typical_rows(dishes_of(of_slots(statistics, [at]), other), other)
            owner = class_of(known, fresh.frozen, rows)
            if owner is not None:
                left[key] = owner
    kept = np.flatnonzero(~np.isin(old.state.ids, list(left)))
    dormant = only_dormant(dormant, set(dormant.ids.tolist()) - set(left))
    made = [_made_since(its, earlier, source, labels.index(label)) for label in new_classes]
    slots = np.concatenate([np.zeros(0, np.int64), *made])
    ids = np.append(old.state.ids[kept], old.known.ids[slots])
    statistics = both(of_slots(here, kept), restate(statistics_of(old.known.dishes, slots), way, prior, other))
    dish = np.full(len(old.state.franchise.menu), CLOSED)
    for j, label in enumerate(labels):
        if label in trained.labels:
            dish[j] = trained.labels.index(label)
    at = len(kept)
    for label, own in zip(new_classes, made, strict=True):
        if len(own):
            dish[labels.index(label)] = n_classes + at + int(np.argmax(old.known.dishes.size[own]))
        at += len(own)
    dish[len(labels) :] = [left.get(key, CLOSED) for key in old.state.ids.tolist()]
    dish[len(labels) + kept] = n_classes + np.arange(len(kept))
    held = np.append(old.state.franchise.held[len(labels) + kept], np.ones(len(slots)))
    state = move_in(known, fresh.frozen, fresh.state, old.state, dish, ids, statistics, held)
    there = {*old.state.ids[kept].tolist(), *dormant.ids.tolist()}
    life = lifecycle({key: life for key, life in lives.items() if key in there}, old.life.delta)
    chain = fresh._replace(known=known, state=state, life=life, dormant=dormant)
    return chain, [old.known.ids[own].tolist() for own in made], list(left)


def _with_rows(life: SubclassHistory, way: CoordinateMap, number: int) -> SubclassHistory:
    """Map the sample of a subclass to the new coordinates. Only the leader keeps samples."""
    if life.kept is None or number:
        return life._replace(kept=None)
    return life._replace(kept=life.kept._replace(rows=way.of(life.kept.rows)))


def _rows_of(key: int, number: int, life: SubclassHistory | None, recent: RecentInstances) -> np.ndarray:
    """Rows of a subclass in the new coordinates: its sample, or the latest remembered rows."""
    if life is not None and life.kept is not None and len(life.kept.rows):
        return np.ascontiguousarray(life.kept.rows)
    return np.asarray(recent.rows[remembered(recent, number, key)[-MOST_ROWS:]])
