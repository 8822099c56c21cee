"""Identities are unique and never used again, whatever happens to a stream and in whatever order."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.config import grouped
from stream_osr.errors import NothingToUndo
from stream_osr.stream import Stream
from tests.blobs import KNOWN, check_stream, drained, fitted
from tests.tiers import examples

CENTRES = [*KNOWN.values(), (4.0, 14.0), (-12.0, -9.0), (25.0, 8.0), (4.0, 17.0)]

Operation = tuple[Any, ...]

arrivals = st.tuples(
    st.just("arrive"), st.lists(st.integers(0, len(CENTRES) - 1), min_size=1, max_size=3), st.integers(3, 24)
)
operations = st.one_of(
    arrivals,
    arrivals,
    st.tuples(st.just("promote"), st.integers(0, 9), st.integers(1, 3), st.sampled_from(["left", "x", "y", "z"])),
    st.tuples(st.just("mute"), st.integers(0, 9)),
    st.tuples(st.just("label"), st.integers(0, 60), st.sampled_from(["left", "right", "x", "y"])),
    st.tuples(st.just("learn"), st.integers(0, len(CENTRES) - 1), st.sampled_from(["right", "x", "w"])),
    st.tuples(st.just("undo")),
    st.tuples(st.just("save")),
    st.tuples(st.just("flush")),
    st.tuples(st.just("succeed"), st.integers(1, 2)),
)


@cache
def trained(number: int = 0) -> TrainedModel:
    return fitted(40 + 10 * number, training_sweeps=5, chains=2).trained


class Story:
    """Runs operations on a recognizer and follows the identities of every chain."""

    def __init__(self, **arguments: Any) -> None:
        usual = {"batch_size": 8, "window": 20, "half_life": 30.0, "max_subclasses": 3, "label_horizon": 60}
        self.arguments = {"chains": 2, "seed": 3, **usual, **arguments}
        self.model = OpenSetRecognizer.from_trained(trained(), **grouped(**self.arguments))
        self.rng = np.random.default_rng(0)
        self.arrived = 0
        self.labels: Counter[Any] = Counter()
        chains = self.stream.chains
        self.alive: list[set[int]] = [set() for _ in chains]
        self.gone: list[set[int]] = [set() for _ in chains]
        self.next_id = [0 for _ in chains]
        self.look()

    @property
    def stream(self) -> Stream:
        assert self.model.value.stream is not None
        return self.model.value.stream

    def instance(self, centre: int) -> dict[str, float]:
        return dict(zip("ab", self.rng.normal(CENTRES[centre]).tolist(), strict=True))

    def do(self, name: str, *arguments: Any) -> None:
        getattr(self, name)(*arguments)
        self.look()

    def arrive(self, centres: list[int], n: int) -> None:
        """Stream instances; counts and identities are checked after each batch and at the end."""
        for i in range(n):
            before = self.stream.chains
            self.model.learn_one(self.instance(centres[i % len(centres)]), key=self.arrived)
            self.arrived += 1
            if self.stream.chains is not before:
                self.look()

    def promote(self, which: int, count: int, label: str) -> None:
        ids = self.stream.state.ids.tolist()
        if ids:
            self.model.promote([ids[(which + i) % len(ids)] for i in range(count)], label)

    def mute(self, which: int) -> None:
        lives = self.stream.life.subclasses
        ids = [key for key in self.stream.state.ids.tolist() if key not in lives or not lives[key].muted]
        if ids:
            self.model.mute([ids[which % len(ids)]])

    def label(self, back: int, label: str) -> None:
        self.model.learn_label(self.arrived - back, label)

    def learn(self, centre: int, label: str) -> None:
        self.model.learn_one(self.instance(centre), label)

    def undo(self) -> None:
        try:
            self.model.undo()
        except NothingToUndo:
            assert not self.stream.undo_log

    def save(self) -> None:
        with TemporaryDirectory() as folder:
            self.model.save(Path(folder) / "model.osr")
            self.model = OpenSetRecognizer.load(Path(folder) / "model.osr")

    def flush(self) -> None:
        self.model.flush()

    def succeed(self, number: int) -> None:
        """Go on under another model, and it may be the same once more."""
        self.do("flush")
        earlier, self.model = self.model, OpenSetRecognizer.from_trained(trained(number), **grouped(**self.arguments))
        self.model.carry_over(earlier)

    def look(self) -> None:
        """Check counts and identities."""
        check_stream(self.stream)
        ever = self.alive[0] | self.gone[0]
        for number, chain in enumerate(self.stream.chains):
            emerging, known = chain.state.ids.tolist(), chain.known.ids.tolist()
            aside = chain.dormant.ids.tolist()  # off the menu, and back under their identities
            now = {*emerging, *known, *aside}
            assert len(now) == len(emerging) + len(known) + len(aside)
            assert not now & self.gone[number], "an identity was used again"
            fresh = now - self.alive[number]
            assert all(self.next_id[number] <= key < chain.state.next_id for key in fresh)
            assert chain.state.next_id >= self.next_id[number]
            self.gone[number] |= self.alive[number] - now
            self.alive[number], self.next_id[number] = now, chain.state.next_id
            assert set(chain.known.named) <= set(known)
            assert set(chain.life.subclasses) <= {*emerging, *aside}
        ever |= self.alive[0]
        decisions, events = drained(self.model)
        self.labels.update(d.label for d in decisions)
        names = {d.subclass_id for d in decisions} | {getattr(e, "subclass_id", None) for e in events}
        assert all(name is None or name < self.next_id[0] for name in names)
        stream = self.stream
        counted = {label: n for label, n in zip((*stream.labels, "unknown"), stream.decided, strict=True) if n}
        assert counted == dict(self.labels), "the counters agree with the decisions"


@pytest.mark.thorough
@examples(12, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(operations, min_size=5, max_size=16), st.sampled_from([{}, {"decision_delay": 12}, {"window": 0}]))
@example([("promote", 0, 1, "left"), ("label", 34, "left"), ("flush",)], {})  # the last instance of a subclass goes
def test_identities_are_never_used_again(story, arguments):
    follower = Story(**arguments)
    follower.do("arrive", [0, 2, 1, 3], 40)
    for operation in story:
        follower.do(*operation)
