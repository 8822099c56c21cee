"""The candidates of the page: those of the model in its checkpoint, and what has been announced since."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from stream_osr_connectors.page.live.held import Subclass
from stream_osr_connectors.page.live.state import State

SETTLED = ("named", "muted")


class Gathered(NamedTuple):
    """Candidates, each with its subclasses, and subclasses that are settled, with status and label of each."""

    candidates: Sequence[Sequence[Subclass]]
    settled: Sequence[tuple[Subclass, str, str | None]]


def gather(state: State, inside: Mapping[str, Any], named: Mapping[str, tuple[str, str | None]]) -> Gathered:
    """Gather subclasses in candidates.

    The model says which subclasses are one candidate, and in which order candidates stand, the largest first. Where
    there is no model each subclass is a candidate, and so is one that was announced after the checkpoint, or whose
    name was taken back.

    Parameters
    ----------
    state
        What decisions and events tell.
    inside
        ``candidates`` of the checkpoint's model, as names of subclasses; ``sizes`` of subclasses; ``decided`` and
        ``seen``: how many instances it had decided and seen.
    named
        Status and label of subclasses of which people have said something.
    """
    settled, waiting = [], dict[str, Subclass]()
    for held in state.every_subclass():
        status, label = named.get(held.id, (held.status, held.label))
        if status in SETTLED:
            settled.append((held, status, label))
        elif status != "gone":
            waiting[held.id] = held
    settled.sort(key=lambda one: (SETTLED.index(one[1]), -one[0].recent, -one[0].n))
    groups, told = [], set[str]()
    for ids in inside.get("candidates") or ():
        told |= {*ids}
        if not waiting.keys().isdisjoint(ids):
            those = [waiting.get(id) or _found(state, id) for id in ids]
            # those that have not been announced belong to it, too
            groups.append([held for held in those if held.id in waiting or not held.announced])
    behind = all(track.seq + 1 < inside.get("decided", 0) for track in state.tracks)
    no_model = "candidates" not in inside
    alone = [
        held
        for id, held in waiting.items()
        if id not in told and (no_model or behind or held.told_at >= inside.get("seen", 0) or id in named)
    ]
    alone.sort(key=lambda held: (-max(held.size, held.n), held.key))
    return Gathered([*groups, *([held] for held in alone)], settled)


def _found(state: State, id: str) -> Subclass:
    """Find a subclass that was not announced; no decision may have named it, as instances change their subclass."""
    found = state.find(id)
    return found if isinstance(found, Subclass) else Subclass(id, int(id), 0)


def sizes_in(state: State, inside: Mapping[str, Any]) -> Callable[[Subclass], int]:
    """Say how to find the size of a subclass: as the model has it, until decisions are newer than the checkpoint."""
    sizes, decided = inside.get("sizes") or {}, inside.get("decided", 0)
    at_rest = all(track.seq + 1 <= decided for track in state.tracks)

    def size(held: Subclass) -> int:
        own, known = max(held.size, held.n), sizes.get(held.id)
        return own if known is None else int(known) if at_rest else max(int(known), own)

    return size


def status_of(some: Sequence[Subclass]) -> str:
    """Say how a candidate is: quiet only if all of it is."""
    found = {held.status for held in some}
    return "recurred" if "recurred" in found else "dormant" if found == {"dormant"} else "emerging"
