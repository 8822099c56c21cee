"""Candidate new classes, their examples, and the highlights of a report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_osr.discovery.exemplars import choose
from stream_osr.discovery.explain import values_of
from stream_osr.discovery.new_classes import name_of
from stream_osr.errors import ConnectorError
from stream_osr.printable_text import counted
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.stream import Stream
from stream_osr.training.trained import TrainedModel
from stream_osr_connectors.page.formatting import percent
from stream_osr_connectors.page.report.class_summary import EmergedSubclass
from stream_osr_connectors.page.report.decisions_table import (
    KNOWN_PLACES,
    DecisionsTable,
    Reason,
    evenly_spaced,
    example_places,
    latest,
)
from stream_osr_connectors.page.report.events_section import RecallSection

Instances: TypeAlias = Iterable[tuple[Any, Mapping[Any, Any]]]
"""Key (or ``None``) and features of each instance."""


class FeatureTable(NamedTuple):
    """Features of some decisions.

    Attributes
    ----------
    names
        Names of the features.
    values
        Values by the place of the decision.
    table
        The same as numbers for distances, shape (d,) each, nan for no number.
    """

    names: tuple[str, ...]
    values: Mapping[int, tuple[Any, ...]]
    table: Mapping[int, NDArray[np.float64]]


NO_FEATURES = FeatureTable((), {}, {})


def remembered_places(decided: DecisionsTable, stream: Stream) -> NDArray[np.bool_]:
    """Return whether the model's memory has each decided instance, shape (n,)."""
    at = decided.seq - stream.recent.seq
    return np.asarray((at >= 0) & (at < len(stream.recent.keys)))


def remembered_features(
    decided: DecisionsTable, wanted: NDArray[np.int64], trained: TrainedModel, stream: Stream
) -> FeatureTable:
    """Read the features of some decisions from the model's memory."""
    wanted = wanted[remembered_places(decided, stream)[wanted]]
    rows = stream.recent.rows[decided.seq[wanted] - stream.recent.seq]
    columns = values_of(rows, trained.whitening, trained.names, trained.categories)
    values = dict(zip(wanted.tolist(), zip(*columns.values(), strict=True), strict=True)) if columns else {}
    measured = rows[:, len(trained.whitening.places) :]  # whitened numbers: distances are those of the model
    return FeatureTable(
        tuple(str(name) for name in columns), values, dict(zip(wanted.tolist(), measured, strict=True))
    )


def given_features(decided: DecisionsTable, wanted: NDArray[np.int64], instances: Instances) -> FeatureTable:
    """Find the features of some decisions in records, by key, or in order if records have no keys.

    Records with the same key belong to the decisions with that key, in order.

    Raises
    ------
    ConnectorError
        If the number of records without keys differs from the number of decisions, or no key matches.
    """
    by_key = _occurrences(decided, wanted)
    places = set(wanted.tolist())
    found: dict[int, Mapping[Any, Any]] = {}
    seen: Counter[str] = Counter()
    keyed, count = False, 0
    for count, (key, features) in enumerate(instances, start=1):  # counted
        if key is None:
            if count - 1 in places:
                found[count - 1] = features
            continue
        keyed, text = True, str(key)
        if text in by_key:
            at = seen[text]
            seen[text] += 1
            if at < len(by_key[text]) and (place := by_key[text][at]) in places:
                found[place] = features
    if not keyed and count != len(decided):
        raise ConnectorError(
            f"found {counted(len(decided), 'decision')} and {counted(count, 'record')} of --input. "
            "Add --key COLUMN to match records and decisions by key"
        )
    for text, own in by_key.items():
        if keyed and seen[text] != len(own):  # some were not decided, and nobody knows which
            for place in own:
                found.pop(place, None)
    if keyed and len(places) and not found:
        raise ConnectorError(
            f"none of the {count} records of --input has the key of a shown instance. Give --key with the "
            "column of keys that `run` used, or omit it if there was none"
        )
    names = tuple(dict.fromkeys(name for features in found.values() for name in features))
    values = {place: tuple(features.get(name) for name in names) for place, features in found.items()}
    return FeatureTable(
        tuple(str(name) for name in names),
        values,
        {place: np.array([_number(value) for value in row], float) for place, row in values.items()},
    )


def _occurrences(decided: DecisionsTable, wanted: NDArray[np.int64]) -> dict[str, list[int]]:
    """Return all places of the keys of some decisions."""
    out: dict[str, list[int]] = {text: [] for place in wanted.tolist() if (text := decided.name(place))}
    if out:
        for place in range(len(decided)):
            if (own := out.get(decided.name(place))) is not None:
                own.append(place)
    return out


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


LISTED, LISTED_OF_SMALL = 30, 6
"""Most instances in the list of a large candidate, and of a small one."""
LARGEST = 12
"""Number of candidates that count as large."""
FEATURES = 8
"""Most features of an example."""


class ShownInstance(NamedTuple):
    """An instance: position, key, label, probability of unknown, subclass (-1 for none), contributions and values."""

    seq: int
    key: str
    label: str
    p_unknown: float
    subclass: int
    reasons: tuple[Reason, ...] = ()
    values: tuple[Any, ...] = ()


class ExampleSet(NamedTuple):
    """Examples of a candidate.

    Attributes
    ----------
    features
        Names of the shown features, those that differ most first.
    more
        Number of features that are not shown.
    core, boundary, known
        Typical instances, doubtful ones, and the nearest instances of known classes.
    """

    features: tuple[str, ...]
    more: int
    core: tuple[ShownInstance, ...]
    boundary: tuple[ShownInstance, ...]
    known: tuple[ShownInstance, ...]


class CandidateSection(NamedTuple):
    """A candidate new class.

    Attributes
    ----------
    number
        Number of the candidate, from 1. The largest is first.
    ids
        Ids of the subclasses, the largest first.
    subclasses
        Announced subclasses.
    size, share
        Number of instances, and their share of the stream (``None`` if its length is unknown).
    truth
        True classes with their counts, the most frequent first. Empty without labels.
    examples
        Examples, or ``None``.
    listed
        The latest instances and the examples, newest first.
    instances
        Number of instances that could be listed.
    command
        The command that names the candidate.
    """

    number: int
    ids: tuple[int, ...]
    subclasses: tuple[EmergedSubclass, ...]
    size: int
    share: float | None
    truth: tuple[tuple[str, int], ...]
    examples: ExampleSet | None
    listed: tuple[ShownInstance, ...]
    instances: int
    command: str

    @property
    def name(self) -> str:
        """Name of the candidate on the page."""
        return name_of(self.ids)

    @property
    def main(self) -> EmergedSubclass:
        """The largest announced subclass."""
        return self.subclasses[0]


def in_python(ids: Sequence[int]) -> str:
    """Return the Python code that names subclasses."""
    return f'model.promote([{", ".join(map(str, ids))}], "NAME")'


def candidate_sections(
    model: OpenSetRecognizer | None,
    emerged: Mapping[int, EmergedSubclass],
    decided: DecisionsTable,
    instances: Instances | None,
    command: Callable[[Sequence[int]], str],
) -> tuple[CandidateSection, ...]:
    """Find the candidates and their examples, the largest first.

    Parameters
    ----------
    model
        The model that supplies the candidates. With ``None``, each unsettled subclass is a candidate.
    emerged
        Emerged subclasses.
    decided
        Instances.
    instances
        Features of the instances, or ``None`` to show the values in the model's memory.
    command
        A function that returns the command that names a candidate, given its subclasses.
    """
    groups = sorted(_groups(model, emerged), key=lambda group: (-group[1], group[0]))
    members = [decided.members(ids) for ids, _ in groups]
    known = np.flatnonzero(~decided.unknown)
    remembered = None
    if model is not None and instances is None:
        remembered = remembered_places(decided, model.value.running[1])
    usable = [_where(remembered, own) for own in members]
    near = evenly_spaced(_where(remembered, known), KNOWN_PLACES)
    tried = [example_places(decided.p_unknown, own) for own in usable]
    wanted = np.unique(np.concatenate([near, *tried]))
    features = _features(model, decided, wanted, instances) if groups else NO_FEATURES
    out = []
    for number, ((ids, size), own, looked) in enumerate(zip(groups, members, tried, strict=True), start=1):
        own_subclasses = tuple(emerged[key] for key in ids if key in emerged)
        examples = _examples(decided, looked, near, features, own_subclasses[0])
        most = LISTED if number <= LARGEST else LISTED_OF_SMALL
        picked = [] if examples is None else [each.seq for each in (*examples.core, *examples.boundary)]
        places = latest(own, most, np.searchsorted(decided.seq, picked).tolist())
        truth = sum((Counter(dict(subclass.truth)) for subclass in own_subclasses), Counter[str]()).most_common()
        share = size / len(decided) if len(decided) else None
        listed = tuple(_instance(decided, place) for place in places.tolist())
        described = number, ids, own_subclasses, size, share, tuple(truth), examples, listed, len(own), command(ids)
        out.append(CandidateSection(*described))
    return tuple(out)


def _features(
    model: OpenSetRecognizer | None, decided: DecisionsTable, wanted: NDArray[np.int64], instances: Instances | None
) -> FeatureTable:
    if instances is not None:
        return given_features(decided, wanted, instances)
    return NO_FEATURES if model is None else remembered_features(decided, wanted, *model.value.running)


def _groups(
    model: OpenSetRecognizer | None, emerged: Mapping[int, EmergedSubclass]
) -> list[tuple[tuple[int, ...], int]]:
    if model is None or not model.value.running[1].state.seen:
        return [((key,), each.size) for key, each in emerged.items() if not each.settlement]
    groups = [(each.subclasses, each.size) for each in model.new_classes().candidates]
    return [group for group in groups if any(key in emerged for key in group[0])]


def _where(remembered: NDArray[np.bool_] | None, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Remove places without features, unless no place remains."""
    kept = places if remembered is None else places[remembered[places]]
    return kept if len(kept) else places


def _examples(
    decided: DecisionsTable,
    own: NDArray[np.int64],
    near: NDArray[np.int64],
    features: FeatureTable,
    main: EmergedSubclass,
) -> ExampleSet | None:
    if not len(own):
        return None
    here, there = ([place for place in places.tolist() if place in features.table] for places in (own, near))
    if here:
        table, p = [features.table[place] for place in here], decided.p_unknown[here]
        core, boundary, known = choose(table, p, [features.table[place] for place in there])
    else:  # by their probability alone
        here, p = own.tolist(), decided.p_unknown[own]
        core, boundary, known = choose(np.empty((len(here), 0)), p, [])
    moved = [shift.feature for shift in main.shifts if shift.feature in features.names]
    ordered = list(dict.fromkeys([*moved, *features.names]))
    picked = [features.names.index(name) for name in ordered[:FEATURES]]

    def reported(places: list[int], chosen: NDArray[np.int64]) -> tuple[ShownInstance, ...]:
        return tuple(_instance(decided, places[at], features, picked) for at in chosen.tolist())

    names = tuple(features.names[at] for at in picked) if any(place in features.values for place in here) else ()
    more = len(features.names) - len(names) if names else 0
    return ExampleSet(names, more, reported(here, core), reported(here, boundary), reported(there, known))


def _instance(
    decided: DecisionsTable, place: int, features: FeatureTable = NO_FEATURES, picked: Sequence[int] = ()
) -> ShownInstance:
    values = features.values.get(place, (None,) * len(features.names))
    unknown = bool(decided.unknown[place])
    return ShownInstance(
        seq=int(decided.seq[place]),
        key=decided.name(place),
        label=decided.names[int(decided.label[place])],
        p_unknown=float(decided.p_unknown[place]),
        subclass=int(decided.subclass[place]) if unknown else -1,
        reasons=decided.reasons(place),
        values=tuple(values[at] for at in picked),
    )


MOST_HIGHLIGHTS = 3
"""Most highlights."""
PLENTY = 0.05
"""Share of the stream above which unknown instances in no candidate are a highlight."""


class Highlight(NamedTuple):
    """An item to check: its name, the rest of the sentence, and the section that shows it."""

    name: str
    reported: str
    where: str


class Highlights(NamedTuple):
    """Items to check first.

    Attributes
    ----------
    things
        The highlights, the most urgent first.
    more
        Number of other candidates.
    """

    things: tuple[Highlight, ...]
    more: int


def choose_highlights(
    candidates: Sequence[CandidateSection], recall: RecallSection, events: Iterable[Mapping[str, Any]], loose: float
) -> Highlights:
    """Choose the highlights.

    Parameters
    ----------
    candidates
        The candidates, the largest first.
    recall
        Accuracy on known classes.
    events
        Valid events.
    loose
        Share of the stream that is unknown and in no candidate.
    """
    things = []
    if recall.below and recall.expected is not None:
        reported = f"is the estimated recall of known classes, below the expected {percent(recall.promised)}"
        things.append(Highlight(f"{percent(recall.expected.recall)}", reported, "held"))
    elif recall.drops:
        last = recall.drops[-1]
        shares = f"{percent(last.recall.recall)} at {last.seq:,}, below the expected {percent(last.promised)}"
        things.append(Highlight("The recall of known classes", f"fell to {shares}", "held"))
    drifted = [str(event["label"]) for event in events if event.get("type") == "ClassDrifted" and "label" in event]
    if drifted:
        named = list(dict.fromkeys(drifted))
        reported = f"{'has' if len(named) == 1 else 'have'} changed since training: check for drift"
        name = " and ".join(named[:2]) if len(named) < 3 else f"{len(named)} known classes"
        things.append(Highlight(name, reported, "others"))
    room = MOST_HIGHLIGHTS - len(things)
    picked = candidates[: room - 1 if loose >= PLENTY and room > 1 else room]
    things += [Highlight(each.name, _described(each), f"candidate-{each.number}") for each in picked]
    if loose >= PLENTY and len(things) < MOST_HIGHLIGHTS:
        reported = "of the stream is unknown and in no candidate: noise, or too few instances for a class"
        things.append(Highlight(percent(loose), reported, "when"))
    return Highlights(tuple(things), len(candidates) - len(picked))


def _described(candidate: CandidateSection) -> str:
    share = "" if candidate.share is None else f" ({percent(candidate.share)} of the stream)"
    reported = f"{counted(candidate.size, 'instance', form=',')}{share}"
    main = candidate.main
    if main.nearest:
        reported += f", {main.distance:.0f} standard deviations from {main.nearest}"
    moved = [f"{'higher' if s.shift > 0 else 'lower'} {s.feature}" for s in main.shifts[:2] if s.shift == s.shift]
    return reported + (f", with {' and '.join(moved)}" if moved else f": {main.values[0]}" if main.values else "")
