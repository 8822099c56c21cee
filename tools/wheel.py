"""Build the wheels: a plain one, and one for this platform that brings its machine code.

``python -m tools.wheel [FOLDER]``, or ``make wheel``, on Linux, on x86-64 or aarch64. The second is the first with
what ``stream-osr warmup`` compiles for each target of the architecture
(:data:`stream_osr.model.kernel_cache.TARGETS`). Nobody who installs it waits for the compilation.
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

from stream_osr.model.kernel_cache import FOLDER, TARGETS, Target

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "stream_osr"
PLATFORM = f"manylinux_2_17_{platform.machine()}"
"""It links to nothing but Python's and numba's own, which are built for that or older."""


def run(*command: object, at: Path = ROOT, environment: Mapping[str, object] | None = None) -> str:
    """Run a command and return what it prints, which is seen if it fails."""
    words = [str(word) for word in command]
    told = {name: str(value) for name, value in (environment or {}).items()}
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **told}, cwd=at)
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def environment_for(target: Target) -> dict[str, str]:
    """Return the variables by which numba compiles for every processor of a target, not for this one."""
    return {"NUMBA_CPU_NAME": target.name, "NUMBA_CPU_FEATURES": ""}


def put(kept: Path, package: Path, target: Target, folder: Path) -> None:
    """Put a target's machine code from where ``NUMBA_CACHE_DIR`` was into a folder, as the package's sources."""
    locator: Any = CompileResultCacheImpl._locator_classes[0]
    for sources in sorted({path.parent for path in package.rglob("*.py")}):
        if (found := kept / locator.get_suitable_cache_subpath(sources / "any.py")).is_dir():
            no_locks = shutil.ignore_patterns("*.lock")
            shutil.copytree(found, folder / target.name / sources.relative_to(package), ignore=no_locks)
    (folder / "numba").write_text(f"{numba.__version__}\n")


def main() -> None:
    """Build both into the folder."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").resolve()
    targets = TARGETS.get(platform.machine(), ()) if sys.platform == "linux" else ()
    if not targets:
        where = " or ".join(TARGETS)
        sys.exit(f"the wheel with machine code is built on Linux on {where}; this is {sysconfig.get_platform()}")
    pip, wheel = (sys.executable, "-m", "pip"), (sys.executable, "-m", "wheel")
    with tempfile.TemporaryDirectory() as at:
        place = Path(at)
        run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", place / "plain", ROOT)
        (plain,) = (place / "plain").glob("*.whl")
        run(*wheel, "unpack", plain, "--dest", place / "unpacked")
        (unpacked,) = (place / "unpacked").iterdir()
        for target in targets:
            kept = place / f"kept-{target.name}"
            variables = {**environment_for(target), "NUMBA_CACHE_DIR": kept}
            run(sys.executable, "-m", "stream_osr_connectors", "warmup", environment=variables)
            put(kept, PACKAGE, target, unpacked / FOLDER.relative_to(ROOT))
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
