"""What tests use of the inside of ``stream_osr.archive``."""

from __future__ import annotations

from stream_osr.archive import files
from stream_osr.archive.checks import check_records, near, recognizer, statistics_fit
from stream_osr.archive.files import (
    MAGIC,
    Surroundings,
    form_from,
    from_bytes,
    kind_over,
    load_trained,
    open_archive,
    read_archive,
    save_trained,
    to_bytes,
    write_archive,
)
from stream_osr.archive.migrations import STEPS
from stream_osr.archive.record import RecordForm, RecordKind, RefusedValue, form_of, in_memory
from stream_osr.archive.records import BY_TYPE, EVENTS, RECORDS, VERSION
from stream_osr.archive.rules import anything
