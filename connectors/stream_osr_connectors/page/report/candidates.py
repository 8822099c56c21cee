"""What somebody should look at: candidate new classes, with instances that show what they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_osr.discovery.exemplars import choose
from stream_osr.discovery.new_classes import NewClasses, name_of
from stream_osr_connectors.page.report.emerged import Emerged
from stream_osr_connectors.page.report.features import NOTHING, Features
from stream_osr_connectors.page.report.pool import KNOWN, Pool, latest, some, to_look_at

LISTED, LISTED_OF_SMALL = 30, 6
"""Instances listed of each of the largest candidates, and of each of the others."""
LARGEST = 12
"""Candidates that are large."""
FEATURES = 8
"""Features shown of an example."""


class Instance(NamedTuple):
    """An instance: its place in the stream, key, label, probability of unknown, subclass (-1: none), and values."""

    seq: int
    key: str
    label: str
    p_unknown: float
    subclass: int
    values: tuple[Any, ...] = ()


class Examples(NamedTuple):
    """Instances that show what a candidate is.

    Attributes
    ----------
    features
        Names of the features whose values are shown, those first in which the candidate differs most.
    more
        How many features there are beside these.
    core, boundary, known
        The most typical instances, the least surely new ones, and the nearest known ones.
    """

    features: tuple[str, ...]
    more: int
    core: tuple[Instance, ...]
    boundary: tuple[Instance, ...]
    known: tuple[Instance, ...]


class Candidate(NamedTuple):
    """A candidate new class.

    Attributes
    ----------
    number
        From 1, the largest first.
    ids
        Its subclasses, the largest first.
    subclasses
        Those that have been announced.
    size, share
        Instances in it, and their share of the stream (``None``: nobody knows how long it was).
    truth
        True classes of its instances and how many of each, where labels are given; the most frequent first.
    examples
        Instances to look at; ``None``: there are none.
    listed
        Its latest instances and its examples, the latest first.
    instances
        How many instances there are that could be listed.
    command
        What names it.
    """

    number: int
    ids: tuple[int, ...]
    subclasses: tuple[Emerged, ...]
    size: int
    share: float | None
    truth: tuple[tuple[str, int], ...]
    examples: Examples | None
    listed: tuple[Instance, ...]
    instances: int
    command: str

    @property
    def name(self) -> str:
        """What it is called everywhere."""
        return name_of(self.ids)

    @property
    def main(self) -> Emerged:
        """Its largest announced subclass."""
        return self.subclasses[0]


def in_python(ids: Sequence[int]) -> str:
    """Say how a program names subclasses."""
    return f'model.promote([{", ".join(map(str, ids))}], "NAME")'


def gather(
    found: NewClasses | None,
    emerged: Mapping[int, Emerged],
    pool: Pool,
    looked_up: Callable[[NDArray[np.int64]], Features],
    remembered: NDArray[np.bool_] | None,
    command: Callable[[Sequence[int]], str],
) -> tuple[Candidate, ...]:
    """Put the candidates together, the largest first.

    Parameters
    ----------
    found
        What a model says; ``None``: each subclass that somebody has to look at is a candidate.
    emerged
        The emerged subclasses.
    pool
        Instances.
    looked_up
        Gives the features of instances, by their places.
    remembered
        Which instances have features; ``None``: all may.
    command
        Names a candidate, given its subclasses.
    """
    groups = _groups(found, emerged)
    groups.sort(key=lambda group: (-group[1], group[0]))
    members = [pool.members(ids) for ids, _ in groups]
    known = np.flatnonzero(~pool.unknown)
    usable = [_where(remembered, own) for own in members]
    near, tried = some(_where(remembered, known), KNOWN), [to_look_at(pool.p_unknown, own) for own in usable]
    features = looked_up(np.unique(np.concatenate([near, *tried]))) if groups else NOTHING
    out = []
    for number, ((ids, size), own, looked) in enumerate(zip(groups, members, tried, strict=True), start=1):
        own_subclasses = tuple(emerged[key] for key in ids if key in emerged)
        examples = _examples(pool, looked, near, features, own_subclasses[0])
        most = LISTED if number <= LARGEST else LISTED_OF_SMALL
        places = latest(own, most, [] if examples is None else _places(pool, (*examples.core, *examples.boundary)))
        truth = Counter[str]()
        for subclass in own_subclasses:
            truth.update(dict(subclass.truth))
        out.append(
            Candidate(
                number=number,
                ids=ids,
                subclasses=own_subclasses,
                size=size,
                share=size / len(pool.seq) if len(pool.seq) else None,
                truth=tuple(truth.most_common()),
                examples=examples,
                listed=tuple(_instance(pool, place) for place in places.tolist()),
                instances=len(own),
                command=command(ids),
            )
        )
    return tuple(out)


def _groups(found: NewClasses | None, emerged: Mapping[int, Emerged]) -> list[tuple[tuple[int, ...], int]]:
    if found is None:
        return [((key,), each.size) for key, each in emerged.items() if not each.standing]
    groups = [(each.subclasses, each.size) for each in found.candidates]
    return [group for group in groups if any(key in emerged for key in group[0])]


def _where(remembered: NDArray[np.bool_] | None, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Leave out what has no features, unless that is all."""
    kept = places if remembered is None else places[remembered[places]]
    return kept if len(kept) else places


def _places(pool: Pool, instances: Sequence[Instance]) -> list[int]:
    places: list[int] = np.searchsorted(pool.seq, [each.seq for each in instances]).tolist()
    return places


def _examples(
    pool: Pool, own: NDArray[np.int64], near: NDArray[np.int64], features: Features, main: Emerged
) -> Examples | None:
    if not len(own):
        return None
    here, there = ([place for place in places.tolist() if place in features.table] for places in (own, near))
    if here:
        table, p = [features.table[place] for place in here], pool.p_unknown[here]
        core, boundary, known = choose(table, p, [features.table[place] for place in there])
    else:  # by their probability alone
        here, p = own.tolist(), pool.p_unknown[own]
        core, boundary, known = choose(np.empty((len(here), 0)), p, [])
    moved = [shift.feature for shift in main.shifts if shift.feature in features.names]
    ordered = list(dict.fromkeys([*moved, *features.names]))
    shown = [features.names.index(name) for name in ordered[:FEATURES]]

    def told(places: list[int], chosen: NDArray[np.int64]) -> tuple[Instance, ...]:
        return tuple(_instance(pool, places[at], features, shown) for at in chosen.tolist())

    names = tuple(features.names[at] for at in shown) if any(place in features.values for place in here) else ()
    return Examples(
        names,
        len(features.names) - len(names) if names else 0,
        told(here, core),
        told(here, boundary),
        told(there, known),
    )


def _instance(pool: Pool, place: int, features: Features = NOTHING, shown: Sequence[int] = ()) -> Instance:
    values = features.values.get(place, (None,) * len(features.names))
    unknown = bool(pool.unknown[place])
    return Instance(
        seq=int(pool.seq[place]),
        key=pool.name(place),
        label=pool.names[int(pool.label[place])],
        p_unknown=float(pool.p_unknown[place]),
        subclass=int(pool.subclass[place]) if unknown else -1,
        values=tuple(values[at] for at in shown),
    )
