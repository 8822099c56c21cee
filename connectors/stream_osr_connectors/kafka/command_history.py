"""What was ever asked of a service: its topic of labels, read as a record of who asked for what, and when."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from stream_osr.errors import InvalidParameter
from stream_osr_connectors.values import DecodeError

from ..commands.command import Command, parse
from .client import read_all, start_explained
from .settings import ServiceSettings


class Entry(NamedTuple):
    """One thing that was asked.

    Attributes
    ----------
    offset
        In the topic.
    at
        Time that the topic gives it (ISO 8601, UTC).
    command
        What was asked; ``None``: the record is no command.
    why
        Why it is none.
    """

    offset: int
    at: str
    command: Command | None
    why: str | None = None

    def said(self) -> str:
        """Say it in a line.

        >>> Entry(3, "2026-03-02T09:14:07Z", Command("undo", "sensors", 3, by="ann", reason="a lamp")).said()
        '3  2026-03-02T09:14:07Z  ann: undo sensors/3 (a lamp)'
        """
        begin = f"{self.offset}  {self.at}  "
        if self.command is None:
            return f"{begin}no command: {self.why}"
        action, topic, partition, subclass, key, label, _, by, reason = self.command
        what = f"{action} {key}" if topic is None else f"{action} {topic}/{partition}"
        what += "" if subclass is None else f":{subclass}"
        what += "" if label is None else f" {'to' if action == 'promote' else 'as'} {label}"
        who = "" if by is None else f"{by}: "
        return f"{begin}{who}{what}" + ("" if reason is None else f" ({reason})")


def history(settings: ServiceSettings) -> Iterator[Entry]:
    """Read all that was asked, in order; what came of it the log of the service says.

    Raises
    ------
    InvalidParameter
        If the service has no topic of labels.
    ConnectorError
        If it cannot be read.
    """
    if settings.labels is None:
        raise InvalidParameter("setting labels: name the topic of labels that the service reads")
    with start_explained(settings):
        for received in read_all(settings, settings.labels):
            seconds = max(received.timestamp or 0, 0) / 1000
            at = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            try:
                yield Entry(received.offset, at, parse(received.value))
            except DecodeError as error:
                yield Entry(received.offset, at, None, str(error))
