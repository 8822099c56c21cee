"""What archives hold of records that are columns in memory: the fields of each, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stream_osr.discovery.lives import Lifecycle, lifecycle
from stream_osr.discovery.reservoir import Reservoir, objects
from stream_osr.engine.past import read, written
from stream_osr.engine.state import Stream


def stream_read(fields: Mapping[str, Any]) -> Stream:
    """Make a stream of its fields, the past being one of batches."""
    chains = fields["chains"]
    past = read(fields["past"], len(chains), chains[0].known.prior.n_features)
    return Stream(**{**fields, "past": past})


TO: Mapping[type[Any], Callable[[Any], dict[str, Any]]] = {
    Stream: lambda stream: {**stream._asdict(), "past": written(stream.past)},
    Reservoir: lambda kept: {**kept._asdict(), "keys": tuple(kept.keys.tolist())},
    Lifecycle: lambda life: {"subclasses": life.subclasses, "delta": life.delta},
}
"""Fields of a record, by its type in memory; of all others they are those in memory."""
OF: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "Stream": stream_read,
    "Reservoir": lambda fields: Reservoir(**{**fields, "keys": objects(fields["keys"])}),
    "Lifecycle": lambda fields: lifecycle(**fields),
}
"""A record, from its fields, by its name."""
