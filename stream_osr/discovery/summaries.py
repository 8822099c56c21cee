"""Summary of a stream: the discovery table of the paper, counts of signals, and schema mismatches."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from stream_osr.discovery.class_count import Estimate
from stream_osr.discovery.new_classes import MOST_NAMES
from stream_osr.discovery.signal_table import COUNTED
from stream_osr.instances.features import Features
from stream_osr.instances.kinds import Name
from stream_osr.instances.missing_values import is_missing
from stream_osr.parameters import Label
from stream_osr.printable_text import counted, html_table, listed, printable
from stream_osr.support import rules
from stream_osr.trust.recall import ExpectedRecall, RecallByGroup

MOST_IGNORED = 20
"""Number of ignored columns whose names are stored."""
MOST_SHARES = 12
"""Number of emerging subclasses that the text of a summary lists."""


class SchemaMismatch(NamedTuple):
    """Mismatch between the records of a stream and those of training.

    Attributes
    ----------
    features
        Features of training without a value in any record.
    categories
        Categories without a value that training had in any record.
    ignored
        Columns that the model does not use, the first ``MOST_IGNORED``.

    Examples
    --------
    >>> unmet = begin(Features(["flow", "heat"]))
    >>> unmet = unmet.met_by({"Flow": 1.5, "heat": 2.0}, Features(["flow", "heat"]))
    >>> unmet.messages()
    ['feature of training that no record has had: flow', 'column that the model does not use: Flow']
    """

    features: frozenset[Name] = frozenset()
    categories: frozenset[Name] = frozenset()
    ignored: tuple[Name, ...] = ()

    @property
    def is_settled(self) -> bool:
        """True if all features and categories have occurred. Only ignored columns may still be added."""
        return not self.features and not self.categories

    def met_by(self, x: Mapping[Any, Any], features: Features) -> SchemaMismatch:
        """Update the mismatch with a readable record. Without changes, return the same object."""
        came = {name for name in self.features & x.keys() if not is_missing(x[name])}
        read = {name for name in self.categories & x.keys() if features.knows(name, x[name])}
        met = self
        if came or read:
            met = SchemaMismatch(self.features - came, self.categories - read, self.ignored)
        return met.besides(features.unexpected(x)) if len(met.ignored) < MOST_IGNORED else met

    def besides(self, names: Iterable[Name]) -> SchemaMismatch:
        """Add names of columns that the model does not use. Without new names, return the same object."""
        new = [name for name in names if name not in self.ignored][: MOST_IGNORED - len(self.ignored)]
        return self._replace(ignored=(*self.ignored, *new)) if new else self

    def in_order(self) -> tuple[tuple[Name, ...], ...]:
        """Return the mismatch as plain values in a fixed order."""
        return (_ordered(self.features), _ordered(self.categories), self.ignored)

    def messages(self) -> list[str]:
        """Return a line of text for each kind of mismatch."""
        strange = self.categories - self.features
        lines = []
        for one, many, what, names in (
            ("feature of training", "features of training", "that no record has had", self.features),
            ("category", "categories", "none of whose values training had", strange),
            ("column", "columns", "that the model does not use", self.ignored),
        ):
            if names:
                which = listed(sorted(printable(str(name), 60) for name in names), MOST_NAMES)
                lines.append(f"{one if len(names) == 1 else f'{len(names)} {many}'} {what}: {which}")
        return lines


def _ordered(names: Iterable[Name]) -> tuple[Name, ...]:
    return tuple(sorted(names, key=lambda name: (type(name).__name__, repr(name))))


ALL_MET = SchemaMismatch()
"""Mismatch of a stream that has all features and no others."""


def begin(features: Features) -> SchemaMismatch:
    """Return the mismatch at the beginning of a stream."""
    return SchemaMismatch(frozenset(features.names), frozenset(features.kinds.values))


NOTHING = Estimate()
"""Estimate without any new class."""


class DecisionCounts(NamedTuple):
    """Numbers of decided instances of a stream. Its text is a line.

    Attributes
    ----------
    decided
        Number of decided instances.
    unknown
        Number of those decided as unknown.

    Examples
    --------
    >>> print(DecisionCounts(8, 2))
    8 instances decided in all: 6 known, 2 unknown (25.0 %)
    """

    decided: int
    unknown: int

    @property
    def unknown_share(self) -> float:
        """Share of the instances decided as unknown, 0 without decisions."""
        return self.unknown / max(self.decided, 1)

    def __str__(self) -> str:
        numbers = f"{self.decided - self.unknown} known, {self.unknown} unknown"
        return f"{counted(self.decided, 'instance')} decided in all: {numbers} ({_percent(self.unknown_share, 1)})"


@dataclass(frozen=True)
class DiscoveryRow:
    """Row of the discovery table.

    Attributes
    ----------
    name
        Label of the known class, or ``None`` for the stream.
    size
        Number of instances.
    subclasses
        Id and share (of the group) of each subclass, the largest first.
    """

    name: Any
    size: int
    subclasses: tuple[tuple[int, float], ...]


@dataclass(frozen=True, repr=False)
class Summary:
    """Summary of the known classes and the stream. As text it is the discovery table (`text`).

    Attributes
    ----------
    known
        Row for each known class.
    stream_size
        Number of decided instances of the stream.
    known_share, unknown_share
        Shares of the stream decided as known and as unknown.
    emerging
        Id and size of each emerging subclass, and whether it has emerged, the largest first.
    delta
        The paper's Delta, equation (14).
    new_classes
        Estimated number of new classes (`OpenSetRecognizer.new_classes`).
    promised_recall
        Expected recall from training. ``None``: training goes on.
    expected_recall
        Share of known instances that get their own label now. ``None``: there is no decision yet, or the model has no
        references.
    guarded
        True if the model has references, or training goes on.
    unmet
        Features and categories of training that do not occur in the stream, and columns that the model ignores.
    by_group
        Expected recall from training for the same groups. ``promised_recall`` is then that for a new one.
    """

    known: tuple[DiscoveryRow, ...]
    stream_size: int
    known_share: float
    unknown_share: float
    emerging: tuple[tuple[int, int, bool], ...]
    delta: int
    new_classes: Estimate = NOTHING
    promised_recall: float | None = None
    expected_recall: ExpectedRecall | None = None
    guarded: bool = True
    unmet: SchemaMismatch = ALL_MET
    by_group: RecallByGroup | None = None

    def text(self, *, subclasses: bool = False) -> str:
        """Return the discovery table as text, with one line for each known class.

        Parameters
        ----------
        subclasses
            List all subclasses with their shares, instead of the largest of each known class.
        """
        rows = self._rows(subclasses=subclasses)
        widths = [max(len(row[c]) for row in rows) for c in range(3)]
        lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip() for a, b, c, d in rows]
        lines.insert(1, "-" * max(map(len, lines)))
        return "\n".join([*lines, *self._notes()])

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        return html_table(head, rows, notes=self._notes())

    def _rows(self, *, subclasses: bool = False) -> list[tuple[str, str, str, str]]:
        """Return the names of the columns, and the rows of the discovery table."""
        known, new = (sys.maxsize, sys.maxsize) if subclasses else (1, MOST_SHARES)
        shown = "each subclass in its" if subclasses else "the largest subclasses in the"
        rows = [("group", "instances", "subclasses", f"share of {shown} group, %")]
        for group in self.known:
            name = printable(str(group.name), 60)
            rows.append((name, str(group.size), str(len(group.subclasses)), _shares(group.subclasses[:known], known)))
        emerged = self._emerged
        rows.append(("stream, known", _percent(self.known_share), "", ""))
        shares = [(key, size / max(self.stream_size, 1)) for key, size in emerged]
        rows.append(("stream, new", _percent(self.unknown_share), str(len(emerged)), _shares(shares, new)))
        return rows

    @property
    def _emerged(self) -> list[tuple[int, int]]:
        return [(key, size) for key, size, announced in self.emerging if announced]

    def _notes(self) -> list[str]:
        """Return the lines below the table."""
        emerged = len(self._emerged)
        lines = [
            f"{counted(self.stream_size, 'instance')} of the stream decided, "
            f"{counted(emerged, 'new subclass', 'new subclasses')} emerged"
            f" ({len(self.emerging) - emerged} more without support yet), estimated number of new classes: "
            f"{self.new_classes} (the paper's Delta: {self.delta})"
        ]
        if self.promised_recall is not None:
            promised = f"{self.promised_recall:.3f}"
            promised = promised if self.by_group is None else self.by_group.compared(promised)
            lines.append(f"recall of the known classes: promised {promised}, {self._recall_now()}")
        return [*lines, *self.unmet.messages()]

    __str__ = __repr__ = text

    def _recall_now(self) -> str:
        if not self.guarded:
            return "not monitored because the model has no reference instances"
        return "nothing decided yet" if self.expected_recall is None else f"expected now {self.expected_recall}"


def _percent(share: float, digits: int = 2) -> str:
    return f"{100 * share:.{digits}f} %"


def _shares(subclasses: Sequence[tuple[int, float]], most: int) -> str:
    shown = "  ".join(f"S{key} {100 * share:.2f}" for key, share in subclasses[:most])
    return shown + (f"  and {len(subclasses) - most} more" if len(subclasses) > most else "")


SHOWN = 12
"""Most columns that a line of text names."""


class Signals(NamedTuple):
    """Counts since the stream began, and the present state. No count includes another.

    Attributes
    ----------
    novelty
        Number of announced emerging subclasses: ``SubclassEmerged`` events.
    drift
        Number of changes of known classes: ``ClassDrifted`` events.
    outliers
        Number of instances whose emerging subclass left the model unannounced. They resembled neither a known class
        nor enough other instances. An instance is counted once its weight has decayed, some hundred instances later.
    data_quality
        Number of rows with a missing or non-finite value, whether they were imputed, skipped or refused. It includes
        all other records that a connector refused, and those of training.
    recall_drops
        Number of drops of the known classes' recall below the expected recall from training.
    rate_jumps
        Number of jumps of the unknown rate: ``UnknownRateJumped`` events.
    expected_recall
        Share of known instances that get their own label now. ``None``: there is no decision yet, or the model has no
        references.
    recall_dropped
        True if the recall has dropped and not recovered.
    data_faults
        Number of columns that began to fail, and of rows that began to repeat: ``ColumnFailed`` and ``RowsRepeated``
        events.
    faulty_columns
        Columns that fail now.
    dependence
        Mean correlation of neighbouring instances of each trained class, in the stream or, with too few instances, in
        training. Empty: the order carries no information, or was not tested.
    dependent_since
        Position in the stream from which instances are treated as dependent on their neighbours. ``None``: they are
        not.
    changed_columns
        Columns that were constant in training and have changed: the constant, and the latest value.
    odd_values
        Number of instances that were decided without the value of one column, because it alone differed from
        training (``Decision.odd_columns``).
    error_codes
        Error codes of the latest instances, by column.
    frame
        Offset of all known classes from their training place, in a line (``FrameMoved``). Empty: there is none, or a
        person has accepted it.

    Examples
    --------
    >>> print(Signals(novelty=2, outliers=17))
    novelty 2, drift 0, outliers 17, data quality 0, recall drops 0, rate jumps 0
    >>> now = ExpectedRecall(0.8, 0.76, 0.84, 0.19)
    >>> print(Signals(2, recall_drops=1, expected_recall=now, recall_dropped=True))  # doctest: +NORMALIZE_WHITESPACE
    novelty 2, drift 0, outliers 0, data quality 0, recall drops 1, rate jumps 0;
    expected recall 0.800 (0.760 to 0.840), 19.0 % of the known called unknown: below what was promised
    """

    novelty: rules.Count = 0
    drift: rules.Count = 0
    outliers: int = 0
    data_quality: rules.Count = 0
    recall_drops: rules.Count = 0
    expected_recall: ExpectedRecall | None = None
    recall_dropped: bool = False
    rate_jumps: rules.Count = 0
    data_faults: rules.Count = 0
    faulty_columns: tuple[Name, ...] = ()
    dependence: Mapping[Label, float] = {}
    dependent_since: rules.Count | None = None
    changed_columns: Mapping[Name, tuple[float, float]] = {}
    odd_values: rules.Count = 0
    error_codes: Mapping[Name, tuple[float, ...]] = {}
    frame: str = ""

    @property
    def dependent(self) -> bool:
        """True if instances are treated as dependent on their neighbours now."""
        return self.dependent_since is not None

    def __str__(self) -> str:
        counts = [*COUNTED, *(name for name in ("data_faults", "odd_values") if getattr(self, name))]
        text = ", ".join(f"{name.replace('_', ' ')} {getattr(self, name)}" for name in counts)
        if self.faulty_columns:
            text += (
                f"; columns that fail: {', '.join(printable(str(name), 60) for name in self.faulty_columns[:SHOWN])}"
            )
        if self.error_codes:
            pairs = [(printable(str(name), 60), code) for name, own in self.error_codes.items() for code in own]
            text += f", error codes: {'; '.join(f'{name} {code:.6g}' for name, code in pairs[:SHOWN])}"
        if self.changed_columns:
            changes = islice(self.changed_columns.items(), SHOWN)
            shown = [f"{printable(str(name), 60)} {was:.6g}, now {now:.6g}" for name, (was, now) in changes]
            text += f", columns that were constant in training: {'; '.join(shown)}"
        if self.dependent:
            text += f", neighbours depend since instance {self.dependent_since}"
        if self.frame:
            text += f"; {self.frame}"
        if self.expected_recall is None:
            return text
        below = ": below what was promised" if self.recall_dropped else ""
        return f"{text}; expected recall {self.expected_recall}{below}"
