"""Candidate new classes: emerging subclasses that belong together, in the caller's units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import numpy as np

from stream_osr.discovery.class_count import Estimate, count_classes, estimate_number
from stream_osr.discovery.grouping import SubclassDistances, agree, gather
from stream_osr.discovery.histories import Lifecycle, SubclassHistory, places_of
from stream_osr.discovery.lifecycle import EXEMPLARS, announced_ids
from stream_osr.model.jit import Array
from stream_osr.model.known import Densities, Known
from stream_osr.model.nearest import nearest_known
from stream_osr.model.restaurants import StreamState
from stream_osr.printable_text import brief, html_table, listed, printable

MOST_NAMES = 6
"""Number of names that a line of text lists."""
SHOWN = 20
"""Number of candidates with a line in the text of :class:`NewClasses`."""


@dataclass(frozen=True, slots=True)
class CandidateClass:
    """Candidate for one new class: emerging subclasses that belong together.

    Attributes
    ----------
    subclasses
        Ids of the subclasses, the largest first. At least one of them has emerged.
    size
        Present number of instances in them.
    share
        Share of the stream so far.
    nearest_class
        Known class nearest to the largest subclass.
    exemplars
        Keys of some of the latest instances, those of the largest subclasses first.
    """

    subclasses: tuple[int, ...]
    size: int
    share: float
    nearest_class: Any
    exemplars: tuple[Any, ...]

    @property
    def name(self) -> str:
        """Name in reports and pages."""
        return name_of(self.subclasses)

    def __str__(self) -> str:
        name, size, share, near, keys = _texts(self)
        text = f"{name}: {size} instances, {share} of the stream, nearest known class {near}"
        return text + (f", as in {keys}" if keys else "")


def _texts(its: CandidateClass) -> tuple[str, str, str, str, str]:
    """Return name, size, share, nearest known class and keys as text."""
    keys = listed([brief(key) for key in its.exemplars if key is not None], MOST_NAMES)
    return its.name, str(its.size), f"{100 * its.share:.1f} %", printable(str(its.nearest_class), 60), keys


@dataclass(frozen=True, slots=True, repr=False)
class NewClasses:
    """Candidate new classes and their estimated number. The text has a line for each candidate.

    Attributes
    ----------
    candidates
        Candidates, the largest first. Groups without an emerged subclass are no candidates.
    number
        Estimated number of new classes, often smaller than that of the candidates: one class may be several.
    delta
        The paper's Delta, equation (14): emerged subclasses divided by the subclasses for each known class.
    low, high
        Smallest and largest plausible number, from the disagreement of chains and counts.
    ungrouped
        Number of recent unknown instances in no emerged subclass, 0 if they are few.

    Examples
    --------
    >>> NewClasses((CandidateClass((11, 14), 30, 0.25, "cement", (7, 9)),), number=1, delta=2, low=1, high=2)
    estimated number of new classes: 1 (1 to 2), candidates: 1
    candidates[0]: S11 and S14: 30 instances, 25.0 % of the stream, nearest known class cement, as in 7, 9
    """

    candidates: tuple[CandidateClass, ...]
    number: int
    delta: int
    low: int = 0
    high: int = 0
    ungrouped: int = 0

    @property
    def estimate(self) -> Estimate:
        """Estimated number with its interval. As text it is ``3 (3 to 4)``, or ``3`` if both limits agree."""
        return Estimate(self.number, self.low, self.high)

    def __repr__(self) -> str:
        lines = [f"candidates[{number}]: {candidate}" for number, candidate in enumerate(self.candidates[:SHOWN])]
        return "\n".join([self._head(), *lines, *self._rest()])

    def _repr_html_(self) -> str:
        head = ("candidate", "instances", "share of the stream", "nearest known class", "keys")
        rows = [_texts(each) for each in self.candidates[:SHOWN]]
        return html_table(head, rows, self._head(), self._rest())

    def _head(self) -> str:
        return f"estimated number of new classes: {self.estimate}, candidates: {len(self.candidates)}"

    def _rest(self) -> list[str]:
        more, n = len(self.candidates) - SHOWN, self.ungrouped
        texts = {f"and {more} smaller ones": more, f"{n} recent instances are unknown, in no group yet": n}
        return [text for text, count in texts.items() if count > 0]


def name_of(ids: Sequence[int]) -> str:
    """Return the name of a candidate from its subclasses, the largest first.

    >>> name_of([11]), name_of([11, 14]), name_of([11, 14, 15, 20, 21])
    ('S11', 'S11 and S14', 'S11, S14 and 3 more')
    """
    first = [f"S{key}" for key in ids[:2]]
    return " and ".join(first) if len(ids) < 3 else f"{', '.join(first)} and {len(ids) - 2} more"


class EmergingSubclasses(NamedTuple):
    """Emerging subclasses of one chain.

    Attributes
    ----------
    known, frozen
        Known classes, and their densities.
    state
        State of the sampler, with the emerging subclasses.
    life
        Histories of the emerging subclasses.
    """

    known: Known
    frozen: Densities
    state: StreamState
    life: Lifecycle


def find_new_classes(
    chains: Sequence[EmergingSubclasses], measured: Sequence[SubclassDistances], seats: Array, labels: Sequence[Any]
) -> NewClasses:
    """Group the first chain's emerging subclasses into candidates, and estimate the number of classes.

    All subclasses of the model take part in the grouping, even those that have not emerged. They connect others, and
    their instances belong to a group. A group is a candidate if at least one subclass has emerged. Only candidates
    count in the number. Muted subclasses only connect others.

    Parameters
    ----------
    chains
        The chains. Ids are those of the first one.
    measured
        Distances in each chain.
    seats
        Id of the emerging subclass of each remembered instance, in each of R chains, shape (R, n). -1: none.
    labels
        Labels of the known classes.
    """
    groups = [gather(one.emerging, one.threshold) for one in measured]
    at = np.array([places_of(chain.state.ids, seat) for chain, seat in zip(chains, seats, strict=True)])
    first = chains[0]
    group = agree(groups, at)
    announced = _announced(group, first)
    ids, size = first.state.ids.tolist(), first.state.dishes.size
    candidates = []
    for number in np.unique(group[announced]):
        slots = np.flatnonzero((group == number) & announced)
        slots = slots[np.argsort(-size[slots], kind="stable")]
        keys = tuple(ids[slot] for slot in slots)
        near = nearest_known(first.state.dishes, int(slots[0]), first.known, first.frozen)
        candidates.append(
            CandidateClass(
                subclasses=keys,
                size=int(size[slots].sum()),
                share=float(size[slots].sum() / max(first.state.seen, 1)),
                nearest_class=labels[near.owner],
                exemplars=_exemplars(keys, first.life.subclasses),
            )
        )
    candidates.sort(key=lambda candidate: (-candidate.size, candidate.subclasses))
    counts = []
    for own, one in zip(groups, chains, strict=True):
        there, size = _announced(own, one), one.state.dishes.size
        if candidates and there.any():
            counts.append(count_classes(own[there], size[there], one.known.dishes.size, len(labels)))
    found = estimate_number(counts)
    return NewClasses(tuple(candidates), found.number, first.life.delta, found.low, found.high)


def _announced(group: Array, chain: EmergingSubclasses) -> Array:
    """Return the mask of subclasses in groups with an emerged one, without settled ones, shape (K,)."""
    life, ids = chain.life, chain.state.ids
    emerged = np.isin(ids, announced_ids(life))
    return np.asarray(np.isin(group, group[emerged]) & ~np.isin(ids, life.ids[life.muted | life.owned]))


def _exemplars(keys: Sequence[int], lives: Mapping[int, SubclassHistory]) -> tuple[Any, ...]:
    """Return the latest key of each subclass in turn, then the ones before, until there are enough."""
    nothing = object()
    latest = [_latest(lives[key]) for key in keys if key in lives]
    turns = chain.from_iterable(zip_longest(*latest, fillvalue=nothing))
    return tuple(key for key in turns if key is not nothing)[:EXEMPLARS]


def _latest(subclass: SubclassHistory) -> Iterable[Any]:
    if not subclass.recent and subclass.kept is not None:
        return subclass.kept.keys
    return [member.moment.key for member in reversed(subclass.recent)]
