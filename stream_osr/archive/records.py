"""The records that archives hold, and what they are in memory.

What is written is said by ``records.table``, and where its type is. Where a record is not in memory what it is in
archives, field by field, two functions turn one into the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from stream_osr.archive.record import RecordKind
from stream_osr.archive.rules import RecordSpec, read_table
from stream_osr.discovery import events, histories, reservoir
from stream_osr.model.binary_features import NO_BINARY_FEATURES, BinaryFeatures
from stream_osr.model.jit import Array
from stream_osr.model.prior import width_of
from stream_osr.model.yeo_johnson import NO_YEO_JOHNSON, YeoJohnson
from stream_osr.stream.recent_instances import as_batches, from_batches
from stream_osr.stream.state import Stream
from stream_osr.trust.recall import NO_DOUBT, ReferenceResults

VERSION = 10
"""The format version that is written: one more with every change of what archives hold (``migrations``)."""

ROWS = read_table()

RENAMED = {
    "Past": "DecidedBatch",
    "Waiting": "DelayedDecisions",
    "Following": "ClassShift",
    "Telling": "EventBudget",
    "Guard": "ReferenceCheck",
    "Flags": "BinaryFeatures",
    "Powers": "YeoJohnson",
    "Space": "Whitening",
    "Terms": "StudentTerms",
    "Aside": "DormantSubclasses",
    "Order": "ArrivalOrder",
    "Usual": "UsualColumns",
    "Columns": "ColumnStates",
    "Arrived": "BufferedInstance",
    "Books": "ReferenceCounts",
    "Shares": "KnownShares",
    "Called": "ReferenceResults",
    "Tracked": "TrackedLocations",
    "Faults": "DataFaults",
    "Odds": "PriorOdds",
    "Tables": "MovedTables",
    "Member": "SubclassMember",
    "Subclass": "SubclassHistory",
    "NamingUndone": "ActionUndone",
}
"""Records that have another name in memory than in archives."""

FIELDS: Mapping[str, Mapping[str, str]] = {
    "Known": {"broad": "background_components"},
    "Densities": {"terms": "student_terms"},
    "Space": {"flags": "binary_features", "powers": "yeo_johnson"},
    "UsualCopies": {"told": "reported_from"},
    "Books": {"asked": "total"},
    "Called": {"asked": "total"},
    "Stream": {"past": "recent", "actions": "undo_log", "following": "class_shift", "telling": "event_budget"},
    "Chain": {"aside": "dormant", "guard": "check"},
    "Guard": {"books": "counts"},
    "TrainedModel": {"space": "whitening", "background": "noise_range"},
    "Labelling": {"opened": "opened_table"},
    "Tables": {"held_by": "owner_subclass"},
}
"""Fields that have another name in memory than in archives."""


def _to_archive(name: str, value: Any) -> dict[str, Any]:
    """Fields of a value in memory, by their names in archives."""
    names = {now: was for was, now in FIELDS.get(name, {}).items()}
    return {names.get(field, field): its for field, its in value._asdict().items()}


def _to_memory(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a record, by their names in memory."""
    return {FIELDS.get(name, {}).get(field, field): its for field, its in fields.items()}


def _some(**optional: Array | BinaryFeatures | YeoJohnson) -> dict[str, Array | BinaryFeatures | YeoJohnson | None]:
    """Write what is only there with some: nothing, where there are none."""
    return {
        name: each if (each if isinstance(each, Array) else each[0]).shape[-1] else None
        for name, each in optional.items()
    }


def _with_some(name: str) -> tuple[Callable[[Any], dict[str, Any]], Callable[..., Any]]:
    """Make the two functions of a record that has such fields."""
    kind = getattr(import_module(f"stream_osr.{ROWS[name].module}"), RENAMED.get(name, name))
    fields = OF_SOME[name]
    fixed = FIXED.get(name, {})

    def to(value: Any) -> dict[str, Any]:
        written = _to_archive(name, value)
        return {**fixed, **written, **_some(**{field: written[field] for field in fields})}

    def of(**values: Any) -> Any:
        values = {field: value for field, value in values.items() if field not in fixed}
        count = () if "size" not in values else (len(values["size"]),)
        count = (len(values["head"]),) if "head" in values else count
        for field, dtype in fields.items():
            if values[field] is None:
                values[field] = NONE[dtype] if dtype in NONE else np.zeros((*count, 0), dtype)
        return kind(**_to_memory(name, values))

    return to, of


OF_SOME: Mapping[str, Mapping[str, type[Any]]] = {
    "Prior": {"first": np.int64, "pseudo": float},
    "Dishes": {"counts": float},
    "Location": {"values": float},
    "Space": {
        "columns": np.int64,
        "places": np.int64,
        "flags": BinaryFeatures,
        "powers": YeoJohnson,
        "open": np.int64,
    },
    "Terms": {"values": float},
    "Statistics": {"counts": float},
    "References": {"gain": float},
}
"""Fields that are empty in memory, and nothing in archives: without categories, powers, or dependent neighbours."""
FIXED: Mapping[str, Mapping[str, Any]] = {"Prior": {"covariance": 0}}
"""Fields that are in archives alone, with the one value that they have."""
NONE: Mapping[type[Any], Any] = {BinaryFeatures: NO_BINARY_FEATURES, YeoJohnson: NO_YEO_JOHNSON}

TO: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "Stream": lambda stream: {**_to_archive("Stream", stream), "past": as_batches(stream.recent)},
    "Reservoir": lambda kept: {**kept._asdict(), "keys": tuple(kept.keys.tolist())},
    "Lifecycle": lambda life: {"subclasses": life.subclasses, "delta": life.delta},
    "Called": lambda called: {**_to_archive("Called", called), "doubt": called.doubt if called.doubt.any() else None},
}
"""Fields of a record that is something else in memory, by its name."""
OF: Mapping[str, Callable[..., Any]] = {
    "Stream": lambda past, chains, **fields: Stream(
        **_to_memory("Stream", fields),
        chains=chains,
        recent=from_batches(past, len(chains), width_of(chains[0].known.prior)),
    ),
    "Reservoir": lambda keys, **columns: reservoir.Reservoir(keys=reservoir.objects(keys), **columns),
    "Lifecycle": histories.lifecycle,
    "Called": lambda doubt, **fields: ReferenceResults(
        **_to_memory("Called", fields), doubt=NO_DOUBT if doubt is None else doubt
    ),
}
"""The record, of its fields."""


def _kind(name: str, row: RecordSpec) -> RecordKind:
    to, of = _with_some(name) if name in OF_SOME else (TO.get(name), OF.get(name))
    kind = getattr(import_module(f"stream_osr.{row.module}"), RENAMED.get(name, name))
    if to is None and (names := FIELDS.get(name)) is not None:

        def to(value: Any) -> dict[str, Any]:
            return {field: getattr(value, names.get(field, field)) for field in row.rules}

        def of(**values: Any) -> Any:
            return kind(**_to_memory(name, values))

    return RecordKind(name, kind, row.rules, to, of, row.letters)


RECORDS = {name: _kind(name, row) for name, row in ROWS.items() if name[0].isupper()}
BY_TYPE = {kind.type: kind for kind in RECORDS.values()}
EVENTS = [name for name, kind in RECORDS.items() if issubclass(kind.type, events.Event)]
