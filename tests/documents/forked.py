"""A command of a page's shell, ``stream-osr`` or ``python SCRIPT``: ask for a forked process, and wait for it.

A program by itself, which imports nothing of the project: ``python -ISE forked.py SOCKET COMMAND ARGUMENT...``.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path

NUMBER = 4
"""Bytes of a process id, and of an exit code."""
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Pass on the arguments, the environment, the files and signals; end as the forked process does."""
    sock, command, *arguments = sys.argv[1:]
    if Path(command).name == "stream-osr":
        imported = "from stream_osr_connectors.cli.app import main"
        arguments = ["-c", f"import sys; sys.argv[0] = {command!r}; {imported}; sys.exit(main())", *arguments]
    request = {"arguments": arguments, "cwd": str(Path.cwd()), "env": dict(os.environ), "quick": True}
    ours, theirs = os.pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(sock)
        socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2, theirs])
    os.close(theirs)
    for number in range(3):
        os.close(number)  # a reader of the output of the forked process must see its end
    process = _number(ours)
    for each in PASSED_ON:
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, lambda number, frame: os.kill(process, number))
    code = _number(ours)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _number(pipe: int) -> int:
    return int.from_bytes(os.read(pipe, NUMBER), "little", signed=True)


if __name__ == "__main__":
    main()
