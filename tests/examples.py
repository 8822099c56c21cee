"""The examples, which are no modules of a package, imported as if they were started."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent.parent / "examples"


def example(name: str) -> ModuleType:
    """Import an example; what it shares with others is found beside it."""
    sys.path.insert(0, str(FOLDER))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(FOLDER))
