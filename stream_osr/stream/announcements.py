"""Events of a batch: what happened to the leader's emerging subclasses, within budgets.

Beyond a budget events are summed up, and none is lost from the counts. Time is counted in instances, so that a replay
tells the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from stream_osr.config import Label
from stream_osr.discovery import events as ev
from stream_osr.discovery.explain import exemplars, explain
from stream_osr.discovery.histories import trend
from stream_osr.discovery.lifecycle import EXEMPLARS, estimate_new_classes, worth_telling
from stream_osr.model.franchise import StreamState
from stream_osr.stream.chain import Chain, LifecycleUpdate, sizes_of
from stream_osr.trained import TrainedModel


def about(trained: TrainedModel, state: StreamState) -> dict[str, Any]:
    """Say what every event says: the batch and position that this state is the one after, and the model."""
    return {"batch": state.batches - 1, "seq": state.seen - 1, "model": trained.fingerprint}


def events_of(
    trained: TrainedModel, labels: Sequence[Label], update: LifecycleUpdate, before: int
) -> tuple[Chain, list[ev.Event]]:
    """Turn what happened to the emerging subclasses of the leader into events.

    Parameters
    ----------
    trained, labels
        What explanations speak of.
    update
        What happened.
    before
        The next identity before the batch. No decision bears one that is not below it and has ended.

    Returns
    -------
    The leader, which remembers the Delta it told, and the events.
    """
    chain, changes, (merged, split, _) = update.chain, update.changes, update.identities
    chain_results, common_fields = chain._replace(state=update.seated), about(trained, chain.state)
    size = sizes_of(update.seated)
    events: list[ev.Event] = []
    for younger, older in merged.items():
        if younger < before and older in size:
            events.append(ev.SubclassMerged(subclass_id=younger, into=older, size=size[older], **common_fields))
    for new, (old, _) in split.items():
        if new < before or new in changes.emerged:
            continue  # a core, found to be what was there already, or announced below
        summaries = describe(trained, labels, chain_results, new)
        summaries = {name: summaries[name] for name in ("exemplars", "explanation")}
        events.append(
            ev.SubclassSplit(subclass_id=old, new_id=new, sizes=(size[old], size[new]), **summaries, **common_fields)
        )
    kinds = (ev.SubclassEmerged, ev.SubclassGrew, ev.SubclassDormant, ev.SubclassRecurred)
    for kind, keys in zip(kinds, changes, strict=True):
        alive = [key for key in keys if key in chain.life.subclasses]
        events += [kind(**describe(trained, labels, chain_results, key), **common_fields) for key in alive]
    for key in update.refuted:
        check = chain.check
        assert check is not None
        at = check.ids.tolist().index(key)
        why: dict[str, Any] = {"label": labels[int(check.owner[at])], "known_share": float(check.known[at])}
        events.append(ev.SubclassRefuted(subclass_id=key, size=size.get(key, 0), **why, **common_fields))
    for key, subclass in update.ended.items():
        events.append(ev.SubclassForgotten(subclass_id=key, last_seen=subclass.last, **common_fields))
    chain, changed = estimate_anew(trained, chain, common_fields)
    return chain, [*events, *changed]


def estimate_anew(
    trained: TrainedModel, chain: Chain, common_fields: dict[str, Any]
) -> tuple[Chain, list[ev.NewClassesChanged]]:
    """Compute the paper's Delta, and say so when it has changed."""
    life, emerged = chain.life, worth_telling(chain.life)
    delta = estimate_new_classes(len(emerged), len(trained.draws[0].ids), len(trained.labels))
    if delta == life.delta:
        return chain, []
    event = ev.NewClassesChanged(delta=delta, before=life.delta, subclasses=emerged, **common_fields)
    return chain._replace(life=life._replace(delta=delta)), [event]


def describe(trained: TrainedModel, labels: Sequence[Label], chain: Chain, key: int) -> dict[str, Any]:
    """Say of a subclass on the menu what every :class:`stream_osr.discovery.events.SubclassEvent` says."""
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
    """So many events of some kinds may come at once, and so many with each 1000 instances in the long run."""

    kinds: tuple[type[ev.Event], ...]
    at_once: int
    in_thousand: int


BUDGETS = (
    Budget((ev.SubclassEmerged,), 150, 30),
    Budget((ev.ClassDrifted, ev.ColumnFailed, ev.RowsRepeated), 150, 30),
    Budget(
        (
            ev.SubclassGrew,
            ev.SubclassDormant,
            ev.SubclassRecurred,
            ev.SubclassMerged,
            ev.SubclassSplit,
            ev.SubclassForgotten,
            ev.SubclassRefuted,
            ev.NewClassesChanged,
        ),
        300,
        60,
    ),
)
"""Announcements, drift and data faults, and what follows from announcements, each apart, so that none drowns another.
What is not named here is told always: it is rare by itself, or somebody has asked for it. The most that LETTER and
YALEB have told, with all their new classes at once, were 45 announcements and 86 events in 1000 instances."""

SUMMED_EVERY = 1000
"""Instances from one sum to the next, at least."""

_UNIT = 1000
"""Budgets are counted in thousandths of an event."""


class EventBudget(NamedTuple):
    """Events reported lately, and those that wait to be summed up.

    Attributes
    ----------
    spent
        Of each budget, in thousandths of an event.
    seen
        Position in the stream as of which they are.
    counts
        Events that wait to be summed up, by the names of their types.
    since, until
        Positions of the first and of the last of them.
    emerged
        Identities of the subclasses whose announcement is among them.
    summed_at
        Position at which events were last summed up.
    """

    spent: tuple[int, ...] = (0,) * len(BUDGETS)
    seen: int = 0
    counts: Mapping[str, int] = {}
    since: int = 0
    until: int = 0
    emerged: tuple[int, ...] = ()
    summed_at: int = 0


def within_budgets(
    event_budget: EventBudget, events: Sequence[ev.Event], seen: int, announced: Collection[int]
) -> tuple[EventBudget, list[ev.Event]]:
    """Choose what a batch tells one by one; the rest waits to be summed up.

    Parameters
    ----------
    event_budget
        As of the batch before; it does not change.
    events
        What the batch has brought, in order.
    seen
        Instances of the stream, those of the batch included.
    announced
        Identities of subclasses that had been announced: that one of them ends in another is told always, because
        whoever heard of it has to hear where it went.
    """
    came = seen - event_budget.seen
    spent = [max(0, gone - came * of.in_thousand) for gone, of in zip(event_budget.spent, BUDGETS, strict=True)]
    counts, emerged, since = dict(event_budget.counts), list(event_budget.emerged), event_budget.since
    reported: list[ev.Event] = []
    for event in events:
        number = next((at for at, of in enumerate(BUDGETS) if type(event) in of.kinds), None)
        lifecycle_update = isinstance(event, ev.SubclassMerged) and event.subclass_id in announced
        if number is None or lifecycle_update:
            reported.append(event)
        elif spent[number] + _UNIT <= BUDGETS[number].at_once * _UNIT:
            spent[number] += _UNIT
            reported.append(event)
        else:
            since = since if counts else event.seq
            counts[type(event).__name__] = counts.get(type(event).__name__, 0) + 1
            if isinstance(event, ev.SubclassEmerged):
                emerged.append(event.subclass_id)
    until = events[-1].seq if len(reported) < len(events) else event_budget.until
    return event_budget._replace(
        spent=tuple(spent), seen=seen, counts=counts, since=since, until=until, emerged=tuple(emerged)
    ), reported


def sum_up(
    event_budget: EventBudget, common_fields: dict[str, Any], *, end: bool = False
) -> tuple[EventBudget, list[ev.EventsSummed]]:
    """Tell of what waits to be summed up, when it is time.

    Parameters
    ----------
    event_budget
        It does not change.
    common_fields
        What every event says (:func:`about`).
    end
        It is time: nothing more may come.
    """
    seen = common_fields["seq"] + 1
    if not event_budget.counts or not (end or seen - event_budget.summed_at >= SUMMED_EVERY):
        return event_budget, []
    _, _, counts, since, until, emerged, _ = event_budget
    summed = ev.EventsSummed(counts=dict(counts), since=since, until=until, emerged=emerged, **common_fields)
    return event_budget._replace(counts={}, emerged=(), summed_at=seen), [summed]
