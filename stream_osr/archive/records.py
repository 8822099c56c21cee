"""Records of archives, and their types in memory.

A type declares its fields with their rules (:mod:`stream_osr.support.rules`). Records are what ``ROOTS`` and events
can contain. ``IN_MEMORY`` lists the records that differ in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, NamedTuple, cast, get_type_hints

import numpy as np

from stream_osr.archive.declared import rule_of
from stream_osr.archive.record import RecordKind
from stream_osr.decision import Decision
from stream_osr.discovery import events, histories, reservoir
from stream_osr.discovery.event_base import Event
from stream_osr.model import gaussian
from stream_osr.model.feature_space.binary_features import NO_BINARY_FEATURES
from stream_osr.model.feature_space.yeo_johnson import NO_YEO_JOHNSON
from stream_osr.model.jit import Array
from stream_osr.model.known import Densities
from stream_osr.model.prior import width_of
from stream_osr.stream.chain import Chain
from stream_osr.stream.late_labels import Evidence
from stream_osr.stream.recent_instances import DecidedBatch, as_batches, from_batches
from stream_osr.stream.state import BufferedInstance, Stream
from stream_osr.support.rules import RecordForm, Rule, length, maybe, sizes, whole
from stream_osr.training.trained import TrainedModel
from stream_osr.trust.recall import NO_DOUBT

VERSION = 14
"""Present format version. Every change of the archive content raises it by one (``migrations``)."""


class MemoryForm(NamedTuple):
    """Differences between a record in memory and in archives.

    Attributes
    ----------
    name
        Name of the type. Empty: the name of the record.
    fields
        Names of fields in memory, by their names in archives.
    hints
        Types of fields whose values in archives have other types than in memory, by their names in archives.
    others
        Fields of the type in memory that archives lack.
    fixed
        Fields that only archives have, with their single values. They come first.
    optional
        Fields that are not written if they are None.
    empty
        Fields that are empty in memory and missing in archives (without categories, powers, or dependent neighbours).
        Each has its value, or the type of an array's numbers.
    to
        Functions from a field to its value in archives.
    make
        Type, or a function of the fields by their names in memory.
    whole
        Function from the whole value to its fields in archives, in place of ``fields``, ``to`` and ``empty``.
    declared
        Type that declares the fields in archives, if it is another one.
    """

    name: str = ""
    fields: Mapping[str, str] = {}
    hints: Mapping[str, Any] = {}
    others: Collection[str] = ()
    fixed: Mapping[str, int] = {}
    optional: Collection[str] = ()
    empty: Mapping[str, Any] = {}
    to: Mapping[str, Callable[[Any], Any]] = {}
    make: Callable[..., Any] | None = None
    whole: Callable[[Any], dict[str, Any]] | None = None
    declared: type[Any] | None = None


def inverses(matrices: Array) -> tuple[Array, Array]:
    """Inverses and log-determinants of symmetric positive definite matrices, shape (K, a, a)."""
    out, log_det = np.empty(matrices.shape), np.empty(len(matrices))
    for k, own in enumerate(np.ascontiguousarray(matrices)):
        log_det[k] = gaussian.invert(own, out[k])
    return out, log_det


PREDICTED: Mapping[tuple[str, str], Callable[[RecordForm], Array]] = {
    ("Dishes", "inverse"): lambda form: inverses(form.matrix)[0]
}
"""Functions that compute a field from earlier ones but for rounding: a stream updates an inverse with each instance.
Archives have only the difference."""
IN_MEMORY: Mapping[str, MemoryForm] = {
    "Aside": MemoryForm("DormantSubclasses"),
    "Arrived": MemoryForm("BufferedInstance"),
    "Books": MemoryForm("ReferenceCounts", {"asked": "total"}),
    "Called": MemoryForm("ReferenceResults", {"asked": "total"}, empty={"doubt": NO_DOUBT}),
    "Chain": MemoryForm(  # its densities follow from the known classes (stream.chain.with_densities)
        fields={"aside": "dormant", "guard": "check"},
        others=("frozen", "carried"),
        make=lambda **its: Chain(**its, frozen=cast(Densities, None)),
    ),
    "Columns": MemoryForm("ColumnStates"),
    "Component": MemoryForm("BackgroundComponent"),
    "Dishes": MemoryForm(empty={"counts": float}),
    "Faults": MemoryForm("DataFaults"),
    "Flags": MemoryForm("BinaryFeatures"),
    "Following": MemoryForm("ClassShift"),
    "Guard": MemoryForm("ReferenceCheck", {"books": "counts"}),
    "Known": MemoryForm(fields={"broad": "background_components"}),
    "Labelling": MemoryForm(fields={"opened": "opened_table"}),
    "Lifecycle": MemoryForm(
        whole=histories.as_columns, make=histories.from_columns, declared=histories.ArchivedHistories
    ),
    "Location": MemoryForm(empty={"values": float}),
    "NamingUndone": MemoryForm("ActionUndone"),
    "Odds": MemoryForm("PriorOdds"),
    "Order": MemoryForm("ArrivalOrder"),
    "Past": MemoryForm("DecidedBatch"),
    "Powers": MemoryForm("YeoJohnson"),
    "Prior": MemoryForm(fixed={"covariance": 0}, empty={"first": np.int64, "pseudo": float}),
    "References": MemoryForm(empty={"gain": float, "part": np.int64}),
    "Reservoir": MemoryForm(
        hints={"keys": Annotated[tuple[Any, ...], length("m")]},
        to={"keys": lambda keys: tuple(keys.tolist())},
        make=lambda keys, **columns: reservoir.Reservoir(keys=reservoir.objects(keys), **columns),
    ),
    "Shares": MemoryForm("KnownShares"),
    "Space": MemoryForm(
        "Whitening",
        {"flags": "binary_features", "powers": "yeo_johnson"},
        empty=dict.fromkeys(("columns", "places", "open"), np.int64)
        | {"flags": NO_BINARY_FEATURES, "powers": NO_YEO_JOHNSON},
    ),
    "Statistics": MemoryForm(empty={"counts": float}),
    "Stream": MemoryForm(  # archives have remembered instances batch by batch
        fields={"past": "recent", "actions": "undo_log", "following": "class_shift", "telling": "event_budget"},
        hints={"past": tuple[Annotated[DecidedBatch, sizes("w R")], ...]},
        to={"past": as_batches},
        make=lambda recent, chains, **its: Stream(
            recent=from_batches(recent, len(chains), width_of(chains[0].known.prior)), chains=chains, **its
        ),
    ),
    "Tables": MemoryForm("MovedTables", {"held_by": "owner_subclass"}),
    "Telling": MemoryForm("EventBudget"),
    "Tracked": MemoryForm("TrackedLocations"),
    "TrainedModel": MemoryForm(fields={"space": "whitening", "background": "noise_range"}),
    "TrainingReport": MemoryForm(optional=("by_group",)),
    "Usual": MemoryForm("UsualColumns"),
    "UsualCopies": MemoryForm(fields={"told": "reported_from"}),
    "Waiting": MemoryForm("DelayedDecisions"),
}
"""Records with another form or name in memory than in archives."""
NAMES = {form.name: name for name, form in IN_MEMORY.items() if form.name}
"""Names of records by those of their types, where they differ."""
RECORDS: dict[str, RecordKind] = {}


def name_of(kind: type[Any]) -> str:
    """Return the name of the record of a type, which becomes one of ``RECORDS``."""
    name = NAMES.get(kind.__name__, kind.__name__)
    if name not in RECORDS:
        RECORDS[name] = _kind(name, kind)
    return name


def _is_empty(value: Any, nothing: Any) -> bool:
    """Compare with an array, or check that an array, or the first one of several, has no columns."""
    if isinstance(nothing, Array):
        return np.array_equal(value, nothing)
    return not (value if isinstance(value, Array) else value[0]).shape[-1]


def _rules(kind: type[Any], own: MemoryForm) -> dict[str, Rule]:
    archived = {memory: field for field, memory in own.fields.items()}
    rules = {field: whole(its, its) for field, its in own.fixed.items()}
    for memory, hint in get_type_hints(own.declared or kind, include_extras=True).items():
        if memory not in own.others:
            field = archived.get(memory, memory)
            rule = rule_of(own.hints.get(field, hint), name_of)
            rules[field] = maybe(rule) if field in own.empty else rule
    return rules


def _kind(name: str, kind: type[Any]) -> RecordKind:
    own = IN_MEMORY.get(name, MemoryForm())
    rules = _rules(kind, own)
    now = {field: own.fields.get(field, field) for field in rules if field not in own.fixed}

    def fields(value: Any) -> dict[str, Any]:
        written = {**own.fixed, **{field: getattr(value, its) for field, its in now.items()}}
        for field, nothing in own.empty.items():
            if _is_empty(written[field], nothing):
                written[field] = None
        for field, turn in own.to.items():
            written[field] = turn(written[field])
        for field in own.optional:
            if written[field] is None:
                del written[field]
        return written

    def make(**fields: Any) -> Any:
        for field, nothing in own.empty.items():
            if fields[field] is None:
                counts = [len(fields["size"])] if "size" in fields else []
                fields[field] = np.zeros((*counts, 0), nothing) if isinstance(nothing, type) else nothing
        return (own.make or kind)(**{now[field]: its for field, its in fields.items() if field in now})

    return RecordKind(name, kind, rules, own.whole or fields, make, own.optional)


_EVENTS = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]
EVENTS = [name_of(kind) for kind in _EVENTS if sum(issubclass(other, kind) for other in _EVENTS) == 1]
"""Names of the kinds of events."""
ROOTS = [name_of(kind) for kind in (Stream, TrainedModel, BufferedInstance, Evidence, Decision)]
"""Names of the records that a recognizer can contain directly."""
BY_TYPE = {kind.type: kind for kind in RECORDS.values()}
