"""Entry point of the command line. A service that receives a stop signal during its imports exits with 0.

This module imports the standard library and :mod:`.garbage` only, because :mod:`.app` takes a second or two.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from stream_osr_connectors.cli.garbage import begin_imports

ENVIRONMENT = {
    "PYDANTIC_DISABLE_PLUGINS": "__all__",  # a search among all installed packages takes long
    "OPENBLAS_NUM_THREADS": "1",  # more would wait busily at first, and results use one
    "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1",  # colours would write an escape sequence at the end
}
"""Settings of libraries for a process of the command line, unless the user gives others."""


def is_service(arguments: Sequence[str]) -> bool:
    """Return whether a command line runs a service. ``run`` is a service if it has ``--config``.

    >>> is_service(["run", "--config=service.yaml"]), is_service(["run", "--model", "m"]), is_service(["serve"])
    (True, False, True)
    """
    configured = any(argument.partition("=")[0] == "--config" for argument in arguments)
    return arguments[:1] in (["serve"], ["reconcile"]) or (arguments[:1] == ["run"] and configured)


def end_on_signal() -> None:
    """Exit at once with 0 on SIGTERM or SIGINT, because nothing has begun. Later stages have their own handlers."""

    def end(number: int, frame: FrameType | None) -> None:
        os.write(2, b"stopped\n")
        os._exit(0)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the model is yet to be loaded


def main() -> None:
    """Run the command line."""
    if is_service(sys.argv[1:]):
        end_on_signal()
    else:
        begin_imports()
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from stream_osr_connectors.cli.app import main as command

    command()
