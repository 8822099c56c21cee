"""Entry point of the command line. A service that receives a stop signal during its imports exits with 0.

This module imports only the standard library, because :mod:`.app` takes a second or two.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType


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


FIRST_COLLECTION, COLLECTION = 300_000, 10_000
"""Objects before the first collection of garbage, and between later ones. Imports leave 200,000 objects."""


def end_of_imports() -> None:
    """Collect garbage more often from here on, but never among the present objects: modules and a model stay."""
    if gc.get_threshold()[0] == FIRST_COLLECTION:
        gc.freeze()
        gc.set_threshold(COLLECTION)


def main() -> None:
    """Run the command line."""
    if is_service(sys.argv[1:]):
        end_on_signal()
    else:
        gc.set_threshold(FIRST_COLLECTION)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # a search among all installed packages takes long
    from stream_osr_connectors.cli.app import main as command

    command()
