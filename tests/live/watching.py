"""`stream-osr watch` on the run of a folder."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.live.served import TOKENS
from tests.processes import COMMAND, Process

ENVIRONMENT = {**os.environ, "STREAM_OSR_TOKENS": TOKENS, "COLUMNS": "200"}


@contextmanager
def watching(
    folder: Path, *arguments: str, decisions: str = "decisions.jsonl", said: IO[str] | None = None
) -> Iterator[str]:
    """Watch the run of a folder; the address of the page."""
    with said or tempfile.TemporaryFile("w+") as out:
        files = {"stdout": out.fileno(), "stderr": out.fileno()}
        command = [*COMMAND, "watch", decisions, "--port", "0", *arguments]
        process = Process(command, cwd=folder, env=ENVIRONMENT, **files)
        try:
            until, found = time.monotonic() + 120, None
            while found is None:
                assert time.monotonic() < until, "it does not say where its page is"
                time.sleep(0.1)
                text = os.pread(out.fileno(), 1 << 16, 0).decode()
                assert process.poll() is None, text
                found = re.search(r"http://127\.0\.0\.1:\d+", text)
            yield found[0]
        finally:
            process.terminate()
            try:
                process.wait(30)
            finally:
                process.kill()
