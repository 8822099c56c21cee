"""The version stands in one place, and the changelog and what is installed agree with it."""

from __future__ import annotations

import datetime
import re
import tomllib
from itertools import pairwise
from pathlib import Path

from packaging.version import Version

import stream_osr
from stream_osr.version import __version__

ROOT = Path(__file__).parents[1]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
HEADINGS = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_stands_in_one_place() -> None:
    assert stream_osr.__version__ == __version__
    assert str(Version(__version__)) == __version__
    assert "version" in PROJECT["dynamic"]
    assert "version" not in PROJECT
    written = [path for path in (ROOT / "stream_osr").rglob("*.py") if "__version__ =" in path.read_text()]
    assert written == [ROOT / "stream_osr" / "version.py"]


def test_the_changelog_begins_with_what_is_not_released_and_the_present_version() -> None:
    assert HEADINGS[0] == "[Unreleased]"
    assert HEADINGS[1].split(" ")[0] == f"[{__version__}]"
    kinds = re.findall(r"^### (.*)$", CHANGELOG, re.MULTILINE)
    assert {*kinds} <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_each_version_has_a_date_and_the_newest_comes_first() -> None:
    dated = [re.fullmatch(r"\[([^]]+)\] - (\d{4}-\d\d-\d\d)", heading) for heading in HEADINGS[1:]]
    found = [(Version(each[1]), datetime.date.fromisoformat(each[2])) for each in dated if each]
    assert len(found) == len(dated)
    assert all(newer[0] > older[0] and newer[1] >= older[1] for newer, older in pairwise(found))


def test_each_version_has_a_link() -> None:
    links = dict(re.findall(r"^\[([^]]+)\]: (\S+)$", CHANGELOG, re.MULTILINE))
    repository = PROJECT["urls"]["Repository"]
    versions = [re.findall(r"\[([^]]+)\]", heading)[0] for heading in HEADINGS]
    assert [*links] == versions
    assert links.pop("Unreleased") == f"{repository}/compare/v{__version__}...HEAD"
    assert links == {version: f"{repository}/releases/tag/v{version}" for version in versions[1:]}
