"""Snapshots of partitions, and the incarnations of input topics.

A snapshot is a file ``TOPIC-PARTITION-OFFSET-LABELS-LINEAGE.osr`` that is written once and atomically. LABELS ends
with ``o`` if the boundary does not close the micro-batches. A snapshot contains the stream's part of the recognizer,
the fingerprint of the trained part, and the records without a final decision.

The folder also contains the id of each input topic. A topic that is deleted and created again has the same name and
offsets, but other records. After a change of the id, committed offsets and snapshots belong to the previous topic.
Ids of messages include the incarnation, so that none is used twice.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.archive.checks import recognizer
from stream_osr.archive.files import Surroundings, kind_over, read_archive, write_archive
from stream_osr.archive.recognizers import content_of, restored
from stream_osr.archive.rules import Scope, fields, whole
from stream_osr.errors import ConnectorError, PersistenceError
from stream_osr.support.atomic import write_whole

from ..client.interface import Committed
from ..log import Seldom, logger
from ..places import Place
from ..settings import ServiceSettings
from ..wire.boundaries import Boundary, Progress
from ..wire.messages import Received
from . import waiting_records
from .models import Journal
from .partition import Partition
from .partition_keys import KEYS, PartitionKeys
from .state_copies import StateCopies

VERSION = 2
"""Version of the content. Version 1 has no values of waiting records."""

_seldom = Seldom()

_NAME = re.compile(
    r"(?P<topic>.+)-(?P<partition>\d+)-(?P<offset>\d+)-(?P<labels>\d+)(?P<open>o?)-(?P<lineage>[0-9a-f]+)\.osr"
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
        labels = f"{at.labels}{'' if at.closes else 'o'}"
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

    >>> name_of(Path("sensors-3-00000000000000000256-2-77aa.osr"))
    SnapshotName(place=Place(topic='sensors', partition=3), lineage='77aa',
                 at=Boundary(offset=256, labels=2, closes=True))
    """
    name = _NAME.fullmatch(path.name)
    if name is None:
        return None
    place = Place(name["topic"], int(name["partition"]))
    at = Boundary(int(name["offset"]), int(name["labels"]), not name["open"])
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


_LINEAGE = re.compile(r"[0-9a-f]{8}(?P<incarnation>[0-9a-f]*)")


class Incarnations:
    """The incarnations of an input topic.

    Parameters
    ----------
    folder
        Folder of the group's snapshots, which all workers share.
    topic
        Input topic.

    Attributes
    ----------
    now
        Number of times that the topic was created again.
    partitions
        Number of partitions at the first check of this incarnation, 0 if unknown.
    path
        File with the ids.
    """

    def __init__(self, folder: Path, topic: str) -> None:
        self.path, self._topic = folder / f"{topic}.topic", topic
        self.now = self.partitions = 0
        self._ids: list[str] = []

    @property
    def name(self) -> str:
        """Name of the input in ids. Later incarnations have a number as suffix."""
        return f"{self._topic}+{self.now}" if self.now else self._topic

    def take(self, topic_id: str, partitions: int) -> bool:
        """Accept the current topic, and return whether it differs from the stored one.

        An older stored id is ignored, because it is from a broker with outdated metadata.

        Raises
        ------
        PersistenceError
            If the stored id cannot be read.
        """
        found = self._read()
        known: list[str] = [] if found is None else found["ids"]
        if not topic_id or topic_id in known:
            self.partitions = partitions if found is None else int(found["partitions"])
            self._ids, renewed = known, False
        else:
            self.partitions, self._ids, renewed = partitions, [*known, topic_id], bool(known)
        self.now = max(0, len(self._ids) - 1)
        return renewed

    def keep(self) -> None:
        """Store the id for the next start and for other workers.

        Raises
        ------
        PersistenceError
            If it cannot be written.
        """
        content = {"ids": self._ids, "partitions": self.partitions}
        if not self._ids or content == self._read():
            return
        try:
            write_whole(self.path, lambda file: file.write(json.dumps(content).encode()))
        except OSError as error:
            raise PersistenceError(f"cannot write {self.path}: {error.strerror}") from None

    def tell(self, decided: Mapping[Place, int], on_lost_state: str) -> None:
        """Report the loss of the previous topic. With on_lost_state ``fail`` this is an error.

        Parameters
        ----------
        decided
            Decided offset of each partition of the previous topic, if known.
        on_lost_state
            Value of the setting.

        Raises
        ------
        ConnectorError
            If the setting is ``fail``.
        """
        far = ", ".join(f"{offset} of partition {place.partition}" for place, offset in sorted(decided.items()))
        text = (
            f"input: topic {self._topic} was deleted and made again. Records of the previous topic were decided up "
            f"to {far or 'an unknown offset'}, and later records are lost"
        )
        if on_lost_state == "fail":
            raise ConnectorError(
                f"{text}. Set on_lost_state to cold to start again with this one, or use another group"
            )
        logger.warning("%s. The stream starts again, and ids go on as %s-...", text, self.name)

    @property
    def mark(self) -> str:
        """Suffix of lineages for this incarnation of the topic."""
        return f"{self.now:x}" if self.now else ""

    def is_of_now(self, lineage: str) -> bool:
        """Return whether a lineage started in this incarnation."""
        return _life_of(lineage) == self.now

    def is_before(self, lineage: str) -> bool:
        """Return whether a lineage started in the previous incarnation."""
        return _life_of(lineage) == self.now - 1

    def _read(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self.path.read_text())
            return found if {"ids", "partitions"} <= found.keys() else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, AttributeError) as error:
            raise PersistenceError(
                f"cannot read {self.path}, which has the id of topic {self._topic} ({error}). Restore it, or "
                "remove it if the topic was never created again"
            ) from None


def _life_of(lineage: str) -> int | None:
    """Parse the incarnation of a lineage, or return ``None``."""
    found = _LINEAGE.fullmatch(lineage)
    return None if found is None else int(found["incarnation"] or "0", 16)


OLD_SECONDS = 3600.0

_MODEL = re.compile(r"(?P<identity>[0-9a-f]{16})\.model")
_LEFT = re.compile(r"\..+\.[0-9a-f]{16}|\.writable")
"""Partial files of processes that died, and the file of the write test."""


class Orphans(NamedTuple):
    """Files that can be deleted.

    Attributes
    ----------
    snapshots, models, leftovers
        Paths of the files.
    """

    snapshots: list[Path]
    models: list[Path]
    leftovers: list[Path]


def find_orphans(
    folder: Path,
    topics: Collection[str],
    model: str,
    committed: Mapping[Place, Committed],
    now: float | None = None,
) -> Orphans:
    """Find unused files.

    Parameters
    ----------
    folder
        Folder of the group.
    topics
        Input topics.
    model
        Identity of the current model.
    committed
        State of each partition of the inputs at the brokers. Without a committed offset its snapshots stay, because
        they show that there was one. If metadata cannot be read, all files stay.
    now
        Seconds since 1970. Default: the current time.
    """
    found = Orphans([], [], [])
    try:
        progress = [Progress.parse(its.metadata) for its in committed.values() if its.offset is not None]
        given = Journal(folder).read()[-1:]
    except (ConnectorError, PersistenceError):
        return found
    before = (time.time() if now is None else now) - OLD_SECONDS
    lineages = {each.lineage for each in progress}
    models = {model, *given, *(each.model for each in progress)}
    others = False
    for path in sorted(folder.iterdir()):
        name = name_of(path)
        where = None if name is None else committed.get(name.place)
        if name is not None and (name.place.topic not in topics or (where is not None and where.offset is None)):
            # another service of this group with unknown partitions, or deleted offsets
            others = True
        elif not _is_older(path, before):
            continue
        elif name is not None and (where is None or name.lineage not in lineages):
            found.snapshots.append(path)
        elif (kept := _MODEL.fullmatch(path.name)) and kept["identity"] not in models:
            found.models.append(path)
        elif _LEFT.fullmatch(path.name):
            found.leftovers.append(path)
    return found._replace(models=[]) if others else found


def remove_orphans(
    folder: Path,
    topics: Collection[str],
    model: str,
    committed: Mapping[Place, Committed],
    log: StateCopies | None = None,
) -> int:
    """Remove unused files, and log their number (see :func:`find_orphans`)."""
    try:
        found = find_orphans(folder, topics, model, committed)
    except OSError as error:
        logger.warning("cannot look for unused files in %s: %s", folder, error.strerror)
        return 0
    gone = [_remove(paths, log) for paths in found]
    if any(gone):
        logger.info("removed unused files from %s: %d snapshots, %d models, %d leftovers", folder, *gone)
    return sum(gone)


def _remove(paths: Collection[Path], log: StateCopies | None) -> int:
    gone = 0
    for path in paths:
        with suppress(OSError):  # another worker was first, or we lack the right
            path.unlink()
            gone += 1
            if log is not None:
                name = name_of(path)
                log.drop(path.name, 0 if name is None else name.place.partition)
    return gone


def _is_older(path: Path, moment: float) -> bool:
    with suppress(OSError):
        return path.is_file() and path.stat().st_mtime < moment
    return False
