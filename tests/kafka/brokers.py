"""A real single-node Apache Kafka, from jars that Maven collects."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SCRIPT = Path(__file__).parent / "broker" / "broker.sh"


class Broker:
    """A broker with its data in a folder; it keeps them over a kill."""

    NODE = 1
    """Its id in the cluster."""

    def __init__(self, folder: Path, jars: Path) -> None:
        from tests.kafka.security import Security

        port, controller, secure, certified, guarded = _free_ports(5)
        self.address = f"127.0.0.1:{port}"
        self.security = Security(folder, secure, certified, guarded)
        extra = folder / "security.properties"
        extra.write_text(self.security.properties(port, controller))
        own = {"WORK": str(folder), "LIBS": str(jars / "libs"), "EXTRA": str(extra)}
        self._environment = {**os.environ, **own, "PORT": str(port), "CONTROLLER_PORT": str(controller)}

    def start(self) -> None:
        """Start it, unless it runs, and wait until it answers; its port may still belong to an old connection."""
        for _ in range(2):
            try:
                return self._call("start")
            except subprocess.CalledProcessError:
                time.sleep(2)
        return self._call("start")

    def stop(self) -> None:
        """Shut it down."""
        self._call("stop")

    def kill(self) -> None:
        """SIGKILL."""
        self._call("kill")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """SIGSTOP, and SIGCONT in the end: connections stay open, and nothing is answered."""
        folder = Path(self._environment["WORK"])
        process = int((folder / f"broker-{self._environment['PORT']}.pid").read_text())
        os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process, signal.SIGCONT)

    def files_of(self, topic: str, partition: int) -> list[Path]:
        """The files that hold the records of a partition."""
        folder = Path(self._environment["WORK"]) / f"data-{self._environment['PORT']}"
        return sorted((folder / f"{topic}-{partition}").glob("*.log"))

    def _call(self, command: str) -> None:
        subprocess.run(
            [str(SCRIPT), command], env=self._environment, check=True, capture_output=True, text=True, timeout=300
        )


class SecondBroker(Broker):
    """Another broker of the same cluster, without listeners of its own for users: a place for second replicas."""

    NODE = 2

    def __init__(self, folder: Path, first: Broker) -> None:
        (port,) = _free_ports(1)
        self.address, self.security = f"127.0.0.1:{port}", first.security
        extra = folder / "second.properties"
        listener = f"listeners=PLAINTEXT://{self.address}\nadvertised.listeners=PLAINTEXT://{self.address}"
        extra.write_text(f"process.roles=broker\nnode.id={self.NODE}\n{listener}\n")
        self._environment = {**first._environment, "WORK": str(folder), "PORT": str(port), "EXTRA": str(extra)}


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
