"""A recognizer's stream as a value: :func:`close_batch` takes a :class:`Stream` and returns the next one."""

from stream_osr.engine.batch import Batch, close_batch
from stream_osr.engine.discover import new_classes
from stream_osr.engine.evidence import Evidence, learn_evidence
from stream_osr.engine.immediate import Glance, predict
from stream_osr.engine.state import Arrived, Chain, Past, Stream, Waiting, expect_known, open_stream

__all__ = [
    "Arrived",
    "Batch",
    "Chain",
    "Evidence",
    "Glance",
    "Past",
    "Stream",
    "Waiting",
    "close_batch",
    "expect_known",
    "learn_evidence",
    "new_classes",
    "open_stream",
    "predict",
]
