"""Files in the folder of the snapshots that no partition needs any more."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from stream_osr.errors import ConnectorError, PersistenceError

from ..client.interface import Committed
from ..log import logger
from ..places import Place
from ..wire.boundaries import Progress
from .models import Journal
from .snapshots import name_of
from .state_copies import StateCopies

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
