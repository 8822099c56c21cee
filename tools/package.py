"""Build what is published, and try it as those would who get it: ``python -m tools.package``, or ``make package``.

1. The source distribution, and the wheel that is made from it, in ``dist``; both as an index wants them.
2. The wheel in a new environment, which has the tested versions and nothing of the checkout: the examples of the
   recognizer, the demonstration, and a newcomer's walk (``examples/first_result.py``).
3. The source distribution, unpacked: it holds what git does, and tests that are in it pass in that environment.

Machine code that the checkout has is brought along, so that nothing is compiled here; without any, it is.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stream_osr.version import __version__
from tools.kept import keep, take
from tools.wheel import ROOT, run

NAME = f"stream_osr-{__version__}"
DIST = ROOT / "dist"
SMOKE = f"""
import doctest, pathlib, sys
import stream_osr.recognizer, stream_osr_connectors
assert stream_osr.__version__ == {__version__!r}, stream_osr.__version__
for package in (stream_osr, stream_osr_connectors):
    assert pathlib.Path(package.__file__).is_relative_to(sys.prefix), package.__file__
runner = doctest.DocTestRunner()
for each in doctest.DocTestFinder().find(stream_osr.recognizer):
    if not each.name.endswith("to_frame"):  # needs an extra
        runner.run(each)
failed, tried = runner.summarize()
assert tried and not failed, f"{{failed}} of {{tried}} examples failed"
"""
TEST_PACKAGES = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis")
TESTS = (
    "tests/test_tools.py",
    "tests/test_labels.py",
    "tests/archives/test_records.py",
    "tests/model/test_gaussian.py",
)
"""A few of each kind: what stands beside the package, the library without and with kernels, files beside a test."""


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what has been done, and how long it took."""
    begin = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - begin:.0f} s", flush=True)


def build() -> tuple[Path, Path]:
    """Build the source distribution, and the wheel from it; return both."""
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    source, wheel = DIST / f"{NAME}.tar.gz", DIST / f"{NAME}-py3-none-any.whl"
    run(sys.executable, "-m", "twine", "check", "--strict", source, wheel)
    return source, wheel


def left_out(unpacked: Path) -> list[str]:
    """Name the files that git has, and the source distribution has not."""
    held = run("git", "ls-files").splitlines()
    return [name for name in held if not (unpacked / name).is_file() and (ROOT / name).is_file()]


def main() -> None:
    """Build, and try."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        kept = place / "kept"
        keep(ROOT, kept)
        with step("source distribution and wheel, built and checked"):
            source, wheel = build()
        bin = place / "env" / "bin"
        with step("the wheel in a new environment"):
            run(sys.executable, "-m", "venv", place / "env")
            tested = ("-c", ROOT / "constraints.txt", f"{wheel}[plot]", *TEST_PACKAGES)
            quiet = ("--quiet", "--disable-pip-version-check", "--no-compile")
            run(bin / "python", "-m", "pip", "install", *quiet, *tested, at=place)
            run(bin / "python", "-m", "pip", "check", at=place)
            (packages,) = (place / "env" / "lib").glob("python*/site-packages")
            take(ROOT, kept, packages)
        found = {"PATH": f"{bin}{os.pathsep}{os.defpath}"}
        empty = [place / "smoke", place / "demo", place / "walk"]
        for each in empty:
            each.mkdir()
        with step("the recognizer's examples"):
            run(bin / "python", "-W", "error", "-c", SMOKE, at=empty[0])
        with step("stream-osr demo"):
            run("stream-osr", "demo", at=empty[1], environment=found)
            if not list(empty[1].glob("demo-output/decisions.jsonl")):
                sys.exit("stream-osr demo left no decisions")
        with step("a newcomer's walk"):
            walk = shutil.copy(ROOT / "examples" / "first_result.py", place)
            told = run("python", walk, at=empty[2], environment=found)
            print(f"  {told.count('  ok: ')} things looked at, all as they should be")
        with step("tests of the source distribution"):
            with tarfile.open(source) as packed:
                packed.extractall(place, filter="data")
            unpacked = place / NAME
            if missing := left_out(unpacked):
                sys.exit(f"the source distribution lacks {missing}; name them in pyproject.toml, sdist")
            take(ROOT, kept, unpacked)
            told = run(bin / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, at=unpacked)
            print(f"  {told.splitlines()[-1]}")


if __name__ == "__main__":
    main()
