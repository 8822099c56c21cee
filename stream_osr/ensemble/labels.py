"""Labels that come while the stream runs, and labels that are taken back, in every chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.config import Label, Parameters
from stream_osr.discovery.lifecycle import without_row
from stream_osr.discovery.lives import only, places_of
from stream_osr.ensemble.actions import Labelling
from stream_osr.ensemble.chain import Chain, Chains, awake, refreshed
from stream_osr.ensemble.past import Past, places, unshared
from stream_osr.model import edit
from stream_osr.model.between import withdraw_aside
from stream_osr.model.edit import Seat
from stream_osr.model.known import Known, learn_labelled
from stream_osr.model.prior import homogeneous


class Earlier(NamedTuple):
    """Where a labelled instance sat: key, place in the stream, that of its batch, its subclass in each chain."""

    key: Any
    seq: int
    batch_seq: int
    subclass: np.ndarray


class Labelled(NamedTuple):
    """A whitened row of shape (d,), its class number, its seat if it was decided before, and when it was asked."""

    j: int
    row: np.ndarray
    earlier: Earlier | None
    number: int


class Taken(NamedTuple):
    """What became of a labelled row in one chain: the subclass, whether it opened a table, its seat before."""

    into: int
    opened: bool
    seat: Seat | None


def learn(chains: Chains, rows: Sequence[Labelled], parameters: Parameters) -> tuple[Chains, list[tuple[Taken, ...]]]:
    """Update the known classes by labelled rows, in order; with what became of each row in each chain."""
    learnt = [_learn(chain, number, rows, parameters) for number, chain in enumerate(chains)]
    return tuple(chain for chain, _ in learnt), list(zip(*(done for _, done in learnt), strict=True))


def _learn(chain: Chain, number: int, rows: Sequence[Labelled], parameters: Parameters) -> tuple[Chain, list[Taken]]:
    before, state, life, aside = chain.known, chain.state, chain.life, chain.aside
    rng = np.random.default_rng([parameters.seed, state.batches, int(before.size.sum()), number])
    known, done = before, []
    for j, row, earlier, _ in rows:
        seat = None
        if earlier is not None:
            weight = 0.5 ** ((state.seen - earlier.batch_seq) / parameters.half_life)
            home = int(earlier.subclass[number])
            seat = edit.seat_of(state, earlier.seq, home, weight)
            state = edit.withdraw(state, row, earlier.seq, home, weight, before.prior)
            life = without_row(life, home, earlier.seq)
            if home in aside.ids:
                aside = withdraw_aside(aside, home, row, before.prior)
            if home in known.ids:  # it was named meanwhile
                known = edit.take_out(known, home, row, edit.owner_of(known, home))
        old = known
        known = learn_labelled(known, homogeneous(row[None])[0], j, rng, state.next_id)
        state = state._replace(next_id=max(state.next_id, int(known.ids.max()) + 1))
        done.append(Taken(*_grown(old, known), seat))
    left = places_of(np.concatenate([state.ids, aside.ids]), life.ids) < 0  # by their last instance
    gone = left & ~life.told_of
    life = only(life, ~gone) if gone.any() else life
    return refreshed(chain._replace(state=state, life=life, aside=aside), known), done


def _grown(before: Known, after: Known) -> tuple[int, bool]:
    """Say which subclass has taken in one instance, and whether a table was opened for it."""
    count = len(before.ids)
    fresh = len(after.ids) > count
    slot = count if fresh else int(np.argmax(after.dishes.size - before.dishes.size))
    return int(after.ids[slot]), bool(after.tables.sum() > before.tables.sum())


def unlearn(chains: Chains, action: Labelling, j: int, row: np.ndarray) -> Chains:
    """Take a labelled row out of the subclass that took it in, wherever that lives now; its home is on the menu."""
    if action.seq >= 0:
        chains = tuple(awake(chain, {home}) for chain, home in zip(chains, action.subclass, strict=True))
    told = zip(chains, action.into, action.opened, strict=True)
    return tuple(_unlearn(chain, into, row, j, opened) for chain, into, opened in told)


def _unlearn(chain: Chain, into: int, row: np.ndarray, j: int, opened: bool) -> Chain:
    if into in chain.known.ids:
        known = edit.take_out(chain.known, into, row, j, float(opened))
        slot = edit.slots_of(known.ids, [into])
        if not known.dishes.size[slot[0]] and into not in known.named:
            known = edit.without_subclasses(known, slot)
        return refreshed(chain, known)
    if into in chain.state.ids:
        return chain._replace(state=edit.withdraw(chain.state, row, -1, into, 0.0, chain.known.prior))
    return chain


def seat_again(
    chains: Chains, past: Past, action: Labelling, labels: Sequence[Label], parameters: Parameters
) -> tuple[Chains, Past]:
    """Seat an instance whose label was taken back where it sat, in each chain where that is left."""
    state = chains[0].state
    seats = [_place(chain, number, action, labels) for number, chain in enumerate(chains)]
    latest = state.seen - int(past.batches[-1]) if len(past.batches) else 0
    first = min([state.seen - parameters.window_after(latest), *state.window_seq[:1].tolist()])
    live = action.seq >= first and all(seat is not None and seat.live for seat in seats)
    share = 0.5 ** ((state.seen - action.seen) / parameters.half_life)
    back = []
    for chain, place, home in zip(chains, seats, action.subclass, strict=True):
        if place is not None:
            if home in chain.known.ids:  # it was named
                owner = edit.owner_of(chain.known, home)
                chain = refreshed(chain, edit.put_in(chain.known, home, action.row, owner))
            weight = share * place.weight
            prior = chain.known.prior
            state = edit.put_back(chain.state, action.row, action.seq, place, weight, live, prior)
            chain = chain._replace(state=state)
        back.append(chain)
    if (at := int(places(past, np.array(action.seq)))) >= 0:
        past, homes = unshared(past), zip(action.subclass, seats, strict=True)
        past.keys[at], past.subclass[:, at] = action.key, [-1 if seat is None else key for key, seat in homes]
    return tuple(back), past


def _place(chain: Chain, number: int, action: Labelling, labels: Sequence[Label]) -> Seat | None:
    """Where a labelled instance may sit again in one chain; None if what held it has gone."""
    home, seat, label = action.subclass[number], action.seats[number], action.classes[number]
    if home in chain.state.ids:
        return seat._replace(subclass=home, j=-1)
    if home in chain.known.ids:
        return seat._replace(subclass=-1, j=edit.owner_of(chain.known, home))
    if home >= 0 or (label is not None and label not in labels):
        return None
    return seat._replace(subclass=-1, j=-1 if label is None else labels.index(label))
