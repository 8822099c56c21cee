"""Candidate new classes: emerging subclasses that belong together, told in the caller's terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import numpy as np

from stream_osr.discovery.explain import nearest_known
from stream_osr.discovery.grouping import Distances, estimate_number, gather, learn_threshold, measure
from stream_osr.discovery.lifecycle import EXEMPLARS, Lifecycle, Subclass
from stream_osr.hdp.known import Densities, Known
from stream_osr.hdp.restaurant import StreamState


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


@dataclass(frozen=True, slots=True)
class NewClasses:
    """What new classes the stream may hold.

    Attributes
    ----------
    candidates
        The candidates, the largest first. Subclasses in groups of which none has emerged are in no candidate.
    number
        Estimated number of new classes. Often less than there are candidates: one class may be several of them.
    delta
        The paper's estimate of it, equation (14).
    """

    candidates: tuple[CandidateClass, ...]
    number: int
    delta: int


class Measured(NamedTuple):
    """What one call leaves behind to save time in the next one.

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


def measure_subclasses(known: Known, state: StreamState, before: Measured | None = None) -> Measured:
    """Measure how far subclasses are from each other; what has not changed since ``before`` is taken over."""
    trained = measure(known.ids, known.dishes, known.prior, None if before is None else before.known)
    emerging = measure(state.ids, state.dishes, known.prior, None if before is None else before.emerging)
    if before is not None and all(np.array_equal(a, b) for a, b in zip(trained, before.known, strict=True)):
        return Measured(trained, emerging, before.threshold)
    return Measured(trained, emerging, learn_threshold(trained, known.seated.argmax(axis=0)))


def find_new_classes(
    measured: Measured,
    known: Known,
    frozen: Densities,
    state: StreamState,
    life: Lifecycle,
    labels: Sequence[Any],
) -> NewClasses:
    """Gather the emerging subclasses in candidate classes and estimate how many classes they are.

    All subclasses in the model take part in the gathering, those that have not emerged too: they are bridges between
    others, and instances in them belong somewhere. A group is told of if one of its subclasses has emerged, and
    only such groups count in the number.
    """
    group = gather(measured.emerging, measured.threshold)
    ids, size = state.ids.tolist(), state.dishes.size
    emerged = np.array([key in life.subclasses and life.subclasses[key].emerged for key in ids], bool)
    told = np.isin(group, group[emerged])
    candidates = []
    for number in np.unique(group[told]):
        slots = np.flatnonzero(group == number)
        slots = slots[np.argsort(-size[slots], kind="stable")]
        keys = tuple(ids[slot] for slot in slots)
        near = nearest_known(state.dishes, int(slots[0]), known, frozen)
        candidates.append(
            CandidateClass(
                subclasses=keys,
                size=int(size[slots].sum()),
                share=float(size[slots].sum() / max(state.seen, 1)),
                nearest_class=labels[near.owner],
                exemplars=_exemplars(keys, life.subclasses),
            )
        )
    candidates.sort(key=lambda candidate: (-candidate.size, candidate.subclasses))
    number = estimate_number(group[told], size[told], known.dishes.size, len(labels))
    return NewClasses(tuple(candidates), number, life.delta)


def _exemplars(keys: Sequence[int], lives: Mapping[int, Subclass]) -> tuple[Any, ...]:
    """Take the latest key of each subclass in turn, then the ones before, until there are enough."""
    nothing = object()
    latest = [reversed(lives[key].exemplars) for key in keys if key in lives]
    turns = chain.from_iterable(zip_longest(*latest, fillvalue=nothing))
    return tuple(key for key in turns if key is not nothing)[:EXEMPLARS]
