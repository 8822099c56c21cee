"""What a report tells, put together from a model, decisions, events and true labels: whichever there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from stream_osr.discovery.grouping import Estimate
from stream_osr.errors import ConnectorError
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.report.axes import Plane, planes
from stream_osr.report.emerged import Emerged, from_decisions, from_events, from_model, told_by_sums, with_truth
from stream_osr.report.happened import Happened, sort_out
from stream_osr.report.held import Held, how_it_held
from stream_osr.report.tables import Group, Judged, discovery, judge
from stream_osr.report.timeline import Timeline, lay_out
from stream_osr.report.told import Decided, gather


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
    notes: tuple[str, ...] = ()


def collect(
    model: OpenSetRecognizer | None = None,
    decisions: Iterable[Mapping[str, Any]] | None = None,
    events: Iterable[Mapping[str, Any]] = (),
    truth: Callable[[Any, int], str | None] | None = None,
    title: str = "What the stream held",
    notes: Sequence[str] = (),
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
        others = {model for event in events if isinstance(model := event.get("model"), str)} - {fingerprint}
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
        notes=(*notes, *again),
    )
