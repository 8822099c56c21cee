"""The checks of structure and style find each fault in a made-up project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import module_table
from tools.checks import names, project, structure
from tools.checks.sources import Sources

pytestmark = pytest.mark.thorough

PYPROJECT = """
[project]
name = "stream-osr"
dynamic = ["version"]
dependencies = ["numpy>=2"]
[project.optional-dependencies]
dev = ["stream-osr[none]"]
[project.urls]
Repository = "https://example.org/r"
"""
CHANGES = """# Changes
## [Unreleased]
### Fixed
## [0.1.0] - 2026-01-02
[Unreleased]: https://example.org/r/compare/v0.1.0...HEAD
[0.1.0]: https://example.org/r/releases/tag/v0.1.0
"""
MAP = "## Code map\n\n| change | place |\n| --- | --- |\n| a rule | `stream_osr/model/rule.py`, `Rule` |\n"
FILES = {
    "pyproject.toml": PYPROJECT.replace("[none]", ""),
    "constraints.txt": "# pins\nnumpy==2.1.0\n",
    "CHANGELOG.md": CHANGES,
    "CONTRIBUTING.md": MAP,
    "README.md": "# A page\n",
    "stream_osr/__init__.py": '"""A package."""\n',
    "stream_osr/version.py": '"""The version."""\n__version__ = "0.1.0"\n',
    "stream_osr/model/__init__.py": '"""A model."""\n',
    "stream_osr/model/rule.py": '"""A rule."""\nclass Rule:\n    """A rule."""\n',
    "stream_osr/stream/__init__.py": '"""A stream."""\n',
    "connectors/stream_osr_connectors/__init__.py": '"""Connectors."""\n',
    "connectors/stream_osr_connectors/cli/__init__.py": '"""A command line."""\n',
    "tests/test_rule.py": '"""A rule."""\n',
}
RULE, CLI = "stream_osr/model/rule.py", "connectors/stream_osr_connectors/cli/__init__.py"
FAULTS = {
    "imports stream_osr.stream, which is not in a lower layer": (
        "stream_osr/model/rule.py",
        "import stream_osr.stream\n",
    ),
    "stream_osr.other is in no layer": ("stream_osr/other.py", ""),
    "a cycle of imports: ": (
        "stream_osr/model/rule.py",
        "from stream_osr.model import twin\n",
        "stream_osr/model/twin.py",
        "from stream_osr.model import rule\n",
    ),
    "connectors use the recognizer": (
        "connectors/stream_osr_connectors/cli/__init__.py",
        "import stream_osr.model.rule\n",
    ),
    "cli:1 uses rule._secret": (CLI, "rule._secret\n"),
    "cli:1 imports _rule": (CLI, "from stream_osr import _rule\n"),
    "stream_osr.model.rule has 700 lines": (RULE, "class Rule: ...\n" + "\n" * 699),
    "has the name told": (RULE, "class Rule:\n    told: int = 0\n"),
    "has the name books": (RULE, "class Rule: ...\ndef f(books): ...\n"),
    "2 classes have the name Rule": ("stream_osr/model/twin.py", "class Rule: ...\n"),
    "a docstring begins with a noun or a verb": (
        "stream_osr/model/rule.py",
        '"""What is ruled."""\nclass Rule: ...\n',
    ),
    "tests/test_rules.py:1: law": ("tests/test_rules.py", "the_law = 1\n"),
    "tests import 61 private names": (
        "tests/test_rule.py",
        "".join(f"from stream_osr.model import _n{number}\n" for number in range(61)),
    ),
    "numpy has the pin 1.9, pyproject.toml wants >=2": ("constraints.txt", "numpy==1.9\n"),
    "git+x is not NAME==VERSION": ("constraints.txt", "git+x\nnumpy==2.1.0\n"),
    "names are not sorted": ("constraints.txt", "numpy==2.1.0\na==1\n"),
    "no extra none": ("pyproject.toml", PYPROJECT),
    "it belongs to stream_osr/version.py alone": ("stream_osr/__init__.py", '__version__ = "0.1.0"\n'),
    "then [0.2.0] with its date": ("stream_osr/version.py", '__version__ = "0.2.0"\n'),
    "the newest version comes first": ("CHANGELOG.md", CHANGES.replace("### Fixed", "## [0.0.9] - 2026-01-01")),
    "Improved is not one of": ("CHANGELOG.md", CHANGES.replace("Fixed", "Improved")),
    "each version has a link": ("CHANGELOG.md", CHANGES.replace("tag/", "")),
    "no stream_osr/model/none.py (a rule)": ("CONTRIBUTING.md", MAP.replace("rule.py", "none.py")),
    "stream_osr/model/rule.py has no Law (a rule)": ("CONTRIBUTING.md", MAP.replace("`Rule`", "`Law`")),
    "README.md has more than": ("README.md", "\n" * 181),
}
"""Findings, each with the file that causes it."""


def findings(root: Path) -> str:
    sources = Sources(root)
    return "\n".join(line for check in (structure, names, project) for line in check.check(sources))


def write(root: Path, *files: str) -> None:
    for name, text in zip(files[::2], files[1::2], strict=True):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize("finding", FAULTS)
def test_each_fault_is_found(tmp_path: Path, finding: str) -> None:
    write(tmp_path, *(each for pair in FILES.items() for each in pair))
    assert findings(tmp_path) == ""
    write(tmp_path, *FAULTS[finding])
    assert finding in findings(tmp_path)


def test_a_page_without_markers_is_an_error() -> None:
    with pytest.raises(ValueError, match="<!-- modules -->"):
        module_table.with_table("# A page")
