"""Events of a batch about the leader's emerging subclasses, within budgets.

Events beyond a budget are summarised, and the counts include all of them. Time is counted in instances, so a replay
emits the same events.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from stream_osr.discovery import events
from stream_osr.discovery.event_base import Event
from stream_osr.discovery.explain import exemplars, explain
from stream_osr.discovery.histories import trend
from stream_osr.discovery.lifecycle import EXEMPLARS, announced_ids, estimate_new_classes
from stream_osr.model.restaurants import StreamState
from stream_osr.parameters import Label
from stream_osr.stream.chain import Chain, LifecycleUpdate, sizes_of
from stream_osr.support import rules
from stream_osr.training.trained import TrainedModel


def about(trained: TrainedModel, state: StreamState) -> dict[str, Any]:
    """Return the fields that all events share: the batch and position that this state follows, and the model."""
    return {"batch": state.batches - 1, "seq": state.seen - 1, "model": trained.fingerprint}


def events_of(
    trained: TrainedModel, labels: Sequence[Label], update: LifecycleUpdate, before: int
) -> tuple[Chain, list[Event]]:
    """Turn the changes of the leader's emerging subclasses into events.

    Parameters
    ----------
    trained, labels
        Model and labels for the explanations.
    update
        The changes.
    before
        The next identity before the batch. An identity from this one on that has ended appears in no decision.

    Returns
    -------
    The leader, which records the Delta that it reported, and the events.
    """
    chain, changes, (merged, split, _) = update.chain, update.changes, update.identities
    chain_results, common_fields = chain._replace(state=update.seated), about(trained, chain.state)
    size = sizes_of(update.seated)
    found: list[Event] = []
    for younger, older in merged.items():
        if younger < before and older in size:
            found.append(events.SubclassMerged(subclass_id=younger, into=older, size=size[older], **common_fields))
    for new, (old, _) in split.items():
        if new < before or new in changes.emerged:
            continue  # a core, found to be what was there already, or announced below
        summaries = describe(trained, labels, chain_results, new)
        summaries = {name: summaries[name] for name in ("exemplars", "explanation")}
        found.append(
            events.SubclassSplit(
                subclass_id=old, new_id=new, sizes=(size[old], size[new]), **summaries, **common_fields
            )
        )
    kinds = (events.SubclassEmerged, events.SubclassGrew, events.SubclassDormant, events.SubclassRecurred)
    for kind, keys in zip(kinds, changes, strict=True):
        alive = [key for key in keys if key in chain.life.subclasses]
        found += [kind(**describe(trained, labels, chain_results, key), **common_fields) for key in alive]
    for key in update.refuted:
        check = chain.check
        assert check is not None
        at = check.ids.tolist().index(key)
        why: dict[str, Any] = {"label": labels[int(check.owner[at])], "known_share": float(check.known[at])}
        found.append(events.SubclassRefuted(subclass_id=key, size=size.get(key, 0), **why, **common_fields))
    for key, subclass in update.ended.items():
        found.append(events.SubclassForgotten(subclass_id=key, last_seen=subclass.last, **common_fields))
    chain, changed = estimate_anew(trained, chain, common_fields)
    return chain, [*found, *changed]


def estimate_anew(
    trained: TrainedModel, chain: Chain, common_fields: dict[str, Any]
) -> tuple[Chain, list[events.NewClassesChanged]]:
    """Compute the paper's Delta, and emit an event if it has changed."""
    life, emerged = chain.life, announced_ids(chain.life)
    delta = estimate_new_classes(len(emerged), len(trained.draws[0].ids), len(trained.labels))
    if delta == life.delta:
        return chain, []
    event = events.NewClassesChanged(delta=delta, before=life.delta, subclasses=emerged, **common_fields)
    return chain._replace(life=life._replace(delta=delta)), [event]


def describe(trained: TrainedModel, labels: Sequence[Label], chain: Chain, key: int) -> dict[str, Any]:
    """Describe a subclass on the menu: the fields of every :class:`stream_osr.discovery.events.SubclassEvent`."""
    state, known, subclass = chain.state, chain.known, chain.life.subclasses[key]
    slot = state.ids.tolist().index(key)
    size = int(state.dishes.size[slot])
    recent = tuple(member.moment.key for member in reversed(subclass.recent))[:EXEMPLARS]
    return {
        "subclass_id": key,
        "first_seen": subclass.first,
        "last_seen": subclass.last,
        "size": size,
        "share": size / state.seen,
        "support": float(state.franchise.seated[0, len(labels) + slot]),
        "trend": trend(subclass, state.seen - 1),
        "exemplars": recent if subclass.kept is None else exemplars(state.dishes, slot, subclass.kept, known),
        "explanation": explain(
            state.dishes, slot, known, chain.frozen, trained.whitening, trained.names, labels, trained.categories
        ),
    }


class Budget(NamedTuple):
    """Limits of some kinds of events: the most at once, and the long-run number for each 1000 instances."""

    kinds: tuple[type[Event], ...]
    at_once: int
    in_thousand: int


BUDGETS = (
    Budget((events.SubclassEmerged,), 150, 30),
    Budget((events.ClassDrifted, events.ColumnFailed, events.RowsRepeated), 150, 30),
    Budget(
        (
            events.SubclassGrew,
            events.SubclassDormant,
            events.SubclassRecurred,
            events.SubclassMerged,
            events.SubclassSplit,
            events.SubclassForgotten,
            events.SubclassRefuted,
            events.NewClassesChanged,
        ),
        300,
        60,
    ),
)
"""Separate budgets of announcements, of drift and data faults, and of later events about announced subclasses.

Separate budgets ensure that no kind crowds out another. Other kinds of events have no budget: they are rare, or a
person has requested them. LETTER and YALEB, with all their new classes at once, reached at most 45 announcements and
86 events in 1000 instances.
"""

SUMMED_EVERY = 1000
"""Least number of instances between two summaries."""

_UNIT = 1000
"""Budgets are counted in thousandths of an event."""


class EventBudget(NamedTuple):
    """Recently reported events, and events that wait for a summary.

    Attributes
    ----------
    spent
        Spent part of each budget, in thousandths of an event.
    seen
        Position in the stream of the last update.
    counts
        Events that wait for a summary, by the names of their types.
    since, until
        Positions of the first and the last waiting event.
    emerged
        Identities of the subclasses whose announcement is waiting.
    summed_at
        Position of the last summary.
    """

    spent: Annotated[tuple[rules.Count, ...], rules.length("3")] = (0,) * len(BUDGETS)
    seen: rules.Count = 0
    counts: Mapping[str, rules.Count] = {}
    since: rules.Count = 0
    until: rules.Count = 0
    emerged: tuple[rules.Count, ...] = ()
    summed_at: rules.Count = 0


def within_budgets(
    event_budget: EventBudget, emitted: Sequence[Event], seen: int, announced: Collection[int]
) -> tuple[EventBudget, list[Event]]:
    """Select the events of a batch to report one by one. The others wait for a summary.

    Parameters
    ----------
    event_budget
        Budget after the batch before. It does not change.
    emitted
        Events of the batch, in order.
    seen
        Instances of the stream, including those of the batch.
    announced
        Identities of announced subclasses. The end of one in another subclass is always reported, because readers of
        the announcement must learn where it went.
    """
    came = seen - event_budget.seen
    spent = [max(0, gone - came * of.in_thousand) for gone, of in zip(event_budget.spent, BUDGETS, strict=True)]
    counts, emerged, since = dict(event_budget.counts), list(event_budget.emerged), event_budget.since
    reported: list[Event] = []
    for event in emitted:
        number = next((at for at, of in enumerate(BUDGETS) if type(event) in of.kinds), None)
        lifecycle_update = isinstance(event, events.SubclassMerged) and event.subclass_id in announced
        if number is None or lifecycle_update:
            reported.append(event)
        elif spent[number] + _UNIT <= BUDGETS[number].at_once * _UNIT:
            spent[number] += _UNIT
            reported.append(event)
        else:
            since = since if counts else event.seq
            counts[type(event).__name__] = counts.get(type(event).__name__, 0) + 1
            if isinstance(event, events.SubclassEmerged):
                emerged.append(event.subclass_id)
    until = emitted[-1].seq if len(reported) < len(emitted) else event_budget.until
    return event_budget._replace(
        spent=tuple(spent), seen=seen, counts=counts, since=since, until=until, emerged=tuple(emerged)
    ), reported


def sum_up(
    event_budget: EventBudget, common_fields: dict[str, Any], *, end: bool = False
) -> tuple[EventBudget, list[events.EventsSummed]]:
    """Summarise the waiting events when the summary is due.

    Parameters
    ----------
    event_budget
        Current budget. It does not change.
    common_fields
        Fields of every event (:func:`about`).
    end
        Whether the summary is due now, because no more events may come.
    """
    seen = common_fields["seq"] + 1
    if not event_budget.counts or not (end or seen - event_budget.summed_at >= SUMMED_EVERY):
        return event_budget, []
    _, _, counts, since, until, emerged, _ = event_budget
    summed = events.EventsSummed(counts=dict(counts), since=since, until=until, emerged=emerged, **common_fields)
    return event_budget._replace(counts={}, emerged=(), summed_at=seen), [summed]
