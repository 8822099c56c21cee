"""What a run decided, as columns: a million decisions take some forty megabytes."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_osr.errors import ConnectorError

NO_SUBCLASS = -1
NO_LABEL = -1


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

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Which decisions have a true label to be held against, shape (n,)."""
        return np.asarray(self.truth != NO_LABEL)


def gather(decisions: Iterable[Mapping[str, Any]], truth: Callable[[Any, int], str | None] | None = None) -> Decided:
    """Read decisions (as `stream_osr.Decision.as_dict` makes them) into columns.

    Parameters
    ----------
    decisions
        Decisions, in any order.
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
    seq, label, subclass, true = array("q"), array("q"), array("q"), array("q")
    p_unknown, unknown, truly = array("d"), array("b"), array("b")
    known: list[str] = []
    for number, decision in enumerate(decisions):
        try:
            *classes, other = decision["probabilities"]
            place, p, text = int(decision["seq"]), float(decision["p_unknown"]), str(decision["label"])
            seat = decision["subclass_id"]
            seat = NO_SUBCLASS if seat is None else int(seat)
        except (KeyError, TypeError, ValueError) as error:
            raise ConnectorError(
                f"record {number + 1} is no decision ({type(error).__name__}: {error}); "
                "give the file that `stream-osr run --output` wrote"
            ) from None
        told = truth(decision.get("key"), number) if truth is not None else None
        seq.append(place)
        label.append(codes.setdefault(text, len(codes)))
        unknown.append(text == other)
        subclass.append(seat)
        p_unknown.append(p)
        true.append(NO_LABEL if told is None else codes.setdefault(told, len(codes)))
        truly.append(told is not None and told not in classes)
        known = classes
    return Decided(
        names=tuple(codes),
        known=tuple(known),
        seq=np.array(seq, dtype=np.int64),
        label=np.array(label, dtype=np.int64),
        unknown=np.array(unknown, dtype=bool),
        subclass=np.array(subclass, dtype=np.int64),
        p_unknown=np.array(p_unknown, dtype=np.float64),
        truth=np.array(true, dtype=np.int64),
        truly_unknown=np.array(truly, dtype=bool),
    )
