"""Benchmarks of commands that serve at an address."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[str, int]]:
    """Run a command of stream-osr that serves; give its address once it listens, and the number of its process."""
    command = [sys.executable, "-m", "stream_osr_connectors", *arguments, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split("/ ")[0], process.pid
        finally:
            process.terminate()
            process.wait(60)


def run(measure: Callable[..., dict[str, float]], **defaults: int) -> None:
    """Read an option for each argument of a benchmark, and print its figures."""
    parser = argparse.ArgumentParser()
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, figure in measure(**vars(parser.parse_args())).items():
        print(f"{name:32} {figure:10.2f}")
