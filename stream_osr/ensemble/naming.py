"""Emerging subclasses that people name or mute, in every chain: what stands for them, and how it changes sides.

The identities that people use are the leader's. What stands for the same instances in another chain goes with them
(:func:`counterparts`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_osr.config import Label
from stream_osr.discovery.events import Moment
from stream_osr.discovery.lives import Subclass, lifecycle, with_lives, without_lives
from stream_osr.ensemble.actions import Promotion, Tables
from stream_osr.ensemble.chain import Chain, Chains, awake, refreshed
from stream_osr.ensemble.past import Past, began, places, remembered, unshared
from stream_osr.model import edit
from stream_osr.model.dishes import log_predictives
from stream_osr.model.known import log_densities
from stream_osr.model.nearest import typical_rows
from stream_osr.model.prior import homogeneous
from stream_osr.model.step import BatchResult

Keys = Sequence[Sequence[int]]
"""Identities in each chain."""


def counterparts(chains: Chains, past: Past, keys: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Find in every chain the emerging subclasses that stand for the same instances as these of the leader.

    Those of whose remembered instances more than half sit in them in the leader; of one without a remembered
    instance the place of its mean decides. There may be none.
    """
    seats = past.subclass
    found = [tuple(keys)]
    for chain, own in zip(chains[1:], seats[1:], strict=True):
        ids = chain.state.ids
        stand = [
            _nearest(chains[0], chain, slot) in keys if stands is None else stands
            for slot, stands in enumerate(_standing(ids, own, np.isin(seats[0], keys)))
        ]
        found.append(tuple(ids[stand].tolist()))
    return tuple(found)


def _standing(ids: np.ndarray, seats: np.ndarray, inside: np.ndarray) -> list[bool | None]:
    """Say of each subclass whether most of its remembered instances are inside; ``None``: it has none."""
    members = [seats == key for key in ids.tolist()]
    return [2 * int((own & inside).sum()) > int(own.sum()) if own.any() else None for own in members]


def _nearest(first: Chain, chain: Chain, slot: int) -> int:
    """Emerging subclass of the leader that is densest at the mean of one of another; -1: something else is."""
    mean = homogeneous(typical_rows(chain.state.dishes, chain.known.prior)[[slot]])
    known, _, new = log_densities(first.known, first.frozen, mean)
    emerging = log_predictives(mean, first.state.dishes, first.known.prior)[0]
    best = int(np.argmax(emerging))
    return int(first.state.ids[best]) if emerging[best] > max(known.max(), new[0]) else -1


def with_counterparts(
    chains: Chains, past: Past, keys: Sequence[int], half_life: float
) -> tuple[Chains, Past, tuple[tuple[int, ...], ...]]:
    """Find the counterparts; a chain without any gets subclasses like those of the leader."""
    subclasses, out = list(counterparts(chains, past, keys)), list(chains)
    for number in range(1, len(chains)):
        if not subclasses[number]:
            first = chains[number].state.next_id
            subclasses[number] = tuple(range(first, first + len(keys)))
            for key in keys:
                out[number], past = _split_off(chains[0], out[number], number, past, key, half_life)
    return tuple(out), past, tuple(subclasses)


def _split_off(first: Chain, chain: Chain, number: int, past: Past, key: int, half_life: float) -> tuple[Chain, Past]:
    """Gather the instances of a subclass of the leader, wherever another chain seats them."""
    state, slot = first.state, int(edit.slots_of(first.state.ids, [key])[0])
    dishes = edit.restated(state.dishes, slot, first.known.prior, chain.known.prior)
    at = np.flatnonzero((past.subclass[0] == key) & ~np.isin(past.subclass[number], chain.known.ids))
    weight = np.array([0.5 ** ((state.seen - first) / half_life) for first in began(past, at).tolist()], float)
    home, prior = past.subclass[number, at], chain.known.prior
    moved = edit.gather(chain.state, dishes, past.rows[at], past.seq + at, home, weight, prior)
    past = unshared(past)
    past.subclass[number, at] = chain.state.next_id
    return chain._replace(state=moved), past


def wake(chains: Chains, past: Past, keys: Sequence[int]) -> Chains:
    """Put those that are set aside on the menu again, and in the followers what stands for them."""
    seats = past.subclass
    inside = np.isin(seats[0], keys)
    woken = [awake(chains[0], keys)]
    for chain, own in zip(chains[1:], seats[1:], strict=True):
        ids = chain.aside.ids
        stand = zip(ids.tolist(), _standing(ids, own, inside), strict=True)
        woken.append(awake(chain, [key for key, stands in stand if stands]))
    return tuple(woken)


def life_of(chains: Chains, past: Past, number: int, key: int) -> Subclass:
    """Life of a subclass; made of the remembered instances where nothing has arrived in it."""
    known = chains[number].life.subclasses.get(key)
    if known is not None:
        return known
    at = remembered(past, number, key)
    if not len(at):
        now = Moment(chains[0].state.seen - 1, None, None)
        return Subclass(now, now)
    first, last = (Moment(past.seq + end, past.times[end], past.keys[end]) for end in at[[0, -1]].tolist())
    return Subclass(first, last)


def set_muted(chains: Chains, past: Past, subclasses: Keys, *, muted: bool) -> Chains:
    """Tell nothing more of these subclasses, or something again."""
    out = []
    for number, (chain, keys) in enumerate(zip(chains, subclasses, strict=True)):
        there = [key for key in keys if key in chain.state.ids]
        changed = {key: life_of(chains, past, number, key)._replace(muted=muted) for key in there}
        out.append(chain._replace(life=with_lives(chain.life, changed)))
    return tuple(out)


def promotion(
    number: int, label: Label, chains: Chains, subclasses: tuple[tuple[int, ...], ...], j: int
) -> Promotion:
    """Write down what it takes to undo a promotion to class j, -1: one that it opens; before it takes place."""
    lives = [chain.life.subclasses for chain in chains]
    return Promotion(
        number,
        label,
        subclasses,
        tuple(chain.known.ranks[j] if j >= 0 else np.zeros(0) for chain in chains),
        tuple({key: of[key] for key in own if key in of} for of, own in zip(lives, subclasses, strict=True)),
        tuple(_tables(chain, own) for chain, own in zip(chains, subclasses, strict=True)),
    )


def _tables(chain: Chain, keys: Sequence[int]) -> Tables:
    """Tables that serve these emerging subclasses."""
    state, franchise = chain.state, chain.state.franchise
    served = franchise.table_dish - (len(franchise.menu) - len(state.ids))
    subclass = np.append(-1, state.ids)[np.maximum(served, -1) + 1]
    at = np.flatnonzero(np.isin(subclass, keys))
    guests = np.flatnonzero(np.isin(state.window.table, at))
    held_by = subclass[state.window.table[guests]]
    return Tables(at, subclass[at], franchise.table_mass[at], state.window_seq[guests], held_by)


def adopt(chains: Chains, past: Past, subclasses: Keys, j: int) -> Chains:
    """Make these emerging subclasses of every chain subclasses of class j, perhaps a new one."""
    own = enumerate(zip(chains, subclasses, strict=True))
    return tuple(_adopt(chain, past, number, keys, j) for number, (chain, keys) in own)


def _adopt(chain: Chain, past: Past, number: int, keys: Sequence[int], j: int) -> Chain:
    before = chain.known.size[j] if j < len(chain.known.size) else 0.0
    own = np.isin(past.subclass[number], keys)
    rows, held_by = past.rows[own], past.subclass[number, own]
    known, frozen, state = edit.adopt(chain.known, chain.state, keys, j, rows)
    ranks, new = known.ranks.copy(), float(known.size[j] - before)
    ranks[j] = edit.rank_levels(known, frozen, j, rows, held_by, new)
    life = without_lives(chain.life, keys)
    return chain._replace(known=known._replace(ranks=ranks), frozen=frozen, state=state, life=life)


def give_back(chains: Chains, past: Past, action: Promotion, j: int) -> tuple[Chains, Past]:
    """Give subclasses that were named back in every chain; guests at their tables go with them."""
    out = []
    for number, chain in enumerate(chains):
        given, past = _give_back(chain, number, past, action, j)
        out.append(given)
    return tuple(out), past


def _give_back(chain: Chain, number: int, past: Past, action: Promotion, j: int) -> tuple[Chain, Past]:
    known, state, window = chain.known, chain.state, chain.state.window
    keys = [key for key in action.subclasses[number] if key in known.ids]
    at, tables = places(past, state.window_seq), action.tables[number]
    sat = dict(zip(tables.seq.tolist(), tables.held_by.tolist(), strict=True))
    then = np.array([sat.get(seq, -1) for seq in state.window_seq.tolist()], np.int64)
    sits = np.where(at < 0, then, np.append(past.subclass[number], -1)[at])
    home = _homes(chain, tables, keys, sits, j)
    goes = home[window.table]
    member = sits == goes
    for i in np.flatnonzero(np.isin(sits, keys) & ~member):  # it has sat down elsewhere since
        known = edit.take_out(known, int(sits[i]), window.rows[i, :-1], j)
    changed = (np.isin(sits, keys) | (goes >= 0)) & ~member & (at >= 0)
    past = unshared(past)
    past.subclass[number, at[changed]] = goes[changed]
    size = known.dishes.size[edit.slots_of(known.ids, keys)]
    empty = [key for key, n in zip(keys, size.tolist(), strict=True) if not n and key not in goes]
    if empty:
        known = edit.without_subclasses(known, edit.slots_of(known.ids, empty))
        home = np.where(np.isin(home, empty), -1, home)
    keys = [key for key in keys if key not in empty]
    lives = {key: life for key, life in action.lives[number].items() if key in keys}
    held = {key for key in keys if key not in home or (key in lives and (lives[key].emerged or lives[key].muted))}
    if len(action.ranks[number]):
        ranks = known.ranks.copy()
        ranks[j] = action.ranks[number]
        known = known._replace(ranks=ranks)
    moved = edit.give_back(known, state, keys, home, member, held)
    both = sorted({**chain.life.subclasses, **lives}.items(), key=lambda item: item[1].first.seq)
    life = lifecycle(dict(both), chain.life.delta)
    return chain._replace(known=moved.known, frozen=moved.frozen, state=moved.state, life=life), past


def _homes(chain: Chain, tables: Tables, keys: Sequence[int], sits: np.ndarray, j: int) -> np.ndarray:
    """Say which of the subclasses every table goes to, -1: none, shape (T,).

    As long as the tables stand as they did when the subclasses were named, each goes back to its own. Later those of
    the class with one of their instances go to them; and all do if nothing else is left of the class.
    """
    franchise, known = chain.state.franchise, chain.known
    home = np.full(len(franchise.table_dish), -1)
    if not keys:
        return home
    serving, at = franchise.table_dish == j, tables.table
    stand = bool(np.all(at < len(home)) and np.isin(tables.subclass, keys).all() and serving[at].all())
    if stand and np.array_equal(franchise.table_mass[at], tables.mass):
        home[at] = tables.subclass
        return home
    slots = edit.slots_of(known.ids, keys)
    emptied = known.seated[j, slots].sum() >= known.size[j]
    largest = keys[int(np.argmax(known.dishes.size[slots]))]
    for table in np.flatnonzero(serving):
        guests = sits[chain.state.window.table == table]
        inside, counts = np.unique(guests[np.isin(guests, keys)], return_counts=True)
        if len(inside):
            home[table] = inside[np.argmax(counts)]
        elif emptied:
            home[table] = largest
    return home


def let_go(past: Past, chains: Chains, results: Sequence[BatchResult]) -> Chains:
    """Take instances that have left a named subclass for an emerging one out of its statistics: each counts once.

    Parameters
    ----------
    past
        What is remembered, as it was before the batch.
    chains
        The chains after it.
    results
        What the batch moved in each.
    """
    out = []
    for number, (chain, result) in enumerate(zip(chains, results, strict=True)):
        known = chain.known
        for at in places(past, result.moved).tolist() if known.named else ():
            key = int(past.subclass[number, at]) if at >= 0 else -1
            if key in known.named:
                known = edit.take_out(known, key, past.rows[at], edit.owner_of(known, key))
        out.append(chain if known is chain.known else refreshed(chain, known))
    return tuple(out)


def drop_class(chains: Chains, j: int) -> Chains | None:
    """Drop a class that nothing is left of; ``None``: somebody still sits at its tables."""
    if any((chain.state.franchise.table_dish == j).any() for chain in chains):
        return None
    return tuple(chain._replace(**edit.drop_class(chain.known, chain.state, j)._asdict()) for chain in chains)


def is_empty(chains: Chains, j: int) -> bool:
    """Say whether class j has no instance left in any chain."""
    return not any(chain.known.size[j] for chain in chains)
