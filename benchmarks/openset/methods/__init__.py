"""The methods that are compared: a file each. To add one, add a file that has ``ENTRIES``.

``ENTRIES`` maps names to `Entry`, whose ``make`` returns a `Method`: it is fitted to the known classes, and decides.
``baselines.py`` is the shortest example.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil

from benchmarks.openset.methods.base import UNKNOWN, Entry, Outcome, Setup

__all__ = ["ENTRIES", "GROUPS", "OURS", "UNKNOWN", "Outcome", "Setup", "names"]


def _gathered() -> dict[str, dict[str, Entry]]:
    modules = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "base")
    found: dict[str, dict[str, Entry]] = {}
    for module in modules:
        found[module] = importlib.import_module(f"{__name__}.{module}").ENTRIES
    return found


_BY_FILE = _gathered()

ENTRIES: dict[str, Entry] = {name: entry for of in _BY_FILE.values() for name, entry in of.items()}
"""Every method that there is."""

GROUPS: dict[str, tuple[str, ...]] = {module: tuple(of) for module, of in _BY_FILE.items()}
"""Names of the methods of each file: the file's name stands for all of them."""

OURS = "stream-osr"


def names() -> tuple[str, ...]:
    """Name the methods whose packages are installed."""
    return tuple(n for n, entry in ENTRIES.items() if entry.needs is None or importlib.util.find_spec(entry.needs))
