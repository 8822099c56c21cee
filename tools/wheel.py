"""Build the wheels: a plain one, and one for this platform that brings its machine code.

``python -m tools.wheel [FOLDER]``, or ``make wheel``. The second is the first with what ``stream-osr warmup``
compiles, for any processor of x86-64-v3 (:mod:`stream_osr.model.compiler`): nobody who installs it waits for it.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl

from stream_osr.model.compiler import FOLDER, TARGET

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "stream_osr"
PLATFORM = "manylinux_2_17_x86_64"
"""It links to nothing but Python's and numba's own, which are built for that or older."""


def run(*command: object, at: Path = ROOT, environment: Mapping[str, object] | None = None) -> str:
    """Run a command and return what it prints, which is seen if it fails."""
    words = [str(word) for word in command]
    told = {name: str(value) for name, value in (environment or {}).items()}
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **told}, cwd=at)
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


FOR_ANY = {"NUMBA_CPU_NAME": TARGET, "NUMBA_CPU_FEATURES": ""}
"""What has numba compile for every processor of the target, not for this one."""


def put(kept: Path, package: Path, folder: Path) -> None:
    """Put machine code from where ``NUMBA_CACHE_DIR`` was into a folder, by the folders of the package's sources."""
    locator: Any = CompileResultCacheImpl._locator_classes[0]
    for sources in sorted({path.parent for path in package.rglob("*.py")}):
        if (found := kept / locator.get_suitable_cache_subpath(sources / "any.py")).is_dir():
            no_locks = shutil.ignore_patterns("*.lock")
            shutil.copytree(found, folder / sources.relative_to(package), ignore=no_locks)
    (folder / "numba").write_text(f"{numba.__version__}\n")


def main() -> None:
    """Build both into the folder."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").resolve()
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        sys.exit(f"the wheel with machine code is built on Linux on x86-64; this is {sysconfig.get_platform()}")
    pip, wheel = (sys.executable, "-m", "pip"), (sys.executable, "-m", "wheel")
    with tempfile.TemporaryDirectory() as at:
        place = Path(at)
        run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", place / "plain", ROOT)
        (plain,) = (place / "plain").glob("*.whl")
        run(*wheel, "unpack", plain, "--dest", place / "unpacked")
        (unpacked,) = (place / "unpacked").iterdir()
        run(
            sys.executable,
            "-m",
            "stream_osr_connectors",
            "warmup",
            environment={**FOR_ANY, "NUMBA_CACHE_DIR": place / "kept"},
        )
        put(place / "kept", PACKAGE, unpacked / FOLDER.relative_to(ROOT))
        (place / "packed").mkdir()
        run(*wheel, "pack", unpacked, "--dest-dir", place / "packed")
        (packed,) = (place / "packed").glob("*.whl")
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        tags = ("--python-tag", python, "--abi-tag", python, "--platform-tag", PLATFORM)
        run(*wheel, "tags", "--remove", *tags, packed)
        out.mkdir(parents=True, exist_ok=True)
        for path in (plain, *(place / "packed").glob("*.whl")):
            shutil.copy(path, out)
            print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
