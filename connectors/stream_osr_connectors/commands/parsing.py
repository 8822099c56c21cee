"""Commands in records, in names of subclasses and streams, and in requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from stream_osr.errors import InvalidParameter
from stream_osr.printable_text import brief
from stream_osr.support import limits

from ..values import DecodeError, key_of, label_of_json
from .command import MOST_COMMAND_BYTES, MOST_ON_PAGE, OF_STREAM, Action, Command, check_words
from .names import Partition, parse_name, parse_stream, parse_subclass


def parse_record(value: bytes | None) -> Command:
    """Read a record of the command topic.

    Raises
    ------
    DecodeError
        If the record is not a command.

    Examples
    --------
    >>> parse_record(b'{"subclass": "sensors/3:17", "label": "leak", "by": "ann"}')[:5]
    ('promote', (17,), 'leak', None, ('sensors', 3))
    >>> parse_record(b'{"key": "a7", "label": "leak"}').action, parse_record(b'{"undo": "sensors/3"}').action
    ('label', 'undo')
    >>> parse_record(b'{"accept_frame": true, "stream": "pump 1"}').describe()
    'accept frame pump 1'
    """
    import orjson  # an extra brings it, which those who read topics have

    if value is not None and len(value) > MOST_COMMAND_BYTES:
        raise DecodeError(f"it has {len(value)} bytes. At most {MOST_COMMAND_BYTES} are allowed")
    try:
        parsed = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        raise DecodeError("it is not JSON") from None
    if not isinstance(parsed, dict):
        raise DecodeError(f"it holds {brief(parsed)}, not a JSON object")
    command = _parse_fields(parsed)
    try:
        reason, by = check_words(parsed.get("reason"), parsed.get("by"))
    except InvalidParameter as error:
        raise DecodeError(str(error)) from None
    return command._replace(reason=reason, by=by)


def _parse_fields(parsed: Mapping[str, object]) -> Command:
    label, run = label_of_json(parsed.get("label"), "auto"), parsed.get("run")
    partition, stream = (None, None) if "stream" not in parsed else parse_stream(parsed["stream"])
    for action in get_args(Action):
        if action in OF_STREAM and action in parsed:
            if stream is None:
                partition, _ = parse_name(parsed[action], whole=False)
            return Command(action, partition=partition, stream=stream)
    if "subclass" not in parsed:
        key = key_of(parsed.get("key"))
        if key is None or label is None:
            raise DecodeError(f"it needs a key and a label, a subclass and a label, or one of {', '.join(OF_STREAM)}")
        return Command("label", label=label, key=key, partition=partition, stream=stream)
    if stream is None:
        partition, subclass = parse_name(parsed["subclass"])
    else:
        *of, subclass = parse_subclass(parsed["subclass"])
        if of != [partition, stream]:
            raise DecodeError(f"subclass is {brief(parsed['subclass'])}, and stream is {brief(parsed['stream'])}")
    if not (run is None or isinstance(run, str)):
        raise DecodeError(f"run is {brief(run)}, not text")
    if parsed.get("mute") is True:
        return Command("mute", (subclass,), partition=partition, run=run, stream=stream)
    if label is None:
        raise DecodeError('it names a subclass without a label. Add one, or "mute": true')
    return Command("promote", (subclass,), label, partition=partition, run=run, stream=stream)


def parse_request(body: object, by: str) -> tuple[list[Command], int | None]:
    """Read the request of a page as one command per partition, and the number of the command to undo.

    Raises
    ------
    InvalidParameter, InvalidLabel, InvalidInstance
        If the request is not a command.

    Examples
    --------
    >>> parse_request({"action": "mute", "subclass": ["11", "12"]}, "ann")[0][0].describe()
    'mute 11, 12'
    """
    if not isinstance(body, dict):
        raise InvalidParameter(f"it holds {brief(body)}, not a JSON object")
    given, n = body.get("subclass"), body.get("n")
    listed = given if isinstance(given, list) else [] if given is None else [given]
    if len(listed) > MOST_ON_PAGE or not all(isinstance(each, str | int) for each in listed):
        raise InvalidParameter(f"subclass is {brief(given)}. It must be an id of the inbox, or a list of ids")
    if not (n is None or type(n) is int):
        raise InvalidParameter(f"n is {brief(n)}. It must be a whole number")
    groups: dict[Partition | None, list[int]] = {}
    for name in map(str, listed):
        try:
            plain = name.isdecimal() and name.isascii() and len(name) <= limits.MOST_DIGITS
            partition, subclass = (None, int(name)) if plain else parse_name(name)
        except DecodeError as error:
            raise InvalidParameter(f"subclass {error}") from None
        groups.setdefault(partition, []).append(subclass)
    if body.get("action") == "undo":
        return [Command("undo", partition=next(iter(groups), None), reason=body.get("reason"), by=by).checked()], n
    rest = {name: body.get(name) for name in ("label", "key", "reason")}
    commands = [
        Command(body.get("action"), tuple(ids), partition=partition, by=by, **rest)  # type: ignore[arg-type]
        for partition, ids in (groups or {None: []}).items()
    ]
    return [command.checked() for command in commands], n
