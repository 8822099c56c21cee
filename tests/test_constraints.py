"""The tested versions: one pin for each dependency, within the bounds of pyproject.toml, and nothing else."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMED = sorted(
    {*PROJECT["dependencies"], *(each for extra in PROJECT["optional-dependencies"].values() for each in extra)}
)
LINES = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
PINS = dict(line.partition("==")[::2] for line in LINES)


@pytest.mark.parametrize("requirement", [Requirement(each) for each in NAMED], ids=NAMED)
def test_each_dependency_has_a_pin_within_its_bound(requirement: Requirement) -> None:
    if requirement.name == PROJECT["name"]:
        assert requirement.extras <= PROJECT["optional-dependencies"].keys()
        return
    assert PINS[canonicalize_name(requirement.name)] in requirement.specifier


def test_pins_are_versions_and_nothing_else() -> None:
    """No address, no path, no option: only what an index serves by that name."""
    assert [line for line in LINES if re.fullmatch(r"[a-z0-9-]+==[0-9][a-z0-9.]*", line) is None] == []
    assert [*PINS] == sorted(PINS)
    assert len(PINS) == len(LINES)
