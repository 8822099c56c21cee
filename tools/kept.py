"""Keep machine code from one run of the tests to the next, for checkouts that come and go.

``python -m tools.kept take FOLDER`` puts what is kept of these sources beside them, where numba looks for it;
``python -m tools.kept keep FOLDER`` keeps what has been compiled since. What a source's kernels depend on (their
sources, numba, Python, the processor) names the file in which their machine code is kept: that of other sources, or
of another machine, is not found. numba looks at all this once more before it uses any.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np

from stream_osr.model.kernel_cache import source_stamp

ROOT = Path(__file__).parents[1]
PLACES = ("stream_osr", "benchmarks", "tests")
"""Folders with kernels."""
DAYS = 30
"""What nobody has taken for so long is dropped."""


def archives(root: Path, kept: Path) -> Iterator[tuple[Path, Path]]:
    """Find the sources in a checkout that may have kernels, and where the machine code of each is kept."""
    here = (numba.__version__, llvmlite.__version__, np.__version__, platform.python_version(), *_processor())
    for source in sorted(path for place in PLACES for path in (root / place).rglob("*.py")):
        named = (str(source.relative_to(root)), source_stamp(source), *here)
        yield source, kept / f"{hashlib.sha256(repr(named).encode()).hexdigest()}.zip"


def _processor() -> tuple[str, str, str]:
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def take(root: Path, kept: Path, into: Path | None = None) -> int:
    """Put what is kept beside the sources in a checkout, or in a copy of them; return the number of files."""
    taken = 0
    for source, archive in archives(root, kept):
        place = source if into is None else into / source.relative_to(root)
        if archive.is_file() and place.is_file():
            os.utime(archive)
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(place.parent / "__pycache__")
                taken += len(packed.namelist())
    return taken


def keep(root: Path, kept: Path) -> int:
    """Keep what lies beside the sources in a checkout, and drop what is old; return the number of files."""
    kept.mkdir(parents=True, exist_ok=True)
    held = 0
    for source, archive in archives(root, kept):
        if found := sorted((source.parent / "__pycache__").glob(f"{source.stem}.*.nb[ci]")):
            _pack(found, archive)
            held += len(found)
    for archive in kept.glob("*.zip"):
        if archive.stat().st_mtime < time.time() - DAYS * 86_400:
            archive.unlink(missing_ok=True)
    return held


def _pack(files: Iterable[Path], archive: Path) -> None:
    """Write an archive as a whole: runs side by side see the one before or this one."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        written = Path(folder, archive.name)
        with zipfile.ZipFile(written, "w") as packed:
            for path in files:
                packed.write(path, path.name)
        written.replace(archive)


def main() -> None:
    """Take or keep."""
    parser = argparse.ArgumentParser(prog="python -m tools.kept", description=__doc__.split("\n")[0])
    parser.add_argument("act", choices=["take", "keep"])
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    count = (take if options.act == "take" else keep)(ROOT, options.folder)
    print(f"{options.act}: {count} files of machine code")


if __name__ == "__main__":
    main()
