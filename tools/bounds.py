"""Try the runtime dependencies at the ends of their bounds: ``python -m tools.bounds lowest|newest``.

``lowest`` installs the least version that ``pyproject.toml`` allows of each runtime dependency in a new environment,
``newest`` the newest that there are, of numba also one beyond its bound; then a few tests of each kind run there, the
kernels compiled (some minutes). A bound that cannot be resolved or does not do is to be corrected.
"""

from __future__ import annotations

import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from tools.wheel import ROOT, run

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TEST_PACKAGES = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis")
TESTS = ("tests/test_labels.py", *(f"tests/model/test_{name}.py" for name in ("jit", "gaussian", "dishes")))
NOT_ALL = "not imported_where_they_are and not another_memory_layout and not to_frame"
"""These need the extras."""
WALK = "stream_osr/recognizer.py"
"""Its examples: a recognizer learns, decides, and is saved and loaded."""


def least(requirement: str) -> str:
    """Pin a requirement to the least version that it allows.

    >>> least("numba>=0.62,<0.69")
    'numba==0.62'
    """
    parsed = Requirement(requirement)
    (bound,) = (each.version for each in parsed.specifier if each.operator == ">=")
    return f"{parsed.name}=={bound}"


def main() -> None:
    """Install, and test."""
    end = sys.argv[1] if len(sys.argv) > 1 else ""
    if end not in ("lowest", "newest"):
        sys.exit("say lowest or newest")
    wanted = [least(each) if end == "lowest" else each for each in PROJECT["dependencies"]]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run(sys.executable, "-m", "venv", place / "env")
        python = place / "env" / "bin" / "python"
        pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
        run(*pip, "install", *wanted, *TEST_PACKAGES)
        if end == "newest":
            run(*pip, "install", "--upgrade", "numba")
        print(run(python, "-m", "pip", "--disable-pip-version-check", "freeze"))
        kept = {"NUMBA_CACHE_DIR": place / "kept", "PYTHONPATH": ROOT / "connectors"}
        quiet = ("-q", "-p", "no:cacheprovider", "-W", "default")  # what others deprecate is no failure
        told = run(python, "-m", "pytest", *quiet, "-k", NOT_ALL, *TESTS, WALK, environment=kept)
        print(told.splitlines()[-1])


if __name__ == "__main__":
    main()
