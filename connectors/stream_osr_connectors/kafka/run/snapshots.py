"""Snapshots of partitions.

A snapshot is a file ``TOPIC-PARTITION-OFFSET-LABELS-LINEAGE.osr`` that is written once and atomically. LABELS ends
with the number of the boundary (:func:`.boundaries.closing_text`). A snapshot contains the stream's part of the
recognizer, the fingerprint of the trained part, and the records without a final decision.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.archive.checks import recognizer
from stream_osr.archive.files import Surroundings, kind_over, read_archive, write_archive
from stream_osr.archive.recognizers import content_of, restored
from stream_osr.errors import PersistenceError
from stream_osr.support.rules import Scope, fields, whole

from ..log import Seldom
from ..places import Place
from ..settings import ServiceSettings
from ..wire.boundaries import Boundary, closing_of, closing_text
from ..wire.messages import Received
from . import waiting_records
from .partition import Partition
from .partition_keys import KEYS, PartitionKeys
from .state_copies import StateCopies

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
    """The folder of a group's snapshots, which all workers share, or a copy of their topic or URL.

    Attributes
    ----------
    folder
        Path of the folder.
    keep
        Number of snapshots of each partition to keep.
    log
        Topic or URL of the snapshots, ``None`` if all machines share the folder.
    """

    folder: Path
    keep: int
    log: StateCopies | None = None

    def open(self) -> None:
        """Create the folder with access only for its owner. The rights of an existing folder do not change.

        Raises
        ------
        PersistenceError
            If the folder cannot be created or written.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            probe = self.folder / ".writable"
            probe.touch()
            probe.unlink(missing_ok=True)
        except OSError as error:
            raise PersistenceError(
                f"cannot write to the folder of the snapshots, {self.folder}: {error.strerror}. Set another as state"
            ) from None

    def write(self, place: Place, partition: Partition) -> Path:
        """Write a snapshot of a partition at its last boundary, and delete old snapshots.

        Raises
        ------
        PersistenceError
            If it cannot be written or published.
        """
        at = partition.history.last
        labels = f"{at.labels}{closing_text(at.closes)}"
        path = self.folder / f"{place.topic}-{place.partition}-{at.offset:020}-{labels}-{partition.lineage}.osr"
        model, keys = partition.model, partition.keys
        content: dict[str, Any] = {
            "version": VERSION,
            "model": content_of(model, model.value),
            "waiting": waiting_records.written(partition.waiting),
        }
        if keys is not None:
            content["keys"] = keys.as_state(partition.lineage, at, self.boundaries(place, partition.lineage)[:REACH])
        write_archive(path, kind_over(model.trained), content, Surroundings.of(model.trained))
        if self.log is not None:
            try:
                self.log.put(path.name, place.partition)
            except PersistenceError:  # a snapshot that other machines do not see is none
                path.unlink(missing_ok=True)
                raise
        own = self._found(place, partition.lineage)
        needed = {*sorted(own)[-self.keep :]}
        if keys is not None:
            keys.note_written(partition.lineage, at, content["keys"])
            needed |= keys.needed(partition.lineage, needed, sorted(own), REACH)
        for old in own.keys() - needed:
            with suppress(OSError):
                own[old].unlink()
                if self.log is not None:
                    self.log.drop(own[old].name, place.partition)
        return path

    def publish(self, place: Place, lineage: str) -> None:
        """Publish the snapshots of a partition that are not published. The log has the reason if this fails."""
        if self.log is None:
            return
        try:
            for path in self._found(place, lineage).values():
                self.log.put(path.name, place.partition)
        except PersistenceError as error:
            _seldom.say(f"publish {place}", str(error), logging.ERROR)

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
        """
        found = self._found(place, lineage)
        path = found.get(at)
        if path is None:
            return None
        try:
            content = _read(path, trained)
            keys = None
            if "keys" in content and keys_by is not None:
                keys = keys_by(content["keys"]["by"])
                keys.resume(place, lineage, at, content["keys"], lambda each: _read(found[each], trained)["keys"])
            model = restored(OpenSetRecognizer, content["model"])
            return Snapshot(model, waiting_records.restored(place, content["waiting"]), keys)
        except Exception as error:  # a complete file from elsewhere can raise any error
            ours = isinstance(error, PersistenceError)
            why = str(error) if ours else f"{path} does not fit together ({type(error).__name__})"
            changed = 0  # an unchanged file causes few log lines
            with suppress(OSError):
                changed = path.stat().st_mtime_ns
            _seldom.say(f"{path} {changed}", f"snapshot left aside: {why}")
            return None

    def reached(self, topic: str, counts: Callable[[str], bool]) -> dict[Place, int]:
        """Return a lower bound of each partition's decided offset in a topic, from snapshots of some lineages."""
        names = (name for name, _ in self._names() if name.place.topic == topic and counts(name.lineage))
        return {name.place: name.at.offset for name in sorted(names, key=lambda name: name.at)}

    def _names(self) -> Iterator[tuple[SnapshotName, Path]]:
        return ((name, path) for path in self.folder.glob("*.osr") if (name := name_of(path)) is not None)

    def _found(self, place: Place, lineage: str) -> dict[Boundary, Path]:
        return {name.at: path for name, path in self._names() if name[:2] == (place, lineage)}


def _read(path: Path, trained: TrainedModel) -> dict[str, Any]:
    content: dict[str, Any] = read_archive(path, kind_over(trained), _content, Surroundings.of(trained))
    return content


def name_of(path: Path) -> SnapshotName | None:
    """Parse the name of a snapshot, or return ``None``.

    >>> name_of(Path("sensors-3-00000000000000000256-2o-77aa.osr")).at
    Boundary(offset=256, labels=2, closes=0)
    """
    name = _NAME.fullmatch(path.name)
    if name is None:
        return None
    place = Place(name["topic"], int(name["partition"]))
    at = Boundary(int(name["offset"]), int(name["labels"]), closing_of(name["closes"]))
    return SnapshotName(place, name["lineage"], at)


def open_folder(settings: ServiceSettings) -> Path:
    """Create the folder of a group, and return it.

    Raises
    ------
    PersistenceError
        If the folder cannot be created or written.
    """
    snapshots = Snapshots(settings.state / settings.group, settings.snapshots)
    snapshots.open()
    return snapshots.folder
