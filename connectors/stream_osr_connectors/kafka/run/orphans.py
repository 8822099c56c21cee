"""States that no partition of a group needs any more, and partial files."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import NamedTuple

from stream_osr.errors import ConnectorError, PersistenceError

from ..client.interface import Committed
from ..log import logger
from ..places import Place
from ..wire.boundaries import Progress
from .folder_states import GroupStates
from .models import Journal
from .snapshots import name_of

OLD_SECONDS = 3600.0

_MODEL = re.compile(r"(?P<identity>[0-9a-f]{16})\.model")
_LEFT = re.compile(r"\..+\.[0-9a-f]{16}|\.writable")
"""Partial files of processes that died, and the file of the write test."""


class Orphans(NamedTuple):
    """Names of states that can be deleted."""

    snapshots: list[str]
    models: list[str]
    leftovers: list[str]


def find_orphans(
    states: GroupStates,
    topics: Collection[str],
    model: str,
    committed: Mapping[Place, Committed],
    now: float | None = None,
) -> Orphans:
    """Find unused states.

    Parameters
    ----------
    states
        States of the group.
    topics
        Input topics.
    model
        Identity of the current model.
    committed
        State of each partition of the inputs at the brokers. Without a committed offset its snapshots stay, because
        they show that there was one. If metadata cannot be read, all states stay.
    now
        Seconds since 1970. Default: the current time.
    """
    found = Orphans([], [], [])
    try:
        progress = [Progress.parse(its.metadata) for its in committed.values() if its.offset is not None]
        given = Journal(states).read()[-1:]
    except (ConnectorError, PersistenceError):
        return found
    before = (time.time() if now is None else now) - OLD_SECONDS
    lineages = {each.lineage for each in progress}
    models = {model, *given, *(each.model for each in progress)}
    others = False
    for text in sorted(states.names()):
        name = name_of(text)
        where = None if name is None else committed.get(name.place)
        if name is not None and (name.place.topic not in topics or (where is not None and where.offset is None)):
            others = True  # another service of this group with unknown partitions, or deleted offsets
            continue
        kept = _MODEL.fullmatch(text)
        if name is not None:
            unused = found.snapshots if where is None or name.lineage not in lineages else None
        elif kept is not None:
            unused = found.models if kept["identity"] not in models else None
        else:
            unused = found.leftovers if _LEFT.fullmatch(text) else None
        if unused is not None and (states.modified(text, _partition(text)) or before) < before:
            unused.append(text)
    return found._replace(models=[]) if others else found


def remove_orphans(
    states: GroupStates, topics: Collection[str], model: str, committed: Mapping[Place, Committed]
) -> int:
    """Remove unused states, and log their number (see :func:`find_orphans`)."""
    try:
        found = find_orphans(states, topics, model, committed)
    except PersistenceError as error:
        logger.warning("cannot look for unused states: %s", error)
        return 0
    gone = [_remove(names, states) for names in found]
    if any(gone):
        logger.info("removed unused states from %s: %d snapshots, %d models, %d leftovers", states.where, *gone)
    return sum(gone)


def _remove(names: Collection[str], states: GroupStates) -> int:
    gone = 0
    for name in names:
        with suppress(PersistenceError):  # another worker was first, or the right is lacking
            states.drop(name, _partition(name))
            gone += 1
    return gone


def _partition(text: str) -> int:
    name = name_of(text)
    return 0 if name is None else name.place.partition
