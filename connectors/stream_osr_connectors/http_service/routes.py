"""Routes of the service."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stream_osr import errors
from stream_osr.printable_text import brief, printable
from stream_osr.support import limits

from ..commands.parsing import parse_request
from ..page.live.access import KnownHosts, Tokens
from ..page.live.answers import (
    RequestFilter,
    TokenCheck,
    answer_failure,
    body_of,
    error_answer,
    json_answer,
    media_type,
)
from ..page.live.file_commands import FileActs
from ..page.live.followers import RETRY_AFTER, Followers, ServerSentEvent
from . import messages
from .acceptor import Accepted, Acceptor, NotWritten
from .folder_run import FolderRun
from .instances import MOST_BODY, MOST_INSTANCES, InstanceReader, NotJson
from .messages import EVENTS, JSON, LINES
from .openapi import STREAM, Operation, QueryNumber, document
from .outputs import OutputFile

logger = logging.getLogger("stream_osr")

MOST_BEHIND = 10_000
"""Most accepted instances that the run has not read."""
MOST_RECORDS = 1000
"""Most records of an answer."""
AFTER_DECISION = QueryNumber("after", least=-1, most=10**15, default=-1)
AFTER_EVENT = QueryNumber("after", least=0, most=10**15, default=0)
LAST_ID = "last-event-id"
"""Header with the id of the last event that a client has received. It replaces ``after``."""
LIMIT = QueryNumber("limit", least=1, most=MOST_RECORDS, default=MOST_RECORDS)


def make_app(
    run: FolderRun,
    acceptor: Acceptor,
    reader: InstanceReader,
    hosts: KnownHosts,
    tokens: Tokens | None,
    *,
    most_behind: int = MOST_BEHIND,
) -> ASGIApp:
    """Create the application.

    Parameters
    ----------
    run
        The run that decides.
    acceptor
        The thread that writes accepted instances.
    reader
        Reader of instances.
    hosts
        Accepted hosts and origins.
    tokens
        Tokens that requests below ``/v1`` need. ``None``: requests need no token, and commands are refused.
    most_behind
        Most accepted instances that the run has not read.
    """
    return RequestFilter(Routes(run, acceptor, reader, tokens, most_behind), hosts)


class Routes:
    """The routes, with the state that they share."""

    def __init__(
        self, run: FolderRun, acceptor: Acceptor, reader: InstanceReader, tokens: Tokens | None, most_behind: int
    ) -> None:
        self._run, self._acceptor, self._reader, self._most_behind = run, acceptor, reader, most_behind
        self._tokens = None if tokens is None else TokenCheck(tokens)
        self._acts = FileActs(run.checkpoint, allowed=tokens is not None)
        self._followers = Followers()
        self._statuses: Counter[int] = Counter()
        self._caught_up = False
        self._settled = deque[tuple[asyncio.Future[list[Accepted]], list[Accepted] | Exception]]()
        routes = [Route(each.path, partial(each.handler, self), methods=[each.method]) for each in OPERATIONS]
        handlers: dict[Any, Any] = {errors.StreamOSRError: answer_failure, HTTPException: _answer_http_error}
        self._app = Starlette(
            routes=routes, lifespan=self._lifespan, exception_handlers={**handlers, Exception: _answer_defect}
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and count the status."""

        async def count(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._statuses[message["status"]] += 1
            await send(message)

        if scope["type"] == "http" and scope["path"].startswith("/v1/") and self._tokens is not None:
            by = await self._tokens.name(Request(scope))
            if isinstance(by, Response):
                await by(scope, receive, count)
                return
            scope["token_name"] = by
        await self._app(scope, receive, count)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._run.on_output = self._followers.waker()
        yield

    # Instances.

    async def instances(self, request: Request) -> Response:
        """Accept instances, and return immediate decisions."""
        lines = media_type(request) == LINES
        if not lines and media_type(request) != JSON:
            return error_answer(415, f"Content-Type must be {JSON} for one instance, or {LINES} for several")
        if trouble := self._trouble():
            return error_answer(503, trouble, retry_after=RETRY_AFTER)
        if self._run.behind >= self._most_behind:
            reason = f"{self._run.behind} instances wait for their decision"
            return error_answer(429, f"{reason}. Try again later", retry_after=RETRY_AFTER)
        body = await body_of(request, MOST_BODY)
        if body is None:
            return error_answer(413, f"a request has at most {MOST_BODY} bytes")
        try:
            accepted = await self._accept(body, lines=lines)
        except NotJson as error:
            return error_answer(400, str(error))
        except NotWritten as error:
            return error_answer(503, str(error), retry_after=RETRY_AFTER)
        if accepted is None:
            return error_answer(429, "too many instances wait for the disk. Try again", retry_after=RETRY_AFTER)
        answers = [{**each._asdict(), "final": self._run.outputs.final(each.key)} for each in accepted]
        if not lines:
            return json_answer(answers[0])
        text = b"".join(orjson.dumps(each, option=orjson.OPT_APPEND_NEWLINE) for each in answers)
        return Response(text, media_type=LINES)

    async def _accept(self, body: bytes, *, lines: bool) -> list[Accepted] | None:
        """Wait until instances are in the journal. Return ``None`` if too many wait."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[list[Accepted]] = loop.create_future()

        def done(outcome: list[Accepted] | Exception) -> None:
            self._settled.append((result, outcome))
            if len(self._settled) == 1 and not loop.is_closed():  # otherwise the loop has not taken the earlier ones
                loop.call_soon_threadsafe(self._settle)

        count = min(1 + body.count(b"\n"), MOST_INSTANCES) if lines else 1
        taken = self._acceptor.submit(count, partial(self._reader.read, body, lines=lines), done)
        return await result if taken else None

    def _settle(self) -> None:
        """Continue the requests that the acceptor has answered."""
        while self._settled:
            result, outcome = self._settled.popleft()
            if result.done():
                continue
            if isinstance(outcome, Exception):
                result.set_exception(outcome)
            else:
                result.set_result(outcome)

    def _trouble(self) -> str:
        """Return why instances cannot be accepted now, or empty text."""
        if failure := self._failure():
            return failure
        self._caught_up = self._caught_up or self._run.behind <= 0
        if not self._caught_up:
            return f"the service reads its journal again, and {self._run.behind} instances are left"
        return self._run.journal.trouble

    def _failure(self) -> str:
        return printable(self._run.failure or self._acceptor.failure, 600)

    # Results.

    async def decisions(self, request: Request) -> Response:
        """Return final decisions after a number, or after a place if there are streams by key."""
        file = self._run.outputs.decisions
        after, limit = AFTER_DECISION.read(request, request.headers.get(LAST_ID)), LIMIT.read(request)
        if self._run.keys is not None:
            return await self._after_place("decision", file, request, max(0, after))
        place = await run_in_threadpool(file.after, after)
        if _follows(request):
            return self._follow("decision", file, place)
        lines = await run_in_threadpool(file.lines, place, limit)
        return _records("decisions", lines, orjson.loads(lines[-1])["seq"] if lines else after)

    async def events(self, request: Request) -> Response:
        """Return events after a place."""
        after = AFTER_EVENT.read(request, request.headers.get(LAST_ID))
        return await self._after_place("event", self._run.outputs.events, request, after)

    async def _after_place(self, kind: str, file: OutputFile, request: Request, place: int) -> Response:
        limit = LIMIT.read(request)
        if place <= file.end and not file.is_start(place):
            raise errors.InvalidParameter(f"after is {place}. Give the value of `after` in an earlier answer")
        if _follows(request):
            return self._follow(kind, file, place)
        lines = await run_in_threadpool(file.lines, place, limit)
        return _records(f"{kind}s", lines, place + sum(map(len, lines)))

    def _follow(self, kind: str, file: OutputFile, place: int) -> Response:
        """Send the records of a file from a place on as server-sent events."""

        async def read() -> list[ServerSentEvent]:
            nonlocal place
            events = list[ServerSentEvent]()
            for line in await run_in_threadpool(file.lines, place, MOST_RECORDS):
                place += len(line)
                id = orjson.loads(line)["seq"] if kind == "decision" and self._run.keys is None else place
                events.append({"event": kind, "id": str(id), "data": line.rstrip().decode()})
            return events

        return self._followers.follow(read)

    async def candidates(self, request: Request) -> Response:
        """Return the candidate new classes."""
        model = await run_in_threadpool(self._run.recognizer, request.query_params.get(STREAM))
        found = await run_in_threadpool(model.new_classes)
        names = messages.Candidate.model_fields
        listed = [{name: getattr(each, name) for name in names} for each in found.candidates]
        return json_answer({"candidates": listed, **found.estimate._asdict(), "frame": model.signals.frame})

    # Commands.

    async def commands(self, request: Request) -> Response:
        """Return the change history, newest first."""
        await run_in_threadpool(self._acts.look)
        return json_answer({"commands": self._acts.history()})

    async def command(self, request: Request, action: str) -> Response:
        """Send a command of a kind to the run."""
        if not self._acts.allowed:
            return error_answer(403, "commands need a token. Start the service with --tokens FILE")
        if media_type(request) != JSON:
            return error_answer(415, f"a command must be JSON with Content-Type {JSON}")
        body = await body_of(request, MOST_BODY)
        if body is None:
            return error_answer(413, f"a command has at most {MOST_BODY} bytes")
        try:
            fields = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            return error_answer(400, f"not JSON: {printable(str(error), 200)}")
        acts = self._acts
        if isinstance(fields, dict) and (stream := self._stream_of(fields.pop(STREAM, None))) is not None:
            acts = FileActs(self._run.checkpoint, allowed=True, stream=stream)
        given = {**fields, "action": action} if isinstance(fields, dict) else fields
        if isinstance(given, dict) and isinstance(given.get("label"), float):  # also a number of more than 64 bits
            return error_answer(422, f"label is {given['label']}. Expected text, a whole number, true or false")
        commands, n = parse_request(given, request.scope["token_name"])
        receipt = await run_in_threadpool(acts.ask, commands, n)
        return json_answer({"n": receipt.n, "status": receipt.status, "message": receipt.message}, 202)

    def _stream_of(self, key: object) -> str | None:
        """Check the key of the stream of a command, and return it as text."""
        if self._run.keys is None:
            if key is not None:
                raise errors.InvalidParameter("this service has one stream. Leave out stream")
            return None
        if isinstance(key, bool) or not isinstance(key, str | int):
            expected = "Expected the key of a stream: text or a whole number"
            raise errors.InvalidParameter(f"stream is {brief(key)}. {expected}")
        limits.check_key(key)
        return str(key)

    # Operation.

    async def health(self, request: Request) -> Response:
        """Return whether the service works."""
        return _state(self._failure())

    async def ready(self, request: Request) -> Response:
        """Return whether the service accepts instances."""
        return _state(self._trouble())

    async def metrics(self, request: Request) -> Response:
        """Return counts for Prometheus."""
        run, totals = self._run, self._run.totals
        counters = {"accepted": run.journal.durable}
        counters |= {name: totals[name] for name in ("decided", "labelled", "events", "set_aside")}
        done = sum(totals[name] for name in ("decided", "labelled", "set_aside"))
        gauges = {"behind": run.behind, "waiting": self._acceptor.waiting, "ready": int(not self._trouble())}
        gauges |= {"pending": totals["read"] - done, "followers": len(self._followers)}
        gauges |= {"frame_moved": int(bool(run.frame))} if run.keys is None else {"keys": run.keys}
        gauges |= {"journal_bytes": run.journal.segments.size(), "journal_files": len(run.journal.segments)}
        text = [f"# TYPE stream_osr_{n}_total counter\nstream_osr_{n}_total {v}" for n, v in counters.items()]
        text += [f"# TYPE stream_osr_{n} gauge\nstream_osr_{n} {v}" for n, v in gauges.items()]
        text += ["# TYPE stream_osr_http_responses_total counter"]
        text += [f'stream_osr_http_responses_total{{status="{s}"}} {n}' for s, n in sorted(self._statuses.items())]
        return PlainTextResponse("\n".join([*text, ""]), media_type="text/plain; version=0.0.4")

    async def document(self, request: Request) -> Response:
        """Return this document."""
        trained = self._run.model.trained
        names, categories = [str(name) for name in trained.names], [str(name) for name in trained.values]
        by, top = self._reader.by, self._run.contributions
        return json_answer(
            document(
                OPERATIONS, names, categories, tokens=self._tokens is not None, by=by, contributions=top is not None
            )
        )


def _follows(request: Request) -> bool:
    return request.method == "GET" and EVENTS in request.headers.get("accept", "")


def _records(name: str, lines: list[bytes], after: int) -> Response:
    listed = b",".join(line.rstrip() for line in lines)
    return Response(b'{"%s":[%s],"after":%d}' % (name.encode(), listed, after), media_type=JSON)


def _state(trouble: str) -> Response:
    return PlainTextResponse(f"{trouble}\n", 503) if trouble else PlainTextResponse("ok\n")


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = error_answer(error.status_code, f"{request.method} {printable(request.url.path, 100)}: {error.detail}")
    answer.headers.update(error.headers or {})
    return answer


async def _answer_defect(request: Request, error: Exception) -> Response:
    return error_answer(500, "the request failed because of a defect in stream-osr")


def _operation(
    method: str, path: str, handler: Callable[[Routes, Request], Awaitable[Response]], answer: Any, **more: Any
) -> Operation:
    """Declare an operation. The handler determines name and summary."""
    summary = (handler.__doc__ or "").partition("\n")[0]
    return Operation(method, path, handler.__name__, summary, answer, handler, **more)


def _command(path: str, action: str, body: type[messages.CommandBody], summary: str) -> Operation:
    """Declare an operation that sends a command of a kind."""

    async def handler(routes: Routes, request: Request) -> Response:
        return await routes.command(request, action)

    name, errors = path.rpartition("/")[2].replace("-", "_"), (400, 401, 403, 409, 413, 415, 422, 429)
    return Operation(
        "POST", path, name, summary, messages.Receipt, handler, body, of_stream=True, success=202, errors=errors
    )


_READ, _PAGE = (401, 429), (401, 422, 429, 503)
OPERATIONS = (
    _operation("POST", "/v1/instances", Routes.instances, messages.AcceptedInstance, body=messages.Instance,
               also=LINES, errors=(400, 401, 409, 413, 415, 422, 429, 503)),
    _operation("GET", "/v1/decisions", Routes.decisions, messages.DecisionPage, query=(AFTER_DECISION, LIMIT),
               also=EVENTS, errors=_PAGE),
    _operation("GET", "/v1/events", Routes.events, messages.EventPage, query=(AFTER_EVENT, LIMIT), also=EVENTS,
               errors=_PAGE),
    _operation("GET", "/v1/candidates", Routes.candidates, messages.Candidates, of_stream=True,
               errors=(*_READ, 422, 503)),
    _operation("GET", "/v1/commands", Routes.commands, messages.Commands, errors=_READ),
    _command("/v1/labels", "label", messages.LabelBody, "Label an instance of the stream."),
    _command("/v1/promote", "promote", messages.PromoteBody, "Make subclasses a class."),
    _command("/v1/mute", "mute", messages.MuteBody, "Stop the events of subclasses."),
    _command("/v1/accept-frame", "accept_frame", messages.CommandBody,
             "Accept the present place of the known classes."),
    _command("/v1/reject-frame", "reject_frame", messages.CommandBody,
             "Treat the present place of the known classes as new."),
    _command("/v1/undo", "undo", messages.UndoBody, "Revert the latest command."),
    _operation("GET", "/healthz", Routes.health, str, errors=(503,)),
    _operation("GET", "/readyz", Routes.ready, str, errors=(503,)),
    _operation("GET", "/metrics", Routes.metrics, str),
    _operation("GET", "/openapi.json", Routes.document, dict[str, Any]),
)  # fmt: skip
"""All operations."""
