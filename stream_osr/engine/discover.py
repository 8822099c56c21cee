"""What a batch says about the emerging subclasses, in each chain; the first one's is told."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from stream_osr.config import Label, Parameters
from stream_osr.decision import Decision
from stream_osr.discovery import events as ev
from stream_osr.discovery.candidates import Emerging, Measured, NewClasses, find_new_classes, measure_subclasses
from stream_osr.discovery.explain import explain
from stream_osr.discovery.lifecycle import (
    Lifecycle,
    Subclass,
    estimate_new_classes,
    forget,
    observe,
    to_hold,
    worth_telling,
)
from stream_osr.engine.past import all_seats
from stream_osr.engine.state import Chain, Stream
from stream_osr.hdp import stream as sampler
from stream_osr.hdp.blas import one_thread
from stream_osr.hdp.restaurant import StreamState
from stream_osr.trained import TrainedModel


def new_classes(stream: Stream, before: Sequence[Measured] | None = None) -> tuple[NewClasses, tuple[Measured, ...]]:
    """Find candidate new classes by what all chains say; the stream does not change.

    Parameters
    ----------
    stream
        The stream so far.
    before
        The distances that an earlier call returned: they save time and change nothing.

    Returns
    -------
    Candidates and their estimated number, and the distances in each chain.
    """
    chains = stream.chains
    known = repeat(None) if before is None else before
    with one_thread():
        measured = tuple(measure_subclasses(c.known, c.state, old) for c, old in zip(chains, known, strict=False))
        seats = all_seats(stream.past, len(chains))
        return find_new_classes([Emerging(*chain) for chain in chains], measured, seats, stream.labels), measured


def follow_subclasses(
    trained: TrainedModel,
    labels: Sequence[Label],
    chain: Chain,
    state: StreamState,
    decisions: Sequence[Decision],
    result: sampler.BatchResult,
    parameters: Parameters,
    tells: bool,
) -> tuple[Lifecycle, StreamState, list[ev.Event]]:
    """Follow the emerging subclasses of one chain through a batch; the first chain ``tells`` of it in events."""
    n_classes = len(labels)
    ids = state.ids.tolist()
    sizes = dict(zip(ids, state.dishes.size.tolist(), strict=True))
    support = dict(zip(ids, state.franchise.seated[0, n_classes:].tolist(), strict=True))
    arrivals = [
        (key, ev.Moment(d.seq, d.t, d.key), d.p_unknown)
        for key, d in zip(result.subclass.tolist(), decisions, strict=True)
        if key in sizes
    ]
    life, changes = observe(chain.life, arrivals, sizes)
    state = sampler.hold(chain.known, state, to_hold(life, support, sizes, parameters.max_subclasses))
    slot = {int(key): k for k, key in enumerate(state.ids)}
    life, ended = forget(life, slot)
    if not tells:
        return life, state, []
    told: dict[str, Any] = {"batch": decisions[0].batch, "seq": decisions[-1].seq, "model": trained.fingerprint}
    events: list[ev.Event] = []
    for kind, keys in ((ev.SubclassEmerged, changes.emerged), (ev.SubclassGrew, changes.grew)):
        for key in keys:
            about = describe(trained, labels, chain._replace(state=state), key, life.subclasses[key])
            events.append(kind(**about, **told))
    for key, subclass in ended.items():
        events.append(ev.SubclassForgotten(subclass_id=key, last_seen=subclass.last, **told))
    life, changed = estimate_anew(trained, life, told)
    return life, state, [*events, *changed]


def estimate_anew(
    trained: TrainedModel, life: Lifecycle, told: dict[str, Any]
) -> tuple[Lifecycle, list[ev.NewClassesChanged]]:
    """Estimate the number of new classes, and say so when it has changed."""
    emerged = worth_telling(life)
    delta = estimate_new_classes(len(emerged), len(trained.known.ids), len(trained.labels))
    if delta == life.delta:
        return life, []
    return life._replace(delta=delta), [
        ev.NewClassesChanged(delta=delta, before=life.delta, subclasses=emerged, **told)
    ]


def describe(
    trained: TrainedModel, labels: Sequence[Label], chain: Chain, key: int, subclass: Subclass
) -> dict[str, Any]:
    """Say of an emerging subclass what every :class:`stream_osr.discovery.events.SubclassEvent` says."""
    state = chain.state
    slot = state.ids.tolist().index(key)
    size = int(state.dishes.size[slot])
    return {
        "subclass_id": key,
        "first_seen": subclass.first,
        "last_seen": subclass.last,
        "size": size,
        "share": size / state.seen,
        "support": float(state.franchise.seated[0, len(labels) + slot]),
        "exemplars": subclass.exemplars,
        "explanation": explain(state.dishes, slot, chain.known, chain.frozen, trained.space, trained.names, labels),
    }
