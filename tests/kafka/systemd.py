"""A real systemd as process 1 of namespaces of its own, with the unit of the examples; skipped where none can run.

What it writes to /etc, /opt, /tmp and /var stays in memory. It shares the network with the tests, and nothing else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from numba.core.caching import CompileResultCacheImpl

from tests.kafka.streams import until

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "examples" / "kafka" / "stream-osr.service"
NAME = UNIT.name
PATIENCE = 60.0

CHECKOUT, PYTHON, PACKAGES, TRIAL = (Path("/opt", name) for name in ("checkout", "python", "packages", "trial"))
"""Where the namespace has this checkout, Python, its packages, and the folder of the test: homes are hidden."""

TARGETS = ("basic", "default", "multi-user", "network-online", "shutdown", "sysinit", "umount")

BOOT = Path(__file__).with_name("boot.sh")
"""Mounts what the namespaces have, and becomes systemd."""


class Systemd:
    """The manager, and the unit in it.

    Attributes
    ----------
    log
        What the service prints.
    """

    def __init__(self, folder: Path, process: int) -> None:
        self._folder, self._process = folder, process
        self.log = folder / "service.log"

    def inside(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command in the namespaces."""
        entered = ["nsenter", "-t", str(self._process), "-p", "-m", "-u", "-i", "-C", *map(str, command)]
        return subprocess.run(entered, capture_output=True, text=True, timeout=PATIENCE)

    def ctl(self, verb: str, *more: str) -> str:
        """Run systemctl on the unit."""
        done = self.inside("systemctl", verb, NAME, *more)
        status = self.inside("systemctl", "status", NAME).stdout if done.returncode else ""
        assert done.returncode == 0, f"{verb}: {done.stderr}{status}{self.said()}"
        return done.stdout

    def show(self, *names: str) -> list[str]:
        """Properties of the unit."""
        lines = self.ctl("show", f"--property={','.join(names)}").splitlines()
        values = dict(line.split("=", 1) for line in lines)
        return [values[name] for name in names]

    def configure(self, name: str, content: str) -> None:
        """Put a file into /etc/stream-osr."""
        (made := self._folder / name).write_text(content)
        self.copy(made, name)

    def copy(self, path: Path, name: str) -> None:
        """Copy a file of the test's folder to /etc/stream-osr, for the service to read."""
        inside = TRIAL / path.relative_to(self._folder)
        done = self.inside("install", "-o", "stream-osr", "-m", "0600", inside, f"/etc/stream-osr/{name}")
        assert done.returncode == 0, done.stderr

    def drop_in(self, **settings: str) -> None:
        """Override settings of the section Service."""
        lines = "".join(f"{name}=\n{name}={value}\n" for name, value in settings.items())
        (self._folder / "units" / f"{NAME}.d" / "test.conf").write_text(f"[Service]\n{lines}")
        assert self.inside("systemctl", "daemon-reload").returncode == 0

    def until(self, seconds: float = PATIENCE, **expected: str) -> None:
        """Wait until properties have values."""
        wanted = [*expected.values()]
        until(lambda: self.show(*expected) == wanted, seconds, lambda: f"not {expected}\n{self.said()}")

    def said(self) -> str:
        """The end of what the service has printed."""
        return "\n".join(self.log.read_text().splitlines()[-30:]) if self.log.exists() else ""


@contextmanager
def systemd(folder: Path) -> Iterator[Systemd]:
    """Run one; the unit is that of the examples, and its output goes to a file: there is no journal."""
    if os.geteuid() != 0:
        pytest.skip("systemd needs root for namespaces")
    group = _cgroup() / f"stream-osr-test-{os.getpid()}"
    prepare(folder)
    unshared = ["--pid", "--mount", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child", "sh", BOOT]
    into = f'echo $$ > {group}/cgroup.procs && exec setpriv --pdeathsig KILL unshare "$@"'
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made: {error}")
    with (folder / "boot.log").open("w") as log:
        outer = subprocess.Popen(["sh", "-c", into, "into", *unshared, folder], stdout=log, stderr=log)
    try:
        yield Systemd(folder, _booted(outer, folder))
    finally:
        outer.kill()
        outer.wait()
        _remove(group)


def prepare(folder: Path) -> None:
    """Write what the namespace is made of: units, places, the command, and the machine code of the sampler."""
    (units := folder / "units").mkdir()
    for name in TARGETS:
        (units / f"{name}.target").write_text(f"[Unit]\nDescription={name}\nDefaultDependencies=no\n")
    shutil.copy(UNIT, units)
    (units / f"{NAME}.d").mkdir()
    log = TRIAL / "service.log"
    output = f"[Service]\nStandardOutput=append:{log}\nStandardError=append:{log}\n"
    (units / f"{NAME}.d" / "output.conf").write_text(output)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    places = {ROOT: CHECKOUT, sys.base_prefix: PYTHON, sysconfig.get_path("purelib"): PACKAGES, folder: TRIAL}
    (folder / "places").write_text("".join(f"{there} {here}\n" for there, here in places.items()))
    command = folder / "command"
    blas = " ".join(f"{name}={value}" for name, value in os.environ.items() if name.startswith("OPENBLAS_"))
    command.write_text(
        "#!/bin/sh\n"
        f"export PYTHONPATH={CHECKOUT}:{CHECKOUT}/connectors:{PACKAGES} LD_LIBRARY_PATH={PYTHON}/lib {blas}\n"
        f'exec {PYTHON}/bin/python{version} -W ignore -m stream_osr_connectors "$@"\n'
    )
    command.chmod(0o755)
    (compiled := folder / "compiled").mkdir()
    locator = CompileResultCacheImpl._locator_classes[0]
    for index in (ROOT / "stream_osr").rglob("__pycache__/*.nb[ic]"):
        source = CHECKOUT / index.parent.parent.relative_to(ROOT) / "any.py"
        into = compiled / locator.get_suitable_cache_subpath(str(source))
        into.mkdir(exist_ok=True)
        shutil.copy2(index, into)


def _cgroup() -> Path:
    """Where the unified hierarchy is mounted."""
    for line in Path("/proc/mounts").read_text().splitlines():
        if line.split()[2] == "cgroup2":
            return Path(line.split()[1])
    pytest.skip("there is no unified hierarchy of cgroups")


def _booted(outer: subprocess.Popen[bytes], folder: Path) -> int:
    """Wait until the manager runs; give its process id as it is seen from here."""
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        if outer.poll() is not None:
            pytest.skip(f"no systemd can run here: {(folder / 'boot.log').read_text().strip()[-300:]}")
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        if children and Systemd(folder, int(children[0])).inside("systemctl", "is-system-running").returncode == 0:
            return int(children[0])
        time.sleep(0.1)
    pytest.fail(f"systemd does not come up: {(folder / 'boot.log').read_text()}")


def _remove(group: Path) -> None:
    """Remove a cgroup, once its processes have gone."""
    ends = time.monotonic() + PATIENCE
    while group.exists() and time.monotonic() < ends:
        with suppress(OSError):  # a process of it is still ending
            for each in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
                each.rmdir()
            group.rmdir()
        time.sleep(0.05)
