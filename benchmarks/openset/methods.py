"""What is compared: the stream, the paper's co-clustering, and the comparators, behind one interface.

Class numbers are integers from 0, ``UNKNOWN`` stands for none of them.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from stream_osr import Decision, OpenSetRecognizer, engine
from stream_osr.config import parameters
from stream_osr.features import Features
from stream_osr.model.cocluster import cocluster
from stream_osr.model.space import whiten
from stream_osr.trained import TrainedModel, train_model

UNKNOWN = -1

OURS = "stream-osr"
COCLUSTER: dict[str, Literal["random", "classwise"]] = {
    "cocluster random": "random",
    "cocluster class-wise": "classwise",
}


class Outcome(NamedTuple):
    """What a method says of a test part.

    Attributes
    ----------
    predicted
        Class numbers, shape (n,).
    score
        The higher, the more unknown, shape (n,); None if the method gives no score.
    score_is_probability
        The score claims to be the probability of being unknown.
    seconds
        Time that the decisions took.
    subclass
        Subclass of each instance, -1 for none, shape (n,); None if the method finds none.
    discovery
        Subclasses of the known classes and of the stream.
    """

    predicted: np.ndarray
    score: np.ndarray | None
    score_is_probability: bool
    seconds: float
    subclass: np.ndarray | None = None
    discovery: dict[str, Any] | None = None


class Method(ABC):
    """Trained once, asked for every openness and batch size.

    Attributes
    ----------
    train_seconds
        Time of `fit`, choice of hyperparameters included; None for a method that does not train.
    """

    train_seconds: float | None = None

    @abstractmethod
    def fit(self, X: np.ndarray, group: np.ndarray, known: Sequence[Any]) -> None:
        """Train on instances (n, p), class numbers (n,) and the label of each class number."""

    @abstractmethod
    def decide(self, X: np.ndarray, batch_size: int | None, delay: int) -> Outcome:
        """Decide a test part (n, p) in order, in batches of a size, each decision waiting for ``delay`` instances."""


class Stream(Method):
    """The method of this project with its defaults; the number of principal components is all it is told."""

    def __init__(self, pca: int | None, seed: int, epsilon: float | None) -> None:
        self.arguments: dict[str, Any] = {"seed": seed}
        if pca is not None:
            self.arguments["pca_components"] = pca
        if epsilon is not None:
            self.arguments["epsilon"] = epsilon
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
        return Outcome(
            predicted=np.array([d.label for d in decisions]),
            score=np.array([d.p_unknown for d in decisions]),
            score_is_probability=True,
            seconds=seconds,
            subclass=np.array([-1 if d.subclass_id is None else d.subclass_id for d in decisions]),
            discovery=discovery,
        )

    def _at_once(self, X: np.ndarray, batch_size: int | None) -> tuple[list[Decision], dict[str, Any]]:
        chosen = parameters(**self.arguments, batch_size=batch_size)
        stream = engine.open_stream(self.trained, chosen)
        decisions: list[Decision] = []
        rows = whiten(self.trained.space, X)
        for begin in range(0, len(rows), chosen.batch_size):
            arrived = [
                engine.Arrived(row, None, key)
                for key, row in enumerate(rows[begin : begin + chosen.batch_size], start=begin)
            ]
            stream, batch = engine.close_batch(self.trained, stream, arrived, [], chosen)
            decisions.extend(batch.decisions)
        alive = {int(key): int(size) for key, size in zip(stream.state.ids, stream.state.dishes.size, strict=True)}
        emerged = set(stream.life.ids[stream.life.emerged].tolist())
        return decisions, self._discovery(alive, emerged, stream.life.delta, decisions)

    def _waiting(self, X: np.ndarray, batch_size: int | None, delay: int) -> tuple[list[Decision], dict[str, Any]]:
        model = OpenSetRecognizer.from_trained(
            self.trained, **self.arguments, batch_size=batch_size, **{"decision_delay": delay}
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


class CoCluster(Method):
    """The paper's own algorithm, all of it for every test part: training and test instances clustered together.

    Of its base measure nu = d + 1 and scale .1 are fixed, where the paper chooses both by validation: what it reaches
    here is less than it can.
    """

    def __init__(
        self, start: Literal["random", "classwise"], pca: int | None, seed: int, epsilon: float | None
    ) -> None:
        self.pca, self.seed = pca, seed
        self.arguments: dict[str, Any] = {"start": start, "scale": 0.1}
        if epsilon is not None:
            self.arguments["epsilon"] = epsilon

    def fit(self, X: np.ndarray, group: np.ndarray, known: Sequence[Any]) -> None:
        """Keep the training part."""
        compile_kernels()
        self.X, self.group = X, group

    def decide(self, X: np.ndarray, batch_size: int | None, delay: int) -> Outcome:
        """Cluster the training part and the whole test part."""
        begin = time.perf_counter()
        found = cocluster(
            self.X,
            self.group,
            X,
            np.random.default_rng(self.seed),
            nu=(self.pca or X.shape[1]) + 1.0,
            pca_components=self.pca,
            **self.arguments,
        )
        return Outcome(found.label, None, False, time.perf_counter() - begin)


class Family:
    """Comparators selected together on one training part: those on support vector machines share them.

    Parameters
    ----------
    names
        The comparators.
    seed
        Of the validation split.
    """

    def __init__(self, names: Sequence[str], seed: int) -> None:
        self.names, self.seed = tuple(names), seed
        self._found: dict[str, Any] | None = None

    def select(self, name: str, X: np.ndarray, group: np.ndarray) -> Any:
        """Select one of the family; where all of them at once fail, each is tried alone."""
        from benchmarks.openset.comparators import select, select_family

        if self._found is None:
            self._found = {}
            if len(self.names) > 1:
                with suppress(Exception):
                    self._found = select_family(self.names, X, group, self.seed)
        return self._found[name] if name in self._found else select(name, X, group, self.seed)


class Comparator(Method):
    """A method of others, hyperparameters selected on the training part by the paper's validation split."""

    def __init__(self, name: str, pca: int | None, family: Family) -> None:
        self.name, self.pca, self.family = name, pca, family

    def fit(self, X: np.ndarray, group: np.ndarray, known: Sequence[Any]) -> None:
        """Fit the principal axes, select, fit. The time is told when it is this comparator's alone."""
        begin = time.perf_counter()
        self.centre, self.axes = X.mean(axis=0), np.eye(X.shape[1])
        if self.pca is not None:
            self.axes = np.linalg.svd(X - self.centre, full_matrices=False)[2][: self.pca].T
        self.estimator = self.family.select(self.name, self._projected(X), group)
        if len(self.family.names) == 1:
            self.train_seconds = time.perf_counter() - begin

    def decide(self, X: np.ndarray, batch_size: int | None, delay: int) -> Outcome:
        """Decide one by one."""
        rows = self._projected(X)
        begin = time.perf_counter()
        predicted = np.asarray(self.estimator.predict(rows))
        seconds = time.perf_counter() - begin
        return Outcome(predicted, np.asarray(self.estimator.score_unknown(rows)), False, seconds)

    def _projected(self, X: np.ndarray) -> np.ndarray:
        return X if self.pca is None else (X - self.centre) @ self.axes


def names() -> tuple[str, ...]:
    """Every method that there is: ours, the paper's, the comparators."""
    return (OURS, *COCLUSTER, *_comparators())


def kind_of(name: str) -> Literal["stream", "cocluster", "comparator"]:
    """Which kind of method it is."""
    if name == OURS:
        return "stream"
    return "cocluster" if name in COCLUSTER else "comparator"


def make(name: str, pca: int | None, seed: int, epsilon: float | None, family: Family | None = None) -> Method:
    """Make a method, not yet trained; a comparator may be selected with a family."""
    if name == OURS:
        return Stream(pca, seed, epsilon)
    if name in COCLUSTER:
        return CoCluster(COCLUSTER[name], pca, seed, epsilon)
    return Comparator(name, pca, family or Family([name], seed))


def _comparators() -> tuple[str, ...]:
    try:
        from benchmarks.openset.comparators import METHODS, VARIANTS
    except ImportError:
        return ()
    return (*METHODS, *VARIANTS)


@cache
def compile_kernels() -> None:
    """Have the sampler compiled before anything is timed."""
    group = np.arange(90) % 3
    X = np.random.default_rng(0).normal(size=(90, 2)) + 9.0 * group[:, None]
    known = group < 2
    trained = train_model(Features(range(2)), X[known], group[known], (0, 1), parameters(), sweeps=2)
    stream = engine.open_stream(trained, parameters())
    rows = whiten(trained.space, X)
    for part in np.array_split(rows, 5):
        stream, _ = engine.close_batch(
            trained, stream, [engine.Arrived(row, None, None) for row in part], [], parameters()
        )
    cocluster(X[known], group[known], X, np.random.default_rng(0), nu=6.0, scale=0.1, sweeps=2)
