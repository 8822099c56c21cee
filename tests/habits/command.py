"""The command line in this process, so that a test costs no start of Python."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
from collections.abc import Iterator
from typing import Any

from stream_osr_connectors.cli import main


def command(*args: Any) -> tuple[int, str]:
    """Run `stream-osr`; returns its exit code and its messages."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code = 0
    with _in_place(["stream-osr", *map(str, args)], out, err):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return code, err.buffer.getvalue().decode()


@contextlib.contextmanager
def _in_place(argv: list[str], out: Any, err: Any) -> Iterator[None]:
    old = sys.argv, sys.stdout, sys.stderr
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    sys.argv, sys.stdout, sys.stderr = argv, out, err
    try:
        yield
    finally:
        sys.argv, sys.stdout, sys.stderr = old
        for number, handler in handlers.items():
            signal.signal(number, handler)
