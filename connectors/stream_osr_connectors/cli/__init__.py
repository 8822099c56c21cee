"""Entry of the command line: a service that is told to stop while it is being imported exits with 0.

Imports nothing but Python's own, because :mod:`.app` takes a second or two.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType


def is_service(arguments: Sequence[str]) -> bool:
    """Say whether a command line runs a service; ``run`` is one with ``--config``.

    >>> is_service(["run", "--config=service.yaml"]), is_service(["run", "--model", "m"]), is_service(["serve"])
    (True, False, True)
    """
    configured = any(argument.partition("=")[0] == "--config" for argument in arguments)
    return arguments[:1] in (["serve"], ["reconcile"]) or (arguments[:1] == ["run"] and configured)


def end_on_signal() -> None:
    """End at once and well on SIGTERM or SIGINT: nothing has begun yet. What begins later hears them itself."""

    def end(number: int, frame: FrameType | None) -> None:
        os.write(2, b"stopped\n")
        os._exit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the model is yet to be loaded


def main() -> None:
    """Run the command line."""
    if is_service(sys.argv[1:]):
        end_on_signal()
    from stream_osr_connectors.cli.app import main as command

    command()
