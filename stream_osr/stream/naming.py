"""Naming and muting of emerging subclasses, in every chain.

People use the leader's identities. Subclasses in another chain that stand for the same instances change with them
(:func:`counterparts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

import numpy as np

from stream_osr.discovery.event_base import Event, Moment
from stream_osr.discovery.events import SubclassMuted, SubclassPromoted
from stream_osr.discovery.histories import SubclassHistory, lifecycle, with_lives, without_lives
from stream_osr.errors import InvalidSubclass, NothingToJudge
from stream_osr.model import class_edits, edit
from stream_osr.model.dish_statistics import log_predictives
from stream_osr.model.known import log_densities
from stream_osr.model.nearest import typical_rows
from stream_osr.model.prior import homogeneous
from stream_osr.parameters import Label, Parameters
from stream_osr.printable_text import typed
from stream_osr.stream.announcements import about, describe, estimate_anew
from stream_osr.stream.chain import Chain, awake
from stream_osr.stream.class_shift import class_shifts
from stream_osr.stream.frame import judged
from stream_osr.stream.new_class_references import with_references
from stream_osr.stream.recent_instances import RecentInstances, began, remembered, unshared
from stream_osr.stream.state import Stream, widen
from stream_osr.stream.undo_log import FrameVerdict, MovedTables, Muting, Promotion, record
from stream_osr.support.parallel import one_thread
from stream_osr.training.trained import TrainedModel

Keys = Sequence[Sequence[int]]
"""Identities in each chain."""


def promote(
    trained: TrainedModel,
    stream: Stream,
    subclass_ids: Iterable[int],
    label: Label,
    parameters: Parameters,
    number: int = 0,
) -> tuple[Stream, list[Event]]:
    """Make emerging subclasses part of a known class, with all their instances.

    Parameters
    ----------
    trained
        The trained model.
    stream
        The stream so far. It does not change.
    subclass_ids
        Identities, in the leader.
    label
        Label of the class. A new label opens a class.
    parameters
        Settings.
    number
        Place in the order of commands to the stream.

    Returns
    -------
    The next stream, and the events.

    Raises
    ------
    InvalidSubclass
        If an id is not that of an emerging subclass.
    """
    with one_thread():
        keys = _checked(stream, subclass_ids, "promoted")
        stream = _awake(stream, keys)
        common = about(trained, stream.state)
        found: list[Event] = [SubclassPromoted(label=label, **_facts(trained, stream, key), **common) for key in keys]
        stream, subclasses = _with_counterparts(stream, keys, parameters.half_life)
        action = _promotion(number, label, stream, subclasses)
        stream = adopt(stream._replace(undo_log=record(stream.undo_log, [action])), subclasses, label)
        return with_estimate(trained, with_references(trained, stream), found)


def mute(
    trained: TrainedModel, stream: Stream, subclass_ids: Iterable[int], number: int = 0
) -> tuple[Stream, list[Event]]:
    """Stop reporting emerging subclasses, whose instances stay unknown. Arguments as for :func:`promote`."""
    keys = _checked(stream, subclass_ids, "muted")
    stream = _awake(stream, keys)
    for key in keys:
        if key in stream.life.subclasses and stream.life.subclasses[key].muted:
            raise InvalidSubclass(f"subclass {key} is muted already and causes no events")
    common = about(trained, stream.state)
    events: list[Event] = [SubclassMuted(**_facts(trained, stream, key), **common) for key in keys]
    subclasses = counterparts(stream, keys)
    stream = with_muted(stream, subclasses, muted=True)
    return with_estimate(
        trained, stream._replace(undo_log=record(stream.undo_log, [Muting(number, subclasses)])), events
    )


def judge_frame(stream: Stream, number: int = 0, *, accept: bool) -> Stream:
    """Accept or reject the present place of the known classes (:func:`.frame.judged`)."""
    if stream.frame is None:
        raise NothingToJudge("the model has no references or no numbers, so that no move of all classes can be found")
    action = FrameVerdict(number, *(getattr(stream.frame, name) for name in FrameVerdict._fields[1:]))
    log = record(stream.undo_log, [action])
    return stream._replace(frame=judged(stream.frame, accept=accept), undo_log=log)


def with_estimate(trained: TrainedModel, stream: Stream, events: Sequence[Event]) -> tuple[Stream, list[Event]]:
    """Update the number of new classes. The leader reports it after the given events."""
    leader, changed = estimate_anew(trained, stream.chains[0], about(trained, stream.state))
    return stream.led_by(leader), [*events, *changed]


def adopt(stream: Stream, subclasses: Keys, label: Label) -> Stream:
    """Make these emerging subclasses of every chain part of the class with this label, which may be new."""
    j = stream.labels.index(label) if label in stream.labels else len(stream.labels)
    own = enumerate(zip(stream.chains, subclasses, strict=True))
    adopted = (_adopt(chain, stream.recent, number, keys, j) for number, (chain, keys) in own)
    stream = stream._replace(chains=tuple(adopted))
    if j < len(stream.labels):
        return stream
    waiting = widen(stream.waiting, j + 1)
    members = np.isin(waiting.subclass, subclasses[0])
    slot_of = {key: slot for slot, key in enumerate(stream.known.ids.tolist())}
    waiting.responsible[members, -1] = [slot_of[key] for key in waiting.subclass[members].tolist()]
    decided = (*stream.decided[:-1], 0, stream.decided[-1])
    return stream._replace(labels=(*stream.labels, label), waiting=waiting, decided=decided)


def _adopt(chain: Chain, recent: RecentInstances, number: int, keys: Sequence[int], j: int) -> Chain:
    before = chain.known.size[j] if j < len(chain.known.size) else 0.0
    own = np.isin(recent.subclass[number], keys)
    rows, held_by = recent.rows[own], recent.subclass[number, own]
    known, frozen, state = class_edits.adopt(chain.known, chain.state, keys, j, rows)
    ranks, new = known.ranks.copy(), float(known.size[j] - before)
    ranks[j] = class_edits.rank_levels(known, frozen, j, rows, held_by, new)
    life = without_lives(chain.life, keys)
    return chain._replace(known=known._replace(ranks=ranks), frozen=frozen, state=state, life=life)


def _checked(stream: Stream, subclass_ids: Iterable[int], done: str) -> tuple[int, ...]:
    """Check that these are ids of emerging subclasses, and return each once, in order."""
    if isinstance(subclass_ids, str) or not isinstance(subclass_ids, Iterable):
        raise InvalidSubclass(f"subclass_ids is {typed(subclass_ids)}: expected a list of ids, such as [7]")
    keys: list[int] = []
    for key in subclass_ids:
        try:
            keys.append(index(key))
        except TypeError:
            raise InvalidSubclass(f"subclass id is {typed(key)}: expected whole numbers, such as [7]") from None
    if not keys:
        raise InvalidSubclass(f"no subclass id was given. Give the subclasses to be {done}, such as [7]")
    known, emerging = stream.known, [*stream.state.ids.tolist(), *stream.chains[0].dormant.ids.tolist()]
    for key in keys:
        if key in emerging:
            continue
        if key in known.ids:
            label = stream.labels[class_edits.owner_of(known, key)]
            raise InvalidSubclass(
                f"subclass {key} belongs to the known class {label!r}. Only emerging subclasses can be {done}"
            )
        what = "has left the model" if 0 <= key < stream.state.next_id else "does not exist"
        there = ", ".join(map(str, sorted(emerging))) or "none"
        raise InvalidSubclass(
            f"subclass {key} {what}. The emerging subclasses are: {there} (summary() has their sizes)"
        )
    return tuple(dict.fromkeys(keys))


def _facts(trained: TrainedModel, stream: Stream, key: int) -> dict[str, Any]:
    first = stream.chains[0]
    life = with_lives(first.life, {key: _life_of(stream, 0, key)})
    return describe(trained, stream.labels, first._replace(life=life), key)


def _life_of(stream: Stream, number: int, key: int) -> SubclassHistory:
    """History of a subclass, made from the remembered instances if no instance has arrived in it."""
    known, recent = stream.chains[number].life.subclasses.get(key), stream.recent
    if known is not None:
        return known
    at = remembered(recent, number, key)
    if not len(at):
        now = Moment(stream.state.seen - 1, None, None)
        return SubclassHistory(now, now)
    first, last = (Moment(recent.seq + end, recent.times[end], recent.keys[end]) for end in at[[0, -1]].tolist())
    return SubclassHistory(first, last)


def with_muted(stream: Stream, subclasses: Keys, *, muted: bool) -> Stream:
    """Stop reporting these subclasses, or resume."""
    out = []
    for number, (chain, keys) in enumerate(zip(stream.chains, subclasses, strict=True)):
        there = [key for key in keys if key in chain.state.ids]
        changed = {key: _life_of(stream, number, key)._replace(muted=muted) for key in there}
        out.append(chain._replace(life=with_lives(chain.life, changed)))
    return stream._replace(chains=tuple(out))


def counterparts(stream: Stream, keys: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Find in every chain the emerging subclasses that stand for the same instances as these of the leader.

    A subclass counts if more than half of the remembered instances in it sit in these subclasses of the leader. For a
    subclass without remembered instances its mean decides. There may be none.
    """
    (leader, *others), seats = stream.chains, stream.recent.subclass
    found = [tuple(keys)]
    for chain, own in zip(others, seats[1:], strict=True):
        ids = chain.state.ids
        stand = [
            _nearest(leader, chain, slot) in keys if stands is None else stands
            for slot, stands in enumerate(_standing(ids, own, np.isin(seats[0], keys)))
        ]
        found.append(tuple(ids[stand].tolist()))
    return tuple(found)


def _standing(ids: np.ndarray, seats: np.ndarray, mask: np.ndarray) -> list[bool | None]:
    """Return whether most remembered instances of each subclass are inside, or ``None`` if it has none."""
    members = [seats == key for key in ids.tolist()]
    return [2 * int((own & mask).sum()) > int(own.sum()) if own.any() else None for own in members]


def _nearest(first: Chain, chain: Chain, slot: int) -> int:
    """Emerging subclass of the leader that is densest at the mean of a subclass of another chain, -1 if none is."""
    mean = homogeneous(typical_rows(chain.state.dishes, chain.known.prior)[[slot]])
    known, _, new = log_densities(first.known, first.frozen, mean)
    emerging = log_predictives(mean, first.state.dishes, first.known.prior)[0]
    best = int(np.argmax(emerging))
    return int(first.state.ids[best]) if emerging[best] > max(known.max(), new[0]) else -1


def _with_counterparts(
    stream: Stream, keys: Sequence[int], half_life: float
) -> tuple[Stream, tuple[tuple[int, ...], ...]]:
    """Find the counterparts. A chain without any gets subclasses like those of the leader."""
    subclasses, chains, recent = list(counterparts(stream, keys)), list(stream.chains), stream.recent
    for number in range(1, len(chains)):
        if not subclasses[number]:
            first = chains[number].state.next_id
            subclasses[number] = tuple(range(first, first + len(keys)))
            for key in keys:
                chains[number], recent = _split_off(chains[0], chains[number], number, recent, key, half_life)
    return stream._replace(chains=tuple(chains), recent=recent), tuple(subclasses)


def _split_off(
    first: Chain, chain: Chain, number: int, recent: RecentInstances, key: int, half_life: float
) -> tuple[Chain, RecentInstances]:
    """Gather the instances of a subclass of the leader, wherever another chain seats them."""
    state, slot = first.state, int(class_edits.slots_of(first.state.ids, [key])[0])
    dishes = edit.restated(state.dishes, slot, first.known.prior, chain.known.prior)
    at = np.flatnonzero((recent.subclass[0] == key) & ~np.isin(recent.subclass[number], chain.known.ids))
    weight = np.array([0.5 ** ((state.seen - first) / half_life) for first in began(recent, at).tolist()], float)
    home, prior = recent.subclass[number, at], chain.known.prior
    moved = edit.gather_seats(chain.state, dishes, recent.rows[at], recent.seq + at, home, weight, prior)
    recent = unshared(recent)
    recent.subclass[number, at] = chain.state.next_id
    return chain._replace(state=moved), recent


def _awake(stream: Stream, keys: Sequence[int]) -> Stream:
    """Return these dormant subclasses to the menu, with their counterparts in the followers."""
    (leader, *others), seats = stream.chains, stream.recent.subclass
    members, woken = np.isin(seats[0], keys), [awake(leader, keys)]
    for chain, own in zip(others, seats[1:], strict=True):
        ids = chain.dormant.ids
        stand = zip(ids.tolist(), _standing(ids, own, members), strict=True)
        woken.append(awake(chain, [key for key, stands in stand if stands]))
    return stream._replace(chains=tuple(woken))


def _promotion(number: int, label: Label, stream: Stream, subclasses: tuple[tuple[int, ...], ...]) -> Promotion:
    """Record the inverse of a promotion before the promotion takes place."""
    chains, j = stream.chains, stream.labels.index(label) if label in stream.labels else -1
    shifts = np.pad(class_shifts(stream), ((0, 1), (0, 0)))  # that of a class to be opened comes last
    lives = [chain.life.subclasses for chain in chains]
    return Promotion(
        number,
        label,
        subclasses,
        tuple(chain.known.ranks[j] if j >= 0 else np.zeros(0) for chain in chains),
        tuple(lifecycle({k: of[k] for k in own if k in of}) for of, own in zip(lives, subclasses, strict=True)),
        tuple(_tables(chain, own) for chain, own in zip(chains, subclasses, strict=True)),
        None if stream.class_shift is None else shifts[j],
    )


def _tables(chain: Chain, keys: Sequence[int]) -> MovedTables:
    """Tables that serve these emerging subclasses."""
    state, franchise = chain.state, chain.state.franchise
    served = franchise.table_dish - (len(franchise.menu) - len(state.ids))
    subclass = np.append(-1, state.ids)[np.maximum(served, -1) + 1]
    at = np.flatnonzero(np.isin(subclass, keys))
    guests = np.flatnonzero(np.isin(state.window.table, at))
    held_by = subclass[state.window.table[guests]]
    return MovedTables(at, subclass[at], franchise.table_mass[at], state.window_seq[guests], held_by)
