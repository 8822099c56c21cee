"""Encoding and decoding of summaries of subclasses, links, and events of global subclasses.

Keys are ``topic/partition:id`` for a subclass of a partition and ``global:id`` for a global subclass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from stream_osr import TrainedModel
from stream_osr.discovery.event_base import as_fields
from stream_osr.discovery.reconcile import LinkChanges, Local, LocalSummary, ReconciledSubclasses
from stream_osr.printable_text import brief
from stream_osr.stream.local_summaries import SubclassSums, describe_statistics, most_numbers, read_sums, written_sums
from stream_osr_connectors.values import DecodeError

from .messages import ENCODING, Headers, Outgoing, Received

SUMMARY = "stream-osr.subclass.v1"
LINK = "stream-osr.link.v1"
GLOBAL_EVENT = "stream-osr.global-event.v1"

BYTES_OF_NUMBER = 25
BYTES_BESIDE = 4096
"""Most bytes of a summary for each number, and in addition to the numbers."""

MOST = 1 << 53
"""Bound on ids and counts."""

_LOCAL = re.compile(r"(?P<place>[^/]+/[0-9]{1,10}):(?P<id>[0-9]{1,15})")


def largest_summary(trained: TrainedModel) -> int:
    """Return an upper bound on the size of a summary in bytes."""
    return BYTES_BESIDE + BYTES_OF_NUMBER * most_numbers(trained)


def name_of(local: Local) -> str:
    """Return the name of a partition's subclass, as in its events.

    >>> name_of(Local("sensors/3", "77aa", 12))
    'sensors/3:12'
    """
    return f"{local.place}:{local.id}"


class Stamp(NamedTuple):
    """Common fields of messages: prefix of ids, source, and timestamp (-1 for none)."""

    id: str
    source: str
    timestamp: int = -1


def summary(trained: TrainedModel, topic: str, local: Local, published: SubclassSums, stamp: Stamp) -> Outgoing:
    """Encode the summary of a subclass, or a tombstone if it has ended.

    The timestamp is the time of sending, because compaction depends on it (``min.compaction.lag.ms``) and instances
    may be old.
    """
    place, _, partition = local.place.rpartition("/")
    value = None
    if published.statistics is not None:
        value = {
            "schema": SUMMARY,
            "topic": place,
            "partition": int(partition),
            "subclass": local.id,
            "run": local.run,
            "model": trained.fingerprint,
            "size": int(published.statistics.size[0]),
            "sums": written_sums(trained, published.statistics),
            "absorbed": published.absorbed,
        }
    return _outgoing(topic, name_of(local), value, SUMMARY, stamp)


def parse_summary(received: Received, runs: Mapping[str, str], trained: TrainedModel) -> LocalSummary | None:
    """Decode a summary, or return ``None`` if it belongs to another model.

    Parameters
    ----------
    received
        Record of the topic.
    runs
        Latest run of each recognizer, because a tombstone does not contain it.
    trained
        Trained model.

    Raises
    ------
    DecodeError
        With the reason.
    """
    local = _local((received.key or b"").decode(errors="replace"), "")
    if local is None:
        raise DecodeError("its key is not of the form topic/partition:id")
    if received.value is None:
        return LocalSummary(local._replace(run=runs.get(local.place, "")), None)
    parsed = _object(received.value)
    if parsed.get("model") != trained.fingerprint:
        return None
    run, absorbed = parsed.get("run"), parsed.get("absorbed", [])
    if not isinstance(run, str):
        raise DecodeError(f"its run is {brief(run)}, not text")
    if not isinstance(absorbed, list):
        raise DecodeError(f"absorbed is {brief(absorbed)}, not a list of ids")
    ended = tuple(_number(each, "absorbed") for each in absorbed)
    try:
        size = _number(parsed.get("size"), "size")
        statistics = read_sums(trained, size, parsed["sums"])
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise DecodeError(f"it is no summary: {error}") from None
    if statistics is None:
        raise DecodeError(f"its sums are not those of {size} rows")
    return LocalSummary(local._replace(run=run), statistics, ended)


def alive(summaries: Iterable[Received]) -> set[Local]:
    """Return the subclasses that have not ended, given all summaries in order. Invalid summaries are skipped."""
    runs: dict[str, str] = {}
    latest: dict[bytes, Local] = {}
    for received in summaries:
        key, value = received.key or b"", received.value
        local = _local(key.decode(errors="replace"), "")
        try:
            run = None if value is None else _object(value).get("run")
        except DecodeError:
            continue
        if local is None or value is None:
            latest.pop(key, None)
        elif isinstance(run, str):
            runs[local.place] = run
            latest[key] = local._replace(run=run)
    return {local for local in latest.values() if local.run == runs[local.place]}


class Links(NamedTuple):
    """Content of the topic of links: global ids of subclasses, and merged global ids."""

    links: dict[Local, int]
    merged: dict[int, int]

    def final(self, key: int) -> int:
        """Return the global id that remains for a global id after merges."""
        return self._way(key)[-1]

    def _way(self, key: int) -> list[int]:
        """Return the chain of merges from a global id. The loop ends even for an invalid cycle."""
        way = [key]
        while way[-1] in self.merged and len(way) <= len(self.merged):
            way.append(self.merged[way[-1]])
        return way

    def read(self, received: Received) -> None:
        """Apply a record.

        Raises
        ------
        DecodeError
            If the record is not a link. Then nothing changes.
        """
        parsed = _object(received.value or b"")
        key = _number(parsed.get("global"), "global")
        if "into" in parsed:
            into = _number(parsed["into"], "into")
            if key in self._way(into):
                raise DecodeError(f"global {key} is to end in {into}, which has ended in {key}")
            self.merged[key] = into
            return
        name, run = parsed.get("subclass"), parsed.get("run")
        local = _local(name, run) if isinstance(name, str) and isinstance(run, str) else None
        if local is None:
            raise DecodeError(
                f"subclass is {brief(name)} and run {brief(run)}, expected topic/partition:id and the text of a run"
            )
        self.links[local] = key


def messages_of_changes(
    trained: TrainedModel,
    topics: tuple[str, str],
    local: Local,
    state: ReconciledSubclasses,
    changes: LinkChanges,
    stamp: Stamp,
) -> list[Outgoing]:
    """Encode the changes from a summary: links, and events of global subclasses.

    Parameters
    ----------
    trained
        Trained model.
    topics
        Topics of links and of global events.
    local
        Subclass of the summary.
    state, changes
        State after the summary, and its changes.
    stamp
        Common fields of the messages.
    """
    links, events = topics
    out: list[tuple[str, str, dict[str, Any], str]] = []
    for one, key in sorted(changes.linked.items()):
        out.append((links, name_of(one), {"subclass": name_of(one), "run": one.run, "global": key}, LINK))
    for ended, key in sorted(changes.merged.items()):
        out.append((links, f"global:{ended}", {"global": ended, "into": key}, LINK))
        common_fields = {"type": "SubclassMerged", "global": ended, "into": key, "model": trained.fingerprint}
        out.append((events, f"global:{ended}", common_fields, GLOBAL_EVENT))
    for key in changes.emerged:
        about = {
            "type": "SubclassEmerged",
            "global": key,
            "subclass": name_of(local),
            "size": int(state.sums[key].size[0]),
            "model": trained.fingerprint,
            "explanation": as_fields(describe_statistics(trained, state.sums[key])),
        }
        out.append((events, f"global:{key}", about, GLOBAL_EVENT))
    return [
        _outgoing(topic, key, {"schema": kind, **value}, kind, stamp._replace(id=f"{stamp.id}-{n}"))
        for n, (topic, key, value, kind) in enumerate(out)
    ]


def _local(name: str, run: str) -> Local | None:
    """Parse the name of a partition's subclass, or return ``None``."""
    named = _LOCAL.fullmatch(name)
    return None if named is None else Local(named["place"], run, int(named["id"]))


def _object(value: bytes) -> dict[str, Any]:
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise DecodeError(f"it is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise DecodeError(f"it is {brief(parsed)}, not a JSON object")
    return parsed


def _number(value: object, name: str) -> int:
    """Check an id or a count."""
    if type(value) is not int or not 0 <= value < MOST:
        raise DecodeError(f"{name} is {brief(value)}, not a whole number from 0 to {MOST - 1}")
    return value


def _outgoing(topic: str, key: str, value: dict[str, Any] | None, kind: str, stamp: Stamp) -> Outgoing:
    id, source, timestamp = stamp
    headers: Headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", id.encode()),
        ("ce_source", source.encode()),
        ("ce_type", kind.encode()),
        ("ce_subject", key.encode()),
        ("content-type", b"application/json"),
    ]
    content = None if value is None else orjson.dumps(value, option=ENCODING)
    return Outgoing(topic, 0, key.encode(), content, list(headers), timestamp if timestamp >= 0 else None)
