"""Golden archives, unpacked."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

VERSIONS = sorted(Path(__file__).parent.glob("v*"))


def unpacked(version: Path, name: str, folder: Path) -> Path:
    """Unpack an archive into a folder."""
    path = folder / name
    path.write_bytes(lzma.decompress((version / f"{name}.xz").read_bytes()))
    return path


def beside(version: Path, name: str) -> dict[str, Any]:
    """What is written beside an archive."""
    out: dict[str, Any] = json.loads((version / f"{name}.json").read_text())
    return out
