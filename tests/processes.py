"""Processes that run the command line, forked from one that has imported it: importing takes a core for seconds.

Each is a process like any other, with an id, arguments, folder, environment, files, handlers of signals and exit code
of its own. What the system shows as its command is not. Whatever is about that, about importing, about the first
moments of a process, or about what is read from the environment on import, starts Python itself.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

LARGEST = 1 << 17
"""Bytes of a request: arguments and environment."""
SHARED = "SERVER_OF_TEST_PROCESSES"
"""Variable of the environment: path of the socket of a server that another process has started."""
COMMAND = ("-c", "from stream_osr_connectors.cli.app import main; main()")
"""The command line without what begins before it is imported."""


class Process:
    """A process that runs Python's ``-c PROGRAM``, ``-m MODULE`` or a script; used like :class:`subprocess.Popen`.

    Parameters
    ----------
    arguments
        As of Python itself: perhaps ``-W ignore``, a program, a module or a script, and its arguments.
    stdin, stdout, stderr
        Files of this process, by number; nothing, if not given.
    cwd, env
        Its folder, and all of its environment; ours, if not given.
    quick
        Whether it ends without taking Python down, which takes longer than a short command: see :func:`_leave`.
    """

    def __init__(
        self,
        arguments: Sequence[object],
        *,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        quick: bool = False,
    ) -> None:
        request = {
            "quick": quick,
            "arguments": list(map(str, arguments)),
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
        }
        self._reports, report = os.pipe()
        with Path(os.devnull).open("r+b", buffering=0) as nothing:
            streams = [nothing.fileno() if file is None else file for file in (stdin, stdout, stderr)]
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
                server.connect(asking_socket())
                socket.send_fds(server, [json.dumps(request).encode()], [*streams, report])
        os.close(report)
        self._lock = threading.Lock()
        self.pid = self._number("it was not started")
        self.returncode: int | None = None

    def _number(self, otherwise: str) -> int:
        number = os.read(self._reports, 4)
        if not number:
            raise ChildProcessError(f"the process that others are forked from has ended: {otherwise}")
        return int.from_bytes(number, "little", signed=True)

    def poll(self) -> int | None:
        """The exit code, or minus the number of the signal; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code."""
        with self._lock:
            if self.returncode is None:
                if not select.select([self._reports], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
                self.returncode = self._number("no process waits for those that it starts")
                os.close(self._reports)
            return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def run(
    *arguments: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: str = "",
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run such a process, a quick one, to its end; return what it wrote."""
    with (
        tempfile.TemporaryFile("w+") as given,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        given.write(input)
        given.seek(0)
        files = {"stdin": given.fileno(), "stdout": out.fileno(), "stderr": err.fileno()}
        process = Process(arguments, cwd=cwd, env=env, quick=True, **files)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(list(map(str, arguments)), code, out.read(), err.read())


class _Server:
    """The process from which others are forked, seen from the process that has started it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="processes-")  # other users cannot open what is in it
        self.address = str(Path(self._folder.name, "socket"))
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(self.address)
            listening.listen()
            numbers = [theirs.fileno(), listening.fileno()]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            command = [sys.executable, "-m", "tests.processes", *map(str, numbers)]
            self._process = subprocess.Popen(command, pass_fds=numbers, env=environment, stdin=subprocess.DEVNULL)
        atexit.register(self._end)

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()
        self._folder.cleanup()


_starting = threading.Lock()


@cache
def _made(process: int) -> _Server:
    return _Server()


def asking_socket() -> str:
    """Path of the socket by which one asks for processes; the processes of a test run have one server for all."""
    if SHARED in os.environ:
        return os.environ[SHARED]
    with _starting:
        return _made(os.getpid()).address


# In the process from which others are forked


def main() -> None:
    """Fork a process for each request until the process that has started this one ends."""
    import pandas

    import stream_osr_connectors.kafka.ops.command
    from stream_osr_connectors.cli.warmup import warm_up

    assert stream_osr_connectors.kafka
    assert pandas
    warm_up()
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as asking, socket.socket(fileno=int(sys.argv[2])) as listening:
        request = _serve(asking, listening)
    if request is not None:
        code: object = 0
        try:
            _become(request)
        except SystemExit as ended:
            code = ended.code or 0
        if request.get("quick") and isinstance(code, int):
            _leave(code)
        sys.exit(code)  # type: ignore[arg-type]


def _leave(code: int) -> NoReturn:
    """End as Python does, but leave objects and modules to the system; a service ends like any other process."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _serve(asking: socket.socket, listening: socket.socket) -> dict[str, Any] | None:
    """Fork a process for each request, and send back its id and, in the end, its exit code."""
    waiting: dict[int, int] = {}
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    before = signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wakes)
    while True:
        ready, _, _ = select.select([asking, listening, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _reap(waiting)
        if asking in ready:
            return None
        if listening not in ready:
            continue
        with listening.accept()[0] as other:
            request, files, _, _ = socket.recv_fds(other, LARGEST, 4)
        if not request:  # the process that has connected was killed
            continue
        *streams, report = files
        process = os.fork()
        if process == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, before)
            for number, file in enumerate(streams):
                os.dup2(file, number)
            for file in (*files, *waiting.values(), woken, wakes):
                os.close(file)
            return dict(json.loads(request))
        waiting[process] = report
        _report(report, process)
        for file in streams:
            os.close(file)


def _reap(waiting: dict[int, int]) -> None:
    while waiting:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            return
        report = waiting.pop(process)
        _report(report, os.waitstatus_to_exitcode(status))
        os.close(report)


def _report(report: int, number: int) -> None:
    with suppress(BrokenPipeError):  # no process waits for it any more
        os.write(report, number.to_bytes(4, "little", signed=True))


def _become(request: dict[str, Any]) -> None:
    """Become the process of a request."""
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None  # the environment may name another folder
    os.chdir(request["cwd"])
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  # the inherited ones know of other files
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    first, *rest = request["arguments"]
    if first == "-W":
        action, first, *rest = rest
        sys.warnoptions.append(action)
        warnings.simplefilter(action)  # type: ignore[arg-type]
    if not first.startswith("-"):
        sys.argv[:] = [first, *rest]
        sys.path.insert(0, str(Path(first).resolve().parent))
        runpy.run_path(first, run_name="__main__")
        return
    program, *arguments = rest
    sys.argv[:] = [first, *arguments]
    if first == "-m":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
