"""A person names what emerged, mutes it, or takes that back: promotions, mutes and undoing on streams as values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

import numpy as np

from stream_osr.config import Label, Parameters
from stream_osr.discovery import events as ev
from stream_osr.discovery.lives import with_lives
from stream_osr.engine.announce import about, describe, estimate_anew
from stream_osr.engine.following import class_shifts, without_class
from stream_osr.engine.opened import with_references
from stream_osr.engine.state import Stream, widen
from stream_osr.ensemble import labels as labelled
from stream_osr.ensemble import naming
from stream_osr.ensemble.actions import Labelling, Muting, Promotion, record
from stream_osr.ensemble.chain import led_by
from stream_osr.errors import InvalidSubclass, NothingToUndo
from stream_osr.model.edit import owner_of
from stream_osr.parallel import one_thread
from stream_osr.showing import typed
from stream_osr.trained import TrainedModel


def promote(
    trained: TrainedModel,
    stream: Stream,
    subclass_ids: Iterable[int],
    label: Label,
    parameters: Parameters,
    number: int = 0,
) -> tuple[Stream, list[ev.Event]]:
    """Make emerging subclasses subclasses of a known class, with all that they have collected.

    Parameters
    ----------
    trained
        The trained model.
    stream
        The stream so far; it does not change.
    subclass_ids
        Identities, in the leader.
    label
        Label of the class; a new one opens a class.
    parameters
        Settings.
    number
        Place in the order in which people have asked things of the stream.

    Returns
    -------
    The next stream, and what there is to tell.

    Raises
    ------
    InvalidSubclass
        If an id is not one of an emerging subclass.
    """
    with one_thread():
        keys = _checked(stream, subclass_ids, "promoted")
        stream = stream._replace(chains=naming.wake(stream.chains, stream.past, keys))
        told = about(trained, stream.state)
        said = [{**_describe(trained, stream, key), **told} for key in keys]
        events: list[ev.Event] = [ev.SubclassPromoted(label=label, **each) for each in said]
        chains, past, subclasses = naming.with_counterparts(stream.chains, stream.past, keys, parameters.half_life)
        j = stream.labels.index(label) if label in stream.labels else -1
        action = naming.promotion(number, label, chains, subclasses, j)
        stream = stream._replace(chains=chains, past=past, actions=record(stream.actions, [action]))
        stream = with_references(trained, adopt(stream, subclasses, label))
        return _estimate(trained, stream, events, told)


def mute(
    trained: TrainedModel, stream: Stream, subclass_ids: Iterable[int], parameters: Parameters, number: int = 0
) -> tuple[Stream, list[ev.Event]]:
    """Tell nothing more of emerging subclasses, whose instances stay unknown; arguments as of :func:`promote`."""
    keys = _checked(stream, subclass_ids, "muted")
    stream = stream._replace(chains=naming.wake(stream.chains, stream.past, keys))
    for key in keys:
        if key in stream.life.subclasses and stream.life.subclasses[key].muted:
            raise InvalidSubclass(f"subclass {key} is muted already; nothing is told of it")
    told = about(trained, stream.state)
    events: list[ev.Event] = [ev.SubclassMuted(**_describe(trained, stream, key), **told) for key in keys]
    subclasses = naming.counterparts(stream.chains, stream.past, keys)
    chains = naming.set_muted(stream.chains, stream.past, subclasses, muted=True)
    actions = record(stream.actions, [Muting(number, subclasses)])
    return _estimate(trained, stream._replace(chains=chains, actions=actions), events, told)


def undo(trained: TrainedModel, stream: Stream, parameters: Parameters) -> tuple[Stream, list[ev.Event]]:
    """Take back the last promotion, mute or label that has taken effect.

    Raises
    ------
    NothingToUndo
        If there is none.
    """
    if not stream.actions:
        raise NothingToUndo(
            "no promotion, mute or late label is left to be taken back; labels from before freeze() stay"
        )
    action = stream.actions[-1]
    stream = stream._replace(actions=stream.actions[:-1])
    told = about(trained, stream.state)
    with one_thread():
        if isinstance(action, Labelling):
            stream = _undo_label(stream, action, parameters)
            return with_references(trained, _close_class(trained, stream, action.label)), []
        before = set(stream.state.ids.tolist())
        if isinstance(action, Promotion):
            j = stream.labels.index(action.label)
            chains, past = naming.give_back(stream.chains, stream.past, action, j)
            stream = _renumber(stream._replace(chains=chains, past=past), stream.known.ids)
            stream = with_references(trained, _close_class(trained, stream, action.label))
            again = tuple(key for key in action.subclasses[0] if key in set(stream.state.ids.tolist()) - before)
            event = ev.NamingUndone(action="promotion", subclass_ids=again, label=action.label, **told)
        else:
            chains = naming.set_muted(stream.chains, stream.past, action.subclasses, muted=False)
            stream = stream._replace(chains=chains)
            again = tuple(key for key in action.subclasses[0] if key in before)
            event = ev.NamingUndone(action="mute", subclass_ids=again, **told)
        return _estimate(trained, stream, [event], told)


def adopt(stream: Stream, subclasses: naming.Keys, label: Label) -> Stream:
    """Make these emerging subclasses of every chain subclasses of the class with this label, perhaps a new one."""
    j = stream.labels.index(label) if label in stream.labels else len(stream.labels)
    stream = stream._replace(chains=naming.adopt(stream.chains, stream.past, subclasses, j))
    if j < len(stream.labels):
        return stream
    waiting = widen(stream.waiting, j + 1)
    inside = np.isin(waiting.subclass, subclasses[0])
    slot_of = {key: slot for slot, key in enumerate(stream.known.ids.tolist())}
    waiting.responsible[inside, -1] = [slot_of[key] for key in waiting.subclass[inside].tolist()]
    decided = (*stream.decided[:-1], 0, stream.decided[-1])
    return stream._replace(labels=(*stream.labels, label), waiting=waiting, decided=decided)


def _checked(stream: Stream, subclass_ids: Iterable[int], done: str) -> tuple[int, ...]:
    """Check that these are ids of emerging subclasses; each once, in order."""
    if isinstance(subclass_ids, str) or not isinstance(subclass_ids, Iterable):
        raise InvalidSubclass(f"subclass_ids is {typed(subclass_ids)}; expected a list of ids, such as [7]")
    keys: list[int] = []
    for key in subclass_ids:
        try:
            keys.append(index(key))
        except TypeError:
            raise InvalidSubclass(f"subclass id is {typed(key)}; expected whole numbers, such as [7]") from None
    if not keys:
        raise InvalidSubclass(f"no subclass id was given; name those to be {done}, such as [7]")
    known, emerging = stream.known, [*stream.state.ids.tolist(), *stream.chains[0].aside.ids.tolist()]
    for key in keys:
        if key in emerging:
            continue
        if key in known.ids:
            label = stream.labels[owner_of(known, key)]
            raise InvalidSubclass(
                f"subclass {key} is one of the known class {label!r}; only emerging subclasses can be {done}"
            )
        what = "has left the model" if 0 <= key < stream.state.next_id else "does not exist"
        there = ", ".join(map(str, sorted(emerging))) or "none"
        raise InvalidSubclass(
            f"subclass {key} {what}; the emerging subclasses are: {there} (summary() has their sizes)"
        )
    return tuple(dict.fromkeys(keys))


# What is told


def _describe(trained: TrainedModel, stream: Stream, key: int) -> dict[str, Any]:
    first = stream.chains[0]
    life = with_lives(first.life, {key: naming.life_of(stream.chains, stream.past, 0, key)})
    return describe(trained, stream.labels, first._replace(life=life), key)


def _estimate(
    trained: TrainedModel, stream: Stream, events: Sequence[ev.Event], told: dict[str, Any]
) -> tuple[Stream, list[ev.Event]]:
    """Estimate the number of new classes anew; the leader tells of it."""
    leader, changed = estimate_anew(trained, stream.chains[0], told)
    return stream._replace(chains=led_by(leader, stream.chains)), [*events, *changed]


# Labels taken back


def _undo_label(stream: Stream, action: Labelling, parameters: Parameters) -> Stream:
    """Take the instance out of the subclass that took it in, and seat it where it sat."""
    names, row = stream.known.ids, action.row
    j = stream.labels.index(action.label) if action.label in stream.labels else -1
    if j >= 0 and action.shift is not None:
        row = row + class_shifts(stream)[j] - action.shift
    chains = labelled.unlearn(stream.chains, action, j, row)
    stream = _renumber(stream._replace(chains=chains), names)
    if action.seq < 0:
        return stream
    chains, past = labelled.seat_again(chains, stream.past, action, stream.labels, parameters)
    return stream._replace(chains=chains, past=past)


# Classes and subclasses that are gone


def _renumber(stream: Stream, before: np.ndarray) -> Stream:
    """Follow known subclasses of the leader to their new places in the decisions held back."""
    now = {int(key): slot for slot, key in enumerate(stream.known.ids)}
    place = np.array([now.get(int(key), -1) for key in before] + [-1])
    waiting = stream.waiting
    return stream._replace(waiting=waiting._replace(responsible=place[waiting.responsible]))


def _close_class(trained: TrainedModel, stream: Stream, label: Label) -> Stream:
    """Drop a class that nothing is left of, unless instances of the stream were decided as it or sit in it.

    Such a class stays, without a density: nothing is recognized as it until somebody labels or names something.
    """
    if label not in stream.labels:
        return stream
    j = stream.labels.index(label)
    if j < len(trained.labels) or not naming.is_empty(stream.chains, j):
        return stream
    probabilities, waiting = stream.waiting.probabilities.copy(), stream.waiting
    probabilities[:, -1] = np.minimum(probabilities[:, -1] + probabilities[:, j], 1.0)
    probabilities[:, j] = 0.0
    stream = stream._replace(waiting=waiting._replace(probabilities=probabilities))
    if stream.decided[j] or any(label in (d.label, d.first_label) for d in waiting.decisions):
        return stream
    chains = naming.drop_class(stream.chains, j)
    if chains is None:
        return stream
    fewer, responsible = (np.delete(each, j, axis=1) for each in (probabilities, waiting.responsible))
    return stream._replace(
        labels=(*stream.labels[:j], *stream.labels[j + 1 :]),
        chains=chains,
        decided=(*stream.decided[:j], *stream.decided[j + 1 :]),
        following=without_class(stream.following, j),
        waiting=waiting._replace(probabilities=fewer, responsible=responsible),
    )
