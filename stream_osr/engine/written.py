"""What archives hold of records that are columns in memory: the fields of each, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stream_osr.discovery.reservoir import Reservoir, objects
from stream_osr.engine.past import read, written
from stream_osr.engine.state import Stream


def stream_written(stream: Stream) -> dict[str, Any]:
    """Write the past of a stream as its batches."""
    return {**stream._asdict(), "past": written(stream.past)}


def stream_read(fields: Mapping[str, Any]) -> Stream:
    """Make a stream of what :func:`stream_written` has made of it."""
    chains = fields["chains"]
    past = read(fields["past"], len(chains), chains[0].known.prior.n_features)
    return Stream(**{**fields, "past": past})


def reservoir_written(kept: Reservoir) -> dict[str, Any]:
    """Write a sample, its keys one by one."""
    return {**kept._asdict(), "keys": tuple(kept.keys.tolist())}


def reservoir_read(fields: Mapping[str, Any]) -> Reservoir:
    """Make a sample of what :func:`reservoir_written` has made of it."""
    return Reservoir(**{**fields, "keys": objects(fields["keys"])})


TO: Mapping[type[Any], Callable[[Any], dict[str, Any]]] = {Stream: stream_written, Reservoir: reservoir_written}
"""Fields of a record, by its type in memory; of all others they are those in memory."""
OF: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {"Stream": stream_read, "Reservoir": reservoir_read}
"""A record, from its fields, by its name."""
