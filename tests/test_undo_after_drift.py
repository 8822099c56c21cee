"""Promotions that are undone after their class has followed its instances (``follow_drift``)."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr import SubclassEmerged
from stream_osr.model.prior import homogeneous
from stream_osr.stream.class_shift import class_shifts
from tests.blobs import KNOWN, NAMES, NEW, check_stream, fitted, stream_part


@pytest.mark.parametrize("label", ["new", pytest.param("left", marks=pytest.mark.thorough)])
def test_statistics_are_again_those_of_the_instances(label: str) -> None:
    """A promoted subclass moves with its class; its instances are taken out again where they were put in."""
    model, rng = fitted(follow_drift=True, chains=1, seed=5), np.random.default_rng(3)
    for x, _ in stream_part(320):
        model.learn_one(x)
    (emerged,) = {e.subclass_id for e in model.drain_events() if isinstance(e, SubclassEmerged)}
    model.promote([emerged], label)
    for at in range(640):
        where = np.add([NEW, *KNOWN.values()][at % 3], (0.0, 0.004 * at))
        model.learn_one(dict(zip(NAMES, rng.normal(where).tolist(), strict=True)))
    stream = model.value.stream
    assert class_shifts(stream)[stream.labels.index(label)].any()
    model.undo()
    check_stream(stream := model.value.stream)
    state, prior, recent = stream.state, stream.known.prior, stream.recent
    start = np.diag([*(prior.psi * prior.spread), prior.beta])
    assert emerged in state.ids
    for key, matrix in zip(state.ids, state.dishes.matrix, strict=True):
        rows = homogeneous(recent.rows[recent.subclass[0] == key])
        np.testing.assert_allclose(matrix, start + rows.T @ rows, rtol=1e-6, atol=1e-6)
