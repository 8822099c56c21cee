"""The operations of the service, and their OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import stream_osr
from stream_osr.support import limits

from ..commands.command import MOST_ON_PAGE
from .instances import MOST_INSTANCES

JSON, LINES, EVENTS = "application/json", "application/x-ndjson", "text/event-stream"


class Operation(NamedTuple):
    """One operation.

    Attributes
    ----------
    method, path
        Method and path of the request.
    name
        Name of the operation, and of the method of `.routes.Routes` that answers unless it is a command.
    summary
        Purpose in one sentence.
    body
        Name of the schema of the body, or empty text.
    answer
        Name of the schema of the answer, or a media type.
    success
        Status of the answer.
    errors
        Other statuses.
    action
        Kind of the command that the operation sends, or empty text.
    """

    method: str
    path: str
    name: str
    summary: str
    body: str
    answer: str
    success: int = 200
    errors: Sequence[int] = ()
    action: str = ""


def _command(name: str, summary: str, body: str, action: str = "") -> Operation:
    path, errors = f"/v1/{name.replace('_', '-')}", (400, 401, 403, 409, 413, 415, 422, 429)
    return Operation("POST", path, name, summary, body, "Receipt", 202, errors, action or name)


_READ, _CURSOR = (401, 429), (401, 422, 429, 503)
OPERATIONS = (
    Operation("POST", "/v1/instances", "instances", "Accept instances, and return immediate decisions.", "Instance",
              "Accepted", errors=(400, 401, 409, 413, 415, 422, 429, 503)),
    Operation("GET", "/v1/decisions", "decisions", "Return final decisions after a number.", "", "Decisions",
              errors=_CURSOR),
    Operation("GET", "/v1/events", "events", "Return events after a place.", "", "Events", errors=_CURSOR),
    Operation("GET", "/v1/candidates", "candidates", "Return the candidate new classes.", "", "Candidates",
              errors=_READ),
    Operation("GET", "/v1/commands", "commands", "Return the change history, newest first.", "", "Commands",
              errors=_READ),
    _command("labels", "Label an instance of the stream.", "Label", "label"),
    _command("promote", "Make subclasses a class.", "Promote"),
    _command("mute", "Stop the events of subclasses.", "Mute"),
    _command("accept_frame", "Accept the present place of the known classes.", "Frame"),
    _command("reject_frame", "Treat the present place of the known classes as new.", "Frame"),
    _command("undo", "Revert the latest command.", "Undo"),
    Operation("GET", "/healthz", "health", "Return whether the service works.", "", "text/plain", errors=(503,)),
    Operation("GET", "/readyz", "ready", "Return whether the service accepts instances.", "", "text/plain",
              errors=(503,)),
    Operation("GET", "/metrics", "metrics", "Return counts for Prometheus.", "", "text/plain"),
    Operation("GET", "/openapi.json", "document", "Return this document.", "", "Document"),
)  # fmt: skip
"""All operations."""

_NUMBER, _TEXT, _WHOLE = {"type": "number"}, {"type": "string"}, {"type": "integer"}
_ANY: dict[str, Any] = {"type": "object"}
_KEY = {
    "anyOf": [
        {"type": "string", "maxLength": limits.MOST_KEY_BYTES},
        {"type": "integer", "minimum": limits.LEAST_WHOLE, "maximum": limits.MOST_WHOLE},
    ]
}
_LABEL = {"anyOf": [{"type": "string", "maxLength": limits.MOST_LABEL_BYTES}, *_KEY["anyOf"][1:]]}
_LABEL["anyOf"].append({"type": "boolean"})
_REASON = {"type": ["string", "null"], "maxLength": limits.MOST_REASON_BYTES}
_ID = {
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": 10**limits.MOST_DIGITS - 1},
        {"type": "string", "maxLength": limits.MOST_DIGITS},
    ]
}
_IDS = {"anyOf": [*_ID["anyOf"], {"type": "array", "items": _ID, "minItems": 1, "maxItems": MOST_ON_PAGE}]}


def document(names: Sequence[str], categories: Sequence[str], *, tokens: bool) -> dict[str, Any]:
    """Return the OpenAPI document of a service.

    Parameters
    ----------
    names
        Features of the model.
    categories
        Features that are categories.
    tokens
        Whether requests need a token.

    Examples
    --------
    >>> found = document(["x"], [], tokens=False)
    >>> found["paths"]["/v1/instances"]["post"]["operationId"]
    'instances'
    """
    paths: dict[str, Any] = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, tokens)
    components: dict[str, Any] = {"schemas": _schemas(names, categories)}
    if tokens:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    info = {"title": "stream-osr", "version": stream_osr.__version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components}


def _operation(each: Operation, tokens: bool) -> dict[str, Any]:
    error = {"description": "The reason.", "content": {JSON: {"schema": _ref("Error")}}}
    if each.answer == "text/plain":
        content: dict[str, Any] = {"text/plain": {"schema": _TEXT}}
        error = {"description": "The reason.", "content": content}
    else:
        content = {JSON: {"schema": _ref(each.answer)}}
    if each.name == "instances":
        content[LINES] = {"schema": _TEXT}
    if each.name in ("decisions", "events"):
        content[EVENTS] = {"schema": _TEXT}
    out: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "responses": {
            str(each.success): {"description": "Success.", "content": content},
            **{str(status): error for status in each.errors},
        },
    }
    if each.body:
        bodies: dict[str, Any] = {JSON: {"schema": _ref(each.body)}}
        if each.name == "instances":
            bodies[LINES] = {"schema": {**_TEXT, "description": f"1 to {MOST_INSTANCES} objects, one on each line."}}
        out["requestBody"] = {"required": True, "content": bodies}
    if each.name in ("decisions", "events"):
        least = -1 if each.name == "decisions" else 0
        after = {**_WHOLE, "minimum": least, "maximum": 10**15, "default": least}
        limit = {**_WHOLE, "minimum": 1, "maximum": 1000, "default": 1000}
        out["parameters"] = [
            {"name": name, "in": "query", "required": False, "schema": schema}
            for name, schema in (("after", after), ("limit", limit))
        ]
    if tokens and each.path.startswith("/v1/"):
        out["security"] = [{"token": []}]
    return out


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: Sequence[str], *, closed: bool = False, **properties: Any) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "object", "properties": properties, "required": list(required)}
    return {**out, "additionalProperties": False} if closed else out


def _schemas(names: Sequence[str], categories: Sequence[str]) -> dict[str, Any]:
    """Return the schemas. The features of an instance are those of the model."""
    number = {"type": ["number", "boolean", "null"]}
    category = {"type": ["string", "number", "boolean", "null"], "maxLength": limits.MOST_CATEGORY_BYTES}
    features = {name: category if name in categories else number for name in names}
    inside = {"type": "object", "properties": features}
    time = {"description": "Seconds since 1970, or ISO 8601.", "anyOf": [_NUMBER, _TEXT, {"type": "null"}]}
    immediate = _object(
        ("label", "p_unknown", "probabilities"), label={}, p_unknown=_NUMBER,
        probabilities={"type": "object", "additionalProperties": _NUMBER},
    )  # fmt: skip
    final = {"description": "The final decision, or null.", "type": ["object", "null"]}
    listed = {"type": "array", "items": _ANY}
    return {
        "Error": _object(("error",), closed=True, error=_TEXT),
        "Instance": _object(("key", "features"), closed=True, key=_KEY, time=time, features=inside),
        "Accepted": _object(("n", "key", "immediate", "final"), n=_WHOLE, key=_KEY, immediate=immediate, final=final),
        "Decisions": _object(("decisions", "after"), closed=True, decisions=listed, after=_WHOLE),
        "Events": _object(("events", "after"), closed=True, events=listed, after=_WHOLE),
        "Candidates": _object(
            ("candidates", "number", "low", "high", "frame"),
            candidates=listed,
            number=_WHOLE,
            low=_WHOLE,
            high=_WHOLE,
            frame=_TEXT,
        ),
        "Commands": _object(("commands",), commands=listed),
        "Label": _object(("key", "label"), key=_KEY, label=_LABEL, reason=_REASON),
        "Promote": _object(("subclass", "label"), subclass=_IDS, label=_LABEL, reason=_REASON),
        "Mute": _object(("subclass",), subclass=_IDS, reason=_REASON),
        "Frame": _object((), reason=_REASON),
        "Undo": _object((), n={"type": ["integer", "null"]}, reason=_REASON),
        "Receipt": _object(("n", "status", "message"), n=_WHOLE, status=_TEXT, message=_TEXT),
        "Document": _ANY,
    }
