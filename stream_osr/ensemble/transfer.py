"""A new trained model goes on with what has emerged under an earlier one, chain by chain.

Chain number r takes over from chain ``r mod R`` of the R that there were, as it does from the trained models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.config import Label
from stream_osr.discovery.lives import Subclass, lifecycle
from stream_osr.ensemble.chain import Chain, Chains
from stream_osr.ensemble.past import Past, read, remembered, written
from stream_osr.model.between import Aside, nobody_aside, only_aside
from stream_osr.model.franchise import CLOSED
from stream_osr.model.marginal import both, dishes_of, of_slots, statistics_of
from stream_osr.model.nearest import typical_rows
from stream_osr.model.prior import width_of
from stream_osr.model.transfer import Passage, class_of, move_in, restate
from stream_osr.trained import TrainedModel

MOST_ROWS = 128
"""Where no sample of a subclass is kept, so many of its latest rows say whether the new model knows it."""


class Earlier(NamedTuple):
    """What an earlier model's stream has come to: the model, labels of known classes, chains, what is remembered."""

    trained: TrainedModel
    labels: tuple[Label, ...]
    chains: Chains
    past: Past


class Taken(NamedTuple):
    """What the chains have taken over.

    Attributes
    ----------
    chains
        The chains, with the subclasses of the opened classes still among the emerging ones.
    past
        What is remembered, in the new coordinates and seats.
    named
        These subclasses in each chain, for each of the opened classes.
    left
        Emerging subclasses of the leader that were left behind: the new model knows them.
    """

    chains: Chains
    past: Past
    named: list[list[list[int]]]
    left: list[int]


def take_over(
    earlier: Earlier, trained: TrainedModel, chains: Chains, way: Passage, opened: Sequence[Label]
) -> Taken:
    """Carry what has emerged over to chains that have just begun.

    Parameters
    ----------
    earlier
        Where it comes from.
    trained, chains
        The model that goes on, and its chains.
    way
        From the earlier model's coordinates to its own.
    opened
        Classes that people have made in the earlier stream, and that the model does not know.
    """
    count = len(chains)
    batches = [
        batch._replace(rows=way.of(batch.rows), subclass=batch.subclass[np.arange(count) % len(batch.subclass)])
        for batch in written(earlier.past)
    ]
    earlier = earlier._replace(past=read(batches, count, width_of(trained.known.prior)))
    taken = [_take_over(number, earlier, trained, chain, way, opened) for number, chain in enumerate(chains)]
    alive = [
        [*chain.state.ids.tolist(), *chain.aside.ids.tolist(), *(key for keys in named for key in keys)]
        for chain, named, _ in taken
    ]
    return Taken(
        tuple(chain for chain, _, _ in taken),
        _only(earlier.past, alive),
        [[named[at] for _, named, _ in taken] for at in range(len(opened))],
        taken[0][2],
    )


def made_since(earlier: Earlier, number: int, j: int) -> np.ndarray:
    """Find the subclasses (their slots) that class j of a chain has from the stream and not from training.

    Of a class that was trained those count that a person has named.
    """
    its, known = earlier.trained, earlier.chains[number].known
    slots = np.arange(len(its.draws[number % len(its.draws)].ids), len(known.ids))  # those of training come first
    made = (known.tables[j, slots] > 0) & (known.dishes.size[slots] > 0)
    if j < len(its.labels):
        made &= np.isin(known.ids[slots], known.named)
    return np.asarray(slots[made])


def _only(past: Past, alive: Sequence[Sequence[int]]) -> Past:
    """Forget the seats in subclasses that were left behind."""
    there = np.array([np.isin(own, keys) for own, keys in zip(past.subclass, alive, strict=True)])
    return past._replace(subclass=np.where(there, past.subclass, -1))


def _take_over(
    number: int, earlier: Earlier, trained: TrainedModel, fresh: Chain, way: Passage, opened: Sequence[Label]
) -> tuple[Chain, list[list[int]], list[int]]:
    """Carry one chain over to a fresh one."""
    source, labels = number % len(earlier.chains), earlier.labels
    old = earlier.chains[source]
    prior, other, n_classes = old.known.prior, fresh.known.prior, len(trained.labels)
    known = fresh.known._replace(ids=fresh.known.ids + old.state.next_id)
    lives = {key: _with_rows(life, way, number) for key, life in old.life.subclasses.items()}
    here = restate(statistics_of(old.state.dishes, np.arange(len(old.state.ids))), way, prior, other)
    aside = nobody_aside(other)
    if not number:
        aside = Aside(old.aside.ids, restate(old.aside.statistics, way, prior, other))
    left: dict[int, int] = {}
    changed = earlier.trained.fingerprint != trained.fingerprint  # other settings alone make no class known
    for ids, statistics in ((old.state.ids, here), aside) if changed else ():
        for at, key in enumerate(ids.tolist()):
            rows = _rows_of(key, number, lives.get(key), earlier.past)
            if not len(rows):
                rows = typical_rows(dishes_of(of_slots(statistics, [at]), other), other)
            owner = class_of(known, fresh.frozen, rows)
            if owner is not None:
                left[key] = owner
    kept = np.flatnonzero(~np.isin(old.state.ids, list(left)))
    aside = only_aside(aside, set(aside.ids.tolist()) - set(left))
    made = [made_since(earlier, source, labels.index(label)) for label in opened]
    slots = np.concatenate([np.zeros(0, np.int64), *made])
    ids = np.append(old.state.ids[kept], old.known.ids[slots])
    statistics = both(
        of_slots(here, kept),
        restate(statistics_of(old.known.dishes, slots), way, prior, other),
    )
    dish = np.full(len(old.state.franchise.menu), CLOSED)
    for j, label in enumerate(labels):
        if label in trained.labels:
            dish[j] = trained.labels.index(label)
    at = len(kept)
    for label, own in zip(opened, made, strict=True):
        if len(own):
            dish[labels.index(label)] = n_classes + at + int(np.argmax(old.known.dishes.size[own]))
        at += len(own)
    dish[len(labels) :] = [left.get(key, CLOSED) for key in old.state.ids.tolist()]
    dish[len(labels) + kept] = n_classes + np.arange(len(kept))
    held = np.append(old.state.franchise.held[len(labels) + kept], np.ones(len(slots)))
    state = move_in(known, fresh.frozen, fresh.state, old.state, dish, ids, statistics, held)
    there = {*old.state.ids[kept].tolist(), *aside.ids.tolist()}
    life = lifecycle({key: life for key, life in lives.items() if key in there}, old.life.delta)
    chain = fresh._replace(known=known, state=state, life=life, aside=aside)
    return chain, [old.known.ids[own].tolist() for own in made], list(left)


def _with_rows(life: Subclass, way: Passage, number: int) -> Subclass:
    """Put the sample of a subclass into the new coordinates; only the leader keeps samples."""
    if life.kept is None or number:
        return life._replace(kept=None)
    return life._replace(kept=life.kept._replace(rows=way.of(life.kept.rows)))


def _rows_of(key: int, number: int, life: Subclass | None, past: Past) -> np.ndarray:
    """Rows of a subclass that are there, in the new coordinates: the sample, or the latest that are remembered."""
    if life is not None and life.kept is not None and len(life.kept.rows):
        return np.ascontiguousarray(life.kept.rows)
    return np.asarray(past.rows[remembered(past, number, key)[-MOST_ROWS:]])
