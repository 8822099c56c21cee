"""Steps from one format version to the next.

A change of what archives hold, be it a field more, raises ``VERSION`` (``records.py``) from N to N + 1 and adds a
function to ``STEPS`` under N. It takes the manifest of a file of version N and returns it as version N + 1 has it,
with the new number: a record in ``content`` is ``{"record": name, "values": {field: tree}, "number": n}``, and what
lies beside a file is referred to by its path. The golden set of version N (``tests/archives``), which the code before
the change wrote, stays and has to load and go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Manifest = dict[str, Any]


def _with_shifts(tree: Any) -> Any:
    """Give each promotion the shift of its class: none, as it was not written."""
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
"""By the version that they take."""


def bring_up(manifest: Manifest) -> Manifest:
    """Take a manifest to the version that is written, one step after the other."""
    while (step := STEPS.get(int(manifest["version"]))) is not None:
        manifest = step(manifest)
    return manifest
