"""The method of this project: with its defaults, and with one part of it left out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.openset.methods.base import UNKNOWN, Entry, Method, Outcome, Setup
from stream_osr import Decision, OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr.instances.features import Features
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.parameters import parameters
from stream_osr.stream import BufferedInstance, close_batch, open_stream
from stream_osr.training.trained import TrainedModel, train_model

OURS = "stream-osr"


class Stream(Method):
    """The method of this project with its defaults; the number of principal components is all it is told."""

    def __init__(self, setup: Setup, **changed: Any) -> None:
        self.arguments: dict[str, Any] = {"seed": setup.seed, "n_jobs": 1, **changed}
        if setup.pca is not None:
            self.arguments["pca"] = setup.pca
        if setup.epsilon is not None:
            self.arguments["epsilon"] = setup.epsilon
        self.trained: TrainedModel

    def fit(self, X: np.ndarray, group: np.ndarray, known: Sequence[Any]) -> None:
        """Train."""
        compile_kernels()
        begin = time.perf_counter()
        self.trained = train_model(
            Features(range(X.shape[1])), X, group, tuple(range(len(known))), parameters(**self.arguments)
        )
        self.train_seconds = time.perf_counter() - begin
        self.known = tuple(known)

    def decide(self, X: np.ndarray, batch_size: int | None, delay: int) -> Outcome:
        """Run the test part through a fresh stream."""
        begin = time.perf_counter()
        if delay:
            decisions, discovery = self._waiting(X, batch_size, delay)
        else:
            decisions, discovery = self._at_once(X, batch_size)
        seconds = time.perf_counter() - begin
        if sorted(d.key for d in decisions) != list(range(len(X))):
            raise RuntimeError(f"{len(decisions)} decisions for {len(X)} instances")
        decisions.sort(key=lambda d: d.key)
        known = range(len(self.known))
        return Outcome(
            predicted=np.array([d.label for d in decisions]),
            score=np.array([d.p_unknown for d in decisions]),
            score_is_probability=True,
            seconds=seconds,
            closest=np.array([max(known, key=lambda j: d.probabilities.get(j, 0.0)) for d in decisions]),
            subclass=np.array([-1 if d.subclass_id is None else d.subclass_id for d in decisions]),
            discovery=discovery,
        )

    def _at_once(self, X: np.ndarray, batch_size: int | None) -> tuple[list[Decision], dict[str, Any]]:
        chosen = parameters(**self.arguments, batch_size=batch_size)
        stream = open_stream(self.trained, chosen)
        decisions: list[Decision] = []
        rows = whiten(self.trained.whitening, np.array([self.trained.in_order(self.trained.features, x) for x in X]))
        for begin in range(0, len(rows), chosen.batch_size):
            arrived = [
                BufferedInstance(row, None, key)
                for key, row in enumerate(rows[begin : begin + chosen.batch_size], start=begin)
            ]
            stream, batch = close_batch(self.trained, stream, arrived, [], chosen)
            decisions.extend(batch.decisions)
        alive = {int(key): int(size) for key, size in zip(stream.state.ids, stream.state.dishes.size, strict=True)}
        emerged = set(stream.life.ids[stream.life.emerged].tolist())
        return decisions, self._discovery(alive, emerged, stream.life.delta, decisions)

    def _waiting(self, X: np.ndarray, batch_size: int | None, delay: int) -> tuple[list[Decision], dict[str, Any]]:
        model = OpenSetRecognizer.from_trained(
            self.trained, **grouped(**self.arguments, batch_size=batch_size, **{"decision_delay": delay})
        )
        for key, row in enumerate(X.tolist()):
            model.learn_one(dict(enumerate(row)), key=key)
        model.flush()
        decisions = list(model.drain())
        summary = model.summary()
        alive = {key: size for key, size, _ in summary.emerging}
        emerged = {key for key, _, announced in summary.emerging if announced}
        return decisions, self._discovery(alive, emerged, summary.delta, decisions)

    def _discovery(
        self, alive: dict[int, int], emerged: set[int], delta: int, decisions: Sequence[Decision]
    ) -> dict[str, Any]:
        known = self.trained.known
        groups = []
        for j, label in enumerate(self.known):
            shares = known.seated[j] / known.size[j]
            of_class = [(int(known.ids[k]), float(shares[k])) for k in np.argsort(-shares) if shares[k] > 0]
            groups.append({"label": label, "size": int(known.size[j]), "subclasses": of_class})
        emerging = sorted(((key, size, key in emerged) for key, size in alive.items()), key=lambda s: (-s[1], s[0]))
        return {
            "known": groups,
            "emerging": emerging,
            "delta": delta,
            "unknown_share": sum(d.label == UNKNOWN for d in decisions) / len(decisions),
        }


class Learning(Stream):
    """Nothing frozen: what is called a known class is learnt by that class, batch after batch."""

    def _at_once(self, X: np.ndarray, batch_size: int | None) -> tuple[list[Decision], dict[str, Any]]:
        model = OpenSetRecognizer.from_trained(self.trained, **grouped(**self.arguments, batch_size=batch_size))
        decisions: list[Decision] = []

        def learnt() -> None:
            found = list(model.drain())
            decisions.extend(found)
            for decision in found:
                if decision.label != UNKNOWN:
                    model.learn_label(decision.key, decision.label)

        for key, row in enumerate(X.tolist()):
            model.learn_one(dict(enumerate(row)), key=key)
            learnt()
        model.flush()
        learnt()
        summary = model.summary()
        alive = {key: size for key, size, _ in summary.emerging}
        emerged = {key for key, _, announced in summary.emerging if announced}
        return decisions, self._discovery(alive, emerged, summary.delta, decisions)


WITHOUT: dict[str, dict[str, Any]] = {
    "no broad term": {"background_component": False},
    "no learnt odds": {"learn_odds": False},
    "no mixture of base measures": {"ensemble": "drawn"},
    "one chain": {"chains": 1},
    "no window": {"window": 0},
    "no mass balance": {"references": 0},
    "no fading": {"half_life": 1e12},
}
"""Arguments that leave out one part each."""


@cache
def compile_kernels() -> None:
    """Have the sampler compiled before anything is timed."""
    group = np.arange(90) % 3
    X = np.random.default_rng(0).normal(size=(90, 2)) + 9.0 * group[:, None]
    known = group < 2
    trained = train_model(Features(range(2)), X[known], group[known], (0, 1), parameters(), sweeps=2)
    stream = open_stream(trained, parameters())
    rows = whiten(trained.whitening, X)
    for part in np.array_split(rows, 5):
        stream, _ = close_batch(
            trained, stream, [BufferedInstance(row, None, None) for row in part], [], parameters()
        )


ENTRIES = {
    OURS: Entry(
        Stream, "in order", "this project, untouched defaults but for the batch size", waits=True, prunes=True
    ),
    **{
        f"{OURS}, {name}": Entry(partial(Stream, **changed), "in order", f"ablation: {changed}")
        for name, changed in WITHOUT.items()
    },
    f"{OURS}, nothing frozen": Entry(
        Learning, "in order", "ablation: each known class learns the instances that were called it"
    ),
}
