"""Whether somebody writes a file just now, by the note that a writer leaves beside it."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

_NOTE = re.compile(r"process (\d{1,9}) on (\S+) since ")


def is_written(path: Path) -> bool:
    """Say whether a file has a writer: one that is alive, where that can be told.

    No lock is tried: whoever tries one may keep a writer out.

    >>> is_written(Path("nowhere", "decisions.jsonl"))
    False
    """
    target = Path(os.path.realpath(path))
    try:
        note = target.with_name(f".{target.name}.lock").read_text(errors="replace")[:400]
    except OSError:
        return False
    found = _NOTE.match(note)
    if found is None or found[2] != platform.node():
        return True
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return False  # left by a crash
    except PermissionError:
        return True
    return True
