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
from stream_osr.model.known import Densities, Known
from stream_osr.model.prior import width_of
from stream_osr.stream.chain import Chain
from stream_osr.stream.late_labels import Evidence
from stream_osr.stream.recent_instances import DecidedBatch, as_batches, from_batches
from stream_osr.stream.state import BufferedInstance, Stream
from stream_osr.stream.undo_log import Promotion
from stream_osr.support.rules import Rule, array, length, maybe, sizes, whole
from stream_osr.training.trained import TrainedModel
from stream_osr.trust.recall import NO_DOUBT, ReferenceResults

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
        Function from the whole value to its fields in archives, in place of the entries above.
    declared
        Type that declares the fields in archives, if it is another one.
    """

    name: str = ""
    fields: Mapping[str, str] = {}
    hints: Mapping[str, Any] = {}
    others: Collection[str] = ()
    optional: Collection[str] = ()
    empty: Mapping[str, Any] = {}
    to: Mapping[str, Callable[[Any], Any]] = {}
    make: Callable[..., Any] | None = None
    whole: Callable[[Any], dict[str, Any]] | None = None
    declared: type[Any] | None = None


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
        {"doubt": Annotated[Array, array("f", "3", low=0.0, high=1e12)] | None},
        to={"doubt": lambda doubt: doubt if doubt.any() else None},
        make=lambda doubt, **its: ReferenceResults(**its, doubt=NO_DOUBT if doubt is None else doubt),
    ),
    "Chain": MemoryForm(fields={"aside": "dormant", "guard": "check"}, others=("frozen", "carried"), make=_chain),
    "Columns": MemoryForm("ColumnStates"),
    "Component": MemoryForm("BackgroundComponent"),
    "Dishes": MemoryForm(empty={"counts": float}),
    "Faults": MemoryForm("DataFaults"),
    "Flags": MemoryForm("BinaryFeatures"),
    "Following": MemoryForm("ClassShift"),
    "Guard": MemoryForm("ReferenceCheck", {"books": "counts"}),
    "Known": MemoryForm(fields={"broad": "background_components"}),
    "Promotion": MemoryForm(
        hints={"lives": Annotated[tuple[histories.Lifecycle, ...], length("R")]},
        to={"lives": lambda lives: tuple(map(histories.lifecycle, lives))},
        make=lambda lives, **its: Promotion(**its, lives=tuple(dict(life.subclasses) for life in lives)),
    ),
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
    "Prior": MemoryForm(empty={"first": np.int64, "pseudo": float}),
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
    "Stream": MemoryForm(
        fields={"past": "recent", "actions": "undo_log", "following": "class_shift", "telling": "event_budget"},
        hints={"past": tuple[Annotated[DecidedBatch, sizes("w R")], ...]},
        to={"past": as_batches},
        make=_stream,
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
FIXED = {("Prior", "covariance"): 0}
"""Fields that only archives have, with their single value. They come first."""
NAMES = {form.name: name for name, form in IN_MEMORY.items() if form.name}
"""Names of records by those of their types, where they differ."""
RECORDS: dict[str, RecordKind] = {}


def name_of(kind: type[Any]) -> str:
    """Return the name of the record of a type, which becomes one of ``RECORDS``."""
    name = NAMES.get(kind.__name__, kind.__name__)
    if name not in RECORDS:
        RECORDS[name] = _kind(name, kind)
    return name


def _nothing_if_empty(value: Any) -> Any:
    """Write nothing for an array without columns, or a tuple of such arrays."""
    return value if (value if isinstance(value, Array) else value[0]).shape[-1] else None


def _rules(name: str, kind: type[Any], own: MemoryForm) -> dict[str, Rule]:
    archived = {memory: field for field, memory in own.fields.items()}
    hints = {archived.get(field, field): hint for field, hint in get_type_hints(kind, include_extras=True).items()}
    rules = {field: whole(its, its) for (record, field), its in FIXED.items() if record == name}
    for field, hint in hints.items():
        if field not in own.others:
            rule = rule_of(own.hints.get(field, hint), name_of)
            rules[field] = maybe(rule) if field in own.empty else rule
    return rules


def _kind(name: str, kind: type[Any]) -> RecordKind:
    own = IN_MEMORY.get(name, MemoryForm())
    rules = _rules(name, own.declared or kind, own)
    if own == MemoryForm(own.name, optional=own.optional):
        return RecordKind(name, kind, rules, optional=own.optional)
    if own.whole is not None:
        return RecordKind(name, kind, rules, own.whole, own.make)
    now = {field: own.fields.get(field, field) for field in rules if (name, field) not in FIXED}
    turn = {**dict.fromkeys(own.empty, _nothing_if_empty), **own.to}

    def to(value: Any) -> dict[str, Any]:
        written = {field: getattr(value, its) for field, its in now.items()}
        return {
            field: turn[field](written[field]) if field in turn else written.get(field, FIXED.get((name, field)))
            for field in rules
        }

    def of(**fields: Any) -> Any:
        counts = [len(fields[each]) for each in ("head", "size") if each in fields][:1]
        for field, nothing in own.empty.items():
            if fields[field] is None:
                fields[field] = np.zeros((*counts, 0), nothing) if isinstance(nothing, type) else nothing
        return (own.make or kind)(**{its: fields[field] for field, its in now.items()})

    return RecordKind(name, kind, rules, to, of)


_EVENTS = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]
EVENTS = [name_of(kind) for kind in _EVENTS if sum(issubclass(other, kind) for other in _EVENTS) == 1]
"""Names of the kinds of events."""
ROOTS = [name_of(kind) for kind in (Stream, TrainedModel, BufferedInstance, Evidence, Decision)]
"""Names of the records that a recognizer can contain directly."""
BY_TYPE = {kind.type: kind for kind in RECORDS.values()}
