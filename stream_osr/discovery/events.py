"""Events of a stream: frozen records, one kind for each fact.

The module also has the explanations that events contain: how a subclass differs from the known ones, and how a known
class has moved. Every event can be shown in a line and converted to plain values.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from stream_osr.discovery.event_base import Event, Explanation, Moment, Movement, moved_text
from stream_osr.support import rules


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassEvent(Event):
    """Event about one emerging subclass.

    Attributes
    ----------
    subclass_id
        Stable id, never used again for another subclass.
    first_seen, last_seen
        First and latest instance in the subclass.
    size
        Present number of instances in the subclass.
    share
        Share of the stream so far that is in the subclass.
    support
        Present weight in the stream, which decays with time. It shows how active the subclass is now.
    trend
        Recent arrivals per 1000 instances of the stream. The weight of an arrival is halved every 300 instances.
    exemplars
        Keys of the most typical remembered instances, the most typical first.
    explanation
        Differences from the known subclasses.
    """

    subclass_id: rules.Count
    first_seen: Moment
    last_seen: Moment
    size: rules.Count
    share: rules.Share
    support: rules.NonNegative
    trend: rules.NonNegative
    exemplars: tuple[Any, ...]
    explanation: Explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassEmerged(SubclassEvent):
    """Enough unknown instances support a new subclass for an announcement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassGrew(SubclassEvent):
    """An emerged subclass has doubled since its last event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassDormant(SubclassEvent):
    """No instance has arrived in an emerged subclass for long. The model keeps the subclass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassRecurred(SubclassEvent):
    """Instances arrive again in a subclass that was dormant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassMerged(Event):
    """Two subclasses turned out to be one, or all instances of one moved to another.

    Attributes
    ----------
    subclass_id
        Id that ends. It may never have been announced, but decisions contain it.
    into
        Id that continues, the older one.
    size
        Present number of instances in the continuing subclass.
    """

    subclass_id: rules.Count
    into: rules.Count
    size: rules.Count


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassSplit(Event):
    """A subclass turned out to be two. This event also announces the new one.

    Attributes
    ----------
    subclass_id
        Id of the larger part, which continues.
    new_id
        Id of the other part.
    sizes
        Present numbers of instances in the two parts.
    exemplars
        Keys of the most typical remembered instances of the new subclass.
    explanation
        Differences between the new subclass and the known ones.
    """

    subclass_id: rules.Count
    new_id: rules.Count
    sizes: tuple[rules.Count, rules.Count]
    exemplars: tuple[Any, ...]
    explanation: Explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassPromoted(SubclassEvent):
    """A person named a subclass, which now belongs to a known class.

    Attributes
    ----------
    label
        Label of the class.
    """

    label: Annotated[Any, rules.label]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassMuted(SubclassEvent):
    """A person muted a subclass: its instances stay unknown, and it emits no further events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionUndone(Event):
    """A promotion or a mute was undone: the subclasses are emerging again and emit events.

    Attributes
    ----------
    action
        ``"promotion"``, ``"mute"``, or ``"frame"`` for a verdict on a moved frame, which concerns no subclass.
    subclass_ids
        Ids of the subclasses that are emerging again. Subclasses that have ended since then are missing.
    label
        Label that the promotion gave. None for a mute.
    """

    action: Literal["promotion", "mute", "frame"]
    subclass_ids: tuple[rules.Count, ...]
    label: Annotated[Any, rules.label] | None = None


ActionUndone.__name__ = "NamingUndone"  # on the wire and in archives


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassForgotten(Event):
    """An emerged subclass left the model: others have more support, or known classes took its instances.

    Attributes
    ----------
    subclass_id
        Id of the subclass.
    last_seen
        Latest instance in the subclass.
    """

    subclass_id: rules.Count
    last_seen: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassRefuted(Event):
    """An announced subclass is not new: it attracts reference instances of a known class like those of the stream.

    Its instances belong to the known class from now on. If new instances arrive in it, it is announced again.

    Attributes
    ----------
    subclass_id
        Id of the subclass.
    label
        Known class that most of the known instances in the subclass belong to.
    known_share
        Share of known instances in the subclass, estimated from the reference instances.
    size
        Present number of instances in the subclass.
    """

    subclass_id: rules.Count
    label: Annotated[Any, rules.label]
    known_share: rules.Share
    size: rules.Count


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallDropped(Event):
    """The recall of the known classes dropped below the expected recall from training.

    The event is emitted again if the recall recovers and drops once more. What to do: check ``ClassDrifted`` events
    and data quality. Then label some instances, or train a new model on recent ones. ``max_false_unknown`` limits the
    share of each class that is called unknown.

    Attributes
    ----------
    recall
        Share of known instances that get their own label now, estimated from the reference instances.
    low, high
        95 % interval of the recall.
    false_unknown
        Share of known instances that are called unknown now.
    promised
        Expected recall from training (``TrainingReport.known_recall``).
    """

    recall: rules.Share
    low: rules.Share
    high: rules.Share
    false_unknown: rules.Share
    promised: rules.NonNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownRateJumped(Event):
    """The share of unknown instances is much higher than usual.

    It counts announced and muted subclasses too. Each jump emits one event. What to do: check data quality and
    subclasses that emerged since (``SubclassEmerged``, ``new_classes()``). No subclass emerges from noise, or from
    many classes that are too rare. In that case look at the instances.

    Attributes
    ----------
    rate
        Share of unknown instances since the jump.
    before
        Usual share before the jump. At the beginning of a stream, the share that training expects for known
        instances.
    since
        Estimated position in the stream where the jump began.
    size
        Number of instances since then.
    """

    rate: rules.Share
    before: rules.Share
    since: rules.Count
    size: rules.Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFailed(Event):
    """A column is stuck, out of scale or shifted, or a constant column has changed. This is not a new class.

    While the column fails, it is treated as missing. Exceptions are columns that fail together with most others, and
    faults that do not appear to affect all classes. A column that was constant in training is not modelled, so its
    change affects no decision. ``Signals.faulty_columns`` names the columns that fail now. What to do: check the
    sensor, the unit, and the source that fills the column.

    Attributes
    ----------
    column
        Name of the feature.
    kind
        Kind of the fault. ``"error code"``: a number far outside the training range repeats exactly, and the other
        columns of the instances are known. Only this number is treated as missing. ``"stuck"``: the column repeats
        one value, such as zero, longer than is plausible from training. ``"out of scale"``: it is ten ranges or more
        beyond the training range. ``"shifted"``: the whole column left the training range at one time. ``"changed"``:
        the column was constant in training, and now has another value. After 1024 instances with the constant, the
        next change is reported again.
    since
        Estimated position in the stream where the fault began.
    size
        Number of instances since then.
    value
        Latest value of the column.
    low, high
        Training range: from the lowest 1st to the highest 99th percentile of a class. Both are the constant of a
        constant column.
    longest
        Longest run of one value in training.
    """

    column: Any
    kind: str
    since: rules.Count
    size: rules.Count
    value: float
    low: float
    high: float
    longest: rules.Count


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsRepeated(Event):
    """A row repeats far more often than rows do in training. This is a data fault, not a new class.

    Further copies get the decision of the first one, and the model does not learn from them. The event is emitted
    again if the row returns after it was absent from the latest 64 instances.

    Attributes
    ----------
    first
        First of the copies among the latest instances.
    size
        Number of copies in the batch and the 64 instances before it.
    usual
        Largest number of copies of a row among 64 successive training instances.
    """

    first: Moment
    size: rules.Count
    usual: rules.Count


@dataclass(frozen=True, slots=True, kw_only=True)
class DependenceFound(Event):
    """Instances of the stream depend on their neighbours, and those of training did not.

    The event is emitted when the dependence begins. From here on, known classes predict in order of arrival where
    neighbours depend. An instance that is typical of a known class then counts as known, even if it is near a
    subclass. What to do: train on instances in order of arrival, from the same process.

    Attributes
    ----------
    kind
        Kind of the dependence. ``"neighbours depend"``: successive instances of a class resemble each other.
        ``"typical instances unknown"``: many instances that are typical of known classes are called unknown.
    labels
        Known classes that are affected most, five at most.
    correlation
        Mean correlation of neighbours in the stream.
    since
        Position in the stream where this treatment begins.
    """

    kind: str
    labels: tuple[Annotated[Any, rules.label], ...]
    correlation: float
    since: rules.Count


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameMoved(Event):
    """All known classes have moved together: by one offset, in some columns.

    The stream then differs from training for a reason that is no class: another instrument, season or device. From
    here on, instances are judged as if they had come without the offset, and announcements wait. Without columns, the
    stream is back at the training place. The event is emitted again if the offset changes by half. What to do:
    repair the cause, or call :meth:`stream_osr.OpenSetRecognizer.accept_frame` or ``reject_frame``.

    Attributes
    ----------
    columns
        Columns that moved, the one that moved most first.
    offset
        Offset of each of these columns from its training place, in the caller's units.
    shift
        The same in standard deviations of the column in training.
    since
        Estimated position in the stream from which the known classes are there.
    share
        Share of the latest instances that are typical of a known class at the new place.
    """

    columns: tuple[Hashable, ...]
    offset: dict[Hashable, float]
    shift: dict[Hashable, float]
    since: rules.Count
    share: rules.Share

    def __str__(self) -> str:
        return f"FrameMoved at {self.seq}: {moved_text(self.offset, self.shift, self.since)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewClassesChanged(Event):
    """The paper's Delta has changed: a cheap hint that the number of new classes may have changed.

    `OpenSetRecognizer.new_classes` estimates the number and its uncertainty.

    Attributes
    ----------
    delta
        Present value of the paper's Delta, equation (14), over the emerged subclasses.
    before
        Previous value.
    subclasses
        Ids of the emerged subclasses.
    """

    delta: rules.Count
    before: rules.Count
    subclasses: tuple[rules.Count, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsSummed(Event):
    """Summary of events that were too many to emit one by one, such as a flood of small clusters.

    The subclasses themselves are complete in `OpenSetRecognizer.new_classes` and ``summary``.

    Attributes
    ----------
    counts
        Number of events of each type.
    since, until
        Positions of the first and the last event.
    emerged
        Ids of the subclasses whose announcement is among the events.
    """

    counts: dict[str, rules.Count]
    since: rules.Count
    until: rules.Count
    emerged: tuple[rules.Count, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassDrifted(Event):
    """The instances of a known class have become less usual for it, or more usual.

    Each change is one event. The event is emitted again when the class has moved as far again, or has come back and
    moved again. The way back is no event.

    Attributes
    ----------
    label
        The known class.
    direction
        ``"sparser"``: the class has moved or widened. ``"denser"``: it has narrowed.
    since
        Estimated position in the stream where the change began.
    size
        Number of instances of the class since then, as far as the model can decide.
    rank_before, rank_now
        Mean ``density_rank`` before and after the change. In training it is 1/2.
    movement
        Movement of the features. A class that only widened or narrowed shows none.
    """

    label: Annotated[Any, rules.label]
    direction: Annotated[str, rules.text("sparser", "denser")]
    since: rules.Count
    size: rules.Count
    rank_before: rules.Share
    rank_now: rules.Share
    movement: Movement
