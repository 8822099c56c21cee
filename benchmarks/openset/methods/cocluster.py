"""The paper's own algorithm: training groups and the whole test part clustered together, its prior by validation."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Literal

import numpy as np

from benchmarks.openset.methods.base import UNKNOWN, Entry, Method, Outcome, Setup, blobs
from benchmarks.openset.tuned import Simulation
from benchmarks.paper.cocluster import cocluster, owners

Start = Literal["random", "classwise"]
Grid = tuple[tuple[int, ...], tuple[float, ...]]
"""Degrees of freedom above the dimension, and scales."""

FULL: Grid = (tuple(range(21)), (1e-5, 1e-4, 1e-3, 1e-2, *(round(0.1 * i, 1) for i in range(1, 11))))
"""The paper's: 294 points."""
COARSE: Grid = ((0, 1, 5, 10, 20), (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0))
"""35 of them."""
EPSILON = 0.01
"""Share of its class below which a known subclass is dropped."""

EPSILONS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""The paper's figure 14."""


class CoCluster(Method):
    """Algorithm 1 of the paper, all of it for every test part.

    Its base measure is chosen as the paper chooses it: half of the known classes play unknown ones, the fitting set
    and the validation set are clustered together for each point of the grid, and the one with the best mean of the
    micro-F on the closed and on the open simulation is taken; among equals the first. The validation set is clustered
    once for a point, as one batch: the closed simulation is a part of it. Principal axes are those of the instances
    that are fitted, in the simulation too (on tuning seeds that chooses better than those of all training instances).
    """

    def __init__(self, setup: Setup, start: Start, grid: Grid) -> None:
        self.pca, self.seed, self.start, self.grid = setup.pca, setup.seed, start, grid

    def fit(self, X: np.ndarray, group: np.ndarray, known: Sequence[Any]) -> None:
        """Choose degrees of freedom and scale; keep the training part."""
        warm_up()
        begin = time.perf_counter()
        self.X, self.group, self.known = X, group, tuple(known)
        points = list(itertools.product(*self.grid))
        of = Simulation.of(X, group, self.seed)
        judged = [of.judge(self._clustered(of.X, of.group, of.stream, *point).label) for point in points]
        best = int(np.mean(judged, axis=1).argmax())
        self.above, self.scale = points[best]
        self.chosen = {"nu_above_dimension": self.above, "scale": self.scale, "points": len(points)}
        self.chosen |= dict(zip(("closed", "open"), judged[best], strict=True))
        self.train_seconds = time.perf_counter() - begin

    def decide(self, X: np.ndarray, batch_size: int | None, delay: int) -> Outcome:
        """Cluster the training part and the whole test part."""
        begin = time.perf_counter()
        found = self._clustered(self.X, self.group, X, self.above, self.scale)
        seconds = time.perf_counter() - begin
        of = {epsilon: owners(found.counts, epsilon)[found.subclass] for epsilon in EPSILONS}
        discovery = self._discovery(found.counts, found.label)
        return Outcome(found.label, None, False, seconds, None, found.subclass, discovery, of)

    def _clustered(self, X: np.ndarray, group: np.ndarray, test: np.ndarray, above: int, scale: float) -> Any:
        options = {"nu": (self.pca or X.shape[1]) + float(above), "scale": scale, "start": self.start}
        rng = np.random.default_rng(self.seed)
        return cocluster(X, group, test, rng, pca_components=self.pca, epsilon=EPSILON, **options)

    def _discovery(self, counts: np.ndarray, label: np.ndarray) -> dict[str, Any]:
        """Lay out tables 1 and 2 of the paper: shares of the subclasses of each class, sizes of the new ones."""
        owner, test = owners(counts, EPSILON), counts[-1]
        groups = []
        for j, name in enumerate(self.known):
            shares = counts[j] / counts[j].sum()
            kept = [k for k in np.argsort(-shares) if shares[k] >= max(EPSILON, 1e-12)]
            of_class = [(int(k), float(shares[k])) for k in kept]
            groups.append({"label": name, "size": int(counts[j].sum()), "subclasses": of_class})
        new = sorted((int(-test[k]), int(k)) for k in np.flatnonzero((owner == UNKNOWN) & (test > 0)))
        return {
            "known": groups,
            "known_met": int(((owner != UNKNOWN) & (test > 0)).sum()),
            "emerging": [(k, -size, True) for size, k in new],
            "delta": None,
            "unknown_share": float((label == UNKNOWN).mean()),
        }


@cache
def warm_up() -> None:
    """Have the sampler compiled."""
    X, group = blobs()
    known = group < 2
    cocluster(X[known], group[known], X, np.random.default_rng(0), nu=6.0, scale=0.1, sweeps=2)


STARTS: dict[str, Start] = {"CD-OSR": "random", "CD-OSR class-wise": "classwise"}
"""As the paper begins, each group spread over 30 subclasses; and with a subclass for each class."""

ENTRIES = {
    f"{name}{where}": Entry(partial(CoCluster, start=start, grid=grid), "whole", f"the paper's, {points}")
    for where, grid, points in (("", COARSE, "35 points of its grid"), (", full grid", FULL, "all 294"))
    for name, start in STARTS.items()
}
