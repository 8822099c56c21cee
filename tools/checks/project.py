"""Files of the project: pins, versions, the change log, the code map and the length of the README."""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools.checks.sources import Sources

KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
"""Headings within a version of the change log."""
README_LINES, README_WORDS = 180, 1600


def check(sources: Sources) -> Iterator[str]:
    """Find files of the project that disagree."""
    project = tomllib.loads((sources.root / "pyproject.toml").read_text())["project"]
    yield from pins(sources, project)
    yield from versions(sources, project)
    yield from code_map(sources)
    text = (sources.root / "README.md").read_text()
    if len(text.splitlines()) > README_LINES or len(text.split()) > README_WORDS:
        yield f"README.md has more than {README_LINES} lines or {README_WORDS} words"


def pins(sources: Sources, project: dict[str, Any]) -> Iterator[str]:
    """Find dependencies without a pin within their bound, and lines of ``constraints.txt`` that are not pins."""
    text = (sources.root / "constraints.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    pinned = dict(line.partition("==")[::2] for line in lines)
    yield from (
        f"constraints.txt: {line} is not NAME==VERSION"
        for line in lines
        if re.fullmatch(r"[a-z0-9-]+==[0-9][a-z0-9.]*", line) is None
    )
    if [*pinned] != sorted(pinned) or len(pinned) != len(lines):
        yield "constraints.txt: names are not sorted, or one occurs twice"
    extras = project["optional-dependencies"]
    for each in sorted({*project["dependencies"], *(one for extra in extras.values() for one in extra)}):
        wanted = Requirement(each)
        if wanted.name == project["name"]:
            yield from (f"pyproject.toml: no extra {extra}" for extra in sorted(wanted.extras - extras.keys()))
        elif (pin := pinned.get(canonicalize_name(wanted.name))) is None or pin not in wanted.specifier:
            yield f"constraints.txt: {wanted.name} has the pin {pin}, pyproject.toml wants {wanted.specifier}"


def versions(sources: Sources, project: dict[str, Any]) -> Iterator[str]:
    """Find versions of ``stream_osr/version.py`` and ``CHANGELOG.md`` that disagree."""
    written = [name for name, path in sources.modules.items() if "__version__ =" in path.read_text()]
    if written != ["stream_osr.version"] or "version" in project:
        yield f"the version is in {', '.join(written)}; it belongs to stream_osr/version.py alone"
    (version,) = re.findall(r'__version__ = "(.*)"', (sources.root / "stream_osr" / "version.py").read_text())
    text = (sources.root / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    dated = [re.fullmatch(r"\[([^]]+)\] - (\d{4}-\d\d-\d\d)", heading) for heading in headings[1:]]
    found = [(Version(each[1]), datetime.date.fromisoformat(each[2])) for each in dated if each]
    if headings[0] != "[Unreleased]" or len(found) != len(dated) or str(found[0][0]) != version:
        yield f"CHANGELOG.md: the headings are [Unreleased], then [{version}] with its date, then older versions"
    if not all(newer[0] > older[0] and newer[1] >= older[1] for newer, older in pairwise(found)):
        yield "CHANGELOG.md: the newest version comes first"
    for kind in sorted({*re.findall(r"^### (.*)$", text, re.MULTILINE)} - KINDS):
        yield f"CHANGELOG.md: {kind} is not one of {', '.join(sorted(KINDS))}"
    repository = project["urls"]["Repository"]
    links = {"Unreleased": f"{repository}/compare/v{version}...HEAD"}
    links |= {str(each): f"{repository}/releases/tag/v{each}" for each, _ in found}
    if dict(re.findall(r"^\[([^]]+)\]: (\S+)$", text, re.MULTILINE)) != links:
        yield "CHANGELOG.md: each version has a link at the end"


def code_map(sources: Sources) -> Iterator[str]:
    """Find places of the code map in ``CONTRIBUTING.md`` that do not exist."""
    section = (sources.root / "CONTRIBUTING.md").read_text().partition("## Code map")[2].partition("\n## ")[0]
    rows = [row for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE) if "`" in row[1]]
    if not rows:
        yield "CONTRIBUTING.md: no code map"
    for change, where in rows:
        names = re.findall(r"`([^`]+)`", where)
        (place,) = [sources.root / name for name in names if "/" in name]
        if not place.exists():
            yield f"CONTRIBUTING.md: no {names[0]} ({change})"
            continue
        for name in names[1:]:
            if not re.search(rf"^ *((def|class) {name}\b|{name}\b.* = )", place.read_text(), re.MULTILINE):
                yield f"CONTRIBUTING.md: {names[0]} has no {name} ({change})"
