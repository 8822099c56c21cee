"""5 to 6: what lies beside a file is referred to by its place, ``0.draws.1.dishes``, and no longer by a number.

The number was that of a walk through all fields, so that any field more would have changed what old files mean.
"""

from __future__ import annotations

from typing import Any

from stream_osr.archive.form import numbered
from stream_osr.archive.records import RECORDS


def name_what_lies_beside(manifest: dict[str, Any], beside: Any) -> dict[str, Any]:
    """Make the step."""
    paths = [path for path, _ in numbered(beside, RECORDS, 5)]
    return {**manifest, "version": 6, "content": _renumbered(manifest["content"], paths)}


def _renumbered(tree: Any, paths: list[str]) -> Any:
    if isinstance(tree, list):
        return [_renumbered(each, paths) for each in tree]
    if not isinstance(tree, dict):
        return tree
    number = tree.get("same")
    if isinstance(number, int) and 0 <= number < len(paths):
        return {"beside": paths[number]}
    out = {name: each - len(paths) if name in ("same", "number") else each for name, each in tree.items()}
    if "record" in tree:  # its fields have names of their own
        return {**out, "values": {name: _renumbered(each, paths) for name, each in tree["values"].items()}}
    return {name: _renumbered(each, paths) for name, each in out.items()}
