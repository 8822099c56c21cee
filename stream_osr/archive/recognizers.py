"""Content of a recognizer's archive, and the recognizer made from it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np

from stream_osr.config import Arguments, archived, grouped
from stream_osr.discovery.summaries import SchemaMismatch
from stream_osr.stream.chain import with_densities
from stream_osr.stream.recognizer_state import RecognizerState
from stream_osr.training.training_set import TrainingSet


class WithState(Protocol):
    """A recognizer: its class takes arguments, and it has a state."""

    value: RecognizerState


M = TypeVar("M", bound=WithState)
_PARTS = ("stream", "trained", "training")


def content_of(arguments: Arguments, its: RecognizerState) -> dict[str, Any]:
    """Return the arguments and the whole state of a recognizer as plain values and records."""
    content = {
        "arguments": archived(arguments),
        "counters": dict(its.counters),
        "training": None if its.training is None else its.training.as_state(),
        "trained": its.trained,
        "stream": its.stream,
        "buffer": [each._replace(row=np.array(each.row, dtype=float)) for each in its.buffer],
        "evidence": its.evidence,
        "decisions": list(its.decisions),
        "events": list(its.events),
    }
    return content if its.unmet is None else {**content, "unmet": its.unmet.in_order()}


def restored(kind: type[M], content: Mapping[str, Any]) -> M:
    """Make a recognizer of a class from :func:`content_of`, or from the same content of an archive, once checked."""
    model = kind(**grouped(**content["arguments"]))
    unmet, stream, trained, training = content.get("unmet"), *(content[name] for name in _PARTS)
    model.value = replace(
        model.value,
        training=training and TrainingSet.from_state(training, model.value.parameters.markers),
        trained=trained,
        stream=stream and stream._replace(chains=with_densities(stream.chains, trained)),
        buffer=list(content["buffer"]),
        evidence=list(content["evidence"]),
        counters=Counter(content["counters"]),
        decisions=deque(content["decisions"]),
        events=deque(content["events"]),
        unmet=unmet and SchemaMismatch(frozenset(unmet[0]), frozenset(unmet[1]), unmet[2]),
    )
    if model.value.training is None and trained is not None:
        trained.tell_unguarded()
    return model
