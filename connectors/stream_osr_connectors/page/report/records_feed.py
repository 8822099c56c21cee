"""Given decisions and events, without repetitions and in stream order, with the features of shown instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import Any, TypeAlias

import numpy as np
import orjson

from stream_osr.discovery.signal_table import EVENT_TABLE
from stream_osr.errors import ConnectorError
from stream_osr.printable_text import brief, counted
from stream_osr_connectors.page.live.feeds import Feed, FoundDecision, NewRecords
from stream_osr_connectors.summary.input_records import ReadRecord, reading, real, whole

Instances: TypeAlias = Iterable[tuple[Any, Mapping[Any, Any]]]
"""Key (or ``None``) and features of each instance."""

MOST_LABELS = 10_000
"""Most decided and true labels together. More labels suggest that a column of keys was given as labels."""
SLACK = 1e-6
"""Tolerance for probabilities outside 0 to 1."""
CHUNK = 4096
"""Most decisions of a poll."""

_ROW = np.dtype([("seq", "q"), ("key", "q"), ("same", "q"), ("at", "q"), ("size", "q")])
_MEASURED = ("t", "probability", "distance", "density_rank")
_NUMBERS = ("seq", "subclass_id", "new_id", "size", "delta")


class RecordsFeed(Feed):
    """Given records as the source of a page. Decisions are stored in a temporary file.

    Parameters
    ----------
    name
        Name for people.
    decisions, events
        Decisions and events as `stream_osr.Decision.as_dict` and `stream_osr.Event.as_dict` return them, decisions in
        any order. Repeated records count once.
    truth
        A function that returns the true label or ``None``, given the key of a decision and its number in reading
        order.
    instances
        Features of the instances, or ``None``.
    notes
        Sentences about skipped input, read after all other input.

    Raises
    ------
    ConnectorError
        If a record is invalid.
    """

    kind = "report"
    strict = True

    def __init__(
        self,
        name: str,
        decisions: Iterable[Mapping[str, Any]],
        events: Iterable[Mapping[str, Any]],
        truth: Callable[[Any, int], str | None] | None = None,
        instances: Instances | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.name, self._instances, self._notes = name, instances, notes
        self._file = TemporaryFile()  # noqa: SIM115  # it lives as long as the feed
        try:
            table = np.fromiter(self._stored(decisions, truth), _ROW)
            self.events, again = valid_events(events)
        except BaseException:
            self.close()
            raise
        _, first = np.unique(table[["seq", "same"]], return_index=True)
        once = table[np.sort(first)]
        self._rows = once[np.argsort(once["seq"], kind="stable")]
        repeated = {"decisions": len(table) - len(first), "events": again}
        self.has_events = bool(self.events)
        self._again = [f"{n:,} repeated {what} are skipped: each counts once" for what, n in repeated.items() if n]
        self._read, self._features = 0, dict[int, dict[str, Any]]()

    def __len__(self) -> int:
        return len(self._rows)

    def _stored(
        self, decisions: Iterable[Mapping[str, Any]], truth: Callable[[Any, int], str | None] | None
    ) -> Iterator[tuple[int, ...]]:
        """Write valid decisions to the file. Yield position, hashes of key and decision, place and size of each."""
        labels, at = set[str](), 0
        for number, record in enumerate(decisions):
            with reading(record, "decision", number):
                decision, key = as_decision(record), record.get("key")
            text = "" if key is None else str(key)
            same = hash((text, *(decision[name] for name in ("label", "subclass_id", "p_unknown"))))
            if truth is not None and (label := truth(key, number)) is not None:
                decision["true_label"] = label
            labels |= {decision["label"], decision.get("true_label", decision["label"])}
            if len(labels) > MOST_LABELS:
                raise ConnectorError(
                    f"{getattr(record, 'place', f'record {number + 1}')}: more than {MOST_LABELS} different "
                    "labels, decided and true ones together. Give the column of classes as --label"
                )
            data = as_json(decision)
            self._file.write(data)
            yield decision["seq"], hash(text), same, at, len(data)
            at += len(data)

    def _decision(self, n: int) -> dict[str, Any]:
        row = self._rows[n]
        self._file.seek(row["at"])
        decision: dict[str, Any] = orjson.loads(self._file.read(row["size"]))
        return decision

    def poll(self, refuse: Callable[[str, BaseException], None]) -> NewRecords:
        """Return the next decisions, and first all events."""
        begin, end = self._read, min(self._read + CHUNK, len(self))
        self._read = end
        decisions = [(0, n, n, self._decision(n)) for n in range(begin, end)]
        return NewRecords(decisions, [] if begin else [(0, each) for each in self.events], end < len(self))

    def block(
        self, track: int, number: int, place: int, after: int | None, only: Collection[int] | None = None
    ) -> list[FoundDecision]:
        """Read a block of decisions again, or only some decisions."""
        end = len(self) if after is None else after
        return [FoundDecision(n, self._decision(n)) for n in (range(number, end) if only is None else sorted(only))]

    def features(self, found: Sequence[FoundDecision], texts: Collection[str] = ()) -> list[dict[str, Any] | None]:
        """Return the features that :meth:`look_up` has found."""
        return [self._features.get(one.n) for one in found]

    def look_up(self, wanted: Collection[int]) -> None:
        """Find the features of some decisions in the given instances.

        Records without keys belong to the decisions in reading order. Records with the same key belong to the
        decisions with that key, in order. If their numbers differ, none of them is used.

        Raises
        ------
        ConnectorError
            If the number of records without keys differs from the number of decisions, or no key matches.
        """
        if self._instances is None or not wanted:
            return
        places, keys = set(wanted), self._rows["key"]
        of_key: dict[int, list[int]] = {int(keys[n]): [] for n in places if keys[n] != hash("")}
        for n in np.flatnonzero(np.isin(keys, list(of_key))).tolist():
            of_key[int(keys[n])].append(n)
        seen, keyed, count = Counter[int](), False, 0
        for count, (key, features) in enumerate(self._instances, start=1):  # counted
            own = range(count) if key is None else of_key.get(hash(str(key)), ())
            keyed = keyed or key is not None
            at = count - 1 if key is None else seen[hash(str(key))]
            if at < len(own) and own[at] in places:
                self._features[own[at]] = {str(name): value for name, value in features.items()}
            if key is not None and own:
                seen[hash(str(key))] += 1
        if not keyed and count != len(self):
            raise ConnectorError(
                f"found {counted(len(self), 'decision')} and {counted(count, 'record')} of --input. "
                "Add --key COLUMN to match records and decisions by key"
            )
        for text, own in of_key.items():
            for n in own if keyed and seen[text] != len(own) else ():  # some were not decided, and nobody knows which
                self._features.pop(n, None)
        if keyed and not self._features:
            raise ConnectorError(
                f"none of the {count} records of --input has the key of a shown instance. Give --key with the "
                "column of keys that `run` used, or omit it if there was none"
            )

    def notes(self) -> list[str]:
        """Describe the skipped input."""
        return [*self._notes, *self._again]

    def close(self) -> None:
        """Delete the temporary file."""
        self._file.close()


def as_decision(record: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a decision from any file to the types that JSON Lines have.

    Raises
    ------
    LookupError, TypeError, ValueError
        If the record is no decision.

    Examples
    --------
    >>> one = {"seq": "4", "label": 3, "subclass_id": None, "p_unknown": "0.1", "probabilities": {"3": 0.9, "x": 0.1}}
    >>> as_decision(one)["seq"], as_decision(one)["label"], as_decision(one)["p_unknown"]
    (4, '3', 0.1)
    """
    probabilities, subclass, p = (
        record["probabilities"],
        record["subclass_id"],
        real(record["p_unknown"], "p_unknown"),
    )
    if not isinstance(probabilities, Mapping) or not probabilities:
        raise ValueError(f"probabilities is {brief(probabilities)}, which names no label")
    if not -SLACK <= p <= 1.0 + SLACK:
        raise ValueError(f"p_unknown is {p:.6g}, no probability")
    if (contributions := record.get("contributions")) is not None:
        for each in contributions["unknown"]["features"]:
            real(each["contribution"], f"contribution of {brief(each['name'])} with value {brief(each['value'])}")
    return {
        **record,
        **{name: _number(record.get(name)) for name in _MEASURED},
        "seq": whole(record["seq"], "seq"),
        "key": record.get("key"),
        "label": str(record["label"]),
        "subclass_id": None if subclass is None else whole(subclass, "subclass_id"),
        "p_unknown": min(max(p, 0.0), 1.0),
        "probabilities": {str(label): _number(value) for label, value in probabilities.items()},
    }


def _number(value: Any) -> Any:
    with suppress(ValueError):
        return float(value) if isinstance(value, str) else value
    return value


def valid_events(records: Iterable[Mapping[str, Any]]) -> tuple[list[ReadRecord], int]:
    """Check events of this or a later release. Return them without repetitions, and the number of repetitions.

    Raises
    ------
    ConnectorError
        If an event is invalid.
    """
    seen, events, number = set[str](), list[ReadRecord](), -1
    for number, record in enumerate(records):
        with reading(record, "event", number):
            kind = record["type"]
            if not isinstance(kind, str):
                raise TypeError(f"type is {brief(kind)}, not text")
            text, numbers = repr(sorted(record.items())), {}
            for name in _NUMBERS:
                needed = name == "seq" or (name == "delta" and kind == "NewClassesChanged")
                if kind not in EVENT_TABLE:
                    with suppress(ValueError):
                        numbers[name] = whole(record.get(name), name)
                elif needed or record.get(name) is not None:
                    numbers[name] = whole(record[name], name)
        if text not in seen:
            place = getattr(record, "place", f"event {number + 1}")
            events.append(ReadRecord({**record, **numbers}, place))
        seen.add(text)
    return events, number + 1 - len(events)


def as_json(value: Any) -> bytes:
    r"""Write JSON. Texts that UTF-8 cannot represent are escaped, and values that JSON does not have are text.

    >>> as_json({"key": "\ud800", 3: 10**30})
    b'{"key":"\\\\ud800","3":"1000000000000000000000000000000"}'
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    except (TypeError, RecursionError):
        return orjson.dumps(_clean(value))


def _clean(value: Any, depth: int = 0) -> Any:
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 1 << 53):
        return value
    if isinstance(value, Mapping) and depth < MOST_DEPTH:
        return {_clean(str(name)): _clean(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple) and depth < MOST_DEPTH:
        return [_clean(each, depth + 1) for each in value]
    text = value if isinstance(value, str) else brief(value)
    return text.encode("utf-8", "backslashreplace").decode()


MOST_DEPTH = 50
"""Most levels of a nested value. Deeper values are text."""
