"""Real tables whose columns move for all classes: what the classes share is no new class.

None of these tables has chosen a constant of :mod:`stream_osr.model.shared_offset`, but DIGITS, LETTER and VOWEL have
shown what was wrong there.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.paper.datasets import load
from benchmarks.tabular import frame
from stream_osr import FrameMoved, OpenSetRecognizer

pytestmark = pytest.mark.thorough

KINDS = {"three": (3, 4.0), "all": (None, 0.7)}
"""Number of columns that move, and by how many standard deviations."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["DIGITS", "LETTER", "PENDIGITS", "SATIMAGE", "TEXTURE", "USPS", "VOWEL"])
def test_the_columns_of_a_table_move(name: str, kind: str) -> None:
    X, y = load(name)
    rng = np.random.default_rng(0)
    some = rng.permutation(len(X))[:3000]
    X, y, n = X[some].astype(float), y[some].astype(str), len(some) // 2
    most, deviations = KINDS[kind]
    columns = rng.permutation([c for c in range(X.shape[1]) if len(np.unique(X[:, c])) > 10])[:most]
    shift = np.zeros(X.shape[1])
    shift[columns] = deviations * X[:n, columns].std(axis=0)
    right = []
    for stream in (X[n:], X[n:] + shift):
        model = OpenSetRecognizer(seed=0, unknown="unknown")
        model.learn_many(frame(name, X[:n]), y[:n].tolist())
        model.freeze()
        model.learn_many(frame(name, stream))
        model.flush()
        right.append(np.mean([one.label == own for one, own in zip(model.drain(), y[n:], strict=True)]))
    assert any(isinstance(event, FrameMoved) for event in model.drain_events())
    assert right[1] >= right[0] - 0.02
