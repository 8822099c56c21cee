"""Parts of an HTTP server: the check of hosts, origins and tokens, bounded bodies, and answers in JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stream_osr import errors
from stream_osr.printable_text import printable
from stream_osr_connectors.page.live.access import KnownHosts, Tokens, security_headers
from stream_osr_connectors.page.live.file_commands import Conflict

WRONG_TOKEN_SECONDS = 0.5
"""Duration of a response to a wrong token."""
MOST_GUESSES = 8
"""Most wrong tokens that are checked at the same time. Others are refused at once."""

_CODES: tuple[tuple[type[errors.StreamOSRError], int], ...] = (
    (Conflict, 409), (errors.NothingToUndo, 409), (errors.NothingToJudge, 409), (errors.InvalidSubclass, 422),
    (errors.InvalidLabel, 422), (errors.InvalidInstance, 422), (errors.InvalidParameter, 422),
    (errors.PersistenceError, 409), (errors.ConnectorError, 409),
)  # fmt: skip


class RequestFilter:
    """An application that refuses requests from other sites, and adds security headers.

    Parameters
    ----------
    app
        Application that answers all other requests.
    hosts
        Accepted hosts and origins.
    image_origins
        Origins of pictures.
    """

    def __init__(self, app: ASGIApp, hosts: KnownHosts, image_origins: Collection[str] = ()) -> None:
        self._app, self._hosts = app, hosts
        self._headers = [
            (name.lower().encode(), value.encode()) for name, value in security_headers(image_origins).items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message.setdefault("headers", [])
                given += self._headers
                if not any(name.lower() == b"cache-control" for name, _ in given):
                    given.append((b"cache-control", b"no-store"))
            await send(message)

        request = Request(scope)
        host, origin = request.headers.get("host"), request.headers.get("origin")
        refusal: Response | None = None
        if not self._hosts.knows(host):
            refusal = error_answer(
                421, f"{printable(host or '', 100)} is not a name of this server. Add it with --name HOST:PORT"
            )
        elif not self._hosts.same(origin, host) or request.headers.get("sec-fetch-site", "none") == "cross-site":
            refusal = error_answer(403, f"requests from {printable(origin or 'another site', 100)} are refused")
        await (refusal or self._app)(scope, receive, send_with_headers)


class TokenCheck:
    """The check of the token of a request. Wrong tokens are answered slowly.

    Parameters
    ----------
    tokens
        Known tokens.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens, self._guesses = tokens, 0

    async def name(self, request: Request) -> str | Response:
        """Return the name of the token of a request, or a refusal."""
        by = self._tokens.who(request.headers.get("authorization"))
        if by is not None:
            return by
        if self._guesses >= MOST_GUESSES:
            return error_answer(429, "too many wrong tokens. Try again", retry_after=1)
        self._guesses += 1
        try:
            await asyncio.sleep(WRONG_TOKEN_SECONDS)
        finally:
            self._guesses -= 1
        refusal = error_answer(401, "this token is not known. Get a token from the person who started the server")
        refusal.headers["WWW-Authenticate"] = "Bearer"
        return refusal


async def body_of(request: Request, most: int) -> bytes | None:
    """Read the body of a request, or return ``None`` if it has more than ``most`` bytes."""
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 9 or int(length) > most:
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            return None
    return bytes(body)


def media_type(request: Request) -> str:
    """Return the type of the content of a request, in lower case and without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def json_answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with JSON."""
    try:
        body = orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, RecursionError):  # lists in lists, a thousand times
        status, body = 422, b'{"error":"it is nested too deeply"}'
    return Response(body, status, headers, media_type="application/json")


def error_answer(status: int, message: str, *, retry_after: int | None = None) -> Response:
    """Answer with a message in JSON, ``{"error": message}``."""
    headers = None if retry_after is None else {"Retry-After": str(retry_after)}
    return json_answer({"error": message}, status, headers)


async def answer_failure(request: Request, error: Exception) -> Response:
    """Answer an error of stream-osr."""
    status = next((code for kind, code in _CODES if isinstance(error, kind)), 500)
    return error_answer(status, printable(str(error), 600))
