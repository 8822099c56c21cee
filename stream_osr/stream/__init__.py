"""A recognizer's stream as a value: :func:`close_batch` takes a :class:`Stream` and returns the next one."""

from stream_osr.stream.announcements import Telling
from stream_osr.stream.batch import Arrivals, Batch, close_arrivals, close_batch
from stream_osr.stream.carry_over import carry_over, opened_since
from stream_osr.stream.chain import Chain, Guard
from stream_osr.stream.class_shifts import class_shifts
from stream_osr.stream.immediate import Glance, predict
from stream_osr.stream.late_labels import Evidence, learn_evidence
from stream_osr.stream.monitoring import expected_recall, rank_among, recall_among, references_of
from stream_osr.stream.naming import mute, promote, undo
from stream_osr.stream.recent_instances import Decided, Past
from stream_osr.stream.state import (
    Arrived,
    Copy,
    Faults,
    Following,
    Menu,
    Stages,
    Stream,
    Waiting,
    expect_known,
    new_classes,
    open_stream,
)
from stream_osr.stream.undo_log import Labelling, Muting, Promotion, Tables

__all__ = [
    "Arrivals",
    "Arrived",
    "Batch",
    "Chain",
    "Copy",
    "Decided",
    "Evidence",
    "Faults",
    "Following",
    "Glance",
    "Guard",
    "Labelling",
    "Menu",
    "Muting",
    "Past",
    "Promotion",
    "Stages",
    "Stream",
    "Tables",
    "Telling",
    "Waiting",
    "carry_over",
    "class_shifts",
    "close_arrivals",
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
    "rank_among",
    "recall_among",
    "references_of",
    "undo",
]
