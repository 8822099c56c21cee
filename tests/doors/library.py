"""What tests use of the inside of the top of ``stream_osr``."""

from __future__ import annotations

from stream_osr import reading
from stream_osr.atomic import remove_unfinished, write_whole
from stream_osr.compiling import EVERY_TIME, ONCE, WAITING
from stream_osr.config import REPRODUCTION, WITHOUT_END, Arguments, Parameters, archived, grouped, parameters, plain
from stream_osr.decision import Decision, Decisions
from stream_osr.entries import LARGEST, number_of
from stream_osr.errors import (
    ConcurrentChange,
    ConnectorError,
    InvalidFeature,
    InvalidInstance,
    InvalidLabel,
    InvalidParameter,
    InvalidSubclass,
    MissingExtra,
    NothingToUndo,
    NotTrained,
    PersistenceError,
    RefusedState,
    StreamOSRError,
)
from stream_osr.features import Features, column_values, frame_matrix, frame_rows
from stream_osr.frames import decisions_frame
from stream_osr.kinds import OTHER, Kinds, category_of, codes_of, commonest
from stream_osr.labels import check_label, clean_label, unknown_label
from stream_osr.limits import (
    MOST_CATEGORY_BYTES,
    MOST_FEATURES,
    MOST_KEY_BYTES,
    MOST_LABEL_BYTES,
    check_key,
    fits_as_key,
)
from stream_osr.memory import HOLDERS, least_bytes, physical_bytes, tell_of_memory
from stream_osr.missing import is_missing, without_mask
from stream_osr.one_writer import WRITERS
from stream_osr.parallel import each, one_thread
from stream_osr.printable_text import LONGEST, brief, escaped_lines, printable, typed
from stream_osr.schema_check import NONE, check_features, least_features
from stream_osr.trained import TrainedModel, train_model
from stream_osr.training_set import TrainingSet
from stream_osr.version import __version__
