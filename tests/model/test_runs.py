"""Training with dependent neighbours: a run of similar instances is no subclass."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from stream_osr import Input, OpenSetRecognizer
from stream_osr.training.dependent import Ensemble, without_runs


def process(n: int, seed: int, d: int = 3, memory: float = 0.98) -> tuple[pd.DataFrame, pd.Series]:
    """Draw two overlapping classes whose instances move slowly, so that each stays in one place for long."""
    rng = np.random.default_rng(seed)
    residual, y = np.zeros((n, d)), (np.arange(n) // 50) % 2
    for i in range(1, n):
        residual[i] = memory * residual[i - 1] + np.sqrt(1.0 - memory**2) * rng.normal(size=d)
    return pd.DataFrame(residual + 1.5 * y[:, None]).add_prefix("x"), pd.Series([f"c{v}" for v in y])


def subclasses(order: str) -> int:
    model = OpenSetRecognizer(chains=2, input=Input(order=order))
    model.learn_many(*process(1500, 0))
    return sum(model.freeze().subclasses.values())


def test_a_run_of_similar_instances_is_no_subclass() -> None:
    assert subclasses("arrival") == 2
    assert subclasses("shuffled") > 10


@pytest.mark.parametrize(
    ("right", "density", "chosen"),
    [
        ((0.9, 0.9), (0.0, -1.0), 0),
        ((0.9, 0.8), (0.0, -1.0), 0),
        ((0.8, 0.9), (0.0, -1.0), 1),
        ((0.9, 0.8), (-1.0, 0.0), 1),
    ],
)
def test_the_sweeps_must_be_better_in_other_blocks_of_arrival(right, density, chosen) -> None:
    group, order = np.arange(100) % 2, np.arange(100)
    models = [Ensemble([], [], []), Ensemble([], [], [])]

    def unseen(ensemble: Ensemble, blocks: np.ndarray) -> list[np.ndarray]:
        assert blocks is order
        at = 0 if ensemble is models[0] else 1
        wrong = np.arange(100) >= 100 * right[at]
        own = np.arange(2) == group[:, None]
        return [density[at] + np.where(own, 0.0, np.where(wrong[:, None], 9.0, -9.0))]

    ensemble, by_blocks = without_runs(*models, group, order, unseen)
    assert ensemble is models[chosen]
    np.testing.assert_array_equal(by_blocks[0], unseen(models[chosen], order)[0])
