"""Steps from one format version to the next.

Any change of the archive content, even an additional field, raises ``VERSION`` (``records.py``) from N to N + 1. It
adds a function to ``STEPS`` under N. The function converts the manifest of version N to version N + 1, including the
number. A record in ``content`` is ``{"record": name, "values": {field: tree}, "number": n}``. Paths refer to content
beside a file. The golden set of version N (``tests/archives``) stays, and must still load and continue. The code
before the change wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Manifest = dict[str, Any]


def _with_shifts(tree: Any) -> Any:
    """Give each promotion a class shift: none, since it was not written."""
    if isinstance(tree, list):
        return [_with_shifts(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    tree = {name: _with_shifts(each) for name, each in tree.items()}
    if tree.get("record") == "Promotion":
        tree["values"]["shift"] = None
    return tree


STEPS: dict[int, Callable[[Manifest], Manifest]] = {
    9: lambda manifest: {**manifest, "content": _with_shifts(manifest["content"]), "version": 10}
}
"""Functions by the version that they convert."""


def bring_up(manifest: Manifest) -> Manifest:
    """Convert a manifest to the present version, one step after the other."""
    while (step := STEPS.get(int(manifest["version"]))) is not None:
        manifest = step(manifest)
    return manifest
