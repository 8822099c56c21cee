"""The command that runs a worker."""

from __future__ import annotations

import gc
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from .service import Service
from .settings import load_settings


def serve(config: Path | None, flags: Sequence[str]) -> None:
    """Run a worker until SIGTERM or SIGINT.

    Raises
    ------
    StreamOSRError
        If it cannot begin, or cannot go on without a person.
    """
    settings = load_settings(config, flags)
    logging.basicConfig(
        stream=sys.stderr, level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s"
    )
    told = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal told
        told = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
    service = Service(settings)
    gc.collect()
    gc.freeze()  # what lives for ever: the loop's own collections are quick beside it
    service.run(lambda: told)
