"""A page, run from top to bottom in a folder of its own, as a newcomer would."""

from __future__ import annotations

import doctest
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from benchmarks.paper.datasets import data_directory
from tests.documents.comparing import Alike, occurs
from tests.documents.reading import ROOT, Block, blocks, in_checkout
from tests.processes import asking_socket

OF_THE_CHECKOUT = ("examples", "docs", "connectors", "benchmarks", "tests", "stream_osr", "tools", "Makefile")
STAYS_ELSEWHERE = re.compile(r"(?:^|[;&|{]|\bthen\b|\bdo\b)\s*(?:cd|pushd)\b", re.MULTILINE)
BASH = ("bash", "-euo", "pipefail", "-c")
PATIENCE = 120.0
"""Seconds that a command may take to print what the page shows of it, or to end after an interrupt."""


class Failed(AssertionError):
    """A block of a page does something else than the page says."""


class Session:
    """What a reader has on the way through a page.

    Parameters
    ----------
    name
        Of the page.
    folder
        Where its commands are run, and its files are written.
    forked
        Whether ``stream-osr`` and scripts are processes forked from one that has imported it. Importing takes most of
        the time of a command.
    long
        Whether blocks are run that take minutes.
    """

    def __init__(self, name: str, folder: Path, *, forked: bool = False, long: bool = False) -> None:
        self.name, self.folder, self.long = name, folder, long
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed = ""
        self.running: list[tuple[Block, subprocess.Popen[bytes], Path]] = []
        places = [_fork_commands(folder / ".bin", asking_socket())] if forked else []
        path = os.pathsep.join(map(str, [*places, Path(sys.executable).parent, os.environ["PATH"]]))
        data = str(data_directory().resolve())
        env = {**os.environ, "PATH": path, "STREAM_OSR_DATA": data, "COLUMNS": "100"}
        ends = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
        self.place: dict[str, Any] = {"cwd": folder, "env": env, **ends}

    def run(self, page: str) -> int:
        """Run all blocks of a page; returns how many were run.

        Raises
        ------
        Failed
            Naming the page, the line and what came instead.
        """
        if in_checkout(page):
            for name in OF_THE_CHECKOUT:
                (self.folder / name).symlink_to(ROOT / name)
        done = 0
        try:
            for block in blocks(page):
                done += self._take(block)
        finally:
            self._end()
        return done

    def _take(self, block: Block) -> bool:
        if block.remark == "after Ctrl-C":
            self._interrupt()
        if block.language == "indented":
            raise Failed(f"{self.name}:{block.line}: a block without a fence; say what it is in")
        if block.why_not or (block.remark == "long" and not self.long):
            self.printed = ""
            return False
        if block.title:
            path = self.folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.language == "bash" and block.remark == "meanwhile":
            self._begin(block)
        elif block.language == "bash":
            self._command(block)
        elif block.language == "python":
            self._python(block)
        elif block.language == "text" and self.printed:
            self._shown(block)
            return False
        else:
            return False
        return not block.title

    def _command(self, block: Block) -> None:
        if moves(block.text):
            raise Failed(f"{self.name}:{block.line}: cd would last for the reader's next block; put it in ( )")
        done = subprocess.run([*BASH, block.text], **self.place, stdout=subprocess.PIPE, text=True)
        self.printed = done.stdout
        if done.returncode:
            raise Failed(f"{self.name}:{block.line}: exit code {done.returncode}\n{block.text}\n{done.stdout}")

    def _python(self, block: Block) -> None:
        """Run examples as a doctest, else the block as a program; both share the page's names."""
        if ">>>" not in block.text:
            with redirect_stdout(io.StringIO()) as out:
                exec(compile(block.text, f"{self.name}:{block.line}", "exec"), self.names)
            self.printed = out.getvalue()
            return
        test = doctest.DocTestParser().get_doctest(block.text, self.names, self.name, self.name, block.line - 1)
        test.globs = self.names  # the parser copies them
        report: list[str] = []
        doctest.DocTestRunner(Alike(), optionflags=doctest.ELLIPSIS).run(test, out=report.append, clear_globs=False)
        self.printed = ""
        if report:
            raise Failed("".join(report))

    def _begin(self, block: Block) -> None:
        log = self.folder / f".meanwhile-{len(self.running)}"
        with log.open("wb") as file:
            begun = subprocess.Popen([*BASH, block.text], **self.place, stdout=file, start_new_session=True)
        self.running.append((block, begun, log))
        self.printed = f"\0{log}"

    def _shown(self, block: Block) -> None:
        """Hold a block of text against what was printed; what runs meanwhile gets the time to print it."""
        printed, until = self.printed, time.monotonic() + PATIENCE
        if printed.startswith("\0"):
            log = Path(printed[1:])
            while not occurs(block.text, printed := log.read_text()) and time.monotonic() < until:
                time.sleep(0.1)
        if not occurs(block.text, printed):
            raise Failed(f"{self.name}:{block.line}: this is shown\n{block.text}\nand this was printed\n{printed}")

    def _interrupt(self) -> None:
        """Press Ctrl-C where something was begun last and still runs; the page may show what that has printed."""
        block, process, log = next(each for each in reversed(self.running) if each[1].poll() is None)
        if not _stopped(process) or process.returncode:
            raise Failed(f"{self.name}:{block.line}: Ctrl-C ends it with {process.returncode}\n{log.read_text()}")
        self.printed = log.read_text()

    def _end(self) -> None:
        """End what runs meanwhile, as Ctrl-C does; what has ended badly by itself is an error."""
        trouble = []
        for block, process, log in reversed(self.running):
            ended: int | str | None = process.poll()
            if ended is None and not _stopped(process):
                ended = "only after SIGKILL"
            if ended:
                trouble.append(f"{self.name}:{block.line}: ended {ended}\n{log.read_text()}")
        if trouble and sys.exception() is None:
            raise Failed("\n".join(trouble))


def _fork_commands(folder: Path, sock: str) -> Path:
    """Write commands ``stream-osr`` and ``python`` that ask through a socket for processes; return their folder.

    Python itself runs what is no script.
    """
    folder.mkdir()
    asks = shlex.join([sys.executable, "-ISE", str(ROOT / "tests" / "documents" / "forked.py"), sock])
    own = f'case "$1" in *.py) ;; *) exec {shlex.quote(sys.executable)} "$@";; esac\n'
    for name, before in (("stream-osr", ""), ("python", own)):
        command = folder / name
        command.write_text(f'#!/bin/sh\n{before}exec {asks} {shlex.quote(str(command))} "$@"\n')
        command.chmod(0o755)
    return folder


def moves(command: str) -> bool:
    """Tell whether a reader's shell is in another folder after a block; what is in parentheses ends with them.

    >>> moves("mkdir a && cd a"), moves("mkdir a\\n(cd a && ls)"), moves("ls cd")
    (True, False, False)
    """
    while (inner := re.sub(r"\([^()]*\)", "", command)) != command:
        command = inner
    return STAYS_ELSEWHERE.search(command) is not None


def _stopped(process: subprocess.Popen[bytes]) -> bool:
    """Interrupt a process and all that it has begun, and say whether it ended by itself."""
    for _ in range(2):  # Python swallows one that comes while it starts
        os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.5 * PATIENCE)
            return True
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return False
