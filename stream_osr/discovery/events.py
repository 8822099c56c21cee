"""Events: frozen records, one kind for each fact, and the explanations that they hold.

Events: frozen records, one kind for each fact that is told.

What a subclass is like beside the known ones, and where a known class has moved: what events explain.

What every event is: a frozen record that can be shown in a line and turned into plain values.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

from stream_osr.printable_text import brief, printable

NEW_VALUE = "a new value"
"""In words: a value of a category that training did not have."""


class Explanation(NamedTuple):
    """Description of a subclass, beside the known ones.

    Attributes
    ----------
    mean
        Mean of each numeric feature, in the caller's units.
    difference
        Mean of each numeric feature minus that of the nearest known subclass, in the caller's units.
    shift
        The same in standard deviations of that subclass.
    most_moved
        The numeric features with the largest shifts, the largest first.
    nearest_class
        Label of the known class nearest to it.
    nearest_subclass
        Identity of the known subclass nearest to it.
    distance
        Mahalanobis distance of the mean from that subclass, in standard deviations of its predictive.
    values
        Of each category: its commonest ``value``, the ``share`` of that, and the commonest value of the nearest known
        subclass, ``usual``, with ``usual_share``; ``None`` stands for all values that training did not have. The
        category that tells most comes first.
    """

    mean: dict[Hashable, float]
    difference: dict[Hashable, float]
    shift: dict[Hashable, float]
    most_moved: tuple[Hashable, ...]
    nearest_class: Any
    nearest_subclass: int
    distance: float
    values: Mapping[Hashable, dict[str, Any]] = {}

    @property
    def category_texts(self) -> tuple[str, ...]:
        """The categories in words.

        Examples
        --------
        >>> values = {"protocol": {"value": "icmp", "share": 0.98, "usual": "tcp", "usual_share": 0.9}}
        >>> Explanation({}, {}, {}, (), "a", 0, 1.0, values).category_texts
        ('protocol: icmp 98 %, tcp usual',)
        """
        return tuple(category_text(name, its) for name, its in self.values.items())


def category_text(name: Hashable, its: Mapping[str, Any]) -> str:
    """Say what an explanation has of a category in words."""
    value, usual = (NEW_VALUE if its[key] is None else str(its[key]) for key in ("value", "usual"))
    return f"{name}: {value} {its['share']:.0%}".replace("%", " %") + f", {usual} usual"


class Movement(NamedTuple):
    """Movement of the mean of a known class, feature by feature.

    Attributes
    ----------
    mean
        Mean of each feature since the change, in the caller's units.
    trained
        Mean in training.
    shift
        Their difference, in standard deviations of the class in training.
    """

    mean: dict[Hashable, float]
    trained: dict[Hashable, float]
    shift: dict[Hashable, float]


MOVED = 3
"""Features that the text of a drift names."""
_OF_ALL = ("batch", "seq", "model")
"""What every event has."""


class Moment(NamedTuple):
    """A place in the stream: position of an instance, from 0, its time and its key, as the caller gave them."""

    seq: int
    t: float | None
    key: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that an operator may want to know; each fact is told once.

    Attributes
    ----------
    batch
        Number of the micro-batch after which it was known.
    seq
        Position of the last instance of that batch.
    model
        Fingerprint of the trained model.

    Examples
    --------
    >>> from stream_osr import SubclassMerged
    >>> print(SubclassMerged(batch=3, seq=219, model="5f0c", subclass_id=14, into=11, size=40))
    SubclassMerged at 219: subclass_id 14, into 11, size 40
    """

    batch: int
    seq: int
    model: str

    def __str__(self) -> str:
        facts = [_fact_text(f.name, getattr(self, f.name)) for f in fields(self) if f.name not in _OF_ALL]
        return f"{type(self).__name__} at {self.seq}: {', '.join(facts)}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the text in a notebook; ``repr`` has all of it."""
        printer.text(str(self))

    def as_dict(self) -> dict[str, Any]:
        """Return the event as nested dicts of plain values, ``type`` first."""
        out: dict[str, Any] = {"type": type(self).__name__}
        for f in fields(self):
            value = getattr(self, f.name)
            value = as_fields(value) if hasattr(value, "_asdict") else value
            out[f.name] = {k: _texts(v) for k, v in value.items()} if isinstance(value, dict) else value
        return out


def _fact_text(name: str, value: Any) -> str:
    """Write a fact in short: of a moment the position, of an explanation what lies nearest."""
    if isinstance(value, Explanation):
        return f"{value.distance:.1f} standard deviations off {printable(str(value.nearest_class), 60)}"
    if isinstance(value, Movement):
        moved = sorted(value.shift, key=lambda name: -abs(value.shift[name]))[:MOVED]
        text = ", ".join(f"{brief(name)} {value.shift[name]:+.1f}" for name in moved)
        return f"moved by standard deviations: {text}"
    if isinstance(value, Moment):
        value = value.seq
    return f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {brief(value)}"


def as_fields(value: Any) -> dict[str, Any]:
    """Fields of a record, without those of categories where there are none."""
    return {name: its for name, its in value._asdict().items() if name != "values" or its}


def _texts(value: Any) -> Any:
    """Name features by text: JSON has no other keys."""
    return {str(k): v for k, v in value.items()} if isinstance(value, dict) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassEvent(Event):
    """Something about one emerging subclass.

    Attributes
    ----------
    subclass_id
        Its identity: stable, never used again for another.
    first_seen, last_seen
        First and latest instance that arrived in it.
    size
        Instances in it now.
    share
        Its share of the stream so far.
    support
        Its seats in the stream now, faded: how present it is at the moment.
    trend
        Arrivals per 1000 instances of the stream, lately: an average that fades by half in 300 instances.
    exemplars
        Keys of its most typical instances among those remembered, the most typical first.
    explanation
        What it is like.
    """

    subclass_id: int
    first_seen: Moment
    last_seen: Moment
    size: int
    share: float
    support: float
    trend: float
    exemplars: tuple[Any, ...]
    explanation: Explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassEmerged(SubclassEvent):
    """A subclass of unknown instances has enough support to be announced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassGrew(SubclassEvent):
    """An emerged subclass has doubled since it was last announced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassDormant(SubclassEvent):
    """Nothing has arrived in an emerged subclass for so long that its seats have faded. It is not forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassRecurred(SubclassEvent):
    """Instances arrive again in a subclass that was dormant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassMerged(Event):
    """Two subclasses have turned out to be one, or all instances of one have moved to another.

    Attributes
    ----------
    subclass_id
        The identity that ends; perhaps it was never announced, but decisions bear it.
    into
        The identity that goes on, the older one.
    size
        Instances in that one now.
    """

    subclass_id: int
    into: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassSplit(Event):
    """A subclass has turned out to be two. The new one counts as announced by this.

    Attributes
    ----------
    subclass_id
        The identity of the larger part, which goes on.
    new_id
        The identity of the other part.
    sizes
        Instances in the one and the other now.
    exemplars
        Keys of the most typical instances of the new one among those remembered.
    explanation
        What the new one is like.
    """

    subclass_id: int
    new_id: int
    sizes: tuple[int, int]
    exemplars: tuple[Any, ...]
    explanation: Explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassPromoted(SubclassEvent):
    """A person has named a subclass: it is one of a known class now.

    Attributes
    ----------
    label
        Label of the class.
    """

    label: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassMuted(SubclassEvent):
    """A person does not care about a subclass: its instances stay unknown, and nothing more is told of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionUndone(Event):
    """A promotion or a mute has been taken back: the subclasses are emerging ones again, and are told of.

    Attributes
    ----------
    action
        ``"promotion"`` or ``"mute"``.
    subclass_ids
        Identities of the subclasses that are emerging again; those that have ended meanwhile are not among them.
    label
        The label that they had been given; None for a mute.
    """

    action: Literal["promotion", "mute"]
    subclass_ids: tuple[int, ...]
    label: Any = None


ActionUndone.__name__ = "NamingUndone"  # on the wire and in archives


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassForgotten(Event):
    """An emerged subclass has left the model: others have more support, or known classes have its instances.

    Attributes
    ----------
    subclass_id
        Its identity.
    last_seen
        Latest instance that arrived in it.
    """

    subclass_id: int
    last_seen: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassRefuted(Event):
    """A subclass that was announced is not new: it takes training instances of a known class like the stream's.

    Its instances are the class's from now on. Should new ones come into it, it is announced again.

    Attributes
    ----------
    subclass_id
        Its identity.
    label
        The known class that most of what is known in it belongs to.
    known_share
        Share of its instances that are known, as far as the references tell.
    size
        Instances in it now.
    """

    subclass_id: int
    label: Any
    known_share: float
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallDropped(Event):
    """Known instances are no longer labelled right as often as training promised; told again after it was back.

    What to do: look at ``ClassDrifted`` events and at data quality; label some instances, or train the model anew on
    recent ones. ``max_false_unknown`` bounds what is called unknown of each class.

    Attributes
    ----------
    recall
        Share of the known instances that get their own label now, as the references tell.
    low, high
        Interval that holds it with 95 %.
    false_unknown
        Share of the known instances that are called unknown now.
    promised
        What training promised (``TrainingReport.known_recall``).
    """

    recall: float
    low: float
    high: float
    false_unknown: float
    promised: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownRateJumped(Event):
    """Much more of the stream is called unknown than usual, whatever was announced or muted; told once for each jump.

    What to do: look at what has emerged since (``SubclassEmerged``, ``new_classes()``) and at data quality. Nothing
    emerges from noise, or from many classes too rare to be told: then look at the instances.

    Attributes
    ----------
    rate
        Share of the instances since the jump that are called unknown.
    before
        The usual share until then; at the beginning of a stream what training expects of known instances.
    since
        Position in the stream from which on it looks changed: an estimate.
    size
        Instances since then.
    """

    rate: float
    before: float
    since: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFailed(Event):
    """A column is stuck, out of scale or shifted as a whole: a fault of the data, and no new class.

    While it fails the column is treated as missing, unless most columns fail together, or the instances do not show
    that all classes are affected. ``Signals.faulty_columns`` names the columns that fail now. What to do: look at the
    sensor, the unit, or whoever fills the column.

    Attributes
    ----------
    column
        Name of the feature.
    kind
        ``"stuck"``: it repeats one value, zero for example, for longer than training makes plausible.
        ``"out of scale"``: it lies ten ranges or more beyond the range of training. ``"shifted"``: all of it has left
        the range at one time.
    since
        Position in the stream from which on it fails: an estimate.
    size
        Instances since then.
    value
        Its latest value.
    low, high
        Range of training: from the lowest 1st to the highest 99th percentile of a class.
    longest
        Longest run of one value in training.
    """

    column: Any
    kind: str
    since: int
    size: int
    value: float
    low: float
    high: float
    longest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsRepeated(Event):
    """A row comes again and again, far more often than rows do in training: a fault of the data, and no new class.

    Further copies get the decision of the first and are no evidence of anything. It is told again when the row comes
    back after it has not been among the latest 64 instances.

    Attributes
    ----------
    first
        The first of the copies among the latest instances.
    size
        Copies among the batch and the 64 instances before it.
    usual
        Most copies of a row among 64 successive training instances.
    """

    first: Moment
    size: int
    usual: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DependenceFound(Event):
    """Instances of the stream depend on their neighbours, and those of training did not; told when that begins.

    From here on known classes predict in order of arrival where neighbours depend, and an instance that is typical of
    a known class counts as known, wherever a subclass lies. What to do: train on instances in their order of arrival,
    from the same process.

    Attributes
    ----------
    kind
        ``"neighbours depend"``: successive instances of a class resemble each other. ``"typical instances unknown"``:
        instances that are typical of known classes are called unknown in bulk.
    labels
        Known classes that are concerned most, five at most.
    correlation
        Mean correlation of neighbours in the stream.
    since
        Position in the stream from which on it is treated so.
    """

    kind: str
    labels: tuple[Any, ...]
    correlation: float
    since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewClassesChanged(Event):
    """The paper's Delta has changed: a sign, told at no cost, that there may be more or fewer new classes.

    How many there are, and how sure that is, `OpenSetRecognizer.new_classes` says.

    Attributes
    ----------
    delta
        The paper's Delta, equation (14), of the emerged subclasses.
    before
        What it was until now.
    subclasses
        Identities of the emerged subclasses.
    """

    delta: int
    before: int
    subclasses: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsSummed(Event):
    """More has happened than is told one by one: a flood of small clusters, say. These events are told by this one.

    The subclasses themselves are what they are: `OpenSetRecognizer.new_classes` and ``summary`` have them all.

    Attributes
    ----------
    counts
        How many events of each type.
    since, until
        Positions of the first and of the last of them.
    emerged
        Identities of the subclasses whose announcement is among them.
    """

    counts: dict[str, int]
    since: int
    until: int
    emerged: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassDrifted(Event):
    """The instances of a known class have become less usual for it, or more; told again when they have changed again.

    Attributes
    ----------
    label
        The known class.
    direction
        ``"sparser"``: it has moved or widened. ``"denser"``: it has narrowed, or come back.
    since
        Position in the stream from which on it looks changed: an estimate.
    size
        Instances since then that were judged: the class's own, as far as can be told.
    rank_before, rank_now
        Mean ``density_rank`` before and since; 1/2 in training.
    movement
        Which features moved. A class that widened or narrowed where it was shows in none of them.
    """

    label: Any
    direction: str
    since: int
    size: int
    rank_before: float
    rank_now: float
    movement: Movement
