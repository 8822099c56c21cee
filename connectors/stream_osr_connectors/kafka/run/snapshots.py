"""Snapshots of partitions: files that are written once, appear whole, and are named by what they hold.

``TOPIC-PARTITION-OFFSET-LABELS-LINEAGE.osr``; they hold the stream's part of the recognizer, with the fingerprint of
the trained part, and the records whose decisions are still held back.

Beside them stands the identity of each input topic. A topic that is deleted and made again has the same name and the
same offsets, and other records. When another id is found, what the group has committed and its snapshots are of the
topic before; ids of what is published count on, so that none is used twice.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.archive import check_content, read_archive, write_archive
from stream_osr.archive.rules import anything, fields, many, maybe, text, tuple_of, whole
from stream_osr.atomic import write_whole
from stream_osr.errors import ConnectorError, PersistenceError

from ..client import Committed
from ..log import Seldom, logger
from ..places import Place
from ..settings import ServiceSettings
from ..wire.boundaries import Boundary, Progress
from ..wire.messages import RecordOrigin
from .models import Journal
from .partition import Partition

VERSION = 1

_seldom = Seldom()

_NAME = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)-(?P<offset>\d+)-(?P<labels>\d+)-(?P<lineage>[0-9a-f]+)\.osr")


_HEADERS = many(tuple_of(text(), maybe(text())))
_ORIGIN = tuple_of(whole(0), whole(), maybe(text()), _HEADERS)
_CONTENT = fields(version=whole(VERSION, VERSION), model=anything, waiting=many(_ORIGIN, of=list))


class SnapshotName(NamedTuple):
    """Parsed name of a snapshot.

    Attributes
    ----------
    place
        The partition.
    lineage
        Of its stream.
    at
        The boundary.
    """

    place: Place
    lineage: str
    at: Boundary


class Snapshot(NamedTuple):
    """A snapshot that has been read: the recognizer at a boundary, and the records that await their decisions."""

    model: OpenSetRecognizer
    waiting: tuple[RecordOrigin, ...]


class Snapshots(NamedTuple):
    """The folder of a group's snapshots, which all its workers see.

    Attributes
    ----------
    folder
        Where they are.
    keep
        How many are kept of each partition.
    """

    folder: Path
    keep: int

    def open(self) -> None:
        """Make the folder, for its owner alone; one that is there keeps its rights.

        Raises
        ------
        PersistenceError
            If it cannot be made, or written.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            probe = self.folder / ".writable"
            probe.touch()
            probe.unlink(missing_ok=True)
        except OSError as error:
            raise PersistenceError(
                f"cannot write to the folder of the snapshots, {self.folder}: {error.strerror}; set another as state"
            ) from None

    def write(self, place: Place, partition: Partition) -> Path:
        """Write a partition as it is at its last boundary, and let go of old snapshots.

        Raises
        ------
        PersistenceError
            If it cannot be written.
        """
        at = partition.history.last
        path = self.folder / f"{place.topic}-{place.partition}-{at.offset:020}-{at.labels}-{partition.lineage}.osr"
        model = partition.model
        content = {
            "version": VERSION,
            "model": model.stream_state(),
            "waiting": [_written(origin) for origin in partition.waiting],
        }
        write_archive(path, _kind(model.trained), content, model.trained.shared)
        own = self._found(place, partition.lineage)
        for old in sorted(own)[: -self.keep]:
            with suppress(OSError):
                own[old].unlink()
        return path

    def boundaries(self, place: Place, lineage: str) -> list[Boundary]:
        """Say where there are snapshots of a partition, the newest first."""
        return sorted(self._found(place, lineage), reverse=True)

    def read(self, place: Place, lineage: str, at: Boundary, trained: TrainedModel) -> Snapshot | None:
        """Read a snapshot; None, with a line in the log, if it has gone or cannot be used."""
        path = self._found(place, lineage).get(at)
        if path is None:
            return None
        try:
            content = read_archive(path, _kind(trained), trained.shared)
            check_content(content, _CONTENT, str(path))
            model = OpenSetRecognizer.from_stream_state(trained, content["model"], str(path))
            return Snapshot(model, tuple(map(_origin, content["waiting"])))
        except Exception as error:  # what is whole and yet not ours can raise anything
            ours = isinstance(error, PersistenceError)
            why = str(error) if ours else f"{path} does not fit together ({type(error).__name__})"
            changed = 0  # a file that stays as it is has few lines
            with suppress(OSError):
                changed = path.stat().st_mtime_ns
            _seldom.say(f"{path} {changed}", f"snapshot left aside: {why}")
            return None

    def reached(self, topic: str, counts: Callable[[str], bool]) -> dict[Place, int]:
        """Say how far each partition of a topic had come at least, by its snapshots of lineages that count."""
        names = (name for name, _ in self._names() if name.place.topic == topic and counts(name.lineage))
        return {name.place: name.at.offset for name in sorted(names, key=lambda name: name.at)}

    def _names(self) -> Iterator[tuple[SnapshotName, Path]]:
        return ((name, path) for path in self.folder.glob("*.osr") if (name := name_of(path)) is not None)

    def _found(self, place: Place, lineage: str) -> dict[Boundary, Path]:
        return {name.at: path for name, path in self._names() if name[:2] == (place, lineage)}


def name_of(path: Path) -> SnapshotName | None:
    """Say what a snapshot is of, by its name; None: it is none.

    >>> name_of(Path("sensors-3-00000000000000000256-2-77aa.osr"))
    SnapshotName(place=Place(topic='sensors', partition=3), lineage='77aa', at=Boundary(offset=256, labels=2))
    """
    name = _NAME.fullmatch(path.name)
    if name is None:
        return None
    place, at = Place(name["topic"], int(name["partition"])), Boundary(int(name["offset"]), int(name["labels"]))
    return SnapshotName(place, name["lineage"], at)


def open_folder(settings: ServiceSettings) -> Path:
    """Make the folder of a group, and return it.

    Raises
    ------
    PersistenceError
        If it cannot be made, or written.
    """
    snapshots = Snapshots(settings.state / settings.group, settings.snapshots)
    snapshots.open()
    return snapshots.folder


def _kind(trained: TrainedModel) -> str:
    return f"snapshot of a stream over the model {trained.fingerprint[:16]}"


def _written(origin: RecordOrigin) -> tuple[Any, ...]:
    """Turn bytes into text of the same bytes: archives hold text."""
    headers = tuple((name, _text(value)) for name, value in origin.headers)
    return origin.offset, origin.timestamp, _text(origin.key), headers


def _origin(written: tuple[Any, ...]) -> RecordOrigin:
    offset, timestamp, key, headers = written
    return RecordOrigin(offset, timestamp, _bytes(key), tuple((name, _bytes(value)) for name, value in headers))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode("latin-1")


_LINEAGE = re.compile(r"[0-9a-f]{8}(?P<incarnation>[0-9a-f]*)")


class Incarnations:
    """The lives of an input topic, as a group knows them.

    Parameters
    ----------
    folder
        Of the group's snapshots, which all its workers see.
    topic
        The input.

    Attributes
    ----------
    now
        How often it was made again.
    partitions
        How many it had when this life was first seen; 0: not known.
    """

    def __init__(self, folder: Path, topic: str) -> None:
        self._path, self._topic = folder / f"{topic}.topic", topic
        self.now = self.partitions = 0
        self._ids: list[str] = []

    @property
    def name(self) -> str:
        """Name the input in ids: by itself in its first life, with the number of the life after that."""
        return f"{self._topic}+{self.now}" if self.now else self._topic

    def take(self, topic_id: str, partitions: int) -> bool:
        """Take the topic as it is; say whether it is another one than the one that is written down.

        An id that was written down before that one is no news: a broker that is behind has told it.

        Raises
        ------
        PersistenceError
            If that cannot be read.
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
        """Write it down, for the next start and the other workers.

        Raises
        ------
        PersistenceError
            If it cannot be written.
        """
        content = {"ids": self._ids, "partitions": self.partitions}
        if not self._ids or content == self._read():
            return
        try:
            write_whole(self._path, lambda file: file.write(json.dumps(content).encode()))
        except OSError as error:
            raise PersistenceError(f"cannot write {self._path}: {error.strerror}") from None

    def tell(self, decided: Mapping[Place, int], on_lost_state: str) -> None:
        """Say what is gone with the topic before; by the settings, that may be the end.

        Parameters
        ----------
        decided
            How far each partition of the one before was decided, as far as is known.
        on_lost_state
            As the operator has set it.

        Raises
        ------
        ConnectorError
            If it is ``fail``.
        """
        far = ", ".join(f"{offset} of partition {place.partition}" for place, offset in sorted(decided.items()))
        text = (
            f"input: topic {self._topic} was deleted and made again; of the one before, records were decided up to "
            f"{far or 'an offset that is not known'}, and what came after is gone"
        )
        if on_lost_state == "fail":
            raise ConnectorError(
                f"{text}; set on_lost_state to cold to begin anew with this one, or take another group"
            )
        logger.warning("%s; the stream begins anew, and ids go on as %s-...", text, self.name)

    @property
    def mark(self) -> str:
        """Suffix of the names of runs of micro-batches, one for each life of the topic."""
        return f"{self.now:x}" if self.now else ""

    def is_of_now(self, lineage: str) -> bool:
        """Say whether a run of micro-batches began in this life."""
        return _life_of(lineage) == self.now

    def is_before(self, lineage: str) -> bool:
        """Say whether a run of micro-batches began in the life before this one."""
        return _life_of(lineage) == self.now - 1

    def _read(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._path.read_text())
            return found if {"ids", "partitions"} <= found.keys() else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, AttributeError) as error:
            raise PersistenceError(
                f"cannot read {self._path}, which says which topic {self._topic} it was ({error}); bring it back, or "
                "remove it if the topic was never made again"
            ) from None


def _life_of(lineage: str) -> int | None:
    """Read the mark of a run of micro-batches; None: it is no name of one."""
    found = _LINEAGE.fullmatch(lineage)
    return None if found is None else int(found["incarnation"] or "0", 16)


OLD_SECONDS = 3600.0

_MODEL = re.compile(r"(?P<identity>[0-9a-f]{16})\.model")
_LEFT = re.compile(r"\..+\.[0-9a-f]{16}|\.writable")
"""Written halfway when a process died; what the folder is tried with."""


class Orphans(NamedTuple):
    """Files that may be deleted.

    Attributes
    ----------
    snapshots, models, leftovers
        Paths of files of each kind.
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
    """Find the files that nothing refers to.

    Parameters
    ----------
    folder
        Of the group.
    topics
        The inputs.
    model
        Identity of the model that runs.
    committed
        What the brokers say about every partition of the inputs. Where nothing is committed, and its
        snapshots stay, because they are what tells that something was. One that cannot be read may refer to anything:
        nothing goes then.
    now
        Seconds since 1970; the clock's if not given.
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
            # another service of this group, whose partitions we do not know; or offsets that were deleted
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


def remove_orphans(folder: Path, topics: Collection[str], model: str, committed: Mapping[Place, Committed]) -> int:
    """Remove the files that nothing refers to, and say in a line how many there were; see :func:`find_orphans`."""
    try:
        found = find_orphans(folder, topics, model, committed)
    except OSError as error:
        logger.warning("cannot look for files that nothing refers to in %s: %s", folder, error.strerror)
        return 0
    gone = [_remove(paths) for paths in found]
    if any(gone):
        logger.info(
            "removed from %s, for nothing refers to them: %d snapshots, %d models, %d leftovers", folder, *gone
        )
    return sum(gone)


def _remove(paths: Collection[Path]) -> int:
    gone = 0
    for path in paths:
        with suppress(OSError):  # another worker was first, or it is not ours to remove
            path.unlink()
            gone += 1
    return gone


def _is_older(path: Path, moment: float) -> bool:
    with suppress(OSError):
        return path.is_file() and path.stat().st_mtime < moment
    return False
