"""Server-sent events for a limited number of clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

from sse_starlette import EventSourceResponse
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from stream_osr_connectors.page.live.answers import error_answer

MOST_FOLLOWERS = 100
"""Most clients that receive server-sent events."""
HEARTBEAT = 15
"""Seconds between two messages to a client that receives server-sent events."""
SLOW_SECONDS = 30.0
"""Time limit in seconds for sending a server-sent event. A slower client must connect again."""
RETRY_AFTER = 1
"""Seconds after which a refused client may try again."""

ServerSentEvent = Mapping[str, str]
"""An event with the fields ``event`` and ``data``, and perhaps ``id``."""
ReadEvents = Callable[[], Awaitable[Sequence[ServerSentEvent]]]
"""A function that returns the next events of a client, or an empty sequence if there are none at present."""


class Followers:
    """The clients that receive server-sent events, at most ``MOST_FOLLOWERS``."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Event] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def waker(self) -> Callable[[], None]:
        """Return a function that makes all clients read again. Any thread may call it. Needs a running event loop."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._wake)

        return wake

    def follow(self, read: ReadEvents) -> Response:
        """Return a response that sends the events of a client, or refuses the client."""
        return _Follow(self._waiting, read)

    def _wake(self) -> None:
        for each in self._waiting:
            each.set()


class _Follow(Response):
    """Server-sent events for one client."""

    def __init__(self, waiting: set[asyncio.Event], read: ReadEvents) -> None:
        super().__init__()
        self._waiting, self._read, self._new = waiting, read, asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the client during the response. The check and the count are atomic."""
        if len(self._waiting) >= MOST_FOLLOWERS:
            refusal = error_answer(
                503, f"{MOST_FOLLOWERS} clients receive events. Close one", retry_after=RETRY_AFTER
            )
            await refusal(scope, receive, send)
            return
        self._waiting.add(self._new)
        try:
            stream = EventSourceResponse(self._events(), ping=HEARTBEAT, send_timeout=SLOW_SECONDS)
            await stream(scope, receive, send)
        finally:
            self._waiting.discard(self._new)

    async def _events(self) -> AsyncIterator[dict[str, str]]:
        while True:
            self._new.clear()
            events = await self._read()
            for event in events:
                yield dict(event)
                await asyncio.sleep(0)  # a client that has gone is noticed
            if not events:
                await self._new.wait()
