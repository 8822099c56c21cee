"""Methods whose parameters are chosen as the paper chooses its own: half of the known classes play unknown ones."""

from __future__ import annotations

import copy
import itertools
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from benchmarks.openset.comparators.selection import micro_f
from benchmarks.openset.methods.base import UNKNOWN, Method, Outcome, Projection, Setup
from benchmarks.paper.protocol import validation_split

BATCH = 64
"""Instances decided together in the simulations, by methods that take a stream in batches."""


class Said(NamedTuple):
    """What a trained method says of a test part; where there is no `predicted`, a cut of the score is chosen too.

    Attributes
    ----------
    predicted
        Class numbers, shape (n,), or None: `closest` where `score` is not above the cut.
    score
        The higher, the more unknown, shape (n,).
    closest
        The known class that each instance is most like, shape (n,).
    """

    predicted: np.ndarray | None
    score: np.ndarray | None = None
    closest: np.ndarray | None = None

    def at(self, cut: float | None) -> np.ndarray:
        """Class numbers, shape (n,), at a cut of the score."""
        if self.predicted is not None:
            return self.predicted
        assert self.score is not None
        assert self.closest is not None
        return np.where(self.score > cut, UNKNOWN, self.closest)


class Simulation(NamedTuple):
    """The training part divided once more.

    Attributes
    ----------
    X, group
        Fitting instances and class numbers from 0, of the classes that play known ones.
    stream
        Closed and open simulation, mixed; the closed one is the part of it that is of known classes.
    answers
        Class numbers of the stream, those of classes that play unknown ones beyond the others.
    """

    X: np.ndarray
    group: np.ndarray
    stream: np.ndarray
    answers: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, group: np.ndarray, seed: int) -> Simulation:
        """Divide a training part by the paper's steps 4 to 6."""
        parts = validation_split(X, group, seed)
        number = {label: j for j, label in enumerate(parts.known + parts.unknown)}
        fitted, answers = (np.array([number[label] for label in y.tolist()]) for y in (parts.y_train, parts.y_test))
        return cls(parts.X_train, fitted, parts.X_test, answers)

    def judge(self, predicted: np.ndarray) -> tuple[float, float]:
        """Micro-F on the closed and on the open simulation; 0 where nothing is there to be counted."""
        truth = np.where(self.answers > self.group.max(), UNKNOWN, self.answers)
        closed = truth != UNKNOWN
        found = micro_f(truth[closed], predicted[closed]), micro_f(truth, predicted)
        return tuple(np.nan_to_num(found).tolist())


class Tuned(Method):
    """A method that is trained with a setting of its grid, and takes the one that does best in the simulations.

    Features are projected as for everyone, and standardized by the whole training part. A setting's stream is
    simulated once, closed and open classes mixed: the closed simulation is a part of it, as in `cocluster.py`. Among
    equals the first setting is taken; one that fails is as bad as can be.

    Attributes
    ----------
    grid
        Values of each parameter.
    cuts
        Of the score, where `_say` leaves the decision to a cut.
    in_batches
        It takes the stream in batches, `BATCH` at once in the simulations; else all of it.
    """

    grid: ClassVar[Mapping[str, tuple[Any, ...]]]
    cuts: ClassVar[tuple[float | None, ...]] = (None,)
    in_batches: ClassVar[bool] = True

    def __init__(self, setup: Setup) -> None:
        self.pca, self.seed = setup.pca, setup.seed

    def fit(self, X: np.ndarray, group: np.ndarray, known: Sequence[Any]) -> None:
        """Choose the setting and the cut, and train."""
        begin = time.perf_counter()
        self.projection = Projection(X, self.pca)
        rows = self.projection(X)
        self.mean, self.spread = rows.mean(axis=0), rows.std(axis=0)
        self.spread[self.spread < 1e-12] = 1.0
        rows = self._prepared(X)
        self.n_known = len(known)
        setting, self.cut, judged = self._best(Simulation.of(rows, group, self.seed))
        self.model = self._train(rows, group, **setting)
        self.chosen = {**setting, "closed": judged[0], "open": judged[1]}
        if self.cut is not None:
            self.chosen["cut"] = self.cut
        self.train_seconds = time.perf_counter() - begin

    def decide(self, X: np.ndarray, batch_size: int | None, delay: int) -> Outcome:
        """Decide with what was trained, as it was when it had been trained."""
        model = copy.deepcopy(self.model)
        begin = time.perf_counter()
        said = self._say(model, self._prepared(X), batch_size or len(X), self.answers)
        predicted = said.at(self.cut)
        seconds = time.perf_counter() - begin
        predicted = np.where(predicted < self.n_known, predicted, UNKNOWN)
        return Outcome(predicted, said.score, False, seconds, closest=said.closest)

    @abstractmethod
    def _train(self, X: np.ndarray, group: np.ndarray, **setting: Any) -> Any:
        """Train on the known classes; what comes back is copied before it decides."""

    @abstractmethod
    def _say(self, model: Any, X: np.ndarray, batch_size: int, answers: np.ndarray | None) -> Said:
        """Decide a test part. Whoever looks at ``answers`` does so after the decision that they are of."""

    def _prepared(self, X: np.ndarray) -> np.ndarray:
        return (self.projection(X) - self.mean) / self.spread

    def _best(self, of: Simulation) -> tuple[dict[str, Any], float | None, tuple[float, float]]:
        size = BATCH if self.in_batches else len(of.stream)
        best: tuple[dict[str, Any], float | None, tuple[float, float]] | None = None
        failure: Exception | None = None
        for values in itertools.product(*self.grid.values()):
            setting = dict(zip(self.grid, values, strict=True))
            try:
                said = self._say(self._train(of.X, of.group, **setting), of.stream, size, of.answers)
            except (ValueError, IndexError, ArithmeticError) as error:
                failure = error
                continue
            for cut in self.cuts:
                predicted = said.at(cut)
                judged = of.judge(np.where(predicted <= of.group.max(), predicted, UNKNOWN))
                if best is None or sum(judged) > sum(best[2]):
                    best = setting, cut, judged
        if best is None:
            raise RuntimeError("no setting of the grid could be trained") from failure
        return best
