"""The decisions of a run as columns, and the choice of instances for a report."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_osr.errors import ConnectorError
from stream_osr.printable_text import brief, printable
from stream_osr.stream import Stream
from stream_osr_connectors.page.input_records import reading, real, whole


class PackedTexts:
    """Texts in one buffer, with nine bytes of overhead for each.

    Examples
    --------
    >>> texts = PackedTexts(["one", "", "zwölf"])
    >>> len(texts), texts[2], list(texts)
    (3, 'zwölf', ['one', '', 'zwölf'])
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._bytes, self._ends = bytearray(), array("q")
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Append a text. Lone surrogates are allowed."""
        self._bytes += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._bytes))

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, at: int) -> str:
        begin = self._ends[at - 1] if at else 0
        return self._bytes[begin : self._ends[at]].decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return (self[at] for at in range(len(self)))


NO_SUBCLASS = -1
NO_LABEL = -1

MOST_LABELS = 10_000
"""Most decided and true labels together. More labels suggest that a column of keys was given as labels."""

MOST_REASONS = 3
"""Most contributions of a decision."""
LONGEST_NAME = 60
"""Most characters of the name or the value of a feature with a contribution."""

SLACK = 1e-6
"""Tolerance for probabilities outside 0 to 1."""


class Reason(NamedTuple):
    """A feature with its value and its contribution, as text."""

    name: str
    value: str
    contribution: str


_COLUMNS = {
    "seq": "q", "label": "q", "unknown": "?", "subclass": "q", "p_unknown": "d", "truth": "q",
    "truly_unknown": "?", "number": "q", "key": "q",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class DecisionsTable:
    """Decisions as columns, in the order of the stream.

    Attributes
    ----------
    names
        Labels as text. ``label`` and ``truth`` are indices into it.
    known
        Labels of the classes that were known at the end.
    seq
        Position of each instance in the stream, shape (n,).
    label
        Decided label of each, shape (n,).
    unknown
        Whether the decision was unknown, shape (n,).
    subclass
        Subclass of each instance, ``NO_SUBCLASS`` for none, shape (n,).
    p_unknown
        Probability of unknown, shape (n,).
    truth
        True label of each instance, ``NO_LABEL`` for none, shape (n,).
    truly_unknown
        Whether the true class was not known at that time, shape (n,).
    number
        Number of the decision in reading order, from 0, shape (n,).
    keys
        Key of each decision in reading order, empty for none.
    repeated
        Number of repeated decisions. Each decision counts once.
    contributions
        The first contributions to the log-odds of unknown of each decision in reading order, for :meth:`reasons`.
    """

    names: tuple[str, ...]
    known: tuple[str, ...]
    seq: NDArray[np.int64]
    label: NDArray[np.int64]
    unknown: NDArray[np.bool_]
    subclass: NDArray[np.int64]
    p_unknown: NDArray[np.float64]
    truth: NDArray[np.int64]
    truly_unknown: NDArray[np.bool_]
    number: NDArray[np.int64]
    keys: PackedTexts
    repeated: int = 0
    contributions: PackedTexts = field(default_factory=PackedTexts)

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Decisions that have a true label, shape (n,)."""
        return np.asarray(self.truth != NO_LABEL)

    def __len__(self) -> int:
        return len(self.seq)

    @cached_property
    def _by_subclass(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places of the unknown instances sorted by subclass, and the subclass of each."""
        places = np.flatnonzero(self.unknown)
        order = places[np.argsort(self.subclass[places], kind="stable")]
        return order, self.subclass[order]

    def members(self, subclasses: Iterable[int]) -> NDArray[np.int64]:
        """Return the places of the unknown instances of some subclasses, in stream order."""
        order, subclass = self._by_subclass
        ends = [np.searchsorted(subclass, key, side) for key in subclasses for side in ("left", "right")]
        parts = [order[begin:end] for begin, end in zip(ends[::2], ends[1::2], strict=True)]
        return np.sort(np.concatenate([np.empty(0, np.int64), *parts]))

    def name(self, place: int) -> str:
        """Return the key of an instance, or an empty text."""
        return self.keys[int(self.number[place])]

    def reasons(self, place: int) -> tuple[Reason, ...]:
        """Return the first features of an instance with their contributions, if the decisions have contributions."""
        number = int(self.number[place])
        lines = self.contributions[number].splitlines() if number < len(self.contributions) else ()
        return tuple(Reason(*line.split("\t")) for line in lines)


def read_decisions(
    decisions: Iterable[Mapping[str, Any]], truth: Callable[[Any, int], str | None] | None = None
) -> DecisionsTable:
    """Read decisions (as `stream_osr.Decision.as_dict` returns them) into columns.

    Parameters
    ----------
    decisions
        Decisions in any order. Repeated decisions count once, as after a resumed run into a pipe.
    truth
        A function that returns the true label or ``None``, given the key of a decision and its number in reading
        order.

    Raises
    ------
    ConnectorError
        If one of them is no decision.

    Examples
    --------
    >>> one = {"key": 4, "seq": 0, "label": "red", "subclass_id": 2, "p_unknown": 0.1}
    >>> one["probabilities"] = {"red": 0.9, "unknown": 0.1}
    >>> told = read_decisions([one], lambda key, number: "blue")
    >>> told.known, told.unknown.tolist(), told.truly_unknown.tolist()
    (('red',), [False], [True])
    """
    codes: dict[str, int] = {}
    known: list[str] = []
    keys, contributions = PackedTexts(), PackedTexts()

    def rows() -> Iterator[tuple[Any, ...]]:
        for number, decision in enumerate(decisions):
            with reading(decision, "decision", number):
                *classes, other = _classes(decision["probabilities"])
                place, p = whole(decision["seq"], "seq"), _probability(decision["p_unknown"])
                text, key = str(decision["label"]), decision.get("key")
                name = "" if key is None else str(key)
                seat = decision["subclass_id"]
                seat = NO_SUBCLASS if seat is None else whole(seat, "subclass_id")
                reasons = _reasons(decision.get("contributions"))
            keys.append(name)
            contributions.append(reasons)
            reported = truth(key, number) if truth is not None else None
            label = codes.setdefault(text, len(codes))
            true = NO_LABEL if reported is None else codes.setdefault(reported, len(codes))
            if len(codes) > MOST_LABELS:
                raise ConnectorError(
                    f"{getattr(decision, 'place', f'record {number + 1}')}: more than {MOST_LABELS} different "
                    "labels, decided and true ones together. Give the column of classes as --label"
                )
            known[:] = classes
            new = reported is not None and reported not in classes
            yield place, label, text == other, seat, p, true, new, number, hash(name)

    table = np.fromiter(rows(), np.dtype(list(_COLUMNS.items())))
    once = table[_first_times(*(table[name] for name in ("seq", "key", "label", "subclass", "p_unknown")))]
    once = once[np.argsort(once["seq"], kind="stable")]
    parts: list[Any] = [once[name] for name in _COLUMNS if name != "key"]
    parts += [keys, len(table) - len(once), contributions]
    return DecisionsTable(tuple(codes), tuple(known), *parts)


def _classes(probabilities: object) -> list[str]:
    """Return the known classes of a decision, and the unknown label at the end."""
    if not isinstance(probabilities, Mapping) or not probabilities:
        raise ValueError(f"probabilities is {brief(probabilities)}, which names no label")
    return [str(name) for name in probabilities]


def _reasons(contributions: Any) -> str:
    """Write the first contributions to the log-odds of unknown as lines of name, value and contribution."""
    if contributions is None:
        return ""
    if not isinstance(contributions, Mapping) or not isinstance(contributions.get("unknown"), Mapping):
        raise ValueError(f"contributions is {brief(contributions)}, which has no log-odds of unknown")
    lines = []
    for each in contributions["unknown"]["features"][:MOST_REASONS]:
        value = "missing" if each["value"] is None else each["value"]
        text = f"{value:.4g}" if isinstance(value, float) else printable(str(value), LONGEST_NAME)
        name = printable(str(each["name"]), LONGEST_NAME)
        lines.append(f"{name}\t{text}\t{real(each['contribution'], 'contribution'):+.1f}")
    return "\n".join(lines)


def _probability(value: object) -> float:
    p = real(value, "p_unknown")
    if not -SLACK <= p <= 1.0 + SLACK:
        raise ValueError(f"p_unknown is {p:.6g}, no probability")
    return min(max(p, 0.0), 1.0)


def _first_times(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places of the first occurrences of rows."""
    n = len(columns[0])
    if len(np.unique(columns[0])) == n:
        return np.arange(n)
    order = np.lexsort(columns[::-1])  # keeps the order of equal rows
    new = np.ones(n, dtype=bool)
    new[1:] = np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
    return np.sort(order[new])


LOOKED_AT = 200
"""Most instances of a candidate from which examples are chosen."""
KNOWN_PLACES = 2000
"""Most instances of known classes from which the nearest are chosen."""
UNSURE = 50
"""Number of these instances with the lowest probability of unknown."""


def remembered_decisions(stream: Stream) -> DecisionsTable:
    """Return the instances in a model's memory as decisions, known or unknown."""
    past, count = stream.recent, len(stream.recent.keys)
    unknown, number, nothing = past.p_unknown >= 0.5, np.arange(count), np.full(count, NO_LABEL)
    decided = unknown.astype(np.int64), unknown, past.subclass[0].copy(), past.p_unknown
    columns = past.seq + number, *decided, nothing, nothing >= 0, number
    keys = PackedTexts("" if key is None else str(key) for key in past.keys.tolist())
    return DecisionsTable(("known", "unknown"), ("known",), *columns, keys)


def evenly_spaced(places: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return at most ``most`` places, evenly spaced."""
    at = np.linspace(0, len(places) - 1, min(most, len(places))).astype(np.int64)
    return places[np.unique(at)]


def example_places(p_unknown: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places from which examples are chosen: the least certain ones, and others evenly spaced."""
    unsure = places[np.argsort(p_unknown[places], kind="stable")[:UNSURE]]
    return np.union1d(unsure, evenly_spaced(places, LOOKED_AT - UNSURE))


def latest(places: NDArray[np.int64], most: int, also: Sequence[int]) -> NDArray[np.int64]:
    """Return the latest of some places and a few others, newest first."""
    return np.union1d(places[max(0, len(places) - most) :], np.array(also, np.int64))[::-1]
