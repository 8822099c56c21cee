"""Snapshots of partitions.

A snapshot is a state ``TOPIC-PARTITION-OFFSET-LABELS-LINEAGE.osr`` that is written once and atomically. LABELS ends
with the number of the boundary (:func:`.boundaries.closing_text`). A snapshot contains the stream's part of the
recognizer, the fingerprint of the trained part, and the records without a final decision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.archive.checks import recognizer
from stream_osr.archive.files import Surroundings, from_bytes, kind_over, to_bytes
from stream_osr.archive.recognizers import content_of, restored
from stream_osr.errors import PersistenceError
from stream_osr.support.rules import Scope, fields, whole

from ..client.interface import ClientError
from ..log import Seldom
from ..places import Place
from ..wire.boundaries import Boundary, closing_of, closing_text
from ..wire.messages import Received
from . import waiting_records
from .folder_states import GroupStates, StoreError
from .partition import Partition
from .partition_keys import KEYS, PartitionKeys

VERSION = 2
"""Version of the content. Version 1 has no values of waiting records."""

_seldom = Seldom()

_NAME = re.compile(
    r"(?P<topic>.+)-(?P<partition>\d+)-(?P<offset>\d+)-(?P<labels>\d+)(?P<closes>o|c\d+|)-(?P<lineage>[0-9a-f]+)\.osr"
)


_FIELDS = {"version": whole(1, VERSION), "model": recognizer, "waiting": waiting_records.RECORDS}
_ONE_STREAM, _BY_KEY = fields(_FIELDS), fields({**_FIELDS, "keys": KEYS})

REACH = 8
"""Largest number of earlier snapshots that may contain states of keys of a snapshot."""


def _content(value: Any, where: str, scope: Scope) -> None:
    """Check the content of a snapshot."""
    (_BY_KEY if isinstance(value, Mapping) and "keys" in value else _ONE_STREAM)(value, where, scope)


class SnapshotName(NamedTuple):
    """Parsed name of a snapshot.

    Attributes
    ----------
    place
        Partition.
    lineage
        Lineage of the stream.
    at
        Boundary of the snapshot.
    """

    place: Place
    lineage: str
    at: Boundary


class Snapshot(NamedTuple):
    """Content of a snapshot: the recognizers at a boundary, and the records without final decisions."""

    model: OpenSetRecognizer
    waiting: tuple[Received, ...]
    keys: PartitionKeys | None = None


class Snapshots(NamedTuple):
    """Snapshots of a group.

    Attributes
    ----------
    states
        States of the group.
    keep
        Number of snapshots of each partition to keep.
    """

    states: GroupStates
    keep: int

    def write(self, place: Place, partition: Partition) -> str:
        """Write a snapshot of a partition at its last boundary, delete old snapshots, and return its name.

        Raises
        ------
        PersistenceError
            If it cannot be written.
        """
        at = partition.history.last
        labels = f"{at.labels}{closing_text(at.closes)}"
        name = f"{place.topic}-{place.partition}-{at.offset:020}-{labels}-{partition.lineage}.osr"
        model, keys = partition.model, partition.keys
        content: dict[str, Any] = {
            "version": VERSION,
            "model": content_of(model, model.value),
            "waiting": waiting_records.written(partition.waiting),
        }
        if keys is not None:
            content["keys"] = keys.as_state(partition.lineage, at, self.boundaries(place, partition.lineage)[:REACH])
        trained = model.trained
        data = to_bytes(kind_over(trained), content, Surroundings.of(trained), name)
        self.states.write(name, data, place.partition)
        own = self._found(place, partition.lineage)
        needed = {*sorted(own)[-self.keep :]}
        if keys is not None:
            keys.note_written(partition.lineage, at, content["keys"])
            needed |= keys.needed(partition.lineage, needed, sorted(own), REACH)
        for old in own.keys() - needed:
            try:
                self.states.drop(own[old], place.partition)
            except PersistenceError as error:  # the next snapshot tries it again
                _seldom.say(f"drop {place}", str(error))
        return name

    def boundaries(self, place: Place, lineage: str) -> list[Boundary]:
        """Return the boundaries with snapshots of a partition, the newest first."""
        return sorted(self._found(place, lineage), reverse=True)

    def read(
        self,
        place: Place,
        lineage: str,
        at: Boundary,
        trained: TrainedModel,
        keys_by: Callable[[str], PartitionKeys] | None = None,
    ) -> Snapshot | None:
        """Read a snapshot, or return ``None`` and log the reason if it is missing or unusable.

        ``keys_by`` returns an empty collection of keys for a value of the setting `by`.

        Raises
        ------
        ClientError, StoreError
            If the topic or the URL cannot be read now.
        """
        found = self._found(place, lineage)
        if at not in found:
            return None

        digests = []  # the same damage causes few log lines

        def content_at(each: Boundary) -> dict[str, Any]:
            data = self.states.read(found[each], place.partition)
            if data is None:
                raise PersistenceError(f"{found[each]} is not in {self.states.where} any more")
            digests.append(sha256(data).hexdigest())
            return _content_of(data, found[each], trained)

        try:
            content, keys = content_at(at), None
            if "keys" in content and keys_by is not None:
                keys = keys_by(content["keys"]["by"])
                keys.resume(place, lineage, at, content["keys"], lambda each: content_at(each)["keys"])
            model = restored(OpenSetRecognizer, content["model"])
            return Snapshot(model, waiting_records.restored(place, content["waiting"]), keys)
        except (ClientError, StoreError):  # it may be read later
            raise
        except Exception as error:  # a complete file from elsewhere can raise any error
            ours = isinstance(error, PersistenceError)
            why = str(error) if ours else f"{found[at]} does not fit together ({type(error).__name__})"
            _seldom.say(f"{found[at]} {digests}", f"snapshot left aside: {why}")
            return None

    def reached(self, topic: str, counts: Callable[[str], bool]) -> dict[Place, int]:
        """Return a lower bound of each partition's decided offset in a topic, from snapshots of some lineages."""
        names = (name for name, _ in self._names() if name.place.topic == topic and counts(name.lineage))
        return {name.place: name.at.offset for name in sorted(names, key=lambda name: name.at)}

    def _names(self) -> Iterator[tuple[SnapshotName, str]]:
        return ((name, text) for text in self.states.names() if (name := name_of(text)) is not None)

    def _found(self, place: Place, lineage: str) -> dict[Boundary, str]:
        return {name.at: text for name, text in self._names() if name[:2] == (place, lineage)}


def _content_of(data: bytes, name: str, trained: TrainedModel) -> dict[str, Any]:
    content: dict[str, Any] = from_bytes(data, kind_over(trained), _content, Surroundings.of(trained), name)
    return content


def name_of(text: str) -> SnapshotName | None:
    """Parse the name of a snapshot, or return ``None``.

    >>> name_of("sensors-3-00000000000000000256-2o-77aa.osr").at
    Boundary(offset=256, labels=2, closes=0)
    """
    name = _NAME.fullmatch(text)
    if name is None:
        return None
    place = Place(name["topic"], int(name["partition"]))
    at = Boundary(int(name["offset"]), int(name["labels"]), closing_of(name["closes"]))
    return SnapshotName(place, name["lineage"], at)
