"""How far a partition was decided, by what the outputs hold: read only where no other record of it is left."""

from __future__ import annotations

import threading
import time
from contextlib import closing

from stream_osr.errors import ConnectorError

from ..client import ClientError, TopicFollower
from ..log import logger
from ..places import Place
from ..settings import ServiceSettings
from ..wire.messages import Received

BLOCK = 500
"""Records that are read first, backwards from the end; four times as many while none is of the partition."""

MOST_SECONDS = 1.5
"""Time that this may take: all partitions of the worker wait."""


def last_published(settings: ServiceSettings, place: Place, name: str) -> int | None:
    """Return the offset after the last record of which the outputs hold a decision or a dead letter.

    Parameters
    ----------
    settings
        Of the service.
    place
        Partition of the input.
    name
        Name of the input in the ids of decisions.

    Returns
    -------
    None if they hold nothing of the partition, or cannot be read: the right READ on them is not needed otherwise.
    """
    ends = time.monotonic() + MOST_SECONDS
    found: list[int | None] = []
    failed: list[str] = []

    def look() -> None:
        topics = [settings.output, settings.dead_letters]
        if name != place.topic:  # dead letters of an earlier life of the topic look like those of this one
            topics = topics[:1]
        try:
            for topic in topics:
                with closing(TopicFollower.of(settings, topic)) as follower:
                    found.append(_last_in(follower, place, name, settings.group, ends))
        except (ClientError, ConnectorError, TimeoutError) as error:
            failed.append(str(error))

    thread = threading.Thread(target=look, name="published", daemon=True)
    thread.start()
    thread.join(MOST_SECONDS)
    if failed or thread.is_alive():
        why = failed[0] if failed else f"they were not read within {MOST_SECONDS:g} s"
        logger.info("%s: the outputs do not show how far it was decided: %s", place, why)
        return None
    return max((each for each in found if each is not None), default=None)


def _last_in(follower: TopicFollower, place: Place, name: str, group: str, ends: float) -> int | None:
    own = follower.places[place.partition % len(follower.places)]
    first, end = (bounds[own] for bounds in follower.bounds())
    size, until = BLOCK, end
    while until > first:
        begin = max(first, until - size)
        follower.only(own, begin)
        found: int | None = None
        while follower.position(own) < until:
            if time.monotonic() > ends:
                raise TimeoutError(f"topic {own.topic} was not read within {MOST_SECONDS:g} s")
            offsets = [
                offset_of(record, place, name, group) for record in follower.poll(0.1) if record.offset < until
            ]
            found = max((each for each in (found, *offsets) if each is not None), default=None)
        if found is not None:
            return found + 1
        until, size = begin, 4 * size
    return None


def offset_of(record: Received, place: Place, name: str, group: str) -> int | None:
    """Return the offset of the record that a decision or a dead letter is about; None: it is of something else.

    >>> headers = [("ce_id", b"sensors-3-17"), ("ce_source", b"/g/sensors/3")]
    >>> record = Received("sensors.decisions", 3, 2, -1, None, b"{}", headers)
    >>> offset_of(record, Place("sensors", 3), "sensors", "g"), offset_of(record, Place("sensors", 3), "sensors", "h")
    (17, None)
    """
    headers = dict(record.headers)
    fields = ("connector.name", "topic", "partition", "offset")
    letter = [headers.get(f"__connect.errors.{field}") for field in fields]
    if letter[:3] == [group.encode(), place.topic.encode(), b"%d" % place.partition]:
        return int(letter[3] or b"-1")
    if headers.get("ce_source") != f"/{group}/{place}".encode():
        return None
    text = (headers.get("ce_id") or b"").decode("utf-8", "replace")
    offset = text.removeprefix(f"{name}-{place.partition}-")
    return int(offset) if offset != text and offset.isdecimal() else None
