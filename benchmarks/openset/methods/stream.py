"""The method of this project: with its defaults, and with one part of it left out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.deciding import steps, train
from benchmarks.openset.methods.base import UNKNOWN, Entry, Method, Outcome, Setup, blobs
from stream_osr import Decision, OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.parameters import parameters
from stream_osr.training.trained import TrainedModel

OURS = "stream-osr"


class Stream(Method):
    """The method of this project with its defaults; the number of principal components is all it is told."""

    learning = False
    """Whether each known class learns what is called it."""

    def __init__(self, setup: Setup, **changed: Any) -> None:
        self.arguments: dict[str, Any] = {"seed": setup.seed, "n_jobs": 1, **changed}
        if setup.pca is not None:
            self.arguments["pca"] = setup.pca
        self.trained: TrainedModel

    def fit(self, X: np.ndarray, group: np.ndarray, known: Sequence[Any]) -> None:
        """Train."""
        warm_up()
        begin = time.perf_counter()
        self.trained = train(X, group, parameters(**self.arguments), range(len(known)))
        self.train_seconds = time.perf_counter() - begin
        self.known = tuple(known)

    def decide(self, X: np.ndarray, batch_size: int | None, delay: int) -> Outcome:
        """Run the test part through a fresh stream."""
        begin = time.perf_counter()
        decisions, discovery = self._decided(X, batch_size, delay)
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

    def _decided(self, X: np.ndarray, batch_size: int | None, delay: int) -> tuple[list[Decision], dict[str, Any]]:
        """Stream all instances, `step` of them at a time."""
        arguments = grouped(**self.arguments, batch_size=batch_size, decision_delay=delay)
        model = OpenSetRecognizer.from_trained(self.trained, **arguments)
        decisions: list[Decision] = []
        step = 1 if self.learning else len(X)
        for begin in range(0, len(X), step):
            model.learn_rows(X[begin : begin + step], key=range(begin, min(begin + step, len(X))))
            if begin + step >= len(X):
                model.flush()
            found = list(model.drain())
            decisions.extend(found)
            for decision in found:
                if self.learning and decision.label != UNKNOWN:
                    model.learn_label(decision.key, decision.label)
        summary = model.summary()
        return decisions, self._discovery(summary.emerging, summary.delta, decisions)

    def _discovery(
        self, emerging: Iterable[tuple[int, int, bool]], delta: int, decisions: Sequence[Decision]
    ) -> dict[str, Any]:
        known = self.trained.known
        groups = []
        for j, label in enumerate(self.known):
            shares = known.seated[j] / known.size[j]
            of_class = [(int(known.ids[k]), float(shares[k])) for k in np.argsort(-shares) if shares[k] > 0]
            groups.append({"label": label, "size": int(known.size[j]), "subclasses": of_class})
        return {
            "known": groups,
            "emerging": sorted(emerging, key=lambda one: (-one[1], one[0])),
            "delta": delta,
            "unknown_share": sum(d.label == UNKNOWN for d in decisions) / len(decisions),
        }


class Learning(Stream):
    """Nothing frozen: what is called a known class is learnt by that class, batch after batch."""

    learning = True


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
def warm_up() -> None:
    """Have the sampler compiled."""
    X, group = blobs()
    known = group < 2
    trained = train(X[known], group[known], parameters(), sweeps=2)
    for _ in steps(trained, whiten(trained.whitening, X), parameters(batch_size=18)):
        pass


ENTRIES = {
    OURS: Entry(Stream, "in order", "this project, untouched defaults but for the batch size", waits=True),
    **{
        f"{OURS}, {name}": Entry(partial(Stream, **changed), "in order", f"ablation: {changed}")
        for name, changed in WITHOUT.items()
    },
    f"{OURS}, nothing frozen": Entry(
        Learning, "in order", "ablation: each known class learns the instances that were called it"
    ),
}
