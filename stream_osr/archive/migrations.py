"""Steps from one format version to the next.

Any change of the archive content, even an additional field, raises ``VERSION`` (``records.py``) from N to N + 1. It
adds a function to ``STEPS`` under N. The function converts the content of version N, in the form of archives, to
version N + 1. The golden set of version N (``tests/archives``) stays, and must still load and continue. The code
before the change wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

STEPS: dict[int, Callable[[Any], Any]] = {}
"""Functions by the version that they convert. None yet: version 11 has another file format than version 10."""


def bring_up(content: Any, version: int) -> Any:
    """Convert content to the present version, one step after the other."""
    while (step := STEPS.get(version)) is not None:
        content, version = step(content), version + 1
    return content
