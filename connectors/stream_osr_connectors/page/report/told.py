"""What a run decided, as columns: a million decisions take some sixty megabytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_osr.errors import ConnectorError
from stream_osr.showing import shown
from stream_osr_connectors.page.records import reading, real, whole
from stream_osr_connectors.page.report.texts import Texts

NO_SUBCLASS = -1
NO_LABEL = -1

MOST_LABELS = 10_000
"""Decided and true ones together: a page cannot show more, and a column of keys may be taken for that of labels."""

SLACK = 1e-6
"""By which an average of probabilities may leave its range."""

_COLUMNS = {
    "seq": "q", "label": "q", "unknown": "?", "subclass": "q", "p_unknown": "d", "truth": "q",
    "truly_unknown": "?", "number": "q", "key": "q",
}  # fmt: skip


class Decided(NamedTuple):
    """Decisions as columns, in the order in which they were read.

    Attributes
    ----------
    names
        Labels as text; ``label`` and ``truth`` point into it.
    known
        Labels of the classes that were known in the end.
    seq
        Position of each instance in the stream, shape (n,).
    label
        Decided label of each, shape (n,).
    unknown
        It was decided to be unknown, shape (n,).
    subclass
        Subclass it sits in, ``NO_SUBCLASS``: in none, shape (n,).
    p_unknown
        Probability of being unknown, shape (n,).
    truth
        True label of each, ``NO_LABEL``: not told, shape (n,).
    truly_unknown
        The true label was of no class known at that moment, shape (n,).
    number
        Which one it was of all that were read, from 0, shape (n,).
    keys
        Key of each that was read, empty where it had none.
    repeated
        Decisions that were read more than once, and count once.
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
    keys: Texts
    repeated: int = 0

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Which decisions have a true label to be held against, shape (n,)."""
        return np.asarray(self.truth != NO_LABEL)


def gather(decisions: Iterable[Mapping[str, Any]], truth: Callable[[Any, int], str | None] | None = None) -> Decided:
    """Read decisions (as `stream_osr.Decision.as_dict` makes them) into columns.

    Parameters
    ----------
    decisions
        Decisions, in any order; one that comes again, as after a resumed run into a pipe, counts once.
    truth
        Gives the true label from the key of a decision and its number in the order of reading, if there is one.

    Raises
    ------
    ConnectorError
        If one of them is no decision.

    Examples
    --------
    >>> one = {"key": 4, "seq": 0, "label": "red", "subclass_id": 2, "p_unknown": 0.1}
    >>> one["probabilities"] = {"red": 0.9, "unknown": 0.1}
    >>> told = gather([one], lambda key, number: "blue")
    >>> told.known, told.unknown.tolist(), told.truly_unknown.tolist()
    (('red',), [False], [True])
    """
    codes: dict[str, int] = {}
    known: list[str] = []
    keys = Texts()

    def rows() -> Iterator[tuple[Any, ...]]:
        for number, decision in enumerate(decisions):
            with reading(decision, "decision", number):
                *classes, other = _classes(decision["probabilities"])
                place, p = whole(decision["seq"], "seq"), _probability(decision["p_unknown"])
                text, key = str(decision["label"]), decision.get("key")
                name = "" if key is None else str(key)
                seat = decision["subclass_id"]
                seat = NO_SUBCLASS if seat is None else whole(seat, "subclass_id")
            keys.append(name)
            told = truth(key, number) if truth is not None else None
            label = codes.setdefault(text, len(codes))
            true = NO_LABEL if told is None else codes.setdefault(told, len(codes))
            if len(codes) > MOST_LABELS:
                raise ConnectorError(
                    f"{getattr(decision, 'place', f'record {number + 1}')}: more than {MOST_LABELS} different "
                    "labels, decided and true ones; name the column that has the classes as --label"
                )
            known[:] = classes
            new = told is not None and told not in classes
            yield place, label, text == other, seat, p, true, new, number, hash(name)

    table = np.fromiter(rows(), np.dtype(list(_COLUMNS.items())))
    once = table[_first_times(*(table[name] for name in ("seq", "key", "label", "subclass", "p_unknown")))]
    parts: list[Any] = [once[name] for name in _COLUMNS if name != "key"]
    parts += [keys, len(table) - len(once)]
    return Decided(tuple(codes), tuple(known), *parts)


def _classes(probabilities: object) -> list[str]:
    """Give the known classes of a decision, and the unknown label, which comes last."""
    if not isinstance(probabilities, Mapping) or not probabilities:
        raise ValueError(f"probabilities is {shown(probabilities)}, which names no label")
    return [str(name) for name in probabilities]


def _probability(value: object) -> float:
    p = real(value, "p_unknown")
    if not -SLACK <= p <= 1.0 + SLACK:
        raise ValueError(f"p_unknown is {p:.6g}, no probability")
    return min(max(p, 0.0), 1.0)


def _first_times(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places of rows that are not there before."""
    n = len(columns[0])
    if len(np.unique(columns[0])) == n:
        return np.arange(n)
    order = np.lexsort(columns[::-1])  # keeps the order of equal rows
    new = np.ones(n, dtype=bool)
    new[1:] = np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
    return np.sort(order[new])
