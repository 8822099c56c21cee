"""Whose processor time it is, in a worker of the Kafka service: the client's, the recognizer's, or neither's.

The client's is that of all threads but the main one and those of the chains (kafka-python's own, and those in which
transactions are sent), and of the calls that wait for it in the main thread. The recognizer's is that of the chains'
threads, and of calls in the main thread, statistics for the metrics included. The rest is what else the main thread
does: decoding, cutting, encoding.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.kafka.client.consumers import GroupConsumer
from stream_osr_connectors.kafka.run.model_metrics import ModelMetricsSchedule

CLIENT: dict[type, tuple[str, ...]] = {
    GroupConsumer: ("poll", "position", "where", "committed", "begin", "hold", "let_go_on")
}
"""Calls of the client in the main thread."""

RECOGNIZER: dict[type, tuple[str, ...]] = {
    OpenSetRecognizer: ("learn_one", "learn_rows", "close_batch", "drain", "drain_events"),
    ModelMetricsSchedule: ("turn",),
}
CHAINS = "stream-osr_"
"""How the names of the chains' threads begin."""

TICKS = os.sysconf("SC_CLK_TCK")


class Split(NamedTuple):
    """Seconds of the processor so far, or between two moments."""

    client: float
    recognizer: float
    rest: float


class Meter:
    """Measures the process that it is made in; to be made before any client is."""

    def __init__(self) -> None:
        self._seconds = {"client": 0.0, "recognizer": 0.0}
        self._main = threading.main_thread()
        self._inside = False
        self._native = _tasks() - {thread.native_id for thread in threading.enumerate()}
        for kind, calls in (("client", CLIENT), ("recognizer", RECOGNIZER)):
            for owner, names in calls.items():
                for name in names:
                    setattr(owner, name, self.timed(kind, getattr(owner, name)))

    def timed(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Make a function count the time that it takes in the main thread."""

        @wraps(function)
        def counting(*told: Any, **named: Any) -> Any:
            if self._inside or threading.current_thread() is not self._main:
                return function(*told, **named)
            self._inside, begun = True, time.thread_time()
            try:
                found = function(*told, **named)
                return iter(list(found)) if isinstance(found, Iterator) else found
            finally:
                self._seconds[kind] += time.thread_time() - begun
                self._inside = False

        return counting

    def now(self) -> Split:
        """Say how the time has been split since the process began; in the main thread."""
        main, process = time.thread_time(), time.process_time()
        tasks = (Path(f"/proc/self/task/{task}") for task in self._native)
        chains = sum(map(seconds_of, tasks))  # of libraries that were there before the client
        for thread in threading.enumerate():
            if thread.name.startswith(CHAINS) and thread.ident is not None:
                chains += time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
        client, recognizer = self._seconds["client"], self._seconds["recognizer"]
        return Split(process - main - chains + client, chains + recognizer, main - client - recognizer)


def _tasks() -> set[int]:
    return {int(path.name) for path in Path("/proc/self/task").iterdir()}


def seconds_of(task: Path) -> float:
    """Return the processor seconds of a process or thread by its folder in /proc, in user mode and in the kernel."""
    fields = (task / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
