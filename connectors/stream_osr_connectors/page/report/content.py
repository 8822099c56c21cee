"""What a report tells, put together from a model, decisions, events and true labels: whichever there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_osr.discovery.new_classes import Estimate
from stream_osr.errors import ConnectorError
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr_connectors.page.report import candidates, features
from stream_osr_connectors.page.report.axes import Plane, planes
from stream_osr_connectors.page.report.candidates import Candidate
from stream_osr_connectors.page.report.emerged import (
    Emerged,
    from_decisions,
    from_events,
    from_model,
    told_by_sums,
    with_truth,
)
from stream_osr_connectors.page.report.features import Instances
from stream_osr_connectors.page.report.happened import Happened, sort_out
from stream_osr_connectors.page.report.held import Held, how_it_held
from stream_osr_connectors.page.report.lookout import Lookout, look_out
from stream_osr_connectors.page.report.pool import Pool, pool
from stream_osr_connectors.page.report.tables import Group, Judged, discovery, judge
from stream_osr_connectors.page.report.timeline import Timeline, lay_out
from stream_osr_connectors.page.report.told import Decided, gather


class Content(NamedTuple):
    """What a report tells.

    Attributes
    ----------
    title
        Heading.
    n
        Instances decided.
    unknown_share
        Share of them called unknown, ``None`` without any.
    new_classes
        Estimated number of new classes, ``None`` without a model that has seen the stream.
    delta
        The paper's Delta, ``None`` if nobody said.
    emerged
        Emerged subclasses, the largest first.
    planes
        The model in the plane.
    timeline
        Arrivals and events.
    groups
        The discovery table.
    judged
        Decisions against true labels.
    told
        Decisions.
    fingerprint
        Of the model.
    held
        Whether the known classes held.
    summed
        Events that were summed up instead of told one by one, by type.
    happened
        Events.
    lookout
        What to look at first.
    candidates
        Candidate new classes, the largest first.
    given
        Features of examples are those of the records that were given, not what the model remembers.
    notes
        Sentences about what was left out.
    """

    title: str
    n: int
    unknown_share: float | None
    new_classes: Estimate | None
    delta: int | None
    emerged: tuple[Emerged, ...]
    planes: tuple[Plane, ...]
    timeline: Timeline | None
    groups: tuple[Group, ...]
    judged: Judged | None
    told: Decided
    fingerprint: str | None
    held: Held
    summed: Mapping[str, int]
    happened: Happened
    lookout: Lookout
    candidates: tuple[Candidate, ...]
    given: bool
    notes: tuple[str, ...] = ()

    @property
    def others(self) -> tuple[Emerged, ...]:
        """Subclasses that are in no candidate: they are gone, named, muted or not new."""
        there = {key for candidate in self.candidates for key in candidate.ids}
        return tuple(each for each in self.emerged if each.id not in there)


def collect(
    model: OpenSetRecognizer | None = None,
    decisions: Iterable[Mapping[str, Any]] | None = None,
    events: Iterable[Mapping[str, Any]] = (),
    truth: Callable[[Any, int], str | None] | None = None,
    title: str = "What the stream held",
    notes: Sequence[str] = (),
    instances: Instances | None = None,
    command: Callable[[Sequence[int]], str] = candidates.in_python,
) -> Content:
    """Put a report together.

    Parameters
    ----------
    model
        A trained recognizer.
    decisions, events
        As `stream_osr.Decision.as_dict` and `stream_osr.Event.as_dict` make them.
    truth
        Gives the true label from the key of a decision and its number, where it is known.
    title
        Heading.
    notes
        Sentences about what was left out, looked at when all is read.
    instances
        Keys and features of the instances; ``None``: what the model remembers of them is shown.
    command
        Says what names a candidate, given its subclasses.

    Raises
    ------
    ConnectorError
        If a decision or an event is none, or the events are of another model.
    NotTrained
        If training of the model has not ended.
    """
    told = gather(decisions or (), truth)
    happened = sort_out(events)
    events = happened.events
    emerged, held = from_events(events), how_it_held(model, events)
    summed, silent = told_by_sums(events)
    summary, fingerprint = None, None
    drawn: tuple[Plane, ...] = ()
    if model is not None:
        trained, stream = model.value.running
        summary, fingerprint, drawn = model.summary(), trained.fingerprint, planes(stream)
        others = {its for event in events if isinstance(its := event.get("model"), str)} - {fingerprint}
        if others:
            raise ConnectorError(
                f"the events are of model {min(others)[:12]}, the model is {fingerprint[:12]}; "
                "give the model, or the checkpoint, of that run"
            )
        emerged |= from_model(trained, stream)
    found = from_decisions(told)
    emerged = {key: found[key] for key in sorted(silent & found.keys())} | emerged or found
    if truth is not None:
        emerged = with_truth(emerged, told)
    ordered = tuple(sorted(emerged.values(), key=lambda s: (-s.size, s.id)))
    deltas = [event["delta"] for event in events if event.get("type") == "NewClassesChanged"]
    n, share, estimate, delta = 0, None, None, deltas[-1] if deltas else None
    if summary is not None and summary.stream_size:
        n, share, estimate, delta = summary.stream_size, summary.unknown_share, summary.new_classes, summary.delta
    if len(told.seq):
        n, share = len(told.seq), float(told.unknown.mean())
    repeated = {"decisions": told.repeated, "events": happened.repeated}
    kept = pool(told, None if model is None else model.value.stream)
    looked = _candidates(model, emerged, kept, instances, command)
    within = np.isin(kept.subclass, [key for each in looked for key in each.ids])
    loose = float((kept.unknown & ~within).mean()) if n and len(kept.seq) else 0.0
    again = [f"{what} that came more than once count once: {n:,} are left out" for what, n in repeated.items() if n]
    return Content(
        title=title,
        n=n,
        unknown_share=share,
        new_classes=estimate,
        delta=delta,
        emerged=ordered,
        planes=drawn,
        timeline=lay_out(told, [s.id for s in ordered], events) if len(told.seq) else None,
        groups=discovery(summary, told, emerged),
        judged=judge(told),
        told=told,
        fingerprint=fingerprint,
        held=held,
        summed=summed,
        happened=happened,
        lookout=look_out(looked, held, events, loose),
        candidates=looked,
        given=instances is not None,
        notes=(*notes, *again),
    )


def _candidates(
    model: OpenSetRecognizer | None,
    emerged: Mapping[int, Emerged],
    kept: Pool,
    instances: Instances | None,
    command: Callable[[Sequence[int]], str],
) -> tuple[Candidate, ...]:
    """Find the candidates, and what their instances are like."""
    if model is None:
        found, remembered = None, None
    else:
        trained, stream = model.value.running
        found = model.new_classes() if stream.state.seen else None
        remembered = features.remembered(kept, stream)

    def looked_up(places: NDArray[np.int64]) -> features.Features:
        if instances is not None:
            return features.from_instances(kept, places, instances)
        return features.NOTHING if model is None else features.from_model(kept, places, trained, stream)

    return candidates.gather(found, emerged, kept, looked_up, None if instances is not None else remembered, command)
