"""Machine code is kept where there is room for it, and compiling is announced: real processes, copied package."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import stream_osr
from stream_osr.compiling import EVERY_TIME, ONCE, WAITING
from tests.tiers import do_without
from tools.wheel import TARGETS, Target, environment_for, put

pytestmark = pytest.mark.thorough

ONE_KERNEL = """
import numpy as np
from stream_osr.model.elementwise import exp_each
values = np.zeros(3)
exp_each(values)
assert values.tolist() == [1.0, 1.0, 1.0]
print(exp_each.stats.cache_path)
"""
NO_OVERRIDE = "-dac_override,-dac_read_search"
"""What a superuser must give up for permissions to count."""


@pytest.fixture
def package(tmp_path) -> Path:
    """A copy of the package with nothing compiled."""
    target = tmp_path / "site" / "stream_osr"
    shutil.copytree(Path(stream_osr.__file__).parent, target, ignore=shutil.ignore_patterns("__pycache__"))
    return target


@contextmanager
def unwritable(package: Path) -> Iterator[None]:
    """Let no folder of a package be written."""
    folders = [package, *(path for path in package.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    yield
    for folder in folders:
        folder.chmod(0o755)


def without_privilege() -> list[str]:
    """What to put before a command so that permissions count, superuser or not."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        do_without("setpriv", "util-linux, since a superuser may write everywhere")
    return ["setpriv", f"--bounding-set={NO_OVERRIDE}", f"--inh-caps={NO_OVERRIDE}"]


def start(package: Path, *prefix: str, program: str = ONE_KERNEL, **environment: object) -> subprocess.Popen[str]:
    """Start a process with the copied package."""
    rest = [path for path in sys.path if path and not Path(path, "stream_osr").exists()]
    usual = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([str(package.parent), *rest])}
    env = {**usual, "PYTHONDONTWRITEBYTECODE": "1", **{name: str(value) for name, value in environment.items()}}
    command = [*prefix, sys.executable, "-W", "error", "-c", program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/", env=env)


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return standard output and standard error of a process that must succeed."""
    printed, messages = process.communicate(timeout=120)
    assert process.returncode == 0, messages
    return printed.strip(), messages


def run(package: Path, *prefix: str, program: str = ONE_KERNEL, **environment: object) -> tuple[str, str]:
    """Run a process with the copied package, and return what it prints."""
    return finish(start(package, *prefix, program=program, **environment))


def kept_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.nbc"))


def not_compiled(package: Path) -> Path:
    """Compile the kernel and remove its machine code; return the path of the lock."""
    run(package)
    (lock,) = package.rglob("compiling.lock")
    for path in lock.parent.glob("*.nb?"):
        path.unlink()
    return lock


def test_compiling_is_announced_once_and_not_again_on_the_same_machine(package):
    place, said = run(package)
    assert Path(place) == package / "model" / "__pycache__"
    assert said.splitlines() == [ONCE]
    kept = kept_in(package)
    assert len(kept) == 1  # the kernel, and in it the one that it calls
    place, said = run(package)
    assert said == ""
    assert kept_in(package) == kept


@contextmanager
def holding(*locks: Path) -> Iterator[subprocess.Popen[str]]:
    """Hold locks in another process, as one that compiles does."""
    program = (
        "import fcntl, sys; files = [open(path) for path in sys.argv[1:]]; "
        "[fcntl.flock(file, fcntl.LOCK_SH) for file in files]; print('locked', flush=True); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program, *map(str, locks)], text=True, **pipes) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_process_with_machine_code_does_not_wait_for_one_that_compiles(package):
    run(package)
    with holding(*package.rglob("*.lock")) as other:
        _, said = run(package)
        assert other.poll() is None
    assert said == ""


def test_processes_that_start_together_compile_once_and_one_takes_over_from_a_dead_one(package):
    lock = not_compiled(package)
    count = f"{ONE_KERNEL}\nprint(sum(exp_each.stats.cache_misses.values()))"
    with holding(lock) as dead:
        waiting = [start(package, program=count) for _ in range(3)]
        for process in waiting:
            assert process.stderr is not None
            assert process.stderr.readline() == WAITING + "\n"
        assert not kept_in(package)
        dead.kill()
    ended = [finish(process) for process in waiting]
    assert sorted(printed.splitlines()[-1] for printed, _ in ended) == ["0", "0", "1"]
    assert sorted(messages for _, messages in ended) == ["", "", ONCE + "\n"]


@pytest.mark.parametrize(("between", "said"), [(1e6, [WAITING, ONCE]), (0.0, [ONCE])])
def test_process_leaves_another_some_time_between_two_kernels(package, between, said):
    """The other one has compiled a kernel, and soon needs the next. The time counts from the end of a compilation."""
    lock = not_compiled(package)
    os.utime(lock, (0.0, 0.0))
    run(package)
    settings = f"c.BETWEEN, c.LOADING, c.LONGEST_WAIT = {between}, 0.0, 1.0"
    kernel = (
        ONE_KERNEL.replace("exp_each", "log_each").replace("zeros", "ones").replace("1.0, 1.0, 1.0", "0.0, 0.0, 0.0")
    )
    program = f"from stream_osr import compiling as c\n{settings}\n{kernel}"
    assert run(package, program=program)[1].splitlines() == said


def test_cache_that_is_removed_meanwhile_does_not_end_a_compilation(package):
    program = (
        "import shutil, tempfile\nfrom pathlib import Path\nfrom stream_osr.compiling import one_process\n"
        "folder = Path(tempfile.mkdtemp())\n"
        "with one_process(folder / 'a', 'a', bool):\n    shutil.rmtree(folder)\nprint('compiled')"
    )
    assert run(package, program=program) == ("compiled", "")


def test_moment_of_compiling_is_known_and_reading_from_the_cache_is_none(package):
    program = (
        "import time\nfrom stream_osr.compiling import last_compiled\nassert last_compiled() == 0.0\n"
        f"begun = time.monotonic()\n{ONE_KERNEL}\nprint(begun < last_compiled() < time.monotonic(), last_compiled())"
    )
    first, _ = run(package, program=program)
    again, _ = run(package, program=program)
    assert first.splitlines()[1].startswith("True ")
    assert again.splitlines()[1] == "False 0.0"


@pytest.mark.parametrize(("variable", "place"), [("NUMBA_CACHE_DIR", "kept"), ("HOME", "home")])
def test_code_of_a_read_only_package_is_kept_where_the_environment_says(package, tmp_path, variable, place):
    with unwritable(package):
        for expected in (ONCE + "\n", ""):
            found, said = run(package, *without_privilege(), **{variable: tmp_path / place})
            assert said == expected
            assert Path(found).is_relative_to(tmp_path / place)
    assert kept_in(tmp_path / place)
    assert not kept_in(package)


def test_without_a_writable_folder_it_works_and_says_what_would_help(package, tmp_path):
    with unwritable(package):
        for _ in range(2):
            assert run(package, *without_privilege(), HOME=package) == ("None", EVERY_TIME + "\n")
    assert not kept_in(tmp_path)


def test_compiling_of_other_kernels_is_not_announced(package):
    program = "import numba, stream_osr; print(numba.njit(lambda x: x + 1)(1))"
    assert run(package, program=program) == ("2", "")


@pytest.fixture
def shipped(package, tmp_path) -> Path:
    """The copy, with its one kernel's machine code for the best target, as the platform's wheel brings it."""
    return ship(package, tmp_path, TARGETS[platform.machine()][:1])


def ship(package: Path, place: Path, targets: Sequence[Target]) -> Path:
    for target in targets:
        run(package, NUMBA_CACHE_DIR=place / target.name, **environment_for(target))
    for target in targets:
        put(place / target.name, package, target, package / "compiled")
    return package


LACKING = """
import llvmlite.binding as llvm
has = llvm.get_host_cpu_features()
has.update(fma=False, bmi2=False)
llvm.get_host_cpu_features = lambda: has
"""


def test_machine_code_that_came_along_is_used_and_nothing_is_compiled(shipped):
    for _ in range(2):
        assert run(shipped)[1] == ""
    assert all(path.is_relative_to(shipped / "compiled") for path in kept_in(shipped))
    with unwritable(shipped):
        assert run(shipped, *without_privilege(), HOME="/proc") == ("None", "")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="several targets of one architecture")
def test_older_processor_uses_the_machine_code_of_the_older_target(package, tmp_path):
    shipped = ship(package, tmp_path, TARGETS["x86_64"])
    program = f"{LACKING}{ONE_KERNEL}print(exp_each._cache._shipped._cache_file._cache_path)"
    place, said = run(shipped, program=program)
    assert said == ""
    assert place.splitlines()[-1] == str(shipped / "compiled" / "x86-64-v2" / "model")
    assert all(path.is_relative_to(shipped / "compiled") for path in kept_in(shipped))


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("numba", "the machine code in this package is for numba 0.1.2, here is "),
        ("processor", "the machine code in this package is for x86-64-v3 processors, this one lacks bmi2, fma; "),
        ("sources", ""),
    ],
)
def test_useless_machine_code_is_ignored_with_a_reason(shipped, reason, expected):
    if reason == "numba":
        (shipped / "compiled" / "numba").write_text("0.1.2\n")
    elif reason == "sources":
        source = shipped / "model" / "elementwise.py"
        source.write_text(source.read_text() + "\n# changed\n")
    _, said = run(shipped, program=LACKING + ONE_KERNEL if reason == "processor" else ONE_KERNEL)
    assert said.startswith(expected)
    assert said.endswith(ONCE + "\n")
    assert kept_in(shipped / "model")
