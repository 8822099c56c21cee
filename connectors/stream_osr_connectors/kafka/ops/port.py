"""A small HTTP server that no client can hold up: one thread, few connections, little time for each.

Clients may trickle, hang, flood or leave: each connection has a deadline for the whole of it, and where there are too
many of them the oldest one goes, so that whoever asks at once is answered at once.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple

SECONDS = 10.0
"""For a connection, from its beginning to its end; half of them for the request."""

LINGER_SECONDS = 1.0
"""For a client to hang up after it has its answer; what it still sends until then is not looked at."""

CONNECTIONS = 64
"""At a time."""

HEAD_BYTES = 8192
"""Of a request: its line and its headers."""

_REQUEST = re.compile(rb"([A-Z]{1,20}) ([!-~]+) HTTP/1\.[0-9]")
_LINE_END = re.compile(rb"\r?\n")
_HEAD_END = re.compile(rb"\r?\n\r?\n")


class Answer(NamedTuple):
    """What is answered: whether it is well, the type of the content, and the content."""

    status: HTTPStatus
    kind: str
    content: bytes


class Port:
    """A server in a thread of its own.

    Parameters
    ----------
    host, port
        Where it listens; port 0: any that is free.
    answer
        Answers a request, from its path and its header ``Accept``; must be quick, and is called in that thread.
    failed
        Is told of each error of ours and each connection that was let go, in a few words; called in that thread.

    Attributes
    ----------
    number
        Of the port.
    refused
        How many connections were let go, by the reason: ``slow``, ``crowd``, ``malformed``.

    Raises
    ------
    OSError
        If it cannot listen there.
    """

    def __init__(
        self, host: str, port: int, answer: Callable[[str, str], Answer], failed: Callable[[str, str], None]
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, port), family=family, backlog=2 * CONNECTIONS)
        self.number: int = self._listening.getsockname()[1]
        self.refused: Counter[str] = Counter({"slow": 0, "crowd": 0, "malformed": 0})
        self._answer, self._failed = answer, failed
        self._crowd: dict[asyncio.StreamWriter, None] = {}  # in the order of coming
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and let go whoever is there."""
        with suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop.set_exception_handler(lambda loop, what: self._failed("error", str(what.get("message"))))
        server = await asyncio.start_server(self._meet, sock=self._listening, limit=HEAD_BYTES)
        await self._stop.wait()
        for writer in self._crowd:
            writer.transport.abort()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:  # who comes now is sent away
            await asyncio.wait(others)
        server.close()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Go through one connection; it ends here, however it does."""
        if self._stop.is_set():
            writer.transport.abort()
            return
        self._crowd[writer] = None
        if len(self._crowd) > CONNECTIONS:
            oldest = next(iter(self._crowd))
            del self._crowd[oldest]
            oldest.transport.abort()
            self._let_go("crowd")
        writer.transport.set_write_buffer_limits(0)  # what is drained has been sent
        try:
            async with asyncio.timeout(SECONDS):
                await self._speak(reader, writer)
        except TimeoutError:
            self._let_go("slow")
        except OSError:
            pass  # it has hung up
        finally:
            self._crowd.pop(writer, None)
            writer.transport.abort()

    async def _speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(SECONDS / 2):
                head = await _head(reader)
        except TimeoutError:
            self._let_go("slow")
            writer.write(_written(_told(HTTPStatus.REQUEST_TIMEOUT), content=True))
        else:
            if head is None:
                return
            writer.write(self._respond(head))
        await writer.drain()
        writer.write_eof()
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while await reader.read(HEAD_BYTES):
                    pass

    def _respond(self, head: bytes) -> bytes:
        end = _HEAD_END.search(head, 0, HEAD_BYTES)
        line, *headers = _LINE_END.split(head[: end.start()] if end else head)
        request = _REQUEST.fullmatch(line)
        if end is None or request is None:
            self._let_go("malformed")
            too_long = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            return _written(_told(too_long if end is None else HTTPStatus.BAD_REQUEST), content=True)
        method, target = request.groups()
        if method not in (b"GET", b"HEAD"):
            return _written(_told(HTTPStatus.METHOD_NOT_ALLOWED), content=True)
        accept = b",".join(
            value for name, _, value in (h.partition(b":") for h in headers) if name.lower() == b"accept"
        )
        try:
            answer = self._answer(target.partition(b"?")[0].decode("ascii"), accept.decode("latin-1").strip())
        except Exception as error:
            self._failed("error", f"{type(error).__name__}: {error}")
            answer = _told(HTTPStatus.INTERNAL_SERVER_ERROR)
        return _written(answer, content=method == b"GET")

    def _let_go(self, reason: str) -> None:
        self.refused[reason] += 1
        self._failed("refused", ", ".join(f"{count} {why}" for why, count in self.refused.items() if count))


async def _head(reader: asyncio.StreamReader) -> bytes | None:
    """Read up to the end of the headers, or too much; ``None`` if the client hangs up before."""
    head = b""
    while not _HEAD_END.search(head) and len(head) <= HEAD_BYTES:
        part = await reader.read(HEAD_BYTES)
        if not part:
            return None
        head += part
    return head


def _told(status: HTTPStatus) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", f"{status.phrase}\n".encode())


def _written(answer: Answer, *, content: bool) -> bytes:
    """Write an answer, without its content if only the headers were asked for."""
    head = [
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        f"Content-Type: {answer.kind}",
        f"Content-Length: {len(answer.content)}",
        *(["Allow: GET, HEAD"] if answer.status == HTTPStatus.METHOD_NOT_ALLOWED else []),
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + (answer.content if content else b"")
