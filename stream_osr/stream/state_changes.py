"""State changes that callers request: each takes a state, and returns the next one with decisions and events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stream_osr.errors import InvalidParameter
from stream_osr.instances.labels import check_label
from stream_osr.parameters import Label
from stream_osr.stream import naming
from stream_osr.stream.batch import BatchOutput
from stream_osr.stream.carry_over import carry_stream, opened_since
from stream_osr.stream.intake import late_label
from stream_osr.stream.recognizer_state import RecognizerState, close
from stream_osr.stream.undo import undo_last

After = tuple[RecognizerState, BatchOutput]


def flush(state: RecognizerState) -> After:
    """Close the present micro-batch, and release all delayed decisions."""
    stream, output = state.stream, BatchOutput()
    if stream and (state.buffer or state.evidence or stream.waiting.decisions or stream.event_budget.counts):
        state, output = close(state, release=True)
        if state.evidence:
            state, later = close(state, release=True)
            output = output.then(later)
    return state, output


def promote(state: RecognizerState, subclass_ids: Iterable[int], label: Label) -> After:
    """Name emerging subclasses."""
    name = late_label(state, label)
    stream, events = naming.promote(*state.running, subclass_ids, name, state.parameters, state.asked)
    return replace(state, stream=stream), BatchOutput(events=events)


def mute(state: RecognizerState, subclass_ids: Iterable[int]) -> After:
    """Mute emerging subclasses."""
    stream, events = naming.mute(*state.running, subclass_ids, state.asked)
    return replace(state, stream=stream), BatchOutput(events=events)


def judge_frame(state: RecognizerState, *, accept: bool) -> After:
    """Accept or reject the present place of the known classes."""
    _, stream = state.running
    return replace(state, stream=naming.judge_frame(stream, state.asked, accept=accept)), BatchOutput()


def undo(state: RecognizerState) -> After:
    """Undo the last command, or drop the last label if that waits for its batch."""
    trained, stream = state.running
    last = max([action.number for action in stream.undo_log[-1:]], default=-1)
    if state.evidence and state.evidence[-1].number >= last:
        return replace(state, evidence=state.evidence[:-1]), BatchOutput()
    stream, events = undo_last(trained, stream, state.parameters)
    return replace(state, stream=stream), BatchOutput(events=events)


def carry_over(state: RecognizerState, before: RecognizerState) -> After:
    """Continue the stream of an earlier recognizer, whose state is ``before``.

    Raises
    ------
    InvalidParameter
        If the stream has begun, the earlier one holds decisions or labels back, or the models do not fit together.
    InvalidLabel
        If an opened class cannot be a class of the new model.
    """
    (trained, stream), (its, old) = state.running, before.running
    if stream.state.seen or state.buffer or state.evidence or stream.undo_log:
        raise InvalidParameter("this recognizer has begun a stream: carry over to one that has seen no instance")
    if before.pending or before.evidence:
        raise InvalidParameter(
            f"the earlier recognizer holds back {before.pending} decisions and {len(before.evidence)} labels. "
            "Call its flush() first, and drain it"
        )
    for label in opened_since(its, old, trained.labels):
        check_label(label, trained.labels, state.parameters.unknown)
    stream, events = carry_stream(its, old, trained, stream)
    return replace(state, stream=stream), BatchOutput(events=events, counts=before.counters)
