"""``python -m tools.checks``: print each finding in a line, and end with 1 if there is one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tools import module_table
from tools.checks import names, project, structure
from tools.checks.sources import Sources

ROOT = Path(__file__).parents[2]


def findings(root: Path) -> Iterator[str]:
    """Run all checks on a checkout."""
    sources = Sources(root)
    for check in (structure.check, names.check, project.check):
        yield from check(sources)
    page = module_table.PAGE.read_text()
    if module_table.with_table(page) != page:
        yield "docs/architecture.md: run python -m tools.module_table --write"


def main() -> int:
    """Print the findings."""
    found = list(findings(ROOT))
    for finding in found:
        print(finding)
    print(f"structure, names, pins, versions: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
