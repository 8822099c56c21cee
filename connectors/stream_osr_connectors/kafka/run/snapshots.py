"""Snapshots of partitions: files that are written once, appear whole, and are named by what they hold.

``TOPIC-PARTITION-OFFSET-LABELS-LINEAGE.osr``; they hold the stream's part of the recognizer, with the fingerprint of
the trained part, and the records whose decisions are still held back.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.archive import check_content, read_archive, write_archive
from stream_osr.archive.rules import anything, fields, many, maybe, text, tuple_of, whole
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
        except PersistenceError as error:
            _say_damaged(path, str(error))
        except Exception as error:  # what is whole and yet not ours can raise anything
            _say_damaged(path, f"{path} does not fit together ({type(error).__name__})")
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
    Name(place=Place(topic='sensors', partition=3), lineage='77aa', at=Boundary(offset=256, labels=2))
    """
    name = _NAME.fullmatch(path.name)
    if name is None:
        return None
    place, at = Place(name["topic"], int(name["partition"])), Boundary(int(name["offset"]), int(name["labels"]))
    return SnapshotName(place, name["lineage"], at)


def _say_damaged(path: Path, why: str) -> None:
    """Log a file that cannot be used; one that stays as it is has few lines."""
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        changed = 0
    _seldom.say(f"{path} {changed}", f"snapshot left aside: {why}")


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
        if name is not None and (name.place.topic not in topics or _is_unknown(committed, name.place)):
            # another service of this group, whose partitions we do not know; or offsets that were deleted
            others = True
        elif not _is_older(path, before):
            continue
        elif name is not None and (name.place not in committed or name.lineage not in lineages):
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


def _is_unknown(committed: Mapping[Place, Committed], place: Place) -> bool:
    """Tell whether nothing is committed of a partition that there is."""
    return place in committed and committed[place].offset is None


def _is_older(path: Path, moment: float) -> bool:
    try:
        return path.is_file() and path.stat().st_mtime < moment
    except OSError:
        return False
