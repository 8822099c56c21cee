"""Files beside the snapshots that nothing refers to any more: found by what is committed, and removed.

A snapshot is needed while its lineage is that of a partition, a kept model while some partition may have to be read
with it. Whoever has just begun a lineage or kept a model has not committed it yet; so only files that have been left
alone for an hour count.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from stream_osr.errors import ConnectorError, PersistenceError

from ..client import Committed
from ..log import logger
from ..places import Place
from ..wire.boundaries import Progress
from .models import Journal
from .snapshots import name_of

OLD_SECONDS = 3600.0

_MODEL = re.compile(r"(?P<identity>[0-9a-f]{16})\.model")
_LEFT = re.compile(r"\..+\.[0-9a-f]{16}|\.writable")
"""Written halfway when a process died; what the folder is tried with."""


class Orphans(NamedTuple):
    """What may go.

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
    """Whether nothing is committed of a partition that there is."""
    return place in committed and committed[place].offset is None


def _is_older(path: Path, moment: float) -> bool:
    try:
        return path.is_file() and path.stat().st_mtime < moment
    except OSError:
        return False
