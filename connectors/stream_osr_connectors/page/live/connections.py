"""Connections: one on which no request comes, or whose answer nobody reads, is closed."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 400
"""Connections at the same time."""
IDLE_SECONDS = 10.0
"""Seconds that a client may take to send a whole request, from the connection or from the answer before."""
SLOW_SECONDS = 30.0
"""Seconds that a client may let an answer wait before it reads on."""


class Connection(H11Protocol):
    """A connection of uvicorn with two deadlines: for the next whole request, and for reading an answer.

    One connection more than ``MOST_CONNECTIONS`` closes the one that has been idle for the longest time. Connections
    that wait for an answer, streams of events among them, are never closed for another one.
    """

    _deadline: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no whole request has come since the last answer."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > MOST_CONNECTIONS:
            idle = [each for each in self.connections if isinstance(each, Connection) and each._deadline is not None]
            longest = min((each for each in idle if each is not self), key=Connection._ends, default=None)
            if longest is not None:
                longest._abort()

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request: only a whole one ends the waiting."""
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        super().connection_lost(exc)
        for timer in (self._deadline, self._reading):
            if timer is not None:
                timer.cancel()
        self._deadline = self._reading = None

    def pause_writing(self) -> None:
        """Wait until the client reads."""
        super().pause_writing()
        self._reading = self._reading or self.loop.call_later(SLOW_SECONDS, self._abort)

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _wait(self) -> None:
        """Start the deadline for a request, or end it."""
        if not self.is_idle:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(IDLE_SECONDS, self._abort)

    def _ends(self) -> Any:
        return self.loop.time() if self._deadline is None else self._deadline.when()

    def _abort(self) -> None:
        self.connections.discard(self)
        self.transport.abort()
