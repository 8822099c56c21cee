"""The 1-vs-Set machine: support vector machines whose classes end at a second plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.openset.comparators.base import Decisions
from benchmarks.openset.comparators.margin_classifier import Kernel, MarginClassifier, Request, Trained

MOVES = 50
"""Of both planes at most; a few are needed."""


class Slab(NamedTuple):
    """Margins between which an instance is of the class.

    Attributes
    ----------
    near, far
        Plane towards the other classes, and the plane that ends the class.
    """

    near: float
    far: float


@dataclass(repr=False, eq=False)
class OneVsSet(MarginClassifier):
    """1-vs-Set machine of Scheirer et al. [1]_.

    For each class a machine is trained against the rest; parallel to its plane A a second one B is put. Both are
    moved to make the open-set risk least, ``R_O + risk_weight / F`` with
    ``R_O = (zeta_B - zeta_A) / zeta+ + zeta+ / (zeta_B - zeta_A)``, where the zetas are margins, ``zeta+`` the
    width of the class's own margins, and F the F-measure of the slab on the training instances
    (equations 2 and 3 of Geng and Chen, without the last two terms). They are moved in turn, each to its best
    place given the other, from the outermost instances of the class until nothing improves. An instance is of the
    class in whose slab it lies deepest, depth counted from the nearer plane in widths of the slab; in none, it is
    unknown. With a radial kernel margins are bounded, and only the near plane counts, as in the authors' programme.

    Parameters
    ----------
    C
        Weight of the slack.
    gamma
        Of the kernel ``exp(-gamma |x - z|^2)``, on scaled features; None for a linear machine, "auto" for one over
        the number of features, libsvm's default.
    risk_weight
        Weight of the error on the training instances.
    near_pressure
        Moves the near plane outwards, from the outermost instance inside it (0) to midway to the next outside (1).
    scaling
        Of the features, by the instances fitted: "each" to [-1, 1], all by "one" factor, the widest to [-1, 1], or
        "none".

    References
    ----------
    .. [1] W. J. Scheirer, A. Rocha, A. Sapkota and T. E. Boult, "Toward open set recognition", IEEE TPAMI 35, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> X = np.concatenate([rng.normal(0, 1, (30, 2)), rng.normal(6, 1, (30, 2))])
    >>> y = np.repeat([0, 1], 30)
    >>> OneVsSet().fit(X, y).predict([[0, 0], [6, 6], [90, 90]]).tolist()
    [0, 1, -1]
    """

    C: float = 1.0
    gamma: float | Literal["auto"] | None = None
    risk_weight: float = 1.0
    near_pressure: float = 0.0
    scaling: str = "each"

    def cut(self) -> float:
        """Zero: the planes are the cut."""
        return 0.0

    def requests(self) -> tuple[Request, ...]:
        """Machines against the rest."""
        return (Request(self.scaling, Kernel(self.gamma), C=self.C),)

    def calibrate(self, request: Request, trained: Trained, y: NDArray[np.int64]) -> list[Slab]:
        """Find a slab for each class."""
        two_sided = self.gamma is None
        return [
            best_slab(trained.own[:, j], y == label, self.risk_weight, two_sided, self.near_pressure)
            for j, label in enumerate(np.unique(y))
        ]

    def opinion(self, request: Request, calibration: list[Slab], margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Depth in each slab, in its widths; negative outside."""
        near = np.array([slab.near for slab in calibration])
        far = np.array([slab.far for slab in calibration])
        depth = margins - near
        if self.gamma is None:
            depth = np.minimum(depth, far - margins)
        return depth / (far - near)

    def combine(self, opinions: Sequence[NDArray[np.float64]], classes: NDArray[np.int64]) -> Decisions:
        """Decide for the deepest; outside all slabs, unknownness is positive."""
        depth = opinions[0]
        return Decisions(classes[depth.argmax(axis=1)], -depth.max(axis=1))


def best_slab(
    margins: NDArray[np.float64],
    of_class: NDArray[np.bool_],
    risk_weight: float,
    two_sided: bool,
    near_pressure: float = 0.0,
) -> Slab:
    """Planes of least open-set risk: the near one at a training instance, the far one midway to the next.

    Beyond the last instance the far plane is half the class's width further.

    Parameters
    ----------
    margins
        n margins of training instances.
    of_class
        Which of them are of the class.
    risk_weight
        Weight of ``1 / F``.
    two_sided
        Whether the far plane moves; else it stays at the largest margin.
    near_pressure
        Share of the way to midway between two instances that the near plane is moved outwards.
    """
    order = np.argsort(margins, kind="stable")
    score, own = margins[order], of_class[order]
    before = np.concatenate([[0], np.cumsum(own)])  # of the class among the first i
    places = np.flatnonzero(own)
    own_width = max(score[places[-1]] - score[places[0]], 1e-12)

    def risk(near: NDArray[np.intp], far: NDArray[np.intp]) -> NDArray[np.float64]:
        inside = before[far + 1] - before[near]
        f_measure = 2 * inside / (far + 1 - near + len(places))
        width = np.maximum(score[far] - score[near], 1e-12)
        with np.errstate(divide="ignore"):
            return width / own_width + own_width / width + risk_weight / f_measure

    near, far = places[0], places[-1] if two_sided else len(score) - 1
    for _ in range(MOVES):
        candidates = np.arange(far)
        new_near = candidates[risk(candidates, far).argmin()] if far > 0 else near
        candidates = np.arange(new_near + 1, len(score)) if two_sided else np.array([far])
        new_far = candidates[risk(new_near, candidates).argmin()]
        if (new_near, new_far) == (near, far):
            break
        near, far = new_near, new_far
    above = score[far + 1] if far + 1 < len(score) else score[far] + own_width
    below = score[near - 1] if near > 0 else score[near] - own_width
    outwards = near_pressure * (score[near] - below) / 2
    return Slab(float(score[near] - outwards), float(score[far] + above) / 2)
