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
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from stream_osr import errors
from stream_osr.printable_text import printable
from stream_osr_connectors.page.glossary import WORDS
from stream_osr_connectors.page.live.access import KnownHosts, Tokens
from stream_osr_connectors.page.live.answers import (
    RequestFilter,
    TokenCheck,
    answer_failure,
    body_of,
    error_answer,
    json_answer,
    media_type,
)
from stream_osr_connectors.page.live.examples import Images
from stream_osr_connectors.page.live.followers import Followers, ServerSentEvent
from stream_osr_connectors.page.live.watcher import Watcher

MOST_BODY = 1 << 16
"""Most bytes of a request."""


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
    return RequestFilter(_Pages(watcher, tokens).app(), doors, set() if images is None else {images.origin})


class _Pages:
    """The routes."""

    def __init__(self, watcher: Watcher, tokens: Tokens | None) -> None:
        self._watcher = watcher
        self._tokens = None if tokens is None else TokenCheck(tokens)
        self._followers = Followers()
        self._computing = asyncio.Lock()

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
            Route("/api/instance/{n}/contributions", self._contributions),
            Route("/api/ask", self._ask, methods=["POST"]),
            Mount("/static", _Static(directory=Path(__file__).parent / "static")),
        ]
        return Starlette(
            routes=routes, lifespan=self._lifespan, exception_handlers={errors.StreamOSRError: answer_failure}
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._watcher.start(self._followers.waker())
        yield
        await run_in_threadpool(self._watcher.stop)

    async def _page(self, request: Request) -> Response:
        shell = _environment().get_template("page.html.j2")
        name = printable(self._watcher.feed.name, 200)
        return HTMLResponse(shell.render(version=version("stream-osr"), name=name, words=WORDS, frozen=None))

    async def _health(self, request: Request) -> Response:
        stale = self._watcher.stale
        if stale is None:
            return PlainTextResponse("ok\n")
        return PlainTextResponse(f"stale since {stale.since}: {printable(stale.why, 600)}\n", 503)

    async def _state(self, request: Request) -> Response:
        return Response(self._watcher.seen.body, media_type="application/json")

    async def _stream(self, request: Request) -> Response:
        """Send the number of each state. A slow browser receives the latest one only."""
        sent = 0

        async def read() -> list[ServerSentEvent]:
            nonlocal sent
            if sent == self._watcher.seen.seq:
                return []
            sent = self._watcher.seen.seq
            return [{"event": "state", "data": f'{{"seq":{sent}}}'}]

        return self._followers.follow(read)

    async def _who(self, request: Request) -> Response:
        by = await self._known(request)
        return by if isinstance(by, Response) else json_answer({"by": by})

    async def _subclass(self, request: Request) -> Response:
        id, before = request.path_params["id"], request.query_params.get("before")
        number = None if before is None else _number(before)
        if before is not None and number is None:
            return error_answer(422, "before must be the number of an instance")
        found = await run_in_threadpool(self._watcher.subclass_answer, id, number)
        if found is None:
            return error_answer(404, f"there is no class or subclass {printable(id, 100)}, or it no longer exists")
        return json_answer(found)

    async def _instance(self, request: Request) -> Response:
        n = _number(request.path_params["n"])
        found = None if n is None else await run_in_threadpool(self._watcher.instance_answer, n)
        return _no_decision(request) if found is None else json_answer(found)

    async def _contributions(self, request: Request) -> Response:
        """Compute contributions, for one request at a time."""
        n = _number(request.path_params["n"])
        async with self._computing:
            found = None if n is None else await run_in_threadpool(self._watcher.contributions, n)
        return _no_decision(request) if found is None else json_answer({"contributions": found})

    async def _ask(self, request: Request) -> Response:
        by = await self._known(request)
        if isinstance(by, Response):
            return by
        if media_type(request) != "application/json":
            return error_answer(415, "a command must be JSON with Content-Type application/json")
        body = await body_of(request, MOST_BODY)
        if body is None:
            return error_answer(413, f"a command has at most {MOST_BODY} bytes")
        try:
            receipt = await run_in_threadpool(self._watcher.command, orjson.loads(body), by)
        except (orjson.JSONDecodeError, errors.InvalidParameter) as error:
            return error_answer(422, f"invalid command: {error}")
        return json_answer({"said": receipt.message, "standing": receipt.status})

    async def _known(self, request: Request) -> str | Response:
        """Return the name of the person who makes a request, or a refusal."""
        if self._tokens is None or not self._watcher.acts.allowed:
            return error_answer(
                403, "this page is read-only. Start `stream-osr watch` with --allow-commands to allow changes"
            )
        return await self._tokens.name(request)


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


def _no_decision(request: Request) -> Response:
    n = printable(request.path_params["n"], 40)
    return error_answer(404, f"there is no decision {n}, or it no longer exists")
