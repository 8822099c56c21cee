"""Records of archives, and their types in memory.

``records.table`` defines the written fields, and the module of each type. ``IN_MEMORY`` lists the records that differ
in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

import numpy as np

from stream_osr.archive.record import RecordKind
from stream_osr.archive.rules import RecordSpec, read_table
from stream_osr.discovery import histories, reservoir
from stream_osr.discovery.event_base import Event
from stream_osr.model import gaussian
from stream_osr.model.feature_space.binary_features import NO_BINARY_FEATURES
from stream_osr.model.feature_space.yeo_johnson import NO_YEO_JOHNSON
from stream_osr.model.jit import Array
from stream_osr.model.known import Densities, Known
from stream_osr.model.prior import width_of
from stream_osr.stream.chain import Chain
from stream_osr.stream.recent_instances import as_batches, from_batches
from stream_osr.stream.state import Stream
from stream_osr.stream.undo_log import Promotion
from stream_osr.trust.recall import NO_DOUBT, ReferenceResults

VERSION = 14
"""Present format version. Every change of the archive content raises it by one (``migrations``)."""

ROWS = read_table()


class MemoryForm(NamedTuple):
    """Differences between a record in memory and in archives.

    Attributes
    ----------
    name
        Name of the type. Empty: the name of the record.
    fields
        Names of fields in memory, by their names in archives.
    empty
        Fields that are empty in memory and missing in archives (without categories, powers, or dependent neighbours).
        Each has its value, or the type of an array's numbers.
    to
        Functions from a field to its value in archives.
    make
        Type, or a function of the fields by their names in memory.
    whole
        Function from the whole value to its fields in archives, in place of the entries above.
    """

    name: str = ""
    fields: Mapping[str, str] = {}
    empty: Mapping[str, Any] = {}
    to: Mapping[str, Callable[[Any], Any]] = {}
    make: Callable[..., Any] | None = None
    whole: Callable[[Any], dict[str, Any]] | None = None


def _chain(known: Known, **fields: Any) -> Chain:
    """Make a chain without its densities, which follow from the known classes (:func:`.chain.with_densities`)."""
    return Chain(
        known,
        cast(Densities, None),
        **{IN_MEMORY["Chain"].fields.get(name, name): its for name, its in fields.items()},
    )


def inverses(matrices: Array) -> tuple[Array, Array]:
    """Inverses and log-determinants of symmetric positive definite matrices, shape (K, a, a)."""
    out, log_det = np.empty(matrices.shape), np.empty(len(matrices))
    for k, own in enumerate(np.ascontiguousarray(matrices)):
        log_det[k] = gaussian.invert(own, out[k])
    return out, log_det


PREDICTED = {("Dishes", "inverse"): lambda form: inverses(form.matrix)[0]}
"""Fields that follow from earlier ones except for rounding: a stream updates an inverse with each instance."""


def _stream(recent: Any, chains: tuple[Any, ...], **fields: Any) -> Stream:
    """Put remembered instances into columns, since archives have them batch by batch."""
    return Stream(recent=from_batches(recent, len(chains), width_of(chains[0].known.prior)), chains=chains, **fields)


IN_MEMORY: Mapping[str, MemoryForm] = {
    "Aside": MemoryForm("DormantSubclasses"),
    "Arrived": MemoryForm("BufferedInstance"),
    "Books": MemoryForm("ReferenceCounts", {"asked": "total"}),
    "Called": MemoryForm(
        "ReferenceResults",
        {"asked": "total"},
        to={"doubt": lambda doubt: doubt if doubt.any() else None},
        make=lambda doubt, **its: ReferenceResults(**its, doubt=NO_DOUBT if doubt is None else doubt),
    ),
    "Chain": MemoryForm(fields={"aside": "dormant", "guard": "check"}, make=_chain),
    "Columns": MemoryForm("ColumnStates"),
    "Component": MemoryForm("BackgroundComponent"),
    "Dishes": MemoryForm(empty={"counts": float}),
    "Faults": MemoryForm("DataFaults"),
    "Flags": MemoryForm("BinaryFeatures"),
    "Following": MemoryForm("ClassShift"),
    "Guard": MemoryForm("ReferenceCheck", {"books": "counts"}),
    "Known": MemoryForm(fields={"broad": "background_components"}),
    "Promotion": MemoryForm(
        to={"lives": lambda lives: tuple(map(histories.lifecycle, lives))},
        make=lambda lives, **its: Promotion(**its, lives=tuple(dict(life.subclasses) for life in lives)),
    ),
    "Labelling": MemoryForm(fields={"opened": "opened_table"}),
    "Lifecycle": MemoryForm(whole=histories.as_columns, make=histories.from_columns),
    "Location": MemoryForm(empty={"values": float}),
    "NamingUndone": MemoryForm("ActionUndone"),
    "Odds": MemoryForm("PriorOdds"),
    "Order": MemoryForm("ArrivalOrder"),
    "Past": MemoryForm("DecidedBatch"),
    "Powers": MemoryForm("YeoJohnson"),
    "Prior": MemoryForm(empty={"first": np.int64, "pseudo": float}),
    "References": MemoryForm(empty={"gain": float, "part": np.int64}),
    "Reservoir": MemoryForm(
        to={"keys": lambda keys: tuple(keys.tolist())},
        make=lambda keys, **columns: reservoir.Reservoir(keys=reservoir.objects(keys), **columns),
    ),
    "Shares": MemoryForm("KnownShares"),
    "Space": MemoryForm(
        "Whitening",
        {"flags": "binary_features", "powers": "yeo_johnson"},
        dict.fromkeys(("columns", "places", "open"), np.int64)
        | {"flags": NO_BINARY_FEATURES, "powers": NO_YEO_JOHNSON},
    ),
    "Statistics": MemoryForm(empty={"counts": float}),
    "Stream": MemoryForm(
        fields={"past": "recent", "actions": "undo_log", "following": "class_shift", "telling": "event_budget"},
        to={"past": as_batches},
        make=_stream,
    ),
    "Tables": MemoryForm("MovedTables", {"held_by": "owner_subclass"}),
    "Telling": MemoryForm("EventBudget"),
    "Tracked": MemoryForm("TrackedLocations"),
    "TrainedModel": MemoryForm(fields={"space": "whitening", "background": "noise_range"}),
    "Usual": MemoryForm("UsualColumns"),
    "UsualCopies": MemoryForm(fields={"told": "reported_from"}),
    "Waiting": MemoryForm("DelayedDecisions"),
}
"""Records with another form or name in memory than in archives."""
FIXED = {("Prior", "covariance"): 0}
"""Fields that only archives have, with their single value."""


def _nothing_if_empty(value: Any) -> Any:
    """Write nothing for an array without columns, or a tuple of such arrays."""
    return value if (value if isinstance(value, Array) else value[0]).shape[-1] else None


def _kind(name: str, row: RecordSpec) -> RecordKind:
    own = IN_MEMORY.get(name, MemoryForm())
    kind = getattr(import_module(f"stream_osr.{row.module}"), own.name or name)
    if own == MemoryForm(own.name):
        return RecordKind(name, kind, row.rules, letters=row.letters, optional=row.optional)
    if own.whole is not None:
        return RecordKind(name, kind, row.rules, own.whole, own.make, row.letters)
    now = {field: own.fields.get(field, field) for field in row.rules if (name, field) not in FIXED}
    turn = {**dict.fromkeys(own.empty, _nothing_if_empty), **own.to}

    def to(value: Any) -> dict[str, Any]:
        written = {field: getattr(value, its) for field, its in now.items()}
        return {
            field: turn[field](written[field]) if field in turn else written.get(field, FIXED.get((name, field)))
            for field in row.rules
        }

    def of(**fields: Any) -> Any:
        counts = [len(fields[each]) for each in ("head", "size") if each in fields][:1]
        for field, nothing in own.empty.items():
            if fields[field] is None:
                fields[field] = np.zeros((*counts, 0), nothing) if isinstance(nothing, type) else nothing
        return (own.make or kind)(**{its: fields[field] for field, its in now.items()})

    return RecordKind(name, kind, row.rules, to, of, row.letters)


RECORDS = {name: _kind(name, row) for name, row in ROWS.items() if name[0].isupper()}
BY_TYPE = {kind.type: kind for kind in RECORDS.values()}
EVENTS = [name for name, kind in RECORDS.items() if issubclass(kind.type, Event)]
