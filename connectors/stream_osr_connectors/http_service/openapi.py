"""Declarations of operations, and the OpenAPI document that follows from them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from starlette.requests import Request
from starlette.responses import Response

import stream_osr
from stream_osr.errors import InvalidParameter
from stream_osr.printable_text import printable

from .messages import JSON, OTHER_TYPES, Category, ErrorMessage, Key, Number

STREAM = "stream"
"""Field of a command, or parameter of a query, with the key of the stream."""


class QueryNumber(NamedTuple):
    """Parameter of a query: a whole number in a range."""

    name: str
    least: int
    most: int
    default: int

    def read(self, request: Request, otherwise: str | None = None) -> int:
        """Return the parameter of a request, or another text as a number, or the default.

        Raises
        ------
        InvalidParameter
            If it is not a whole number in the range.
        """
        text = request.query_params.get(self.name, otherwise)
        if text is None or text == str(self.default):
            return self.default
        number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else self.least - 1
        if not self.least <= number <= self.most:
            expected = f"Expected a whole number, {self.least} to {self.most}"
            raise InvalidParameter(f"{self.name} is {printable(text, 40)}. {expected}")
        return number

    def schema(self) -> dict[str, Any]:
        """Return the schema of the parameter."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most, "default": self.default}


class Operation(NamedTuple):
    """One operation.

    Attributes
    ----------
    method, path
        Method and path of the request.
    name
        Name of the operation.
    summary
        Purpose in one sentence.
    answer
        Type of the answer. ``str`` is plain text, and other types are JSON.
    handler
        Function that answers, given the routes and the request.
    body
        Type of the body, if there is one.
    query
        Parameters of the query.
    of_stream
        Whether the request concerns one stream, so that it names the key if there are streams by key.
    also
        Another media type of body and answer, or empty text.
    success
        Status of the answer.
    errors
        Other statuses.
    """

    method: str
    path: str
    name: str
    summary: str
    answer: Any
    handler: Callable[[Any, Request], Awaitable[Response]]
    body: Any = None
    query: Sequence[QueryNumber] = ()
    of_stream: bool = False
    also: str = ""
    success: int = 200
    errors: Sequence[int] = ()


class _Schemas(GenerateJsonSchema):
    """Schemas without titles of fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def document(
    operations: Sequence[Operation],
    names: Sequence[str],
    categories: Sequence[str],
    *,
    tokens: bool,
    by: str | None = None,
    contributions: bool = False,
) -> dict[str, Any]:
    """Return the OpenAPI document of a service.

    Parameters
    ----------
    operations
        All operations.
    names
        Features of the model.
    categories
        Features that are categories.
    tokens
        Whether requests need a token.
    by
        Field of an instance with the key of the stream, or ``None``.
    contributions
        Whether decisions have contributions of features.
    """
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _describe(each, schemas, tokens=tokens)
    number, category = _schema(Number, schemas), _schema(Category, schemas)
    features = {name: category if name in categories else number for name in names}
    schemas["Instance"]["properties"]["features"] = {"type": "object", "properties": features}
    if by is not None:
        schemas["Instance"]["properties"][by] = schemas["Decision"]["properties"]["by"] = _schema(Key, schemas)
        schemas["Instance"]["required"].append(by)
        for each in operations:
            if each.of_stream:
                _add_stream(paths[each.path][each.method.lower()], schemas)
    if contributions:
        schemas["Decision"]["properties"]["contributions"] = {"type": "object"}
    components: dict[str, Any] = {"schemas": schemas}
    if tokens:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    info = {"title": "stream-osr", "version": stream_osr.__version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components}


def _describe(each: Operation, schemas: dict[str, Any], *, tokens: bool) -> dict[str, Any]:
    """Describe an operation, and add the schemas of bodies and answers."""

    def content(kind: Any, also: str = "") -> dict[str, Any]:
        other = {also: {"schema": {"type": "string", "description": OTHER_TYPES[also]}}} if also else {}
        return {"text/plain" if kind is str else JSON: {"schema": _schema(kind, schemas)}, **other}

    error = {"description": "The reason.", "content": content(str if each.answer is str else ErrorMessage)}
    success = {"description": "Success.", "content": content(each.answer, each.also)}
    out: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "responses": {str(each.success): success, **{str(status): error for status in each.errors}},
    }
    if each.body is not None:
        out["requestBody"] = {"required": True, "content": content(each.body, each.also)}
    if each.query:
        out["parameters"] = [
            {"name": one.name, "in": "query", "required": False, "schema": one.schema()} for one in each.query
        ]
    if tokens and each.path.startswith("/v1/"):
        out["security"] = [{"token": []}]
    return out


def _add_stream(described: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Add the key of the stream to the body of an operation, or to its query."""
    schema = {**_schema(Key, schemas), "description": "Key of the stream."}
    if "requestBody" not in described:
        described["parameters"] = [{"name": STREAM, "in": "query", "required": True, "schema": schema}]
        return
    body = schemas[described["requestBody"]["content"][JSON]["schema"]["$ref"].rpartition("/")[2]]
    body["properties"][STREAM] = schema
    body["required"] = sorted({*body.get("required", ()), STREAM})


def _schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type. With a title, add it to the named schemas and return a reference."""
    place = "#/components/schemas/{model}"
    found = TypeAdapter(kind).json_schema(ref_template=place, schema_generator=_Schemas)
    schemas |= found.pop("$defs", {})
    if "title" not in found:
        return found
    schemas[found["title"]] = found
    return {"$ref": place.format(model=found["title"])}
