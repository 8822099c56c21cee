"""From one format version to the next: a step for each, which takes a manifest and returns it as the next one has it.

A field that was added needs no step: it has a default in the table of records. ``docs/archives.md`` says when to
write one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stream_osr.archive.migrations.from_5 import name_what_lies_beside

Manifest = dict[str, Any]


def _fields_alone(manifest: Manifest, beside: Any) -> Manifest:
    """Take the step to a version that has more fields, all of them with defaults."""
    return {**manifest, "version": manifest["version"] + 1}


STEPS: dict[int, Callable[[Manifest, Any], Manifest]] = {
    5: name_what_lies_beside,
    6: _fields_alone,
    7: _fields_alone,
    8: _fields_alone,
}
"""By the version that they take. What they get beside the manifest is the value that the file was written beside."""


def bring_up(manifest: Manifest, version: int, last: int, beside: Any) -> Manifest:
    """Take a manifest of a version, one step after the other, to the last."""
    for step in range(version, last):
        manifest = STEPS[step](manifest, beside)
    return manifest
