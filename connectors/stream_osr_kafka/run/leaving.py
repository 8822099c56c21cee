"""Letting go of clients, whose own calls for that may hang."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

CLOSE_SECONDS = 3.0
"""How long closing a client may take before it is left behind."""


def close(work: Callable[[], None], timeout: float) -> None:
    """Close something of which nothing more is expected, in a thread that may be left behind."""

    def quietly() -> None:
        with suppress(Exception):
            work()

    thread = threading.Thread(target=quietly, daemon=True, name="close")
    thread.start()
    thread.join(timeout)
