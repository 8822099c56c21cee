"""Golden archives, unpacked."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import numba
import numpy
from llvmlite.binding import get_host_cpu_name

VERSIONS = sorted(Path(__file__).parent.glob("v*"), key=lambda path: int(path.name[1:]))


def unpacked(version: Path, name: str, folder: Path) -> Path:
    """Unpack an archive into a folder."""
    path = folder / name
    path.write_bytes(lzma.decompress((version / f"{name}.xz").read_bytes()))
    return path


def beside(version: Path, name: str) -> dict[str, Any]:
    """What is written beside an archive."""
    out: dict[str, Any] = json.loads((version / f"{name}.json").read_text())
    return out


def machine() -> dict[str, str]:
    """What bits depend on beside the code."""
    return {"processor": get_host_cpu_name(), "numpy": numpy.__version__, "numba": numba.__version__}
