"""Measure how well what is new is found.

    python -m benchmarks.discovery [streamndr] [--seeds 10] [--json FILE]

prints a table for each setting named (all of them, if none is), and writes the figures of every run as JSON if asked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.discovery import streamndr


class Setting(NamedTuple):
    """What is measured for seeds, and how it is shown."""

    measure: Callable[[Sequence[int]], Iterable[dict[str, Any]]]
    table: Callable[[Sequence[dict[str, Any]]], str]


SETTINGS = {
    "streamndr": Setting(streamndr.measure, streamndr.table),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", metavar="setting", help=f"of {', '.join(SETTINGS)}; default: all")
    parser.add_argument("--seeds", type=int, default=10, help="runs with seeds 0, 1, ...; default: 10")
    parser.add_argument("--json", type=Path, help="file for the figures of every run")
    given = parser.parse_args(arguments)
    for name in given.settings:
        if name not in SETTINGS:
            parser.error(f"no setting {name!r}: expected some of {', '.join(SETTINGS)}")
    if given.seeds < 1:
        parser.error(f"--seeds is {given.seeds}: at least 1 is needed")
    figures: dict[str, list[dict[str, Any]]] = {}
    for name in given.settings or SETTINGS:
        figures[name] = list(SETTINGS[name].measure(range(given.seeds)))
        print(f"{name}, seeds 0 to {given.seeds - 1}\n{SETTINGS[name].table(figures[name])}\n", flush=True)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
