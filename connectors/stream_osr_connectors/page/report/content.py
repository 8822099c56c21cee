"""Content of a report, from any of a model, decisions, events and true labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.discovery.class_count import Estimate
from stream_osr.errors import ConnectorError
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr_connectors.page.report.axes import Plane, planes
from stream_osr_connectors.page.report.candidates import (
    CandidateSection,
    Highlights,
    Instances,
    candidate_sections,
    choose_highlights,
    in_python,
)
from stream_osr_connectors.page.report.class_summary import (
    EmergedSubclass,
    GroupRow,
    TruthComparison,
    compare_with_truth,
    counts_of_sums,
    discovery_table,
    from_decisions,
    from_events,
    from_model,
    with_truth,
)
from stream_osr_connectors.page.report.decisions_table import DecisionsTable, read_decisions, remembered_decisions
from stream_osr_connectors.page.report.events_section import EventsSection, RecallSection, recall_section, sort_events
from stream_osr_connectors.page.report.timeline import Timeline, lay_out


class Content(NamedTuple):
    """Content of a report.

    Attributes
    ----------
    title
        Heading.
    n
        Instances decided.
    unknown_share
        Share of these that are unknown, ``None`` without instances.
    new_classes
        Estimated number of new classes, ``None`` without a model that has seen the stream.
    delta
        The paper's Delta, ``None`` if no event reported it.
    emerged
        Emerged subclasses, the largest first.
    planes
        Feature maps of the model.
    timeline
        Arrivals and events.
    groups
        The discovery table.
    judged
        Decisions against true labels.
    table
        Decisions.
    fingerprint
        Fingerprint of the model.
    recall
        Accuracy on known classes.
    summed
        Number of events that were reported only as a count, by type.
    section
        Events.
    highlights
        Items to check first.
    candidates
        Candidate new classes, the largest first.
    given
        Whether the features of examples come from given records, not from the model's memory.
    notes
        Sentences about skipped input.
    """

    title: str
    n: int
    unknown_share: float | None
    new_classes: Estimate | None
    delta: int | None
    emerged: tuple[EmergedSubclass, ...]
    planes: tuple[Plane, ...]
    timeline: Timeline | None
    groups: tuple[GroupRow, ...]
    judged: TruthComparison | None
    table: DecisionsTable
    fingerprint: str | None
    recall: RecallSection
    summed: Mapping[str, int]
    section: EventsSection
    highlights: Highlights
    candidates: tuple[CandidateSection, ...]
    given: bool
    notes: tuple[str, ...] = ()

    @property
    def others(self) -> tuple[EmergedSubclass, ...]:
        """Subclasses in no candidate. They are gone, settled or not new."""
        there = {key for candidate in self.candidates for key in candidate.ids}
        return tuple(each for each in self.emerged if each.id not in there)


def collect(
    model: OpenSetRecognizer | None = None,
    decisions: Iterable[Mapping[str, Any]] | None = None,
    events: Iterable[Mapping[str, Any]] = (),
    truth: Callable[[Any, int], str | None] | None = None,
    title: str = "Stream report",
    notes: Sequence[str] = (),
    instances: Instances | None = None,
    command: Callable[[Sequence[int]], str] = in_python,
) -> Content:
    """Assemble a report.

    Parameters
    ----------
    model
        A trained recognizer.
    decisions, events
        Decisions and events as `stream_osr.Decision.as_dict` and `stream_osr.Event.as_dict` return them.
    truth
        A function that returns the true label or ``None``, given the key of a decision and its number.
    title
        Heading.
    notes
        Sentences about skipped input, read after all other input.
    instances
        Keys and features of the instances, or ``None`` to show the values in the model's memory.
    command
        A function that returns the command that names a candidate, given its subclasses.

    Raises
    ------
    ConnectorError
        If a decision or an event is invalid, or the events belong to another model.
    NotTrained
        If training of the model has not ended.
    """
    table = read_decisions(decisions or (), truth)
    section = sort_events(events)
    events = section.events
    emerged, recall = from_events(events), recall_section(model, events)
    summed, silent = counts_of_sums(events)
    summary, fingerprint = None, None
    drawn: tuple[Plane, ...] = ()
    if model is not None:
        trained, stream = model.value.running
        summary, fingerprint, drawn = model.summary(), trained.fingerprint, planes(stream)
        others = {its for event in events if isinstance(its := event.get("model"), str)} - {fingerprint}
        if others:
            raise ConnectorError(
                f"the events are of model {min(others)[:12]}, the model is {fingerprint[:12]}. "
                "Give the model, or the checkpoint, of that run"
            )
        emerged |= from_model(trained, stream)
    found = from_decisions(table)
    emerged = {key: found[key] for key in sorted(silent & found.keys())} | emerged or found
    if truth is not None:
        emerged = with_truth(emerged, table)
    ordered = tuple(sorted(emerged.values(), key=lambda s: (-s.size, s.id)))
    deltas = [event["delta"] for event in events if event.get("type") == "NewClassesChanged"]
    n, share, estimate, delta = 0, None, None, deltas[-1] if deltas else None
    if summary is not None and summary.stream_size:
        n, share, estimate, delta = summary.stream_size, summary.unknown_share, summary.new_classes, summary.delta
    if len(table):
        n, share = len(table), float(table.unknown.mean())
    repeated = {"decisions": table.repeated, "events": section.repeated}
    known_instances = table if len(table) or model is None else remembered_decisions(model.value.running[1])
    looked = candidate_sections(model, emerged, known_instances, instances, command)
    within = np.isin(known_instances.subclass, [key for each in looked for key in each.ids])
    loose = float((known_instances.unknown & ~within).mean()) if n and len(known_instances) else 0.0
    again = [f"{n:,} repeated {what} are skipped: each counts once" for what, n in repeated.items() if n]
    return Content(
        title=title,
        n=n,
        unknown_share=share,
        new_classes=estimate,
        delta=delta,
        emerged=ordered,
        planes=drawn,
        timeline=lay_out(table, [s.id for s in ordered], events) if len(table) else None,
        groups=discovery_table(summary, table, emerged),
        judged=compare_with_truth(table),
        table=table,
        fingerprint=fingerprint,
        recall=recall,
        summed=summed,
        section=section,
        highlights=choose_highlights(looked, recall, events, loose),
        candidates=looked,
        given=instances is not None,
        notes=(*notes, *again),
    )
