"""Candidate new classes: emerging subclasses that belong together, told in the caller's terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import numpy as np

from stream_osr.discovery import grouping
from stream_osr.discovery.grouping import Distances, Estimate
from stream_osr.discovery.life import Subclass
from stream_osr.discovery.lifecycle import EXEMPLARS, worth_telling
from stream_osr.discovery.lives import Lifecycle, places_of
from stream_osr.model.known import Densities, Known
from stream_osr.model.nearest import nearest_known
from stream_osr.model.restaurant import StreamState
from stream_osr.showing import printable, shown

SHOWN = 20
"""Candidates that have a line of their own in the text of :class:`NewClasses`."""


@dataclass(frozen=True, slots=True)
class CandidateClass:
    """Emerging subclasses that seem to be one new class.

    Attributes
    ----------
    subclasses
        Their identities, the largest first; one of them at least has emerged.
    size
        Instances in them now.
    share
        Their share of the stream so far.
    nearest_class
        Known class nearest to the largest of them.
    exemplars
        Keys of some of their latest instances, those of the largest subclasses first.
    """

    subclasses: tuple[int, ...]
    size: int
    share: float
    nearest_class: Any
    exemplars: tuple[Any, ...]

    @property
    def name(self) -> str:
        """What reports and pages call it."""
        return name_of(self.subclasses)

    def __str__(self) -> str:
        keys = [shown(key) for key in self.exemplars if key is not None]
        return (
            f"{self.name}: {self.size} instances, {self.share:.1%}".replace("%", " %")
            + f" of the stream, nearest known class "
            f"{printable(str(self.nearest_class), 60)}" + (f", as in {_listed(keys)}" if keys else "")
        )


@dataclass(frozen=True, slots=True, repr=False)
class NewClasses:
    """What new classes the stream may hold; as text a line for each candidate.

    Attributes
    ----------
    candidates
        The candidates, the largest first. Subclasses in groups of which none has emerged are in no candidate.
    number
        Estimated number of new classes. Often less than there are candidates: one class may be several of them.
    delta
        The paper's Delta, equation (14): emerged subclasses by the subclasses that a known class has.
    low, high
        From the least to the most that the number may be, as far as the chains and two ways of counting disagree.

    Examples
    --------
    >>> NewClasses((CandidateClass((11, 14), 30, 0.25, "cement", (7, 9)),), number=1, delta=2, low=1, high=2)
    estimated number of new classes: 1 (1 to 2); candidates: 1
    candidates[0]: S11 and S14: 30 instances, 25.0 % of the stream, nearest known class cement, as in 7, 9
    """

    candidates: tuple[CandidateClass, ...]
    number: int
    delta: int
    low: int = 0
    high: int = 0

    @property
    def estimate(self) -> Estimate:
        """The number and its interval; as text ``3 (3 to 4)``, or ``3`` where there is but one answer."""
        return Estimate(self.number, self.low, self.high)

    def __repr__(self) -> str:
        lines = [f"candidates[{number}]: {candidate}" for number, candidate in enumerate(self.candidates[:SHOWN])]
        if len(self.candidates) > SHOWN:
            lines.append(f"and {len(self.candidates) - SHOWN} smaller ones")
        head = f"estimated number of new classes: {self.estimate}; candidates: {len(self.candidates)}"
        return "\n".join([head, *lines])


def name_of(ids: Sequence[int]) -> str:
    """Name a candidate by its subclasses, the largest first.

    >>> name_of([11]), name_of([11, 14]), name_of([11, 14, 15, 20, 21])
    ('S11', 'S11 and S14', 'S11, S14 and 3 more')
    """
    first = [f"S{key}" for key in ids[:2]]
    return " and ".join(first) if len(ids) < 3 else f"{', '.join(first)} and {len(ids) - 2} more"


def _listed(names: Iterable[str], most: int = 6) -> str:
    """List the first of some names, and say how many more there are."""
    first = [*names]
    return ", ".join(first[:most]) + (f" and {len(first) - most} more" if len(first) > most else "")


class Measured(NamedTuple):
    """How far the subclasses of one chain are from each other; kept, it saves time in the next call.

    Attributes
    ----------
    known, emerging
        Distances between the known and between the emerging subclasses.
    threshold
        Up to which distance subclasses belong together.
    """

    known: Distances
    emerging: Distances
    threshold: float


class Emerging(NamedTuple):
    """What one chain has found.

    Attributes
    ----------
    known, frozen
        Known classes.
    state
        The sampler's state, with the emerging subclasses.
    life
        Their lives.
    """

    known: Known
    frozen: Densities
    state: StreamState
    life: Lifecycle


def measure_subclasses(known: Known, state: StreamState, before: Measured | None = None) -> Measured:
    """Measure how far subclasses are from each other; what has not changed since ``before`` is taken over."""
    old = (None, None) if before is None else before[:2]
    trained = grouping.measure(known.ids, known.dishes, known.prior, old[0])
    emerging = grouping.measure(state.ids, state.dishes, known.prior, old[1])
    if before is not None and all(np.array_equal(a, b) for a, b in zip(trained, before.known, strict=True)):
        return Measured(trained, emerging, before.threshold)
    return Measured(trained, emerging, grouping.learn_threshold(trained, known.seated.argmax(axis=0)))


def find_new_classes(
    chains: Sequence[Emerging], measured: Sequence[Measured], seats: np.ndarray, labels: Sequence[Any]
) -> NewClasses:
    """Gather the first chain's emerging subclasses in candidate classes and estimate how many classes they are.

    All subclasses in the model take part in the gathering, those that have not emerged too: they are bridges between
    others, and instances in them belong somewhere. A group is told of if one of its subclasses has emerged, and
    only such groups count in the number. Muted subclasses are bridges and no more.

    Parameters
    ----------
    chains
        The chains; identities are the first one's.
    measured
        Distances in each.
    seats
        Identity of the emerging subclass that each remembered instance sits in, -1: none, in each of R chains,
        shape (R, n).
    labels
        Labels of the known classes.
    """
    groups = [grouping.gather(one.emerging, one.threshold) for one in measured]
    at = np.array([places_of(chain.state.ids, seat) for chain, seat in zip(chains, seats, strict=True)])
    first = chains[0]
    group = grouping.agree(groups, at)
    told = _told(group, first)
    ids, size = first.state.ids.tolist(), first.state.dishes.size
    candidates = []
    for number in np.unique(group[told]):
        slots = np.flatnonzero((group == number) & told)
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
        there, size = _told(own, one), one.state.dishes.size
        if candidates and there.any():
            counts.append(grouping.count_classes(own[there], size[there], one.known.dishes.size, len(labels)))
    found = grouping.estimate_number(counts)
    return NewClasses(tuple(candidates), found.number, first.life.delta, found.low, found.high)


def _told(group: np.ndarray, chain: Emerging) -> np.ndarray:
    """Say which subclasses are in a group of which one has emerged, but for settled ones, shape (K,)."""
    life, ids = chain.life, chain.state.ids
    settled = np.isin(ids, life.ids[life.settled])
    emerged = np.isin(ids, worth_telling(life))
    return np.asarray(np.isin(group, group[emerged]) & ~settled)


def _exemplars(keys: Sequence[int], lives: Mapping[int, Subclass]) -> tuple[Any, ...]:
    """Take the latest key of each subclass in turn, then the ones before, until there are enough."""
    nothing = object()
    latest = [_latest(lives[key]) for key in keys if key in lives]
    turns = chain.from_iterable(zip_longest(*latest, fillvalue=nothing))
    return tuple(key for key in turns if key is not nothing)[:EXEMPLARS]


def _latest(subclass: Subclass) -> Iterable[Any]:
    if not subclass.recent and subclass.kept is not None:
        return subclass.kept.keys
    return [member.moment.key for member in reversed(subclass.recent)]
