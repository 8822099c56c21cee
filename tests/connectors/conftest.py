"""What several tests of connectors use."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer, TrainedModel
from tests.blobs import around
from tests.connectors.models import NAMES, streaming


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    """Two known classes of the features a, b and c."""
    rng = np.random.default_rng(3)
    model = OpenSetRecognizer(chains=1, seed=5)
    for label, at in (("left", 0.0), ("right", 9.0)):
        for x in around([at] * 3, 40, rng, NAMES):
            model.learn_one(x, label)
    model.freeze()
    return model.trained


@pytest.fixture(scope="module")
def made(trained: TrainedModel, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A model, as a file."""
    path = tmp_path_factory.mktemp("model") / "model.osr"
    streaming(trained, batch_size=16).save(path)
    return path.read_bytes()
