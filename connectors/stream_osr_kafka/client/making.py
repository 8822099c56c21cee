"""Making clients of kafka-python: one that cannot be made leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

CLOSE_MILLISECONDS = 1000


def made(kind: type, **options: Any) -> Any:
    """Make a client; if that fails, end the thread that it has begun before it looked for a broker.

    The client does not, and each attempt in an outage would leave a thread and three open files behind.

    Raises
    ------
    Exception
        Whatever the client raises.
    """
    client: Any = object.__new__(kind)
    try:
        client.__init__(**options)
    except BaseException:
        net = getattr(client, "_net", None)
        if net is not None:
            with suppress(Exception):
                net.stop(CLOSE_MILLISECONDS)
            with suppress(Exception):
                net.close()
        raise
    return client


@contextmanager
def closed_on_error(client: Any) -> Iterator[None]:
    """Close a client when what is done with it first fails: nobody has it yet."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            client.close()
        raise
