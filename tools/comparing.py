"""What differs between two folders of golden outputs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def differences(a: Path, b: Path) -> list[str]:
    """Name what differs between two folders that `write` has made."""
    there = sorted({str(path.relative_to(top)) for top in (a, b) for path in top.rglob("*.json*")})
    found = [] if there else [f"there are no golden outputs in {a} and {b}"]
    for name in there:
        one, other = a / name, b / name
        if not (one.exists() and other.exists()):
            found.append(f"{name}: only in {a if one.exists() else b}")
        elif one.read_bytes() != other.read_bytes():
            lines = _lines_that_differ if name.endswith("l") else _values_that_differ
            found.append(f"{name}: {lines(one.read_text(), other.read_text())}")
    return found


def _lines_that_differ(one: str, other: str) -> str:
    lines = [[json.loads(line) for line in text.splitlines()] for text in (one, other)]
    pairs = list(zip(*lines, strict=False))
    differ = [number for number, (x, y) in enumerate(pairs) if x != y]
    told = f"{len(lines[0])} and {len(lines[1])} lines, {len(differ)} differ"
    if not differ:
        return told
    where = Counter(part for number in differ for part in _parts(*pairs[number]))
    return f"{told}, the first is line {differ[0] + 1}; {_counted(where)}"


def _values_that_differ(one: str, other: str) -> str:
    parts = []
    for path, x, y in _leaves(json.loads(one), json.loads(other)):
        if isinstance(x, list) and isinstance(y, list) and all(isinstance(v, list) and len(v) == 3 for v in (*x, *y)):
            arrays = [Counter(map(json.dumps, side)) for side in (x, y)]
            only = [sum((p - q).values()) for p, q in (arrays, arrays[::-1])]
            kinds = [len(p.keys() - q.keys()) for p, q in (arrays, arrays[::-1])]
            if any(only):
                parts.append(
                    f"{path}: {only[0]} of {len(x)} only in the first, {only[1]} of {len(y)} only in the second "
                    f"(each counted once: {kinds[0]} and {kinds[1]})"
                )
                continue
        parts.append(f"{path}: {str(x)[:80]} and {str(y)[:80]}")
    return "; ".join(parts[:20]) + (f"; {len(parts) - 20} more" if len(parts) > 20 else "")


def _leaves(x: Any, y: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two values differ, down through the dicts that both have."""
    if isinstance(x, dict) and isinstance(y, dict):
        for name in dict.fromkeys([*x, *y]):
            yield from _leaves(x.get(name), y.get(name), f"{path}/{name}")
        if x == y and list(x) != list(y):
            yield path or "/", list(x), list(y)
    elif x != y:
        yield path, x, y


def _parts(x: Any, y: Any) -> set[str]:
    return {path for path, _, _ in _leaves(x, y)} if isinstance(x, dict) else {f"{x[0]}, {y[0]}"}


def _counted(where: Counter[str]) -> str:
    return ", ".join(f"{name or 'all'} {count}" for name, count in where.most_common(12))
