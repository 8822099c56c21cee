"""Commands of the page to a Kafka service. Its topic of labels receives them and is the history."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import closing

from stream_osr.errors import InvalidParameter, StreamOSRError
from stream_osr_connectors.commands import Command, CommandEntry, CommandReceipt
from stream_osr_connectors.commands.command import OF_STREAM
from stream_osr_connectors.commands.command_entry import pair_undos
from stream_osr_connectors.kafka.client.consumers import TopicFollower
from stream_osr_connectors.kafka.client.errors import start_explained
from stream_osr_connectors.kafka.client.interface import ClientError
from stream_osr_connectors.kafka.command_topic import ask, entry_of
from stream_osr_connectors.kafka.settings import ServiceSettings
from stream_osr_connectors.page.live.file_commands import Acts

WAIT = 0.2
"""Seconds that one poll of the topic waits for records."""
MOST_KEPT = 1000
"""Number of stored entries, the latest ones."""


class ServiceActs(Acts):
    """Commands to a service.

    Parameters
    ----------
    settings
        Settings of the service.
    allowed
        Whether commands are allowed.
    """

    def __init__(self, settings: ServiceSettings, *, allowed: bool) -> None:
        super().__init__(allowed=allowed and settings.labels is not None)
        self._settings = settings
        self._missing = allowed and settings.labels is None
        self._kept: deque[CommandEntry] = deque(maxlen=MOST_KEPT)
        self._reading = threading.Lock()
        self._stop = threading.Event()
        if settings.labels is not None:
            threading.Thread(target=self._run, args=(settings.labels,), name="labels", daemon=True).start()

    def _run(self, topic: str) -> None:
        begin: int | None = None
        while not self._stop.is_set():
            try:
                with (
                    start_explained(self._settings),
                    closing(TopicFollower.of(self._settings, topic)) as follower,
                ):
                    first, _ = follower.bounds()
                    follower.seek({place: offset if begin is None else begin for place, offset in first.items()})
                    while not self._stop.is_set():
                        self._trouble = ""
                        for record in follower.poll(WAIT):
                            begin = record.offset + 1
                            self._take(entry_of(record))
            except (StreamOSRError, ClientError) as error:
                self._trouble = f"The command topic cannot be read at the moment: {error}"
                self.version += 1
                self._stop.wait(2.0)

    def _take(self, entry: CommandEntry) -> None:
        if entry.command is not None:
            with self._reading:
                self._kept.append(entry)
                self.version += 1

    def look(self) -> None:
        """Mark undone commands. A thread reads the topic."""
        with self._reading:
            kept = list(self._kept)
        if len(kept) != len(self._entries) or kept[-1:] != [*self._entries[-1:]]:
            self._entries = pair_undos(kept)

    def _send(self, commands: Sequence[Command]) -> CommandReceipt:
        first = commands[0]
        if first.action in OF_STREAM and first.partition is None:
            remedy = f"name the partition: stream-osr {first.action.replace('_', '-')} TOPIC/PARTITION"
            raise InvalidParameter("there is no command to undo" if first.action == "undo" else remedy)
        return ask(self._settings, *commands)

    def notes(self) -> Sequence[str]:
        """Describe errors."""
        missing = "Changes are not possible: the service has no topic of labels (setting labels)."
        return [*super().notes(), *([missing] if self._missing else [])]

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
