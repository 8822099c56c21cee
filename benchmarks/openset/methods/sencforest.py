"""SENCForest, written anew from the paper: completely random trees that detect new classes, and learn them.

X. Mu, K. M. Ting and Z.-H. Zhou, "Classification under streaming emerging new classes: a solution using
completely-random trees", IEEE Transactions on Knowledge and Data Engineering 29, 2017. What is simpler here:

* leaves keep their instances, where the paper keeps counts and draws pseudo-instances from a ball when a leaf grows;
* all classes that are found are one class, which is unknown: one forest is enough, and none retires;
* a batch is decided by the forest at its beginning, and the buffer is looked at after it;
* new is what more than a share of the trees call new, chosen by validation, where the paper takes the largest vote.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from benchmarks.openset.methods.base import UNKNOWN, Entry
from benchmarks.openset.tuned import Said, Tuned

TREES = 100
SUBSAMPLE = 100
"""Instances of each class in a tree; the paper's numbers both."""
BUFFER = 100
"""Instances called new that are learnt as a class: a subsample."""


class Tree:
    """Splits by a random feature at a random value, until a leaf has few instances.

    A leaf votes for its commonest class. Where it lies nearer to the root than the tree's threshold, that goes for
    the ball around the mean of its instances that just holds them: what is outside of the ball is new.
    """

    def __init__(self, X: np.ndarray, group: np.ndarray, min_size: int, rng: np.random.Generator) -> None:
        self.X, self.group, self.min_size, self.rng = X, group, min_size, rng
        self.feature, self.value, self.child = [-1], [0.0], [-1]
        self.depth = [0]
        self.members = {0: np.arange(len(X))}
        self._grow([0])

    def learn(self, X: np.ndarray, label: int) -> None:
        """Have instances of a new class (n, p) fall into leaves, and those that are too large grow."""
        leaves = self.leaves_of(X)
        first = len(self.X)
        self.X, self.group = np.concatenate([self.X, X]), np.concatenate([self.group, np.full(len(X), label)])
        for leaf in np.unique(leaves).tolist():
            self.members[leaf] = np.concatenate([self.members[leaf], first + np.flatnonzero(leaves == leaf)])
        self._grow(np.unique(leaves).tolist())

    def leaves_of(self, X: np.ndarray) -> np.ndarray:
        """Leaf of each instance, shape (n,)."""
        at = np.zeros(len(X), dtype=np.intp)
        feature, value, child = self.arrays
        moving = np.arange(len(X))
        while len(moving := moving[feature[at[moving]] >= 0]):
            here = at[moving]
            at[moving] = child[here] + (X[moving, feature[here]] > value[here])
        return at

    def votes(self, X: np.ndarray, new: int) -> np.ndarray:
        """Class of each instance, ``new`` where it lies outside, shape (n,)."""
        leaves = self.leaves_of(X)
        outside = self.near_root[leaves] & (np.linalg.norm(X - self.centre[leaves], axis=1) > self.radius[leaves])
        return np.where(outside, new, self.label[leaves])

    def _grow(self, waiting: list[int]) -> None:
        while waiting:
            node = waiting.pop()
            rows = self.members[node]
            low, high = self.X[rows].min(axis=0), self.X[rows].max(axis=0)
            wide = np.flatnonzero(high > low)
            if len(rows) <= self.min_size or not len(wide):
                continue
            feature = int(self.rng.choice(wide))
            value = float(self.rng.uniform(low[feature], high[feature]))
            right = self.X[rows, feature] > value
            if right.all() or not right.any():  # no number lies between the two
                continue
            first = len(self.feature)
            self.feature[node], self.value[node], self.child[node] = feature, value, first
            for of in (rows[~right], rows[right]):
                waiting.append(len(self.feature))
                self.members[len(self.feature)] = of
                self.feature.append(-1)
                self.value.append(0.0)
                self.child.append(-1)
                self.depth.append(self.depth[node] + 1)
            del self.members[node]
        self._settle()

    def _settle(self) -> None:
        """Work out what leaves vote for, and where they are near the root."""
        self.arrays = np.array(self.feature), np.array(self.value), np.array(self.child)
        n, depth = len(self.feature), np.array(self.depth)
        self.label, self.radius = np.zeros(n, dtype=np.intp), np.zeros(n)
        self.centre = np.zeros((n, self.X.shape[1]))
        for leaf, rows in self.members.items():
            self.label[leaf] = np.bincount(self.group[rows]).argmax()
            self.centre[leaf] = self.X[rows].mean(axis=0)
            self.radius[leaf] = np.linalg.norm(self.X[rows] - self.centre[leaf], axis=1).max()
        self.near_root = depth < threshold(depth[list(self.members)])


def threshold(depths: np.ndarray) -> float:
    """Depth that parts leaves near the root from others: both parts spread as equally as can be.

    Examples
    --------
    >>> float(threshold(np.array([1, 2, 2, 9, 10, 10])))
    9.0
    """
    ordered = np.sort(depths).astype(float)
    ends = np.flatnonzero(np.diff(ordered)) + 1
    if not len(ends):
        return float(ordered[0])
    differences = [abs(ordered[:end].std() - ordered[end:].std()) for end in ends]
    return float(ordered[ends[int(np.argmin(differences))]])


class Forest:
    """The trees, and the buffer of what they call new."""

    def __init__(self, X: np.ndarray, group: np.ndarray, min_size: int, share: float, seed: int) -> None:
        self.rng, self.share = np.random.default_rng(seed), share
        self.n_known = int(group.max()) + 1
        self.buffer = np.empty((0, X.shape[1]))
        self.trees = []
        for _ in range(TREES):
            rows = np.concatenate([self._some(np.flatnonzero(group == j)) for j in range(self.n_known)])
            self.trees.append(Tree(X[rows], group[rows], min_size, self.rng))

    def decide(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Share of the trees that call each instance new or of a class found, and the known class most voted for."""
        new = self.n_known + 1
        voted = np.stack([tree.votes(X, new) for tree in self.trees], axis=1)
        counts = np.stack([(voted == j).sum(axis=1) for j in range(new + 1)], axis=1) / TREES
        score = counts[:, self.n_known :].sum(axis=1)
        unseen = (score > self.share) & (counts[:, new] >= counts[:, self.n_known])
        self.buffer = np.concatenate([self.buffer, X[unseen]])
        if len(self.buffer) >= BUFFER:
            for tree in self.trees:
                tree.learn(self._some(self.buffer), self.n_known)
            self.buffer = self.buffer[:0]
        return score, counts[:, : self.n_known].argmax(axis=1)

    def _some(self, of: np.ndarray) -> np.ndarray:
        return self.rng.permutation(of)[:SUBSAMPLE]


class SENCForest(Tuned):
    """The forest; settings are the instances that a leaf may have, and the share of trees above which one is new."""

    grid: ClassVar = {"min_size": (5, 10, 20), "share": (0.3, 0.5, 0.7, 0.9)}

    def _train(self, X: np.ndarray, group: np.ndarray, **setting: Any) -> Any:
        return Forest(X, group, **setting, seed=self.seed)

    def _say(self, model: Any, X: np.ndarray, batch_size: int, answers: np.ndarray | None) -> Said:
        said = [model.decide(X[at : at + batch_size]) for at in range(0, len(X), batch_size)]
        score, closest = (np.concatenate(each) for each in zip(*said, strict=True))
        return Said(np.where(score > model.share, UNKNOWN, closest), score, closest)


ENTRIES = {"SENCForest": Entry(SENCForest, "in order", "written anew; parameters by the paper's validation")}
