"""Names of subclasses, streams and partitions in commands."""

from __future__ import annotations

import re
from typing import TypeAlias

from stream_osr.printable_text import brief
from stream_osr.support import limits

from ..values import DecodeError

Partition: TypeAlias = tuple[str, int]
"""A topic and a partition number."""

_PARTITION = re.compile(rf"(.+)/(\d{{1,{limits.MOST_DIGITS}}})", re.DOTALL)
_WHOLE = re.compile(rf"{_PARTITION.pattern}:(\d{{1,{limits.MOST_DIGITS}}})", re.DOTALL)
_STREAM = re.compile(rf"(?:([^/:]+)/(\d{{1,{limits.MOST_DIGITS}}}):)?(.+)", re.DOTALL)


def parse_stream(name: object) -> tuple[Partition | None, str]:
    """Read the name of a stream in a service with a recognizer for each key, ``KEY`` or ``topic/partition:KEY``.

    Raises
    ------
    DecodeError
        If the name has another form.
    """
    found = _STREAM.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        raise DecodeError(f"stream is {brief(name)}, not the key of a stream")
    topic, number, stream = found.groups()
    return None if topic is None else (topic, int(number)), stream


def parse_subclass(name: object) -> tuple[Partition | None, str | None, int]:
    """Read the name of a subclass: ``topic/partition:id``, ``KEY/id``, or ``topic/partition:KEY/id``.

    Raises
    ------
    DecodeError
        If the name has another form.

    Examples
    --------
    >>> parse_subclass("sensors/3:17"), parse_subclass("pump 1/11"), parse_subclass("sensors/3:pump 1/11")
    ((('sensors', 3), None, 17), (None, 'pump 1', 11), (('sensors', 3), 'pump 1', 11))
    """
    found = _PARTITION.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        partition, subclass = parse_name(name)
        return partition, None, subclass
    return *parse_stream(found[1]), int(found[2])


def parse_name(name: object, *, whole: bool = True) -> tuple[Partition, int]:
    """Read the name of a subclass, ``topic/partition:id``, or of a partition if ``whole`` is false.

    Raises
    ------
    DecodeError
        If the name has another form.
    """
    found = (_WHOLE if whole else _PARTITION).fullmatch(name) if isinstance(name, str) else None
    if found is None:
        form = "topic/partition:id" if whole else "topic/partition"
        raise DecodeError(f"{brief(name)} is not of the form {form}, with up to {limits.MOST_DIGITS} digits each")
    topic, *numbers = found.groups()
    return (topic, int(numbers[0])), int(numbers[-1])
