"""The command line in this process, so that a test costs no start of Python."""

from __future__ import annotations

import io
import signal
from typing import Any

import pytest

from stream_osr_connectors.cli import main


def command(*args: Any) -> tuple[int, str]:
    """Run `stream-osr`; returns its exit code and its messages."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    code = 0
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("argv", ["stream-osr", *map(str, args)]), ("stdout", out), ("stderr", err)):
            patch.setattr(f"sys.{name}", value)
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    return code, err.buffer.getvalue().decode()
