"""What a micro-batch gives."""

from __future__ import annotations

from typing import NamedTuple

from stream_osr import Decision, Event

from .boundaries import Boundary
from .messages import Origin, Received, Refusal


class Outcome(NamedTuple):
    """What a micro-batch gave.

    Attributes
    ----------
    end
        Where it ended.
    decisions
        Final ones, each with the record that it is about.
    events
        What is to be told.
    refused
        Records that could not be used, and why.
    labelled, skipped
        Records that were evidence; that ``on_missing="skip"`` left out.
    place
        Names the micro-batch in ids of events: the offset of its last record (and the place in the labels).
    timestamp
        Of its last record, milliseconds since 1970; -1: none.
    missing, values
        Feature values that were missing, and those that were expected, over the instances taken.
    left
        What was asked of it and could not be done.
    """

    end: Boundary
    decisions: list[tuple[Origin, Decision]]
    events: list[Event]
    refused: list[tuple[Received, Refusal]]
    labelled: int
    skipped: int
    place: str
    timestamp: int
    missing: int = 0
    values: int = 0
    left: int = 0
