"""Records to JSON Lines: one object on each line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from stream_osr.errors import ConnectorError
from stream_osr.showing import shown

from ..values import plain
from .byte_sink import ByteSink


class JsonLinesSink(ByteSink):
    r"""Records as compact JSON objects, one on each line, their keys in the given order.

    Floats are written with as many digits as bring back the same float; NaN and infinite ones, which JSON
    does not have, as ``null``; numpy's scalars and arrays as what they hold. The text is ASCII.

    Delivery: what was written is durable after `flush`; together with `truncate` to a stored `position`
    every record is in the file exactly once. Standard output and pipes take nothing back: at least once.
    Positions are those of `ByteSink`. While it is open, no other sink opens the same file.

    Parameters
    ----------
    path
        The file, replaced by the first `write` or `flush` unless `truncate` continues it; one that ends
        in ``.gz`` is compressed; ``-`` is standard output.
    private
        Whether a file that is made is its owner's alone; one that exists keeps its rights.

    Raises
    ------
    ConnectorError
        If the file cannot be opened or written, somebody else is writing it, or a value has no form in JSON.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "decisions.jsonl")
    ...     with JsonLinesSink(path) as sink:
    ...         sink.write({"key": "a7", "probability": 0.1, "distance": float("nan")})
    ...     path.read_text()
    '{"key":"a7","probability":0.1,"distance":null}\n'
    """

    def write(self, record: Mapping[str, object]) -> None:
        """Append one record.

        Raises
        ------
        ConnectorError
            If the file does not take it, or a value has no form in JSON; the record is then not written.
        """
        self._put(f"{json_text(record)}\n".encode())


_encode: Callable[[object], str] = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def json_text(value: object) -> str:
    """Write a value as compact JSON in ASCII.

    Raises
    ------
    ConnectorError
        If the value has no form in JSON.

    >>> json_text({"p": 0.5, "seen": [1, None]})
    '{"p":0.5,"seen":[1,null]}'
    """
    try:
        return _encode(plain(value))
    except (TypeError, ValueError) as error:
        raise ConnectorError(f"cannot write {shown(value)} as JSON: {error}") from None
