"""A recognizer's stream as a value: :func:`close_batch` takes a :class:`Stream` and returns the next one."""

from stream_osr.engine.actions import Labelling, Muting, Promotion, Tables
from stream_osr.engine.batch import Batch, close_batch
from stream_osr.engine.discover import new_classes
from stream_osr.engine.evidence import Evidence, learn_evidence
from stream_osr.engine.following import class_shifts
from stream_osr.engine.immediate import Glance, predict
from stream_osr.engine.naming import mute, promote, undo
from stream_osr.engine.past import Decided, Past
from stream_osr.engine.promises import expected_recall
from stream_osr.engine.state import (
    Arrived,
    Chain,
    Following,
    Guard,
    Menu,
    Stream,
    Waiting,
    expect_known,
    open_stream,
    references_of,
)
from stream_osr.engine.succession import carry_over, opened_since
from stream_osr.engine.telling import Telling

__all__ = [
    "Arrived",
    "Batch",
    "Chain",
    "Decided",
    "Evidence",
    "Following",
    "Glance",
    "Guard",
    "Labelling",
    "Menu",
    "Muting",
    "Past",
    "Promotion",
    "Stream",
    "Tables",
    "Telling",
    "Waiting",
    "carry_over",
    "class_shifts",
    "close_batch",
    "expect_known",
    "expected_recall",
    "learn_evidence",
    "mute",
    "new_classes",
    "open_stream",
    "opened_since",
    "predict",
    "promote",
    "references_of",
    "undo",
]
