"""HTTP routes of the live page: the page, its state, old instances and commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stream_osr import errors
from stream_osr.printable_text import printable
from stream_osr_connectors.commands.command import parse_request
from stream_osr_connectors.page.live.access import KnownHosts, Tokens, security_headers
from stream_osr_connectors.page.live.examples import Images
from stream_osr_connectors.page.live.feeds import FoundDecision
from stream_osr_connectors.page.live.file_commands import Conflict
from stream_osr_connectors.page.live.view_model import why
from stream_osr_connectors.page.live.watcher import Watcher

MOST_BODY = 1 << 16
"""Most bytes of a request."""
MOST_CLIENTS = 100
"""Most browsers that receive state updates."""
HEARTBEAT = 15
"""Seconds between two messages to a browser."""
SLOW = 30.0
"""Time limit in seconds for sending a message. A slower browser must reconnect."""
WRONG_TOKEN_SECONDS = 0.5
"""Duration of a response to a wrong token."""
MOST_GUESSES = 8
"""Most wrong tokens that are checked at the same time. Others are refused at once."""

_CODES: tuple[tuple[type[errors.StreamOSRError], int], ...] = (
    (Conflict, 409), (errors.NothingToUndo, 409), (errors.InvalidSubclass, 422), (errors.InvalidLabel, 422),
    (errors.InvalidInstance, 422), (errors.InvalidParameter, 422), (errors.PersistenceError, 409),
    (errors.ConnectorError, 409),
)  # fmt: skip


def make_app(watcher: Watcher, doors: KnownHosts, tokens: Tokens | None, images: Images | None = None) -> ASGIApp:
    """Create the application.

    Parameters
    ----------
    watcher
        State of the page. It starts and stops with the application.
    doors
        Accepted hosts and origins.
    tokens
        Tokens of the people who may make changes, or ``None`` for a read-only page.
    images
        Addresses of pictures.
    """
    return _Guard(_Pages(watcher, tokens).app(), doors, set() if images is None else {images.origin})


class _Guard:
    """Refuses requests from other sites, and adds security headers."""

    def __init__(self, app: ASGIApp, doors: KnownHosts, image_origins: set[str]) -> None:
        self._app, self._doors = app, doors
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
        if not self._doors.knows(host):
            refusal = _error(
                421, f"{printable(host or '', 100)} is not a name of this page. Add it with --name HOST:PORT"
            )
        elif not self._doors.same(origin, host) or request.headers.get("sec-fetch-site", "none") == "cross-site":
            refusal = _error(403, f"requests from {printable(origin or 'another site', 100)} are refused")
        await (refusal or self._app)(scope, receive, send_with_headers)


class _Pages:
    """The routes."""

    def __init__(self, watcher: Watcher, tokens: Tokens | None) -> None:
        self._watcher, self._tokens = watcher, tokens
        self._clients: set[asyncio.Event] = set()
        self._guesses = 0

    def app(self) -> Starlette:
        """Assemble the routes."""
        routes = [
            Route("/", self._page),
            Route("/healthz", self._health),
            Route("/api/state", self._state),
            Route("/api/stream", self._stream),
            Route("/api/who", self._who),
            Route("/api/subclass/{id:path}", self._subclass),
            Route("/api/instance/{n}", self._instance),
            Route("/api/ask", self._ask, methods=["POST"]),
            Mount("/static", _Static(directory=Path(__file__).parent / "static")),
        ]
        return Starlette(routes=routes, lifespan=self._lifespan, exception_handlers={errors.StreamOSRError: _failed})

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()

        def notify() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._wake)

        self._watcher.start(notify)
        yield
        await run_in_threadpool(self._watcher.stop)

    def _wake(self) -> None:
        for client in self._clients:
            client.set()

    async def _page(self, request: Request) -> Response:
        shell = _environment().get_template("page.html.j2")
        return HTMLResponse(shell.render(version=version("stream-osr"), name=printable(self._watcher.feed.name, 200)))

    async def _health(self, request: Request) -> Response:
        stale = self._watcher.stale
        if stale is None:
            return PlainTextResponse("ok\n")
        return PlainTextResponse(f"stale since {stale.since}: {printable(stale.why, 600)}\n", 503)

    async def _state(self, request: Request) -> Response:
        return Response(self._watcher.seen.body, media_type="application/json")

    async def _stream(self, request: Request) -> Response:
        return _Stream(self._watcher, self._clients)

    async def _who(self, request: Request) -> Response:
        by = await self._known(request)
        return by if isinstance(by, Response) else _json({"by": by})

    async def _subclass(self, request: Request) -> Response:
        id, before = request.path_params["id"], request.query_params.get("before")
        number = None if before is None else _number(before)
        if before is not None and number is None:
            return _error(422, "before must be the number of an instance")
        found = await run_in_threadpool(self._watcher.instances, id, number)
        if found is None:
            return _error(404, f"there is no class or subclass {printable(id, 100)}, or it no longer exists")
        instances, more = found
        return _json({"id": id, "instances": [_row(each) for each in instances], "more": more})

    async def _instance(self, request: Request) -> Response:
        n = _number(request.path_params["n"])
        found = None if n is None else await run_in_threadpool(self._watcher.instance, n)
        if found is None:
            return _error(
                404, f"there is no decision {printable(request.path_params['n'], 40)}, or it no longer exists"
            )
        features = (await run_in_threadpool(self._watcher.feed.features, [found]))[0]
        example = self._watcher.examples.as_example(found, features)
        rest = {name: value for name, value in found.decision.items() if name != "schema"}
        whole = {**rest, "n": found.n, "subclass": found.decision.get("subclass_id"), "why": why(found.decision)}
        return _json({**whole, "features": example["features"], "image": example["image"]})

    async def _ask(self, request: Request) -> Response:
        by = await self._known(request)
        if isinstance(by, Response):
            return by
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return _error(415, "a command must be JSON with Content-Type application/json")
        body = await _body(request)
        if body is None:
            return _error(413, f"a command has at most {MOST_BODY} bytes")
        try:
            commands, n = parse_request(orjson.loads(body), by)
        except (orjson.JSONDecodeError, errors.InvalidParameter) as error:
            return _error(422, f"invalid command: {error}")
        commands = [each._replace(label=self._watcher.state.meant(each.label)) for each in commands]
        receipt = await run_in_threadpool(self._watcher.acts.ask, commands, n)
        self._watcher.hurry()
        return _json({"said": receipt.message, "standing": receipt.status})

    async def _known(self, request: Request) -> str | Response:
        """Return the name of the person who makes a request, or a refusal."""
        if self._tokens is None or not self._watcher.acts.allowed:
            return _error(
                403, "this page is read-only. Start `stream-osr watch` with --allow-commands to allow changes"
            )
        by = self._tokens.who(request.headers.get("authorization"))
        if by is not None:
            return by
        if self._guesses >= MOST_GUESSES:
            return _error(429, "too many wrong tokens. Try again")
        self._guesses += 1
        try:
            await asyncio.sleep(WRONG_TOKEN_SECONDS)
        finally:
            self._guesses -= 1
        return _error(401, "this token is not known. Get a token from the person who started the page")


class _Stream(Response):
    """Event stream of state numbers, for one of at most ``MOST_CLIENTS`` browsers."""

    def __init__(self, watcher: Watcher, clients: set[asyncio.Event]) -> None:
        super().__init__()
        self._watcher, self._clients, self._new = watcher, clients, asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the browser during the response. The check and the count are atomic."""
        if len(self._clients) >= MOST_CLIENTS:
            await _error(503, f"{MOST_CLIENTS} pages are open. Close one")(scope, receive, send)
            return
        self._clients.add(self._new)
        try:
            stream = EventSourceResponse(self._numbers(), ping=HEARTBEAT, send_timeout=SLOW)
            await stream(scope, receive, send)
        finally:
            self._clients.discard(self._new)

    async def _numbers(self) -> AsyncIterator[dict[str, str]]:
        """Yield the number of each state. A slow browser receives the latest one only."""
        notify = 0
        while True:
            seq = self._watcher.seen.seq
            if seq != notify:
                notify = seq
                yield {"event": "state", "data": f'{{"seq":{seq}}}'}
            await self._new.wait()
            self._new.clear()


class _Static(StaticFiles):
    """Static files of the page. Browsers revalidate them, so that a new release takes effect."""

    def file_response(self, *args: Any, **more: Any) -> Response:
        """Return a file."""
        response = super().file_response(*args, **more)
        response.headers["Cache-Control"] = "no-cache"
        return response


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("stream_osr_connectors.page.live"), autoescape=True, undefined=StrictUndefined
    )


def _number(text: str) -> int | None:
    """Parse the number of an instance, or return ``None``.

    >>> _number("17"), _number("9" * 5000), _number("-1")
    (17, None, None)
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


async def _body(request: Request) -> bytes | None:
    """Read the body of a request, or return ``None`` if it is too large."""
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 9 or int(length) > MOST_BODY:
        return None
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BODY:
            return None
    return body


def _row(found: FoundDecision) -> dict[str, Any]:
    names = ("key", "t", "label", "first_label", "p_unknown")
    return {"n": found.n, **{name: found.decision.get(name) for name in names}}


def _json(content: Any, status: int = 200) -> Response:
    try:
        body = orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, RecursionError):  # lists in lists, a thousand times
        status, body = 422, b'{"error":"it is nested too deeply"}'
    return Response(body, status, media_type="application/json")


def _error(status: int, said: str) -> Response:
    return _json({"error": said}, status)


async def _failed(request: Request, error: Exception) -> Response:
    status = next((code for kind, code in _CODES if isinstance(error, kind)), 500)
    return _error(status, printable(str(error), 600))
