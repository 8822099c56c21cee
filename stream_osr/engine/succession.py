"""A stream goes on under another trained model: what has emerged is carried over."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_osr.config import Label
from stream_osr.discovery import events as ev
from stream_osr.discovery.drift import start_drift
from stream_osr.engine.announce import about, estimate_anew
from stream_osr.engine.naming import adopt
from stream_osr.engine.opened import with_references
from stream_osr.engine.state import Stream
from stream_osr.ensemble.chain import led_by
from stream_osr.ensemble.transfer import Earlier, made_since, take_over
from stream_osr.errors import InvalidParameter
from stream_osr.kinds import recoded
from stream_osr.model.transfer import Origin, Passage, origins, passage
from stream_osr.parallel import one_thread
from stream_osr.trained import TrainedModel

_REMEDY = "train on the same features, or begin anew"


def carry_over(
    its: TrainedModel, earlier: Stream, trained: TrainedModel, stream: Stream
) -> tuple[Stream, list[ev.Event]]:
    """Carry what has emerged in the stream of an earlier model over to a stream that has just begun.

    Parameters
    ----------
    its, earlier
        The earlier model and its stream; no decision of it is held back.
    trained, stream
        The model that goes on, and its stream.

    Returns
    -------
    The stream that goes on, and what there is to tell.

    Raises
    ------
    InvalidParameter
        If the models do not fit together.
    """
    with one_thread():
        way = find_way(its, trained)
        opened = opened_since(its, earlier, trained.labels)
        before = Earlier(its, earlier.labels, earlier.chains, earlier.past)
        chains, past, named, left = take_over(before, trained, stream.chains, way, opened)
        stream = stream._replace(
            chains=chains,
            past=past,
            signals=earlier.signals,
            drift=start_drift(0, trained.known.prior.n_features),  # positions begin with the next batch
        )
        for keys, label in zip(named, opened, strict=True):
            stream = adopt(stream, keys, label)
        counts = dict(zip(earlier.labels, earlier.decided, strict=False))
        decided = (*(counts.get(label, 0) for label in stream.labels), earlier.decided[-1])
        told, ended = about(trained, stream.state), earlier.life.subclasses
        events: list[ev.Event] = [
            ev.SubclassForgotten(subclass_id=key, last_seen=ended[key].last, **told)
            for key in left
            if key in ended and ended[key].emerged and not ended[key].muted
        ]
        leader, changed = estimate_anew(trained, stream.chains[0], told)
        stream = stream._replace(chains=led_by(leader, stream.chains), decided=decided)
        return with_references(trained, stream), [*events, *changed]


def find_way(its: TrainedModel, trained: TrainedModel) -> Passage:
    """Find the way from one model's coordinates to another's.

    Raises
    ------
    InvalidParameter
        If there is none, with the reason.
    """
    both = (("the earlier model", its.names, trained.names), ("the new one", trained.names, its.names))
    alone = [(who, [repr(name) for name in own if name not in others]) for who, own, others in both]
    differ = [f"{who} has {', '.join(names)}" for who, names in alone if names]
    if differ:
        raise InvalidParameter(
            f"the features differ, so that nothing can be carried over: {' and '.join(differ)}; {_REMEDY}"
        )
    order, numbers = [its.names.index(name) for name in trained.names], _values_there(its, trained)
    return passage(its.space, trained.space, order, numbers)


def _values_there(its: TrainedModel, trained: TrainedModel) -> list[Origin | None]:
    """Say of each category of a model which of the earlier model's it was, and the numbers that values have there."""
    before, now = its.values, trained.values
    if before.keys() != now.keys():
        differ = ", ".join(repr(name) for name in trained.names if (name in before) != (name in now))
        raise InvalidParameter(
            f"features are numbers in one model and categories in the other, so that nothing can be carried over: "
            f"{differ}; {_REMEDY}"
        )
    numbers = [recoded(np.arange(float(len(before[name]))), before[name], own) for name, own in now.items()]
    given = [Origin(list(before).index(name), number) for name, number in zip(now, numbers, strict=True)]
    return [*given, *origins(its.space.flags, its.names, trained.space.flags, trained.names, len(before))]


def opened_since(its: TrainedModel, earlier: Stream, known: Sequence[Label]) -> tuple[Label, ...]:
    """Name the classes that people have made in the stream and that a model with these known labels does not know."""
    before = Earlier(its, earlier.labels, earlier.chains, earlier.past)
    return tuple(
        label
        for j, label in enumerate(earlier.labels)
        if label not in known and (j >= len(its.labels) or len(made_since(before, 0, j)))
    )
