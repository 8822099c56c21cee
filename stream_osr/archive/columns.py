"""What archives hold of records that are columns in memory: the fields of each, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stream_osr.discovery.lives import lifecycle
from stream_osr.discovery.reservoir import Reservoir, objects
from stream_osr.engine.state import Stream
from stream_osr.ensemble.past import read, written


def stream_read(fields: Mapping[str, Any]) -> Stream:
    """Make a stream of its fields, the past being one of batches."""
    chains = fields["chains"]
    past = read(fields["past"], len(chains), chains[0].known.prior.n_features)
    return Stream(**{**fields, "past": past})


TO: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "Stream": lambda stream: {**stream._asdict(), "past": written(stream.past)},
    "Reservoir": lambda kept: {**kept._asdict(), "keys": tuple(kept.keys.tolist())},
    "Lifecycle": lambda life: {"subclasses": life.subclasses, "delta": life.delta},
}
"""Fields of a record that is something else in memory, by its name."""
OF: Mapping[str, Callable[[dict[str, Any]], Any]] = {
    "Stream": stream_read,
    "Reservoir": lambda fields: Reservoir(**{**fields, "keys": objects(fields["keys"])}),
    "Lifecycle": lambda fields: lifecycle(**fields),
}
"""The record, of its fields."""
