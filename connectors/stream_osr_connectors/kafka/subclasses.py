"""Summaries of emerged subclasses, links and events of global ones: what is published of them, and read again.

Keys are ``topic/partition:id`` for a partition's own subclass and ``global:id`` for a global one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from stream_osr import TrainedModel
from stream_osr.discovery.reconcile import Changes, Local, Reconciled, Summary
from stream_osr.engine.summaries import Said, as_sums, describe_statistics, from_sums
from stream_osr_connectors.values import DecodeError

from .messages import Headers, Outgoing, Received

SUMMARY = "stream-osr.subclass.v1"
LINK = "stream-osr.link.v1"
GLOBAL_EVENT = "stream-osr.global-event.v1"

BYTES_OF_NUMBER = 25
BYTES_BESIDE = 4096
"""What a summary has at most for each number, and beside the numbers."""

_LOCAL = re.compile(r"(?P<place>.+/\d+):(?P<id>\d+)")
_ENCODING = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def largest_summary(trained: TrainedModel) -> int:
    """Bytes that a summary has at most."""
    d = trained.known.prior.n_features
    return BYTES_BESIDE + BYTES_OF_NUMBER * (d + 1) * (d + 2) // 2


def name_of(local: Local) -> str:
    """Name a partition's subclass as its events do.

    >>> name_of(Local("sensors/3", "77aa", 12))
    'sensors/3:12'
    """
    return f"{local.place}:{local.id}"


def summary(trained: TrainedModel, topic: str, local: Local, said: Said, *, id: str, source: str) -> Outgoing:
    """Publish what a worker says of a subclass; a tombstone when it has ended.

    The timestamp is that of sending: compaction waits by it (``min.compaction.lag.ms``), and instances may be old.
    """
    place, _, partition = local.place.rpartition("/")
    value = None
    if said.statistics is not None:
        value = {
            "schema": SUMMARY,
            "topic": place,
            "partition": int(partition),
            "subclass": local.id,
            "run": local.run,
            "model": trained.fingerprint,
            "size": int(said.statistics.size[0]),
            "sums": as_sums(said.statistics, trained.known.prior),
            "absorbed": said.absorbed,
        }
    return _outgoing(topic, name_of(local), value, SUMMARY, id, source, -1)


def parse_summary(received: Received, runs: Mapping[str, str], trained: TrainedModel) -> Summary | None:
    """Read a summary; None: it is of another model.

    Parameters
    ----------
    received
        Record of the topic.
    runs
        Latest run of each recognizer: a tombstone does not say to which it belongs.
    trained
        The model.

    Raises
    ------
    DecodeError
        With what is wrong.
    """
    named = _LOCAL.fullmatch((received.key or b"").decode(errors="replace"))
    if named is None:
        raise DecodeError("its key is not of the form topic/partition:id")
    place, number = named["place"], int(named["id"])
    if received.value is None:
        return Summary(Local(place, runs.get(place, ""), number), None)
    try:
        parsed = orjson.loads(received.value)
        if parsed["model"] != trained.fingerprint:
            return None
        statistics = from_sums(parsed["size"], parsed["sums"], trained.known.prior)
        return Summary(Local(place, str(parsed["run"]), number), statistics, tuple(parsed.get("absorbed", ())))
    except (LookupError, TypeError, ValueError) as error:
        raise DecodeError(f"it is no summary: {error}") from None


def alive(summaries: Iterable[Received]) -> set[Local]:
    """Find the subclasses that have not ended, by all summaries in order; what is none is left aside."""
    runs: dict[str, str] = {}
    latest: dict[bytes, Local] = {}
    for received in summaries:
        key = received.key or b""
        named = _LOCAL.fullmatch(key.decode(errors="replace"))
        try:
            run = None if received.value is None else str(orjson.loads(received.value)["run"])
        except (LookupError, TypeError, ValueError):
            continue
        if run is None or named is None:
            latest.pop(key, None)
        else:
            runs[named["place"]] = run
            latest[key] = Local(named["place"], run, int(named["id"]))
    return {local for local in latest.values() if local.run == runs[local.place]}


class Links(NamedTuple):
    """What the topic of links holds: global identities of subclasses, and those that have ended in others."""

    links: dict[Local, int]
    merged: dict[int, int]

    def final(self, key: int) -> int:
        """Follow a global identity to the one that goes on for it."""
        while key in self.merged:
            key = self.merged[key]
        return key

    def read(self, received: Received) -> None:
        """Take in a record.

        Raises
        ------
        DecodeError
            If it is no link.
        """
        try:
            parsed = orjson.loads(received.value or b"")
            if "into" in parsed:
                self.merged[int(parsed["global"])] = int(parsed["into"])
                return
            named = _LOCAL.fullmatch(parsed["subclass"])
            if named is None:
                raise ValueError("its subclass is not of the form topic/partition:id")
            self.links[Local(named["place"], str(parsed["run"]), int(named["id"]))] = int(parsed["global"])
        except (LookupError, TypeError, ValueError) as error:
            raise DecodeError(f"it is no link: {error}") from None


def changes_told(
    trained: TrainedModel,
    topics: tuple[str, str],
    local: Local,
    state: Reconciled,
    changes: Changes,
    *,
    id: str,
    source: str,
    timestamp: int,
) -> list[Outgoing]:
    """Publish what a summary has changed: links, and events of global subclasses.

    Parameters
    ----------
    trained
        The model.
    topics
        Of links and of global events.
    local
        The subclass that the summary was about.
    state, changes
        After the summary.
    id, source, timestamp
        Of the messages.
    """
    links, events = topics
    out: list[tuple[str, str, dict[str, Any], str]] = []
    for one, key in sorted(changes.linked.items()):
        out.append((links, name_of(one), {"subclass": name_of(one), "run": one.run, "global": key}, LINK))
    for ended, key in sorted(changes.merged.items()):
        out.append((links, f"global:{ended}", {"global": ended, "into": key}, LINK))
        told = {"type": "SubclassMerged", "global": ended, "into": key, "model": trained.fingerprint}
        out.append((events, f"global:{ended}", told, GLOBAL_EVENT))
    for key in changes.emerged:
        about = {
            "type": "SubclassEmerged",
            "global": key,
            "subclass": name_of(local),
            "size": int(state.sums[key].size[0]),
            "model": trained.fingerprint,
            "explanation": describe_statistics(trained, state.sums[key])._asdict(),
        }
        out.append((events, f"global:{key}", about, GLOBAL_EVENT))
    return [
        _outgoing(topic, key, {"schema": kind, **value}, kind, f"{id}-{n}", source, timestamp)
        for n, (topic, key, value, kind) in enumerate(out)
    ]


def _outgoing(
    topic: str, key: str, value: dict[str, Any] | None, kind: str, id: str, source: str, timestamp: int
) -> Outgoing:
    headers: Headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", id.encode()),
        ("ce_source", source.encode()),
        ("ce_type", kind.encode()),
        ("ce_subject", key.encode()),
        ("content-type", b"application/json"),
    ]
    content = None if value is None else orjson.dumps(value, option=_ENCODING)
    return Outgoing(topic, 0, key.encode(), content, list(headers), timestamp if timestamp >= 0 else None)
