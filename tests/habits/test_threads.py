"""One thread at a time changes a recognizer; a second one gets an error and nothing is decided twice."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.archive.recognizers import content_of
from stream_osr.errors import ConcurrentChange
from stream_osr.stream import recognizer_state
from stream_osr.support.one_writer import WRITERS

RNG = np.random.default_rng(0)
ROWS = [{"a": 12.0 * (i % 2) + RNG.normal(), "b": RNG.normal()} for i in range(200)]


@pytest.fixture
def model() -> OpenSetRecognizer:
    out = OpenSetRecognizer(chains=1, batch_size=8)
    for i, x in enumerate(ROWS[:60]):
        out.learn_one(x, i % 2)
    out.freeze()
    return out


@pytest.fixture
def closing(model: OpenSetRecognizer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A thread closes a batch, which waits for an event; with a copy of the model from before."""
    before = copy.copy(model)
    inside, go, close = threading.Event(), threading.Event(), recognizer_state.close_arrivals

    def waiting(*given: Any, **named: Any) -> Any:
        inside.set()
        go.wait(60)
        return close(*given, **named)

    monkeypatch.setattr(recognizer_state, "close_arrivals", waiting)
    first = threading.Thread(target=lambda: [model.learn_one(x) for x in ROWS[:8]], name="first")
    first.start()
    assert inside.wait(60)
    yield go, before
    go.set()
    first.join(60)
    assert sum(1 for _ in model.drain()) == 8
    assert not WRITERS


@pytest.mark.usefixtures("closing")
def test_a_second_thread_is_refused(model: OpenSetRecognizer) -> None:
    before = pickle.dumps(content_of(model, model.value))
    for call in (
        lambda: model.learn_one(ROWS[0]),
        lambda: model.learn_one(ROWS[0], 1),
        lambda: model.learn_many(np.zeros((2, 2))),
        model.flush,
        lambda: model.learn_label("k", 1),
        lambda: model.set_batch_aside("no reason"),
    ):
        with pytest.raises(ConcurrentChange, match=r"another thread \(first\) is changing"):
            call()
    assert pickle.dumps(content_of(model, model.value)) == before
    assert model.predict_one(ROWS[0]) == 0  # which any thread may call


def test_threads_may_take_turns(model: OpenSetRecognizer) -> None:
    for key in range(8):
        thread = threading.Thread(target=model.learn_one, args=(ROWS[key],), kwargs={"key": key})
        thread.start()
        thread.join()
    assert [decision.key for decision in model.drain()] == [*range(8)]


def test_an_error_lets_go(model: OpenSetRecognizer) -> None:
    with pytest.raises(ValueError, match="feature 'a'"):
        model.learn_one({"a": "high", "b": 1.0})
    assert not WRITERS


def test_a_child_and_a_copy_begin_free(closing: Any) -> None:
    go, other = closing
    child = os.fork()
    if child == 0:
        go.set()
        os._exit(0 if not WRITERS else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for each in (other, pickle.loads(pickle.dumps(other))):
        each.learn_one(ROWS[0])
        assert each.pending == 1
