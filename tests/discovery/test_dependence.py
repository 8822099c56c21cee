"""Dependence between neighbours as a signal: by class, since when, and announced once when it begins."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from stream_osr import DependenceFound, OpenSetRecognizer, Signals, TrainedModel
from stream_osr.config import grouped
from stream_osr.parameters import parameters
from stream_osr.stream import Stream, open_stream
from stream_osr.stream.batch_seating import BatchPosterior
from stream_osr.stream.monitoring import dependence, follow_dependence
from tests.blobs import dependent_rows, learn_all

SETTINGS: dict[str, Any] = {"batch_size": 32, "chains": 2, "training_sweeps": 5, "seed": 2}


@functools.cache
def trained(memory: float) -> TrainedModel:
    return recognizer(memory).trained


def recognizer(memory: float, **arguments: Any) -> OpenSetRecognizer:
    """A recognizer trained with rows of two classes, of which each depends on the one before."""
    model = learn_all(OpenSetRecognizer(**grouped(**SETTINGS, **arguments)), dependent_rows(600, 1, memory))
    model.freeze()
    return model


def streamed(training: float, memory: float, n: int = 800) -> tuple[Signals, list[DependenceFound]]:
    """Signals and events of dependence after a stream with as much memory."""
    model = OpenSetRecognizer.from_trained(trained(training), **grouped(**SETTINGS))
    learn_all(model, [(x, None) for x, _ in dependent_rows(n, 2, memory)])
    return model.signals, [event for event in model.drain_events() if isinstance(event, DependenceFound)]


def test_an_event_is_emitted_once_when_the_stream_is_dependent_and_training_was_not() -> None:
    signals, (event,) = streamed(0.0, 0.95)
    assert (event.kind, set(event.labels)) == ("neighbours depend", {"left", "right"})
    assert event.correlation > 0.3
    assert signals.dependent_since == event.since == event.seq + 1 < 300
    assert signals.dependent
    assert set(signals.dependence) == {"left", "right"}
    assert min(signals.dependence.values()) > 0.3
    assert f"neighbours depend since instance {event.since}" in str(signals)


def test_no_event_is_emitted_for_an_independent_stream_or_after_dependent_training() -> None:
    signals, events = streamed(0.0, 0.0)
    assert not events
    assert signals.dependent_since is None
    assert not signals.dependent
    assert max(map(abs, signals.dependence.values())) < 0.15
    assert "depend" not in str(signals)
    signals, events = streamed(0.95, 0.95)
    assert not events
    assert signals.dependent_since == 0


def test_the_correlation_of_training_counts_until_enough_instances_have_come() -> None:
    few, _ = streamed(0.95, 0.0, 64)
    assert few.dependence == dependence(trained(0.95), open_stream(trained(0.95), parameters(**SETTINGS)))
    assert min(few.dependence.values()) > 0.3
    many, _ = streamed(0.95, 0.0)
    assert max(map(abs, many.dependence.values())) < 0.2, "the stream has no memory"


def after(stream: Stream, departed: int) -> tuple[Stream, list[Any]]:
    """Follow a batch of three unknown instances near the second class, and a known one."""
    now = stream._replace(arrival=stream.arrival._replace(departed=departed))
    probabilities, nearest = np.array([[0.1, 0.1, 0.8]] * 3 + [[0.9, 0.1, 0.0]]), np.array([1, 1, 1, 0])
    nothing: dict[str, Any] = dict.fromkeys(BatchPosterior._fields)
    judged = BatchPosterior(**{**nothing, "probabilities": probabilities, "nearest": nearest})
    return follow_dependence(trained(0.0), stream, now, judged)


def test_an_event_is_emitted_once_when_typical_instances_are_called_unknown_in_bulk() -> None:
    begun = open_stream(trained(0.0), parameters(**SETTINGS))
    stream, (event,) = after(begun, 96)
    assert (event.kind, event.labels, event.since) == ("typical instances unknown", begun.labels[1:], 96)
    for departed, since in ((128, 96), (-1, None)):
        stream, events = after(stream, departed)
        assert not events
        assert stream.signals.dependent_since == since
    assert len(after(stream, 160)[1]) == 1, "and again when it begins anew"


def test_there_is_no_signal_for_a_shuffled_stream() -> None:
    for order in ("arrival", "shuffled"):
        model = recognizer(0.95, order=order)
        assert bool(model.signals.dependence) == (order == "arrival")
        learn_all(model, [(x, None) for x, _ in dependent_rows(400, 2)])
        assert model.signals.dependent == (order == "arrival")


@pytest.mark.parametrize(("n", "beside"), [(600, 1.5), (60, 12.0)], ids=["plausible", "few references"])
def test_a_new_class_that_begins_beside_one_known_class_makes_no_stream_dependent(n: int, beside: float) -> None:
    model = learn_all(OpenSetRecognizer(**grouped(**SETTINGS)), dependent_rows(n, 1, 0.0))
    model.freeze()
    rng = np.random.default_rng(5)
    for i, (x, _) in enumerate(dependent_rows(1600, 2, 0.0)):
        new = i > 1000 and rng.random() < 0.6
        row = dict(zip("abc", rng.normal(-beside, 0.5, size=3).tolist(), strict=True)) if new else x
        model.learn_one(row)
    assert not [event for event in model.drain_events() if isinstance(event, DependenceFound)]
