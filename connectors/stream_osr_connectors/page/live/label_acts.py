"""What people ask of a Kafka service: written to its topic of labels, which is its history, too."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from stream_osr.errors import InvalidParameter, StreamOSRError
from stream_osr_connectors.commands.command import Command, parse
from stream_osr_connectors.kafka.client import ClientError, TopicFollower, start_explained
from stream_osr_connectors.kafka.commands import ask
from stream_osr_connectors.kafka.settings import ServiceSettings
from stream_osr_connectors.kafka.wire.messages import Received
from stream_osr_connectors.page.live.acts import MOST_ENTRIES, Answer, Wish, check_undo
from stream_osr_connectors.values import DecodeError

WAIT = 0.2
"""Seconds that a look at the topic waits for records."""
MOST_KEPT = 1000
"""Acts that are remembered: the latest."""


class _Act(NamedTuple):
    n: int
    at: str
    command: Command


class ServiceActs:
    """Acts on a service.

    Parameters
    ----------
    settings
        Of the service.
    allowed
        Whether anything may be asked.
    """

    def __init__(self, settings: ServiceSettings, *, allowed: bool) -> None:
        self._settings = settings
        self.allowed = allowed and settings.labels is not None
        self.version = 0
        self._missing = allowed and settings.labels is None
        self._acts: deque[_Act] = deque(maxlen=MOST_KEPT)
        self._undone: set[int] = set()
        self._trouble = ""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        if settings.labels is not None:
            self._thread = threading.Thread(target=self._run, args=(settings.labels,), name="labels", daemon=True)
            self._thread.start()

    def _run(self, topic: str) -> None:
        begin: int | None = None
        while not self._stop.is_set():
            follower: TopicFollower | None = None
            try:
                with start_explained(self._settings):
                    follower = TopicFollower.of(self._settings, topic)
                    first, _ = follower.bounds()
                    follower.seek({place: offset if begin is None else begin for place, offset in first.items()})
                    while not self._stop.is_set():
                        self._trouble = ""
                        for record in follower.poll(WAIT):
                            begin = record.offset + 1
                            self._take(record)
            except (StreamOSRError, ClientError) as error:
                self._trouble = f"What was asked cannot be read just now: {error}"
                self.version += 1
                self._stop.wait(2.0)
            finally:
                if follower is not None:
                    follower.close()

    def _take(self, record: Received) -> None:
        try:
            command = parse(record.value)
        except DecodeError:
            return
        seconds = max(record.timestamp or 0, 0) / 1000
        at = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        with self._lock:
            if command.action == "undo":
                last = self._undoable().get(_place(command))
                if last is not None:
                    self._undone.add(last)
            self._acts.append(_Act(record.offset, at, command))
            self._undone &= {act.n for act in self._acts}
            self.version += 1

    def _undoable(self) -> dict[str, int]:
        """Give the act of each partition that an undo would take back now, as far as was asked by this topic."""
        return {
            _place(act.command): act.n
            for act in self._acts
            if act.command.action in ("promote", "mute") and act.n not in self._undone
        }

    def ask(self, wish: Wish, by: str) -> Answer:
        """Write it to the topic of labels; the service does it with its next micro-batch."""
        rest: dict[str, Any] = {"by": by}
        if wish.reason:
            rest["reason"] = wish.reason
        if wish.action == "undo":
            wishes = [{"undo": self._meant(wish), **rest}]
        elif wish.action == "label":
            if wish.key is None or wish.label is None:
                raise InvalidParameter("a label needs the key of an instance, and a class")
            wishes = [{"key": wish.key, "label": wish.label, **rest}]
        else:
            if not wish.subclasses or (wish.action == "promote" and wish.label is None):
                raise InvalidParameter(f"{wish.action} needs a subclass" + ("" if wish.label else ", and a class"))
            what = {"mute": True} if wish.action == "mute" else {"label": wish.label}
            wishes = [{"subclass": each, **what, **rest} for each in wish.subclasses]
        return Answer(ask(self._settings, *wishes), "queued")

    def _meant(self, wish: Wish) -> str:
        """Say of which partition something is to be taken back."""
        with self._lock:
            last = self._undoable()
            if wish.n is not None:
                check_undo(wish.n, list(last.values()))
                return next(place for place, n in last.items() if n == wish.n)
            if wish.subclasses:
                return wish.subclasses[0].rpartition(":")[0]
            if not last:
                raise InvalidParameter("nothing was asked that could be taken back")
            return max(last, key=lambda place: last[place])

    def look(self) -> None:
        """Do nothing: a thread reads the topic."""

    def named(self) -> Mapping[str, tuple[str, str | None]]:
        """Say nothing of subclasses: the events of the service do."""
        return {}

    def history(self) -> Sequence[Mapping[str, Any]]:
        """List all that was asked, the newest first."""
        with self._lock:
            last = set(self._undoable().values())
            return [self._shown(act, last) for act in list(self._acts)[: -MOST_ENTRIES - 1 : -1]]

    def _shown(self, act: _Act, last: set[int]) -> dict[str, Any]:
        command = act.command
        place = _place(command)
        own = [] if command.subclass is None else [f"{place}:{command.subclass}"]
        what = {
            "promote": f"subclass {place}:{command.subclass} is {command.label}",
            "mute": f"subclass {place}:{command.subclass} muted",
            "label": f"instance {command.key} is {command.label}",
            "undo": f"undo in {place}",
        }
        return {
            "n": act.n,
            "at": act.at,
            "by": command.by,
            "action": command.action,
            "subclasses": own,
            "label": command.label,
            "what": what[command.action],
            "outcome": "asked",
            "reason": command.reason,
            "undone": act.n in self._undone,
            "undoable": act.n in last,
        }

    def notes(self) -> Sequence[str]:
        """Say what could not be read."""
        out = [self._trouble] if self._trouble else []
        if self._missing:
            out.append("Nobody can act: the service has no topic of labels (setting labels).")
        return out

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()


def _place(command: Command) -> str:
    return "" if command.topic is None else f"{command.topic}/{command.partition}"
