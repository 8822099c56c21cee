"""The models that several tests of connectors use."""

from __future__ import annotations

from typing import Any

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.config import grouped

NAMES = ("a", "b", "c")


def streaming(trained: TrainedModel, **arguments: Any) -> OpenSetRecognizer:
    return OpenSetRecognizer.from_trained(
        trained, **grouped(**{"chains": 1, "batch_size": 4, "seed": 5, **arguments})
    )
