"""How fast the Kafka service is: python -m benchmarks.kafka [--records N] [--memory N] [--json FILE].

One worker beside a pass-through, and its memory over a long stream (:mod:`.alone`). With ``--state`` instead one
worker with its state in a folder and in a topic. With ``--workers 1,2,4`` instead
several workers: throughput, processor time and latency (:mod:`.several`).
"""

from __future__ import annotations

import json
import platform
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.kafka import alone, several
from benchmarks.kafka.ground import ASKED, broker_at, fill, train


def main(
    records: Annotated[int, typer.Option(help="Records of a timed run.")] = 100_000,
    repeats: Annotated[int, typer.Option(help="Timed runs of each.")] = 3,
    memory: Annotated[int, typer.Option(help="Records of the long run; 0: none.")] = 1_000_000,
    brokers: Annotated[str | None, typer.Option(help="host:port; a broker is started if not given.")] = None,
    workers: Annotated[str, typer.Option(help="Numbers of workers, 1,2,4 say: measure these instead.")] = "",
    partitions: Annotated[int, typer.Option(help="Partitions of the input, with --workers.")] = 8,
    seconds: Annotated[float, typer.Option(help="Seconds of each measurement of latency, with --workers.")] = 30.0,
    state: Annotated[bool, typer.Option(help="Compare a state in a folder with one in a topic instead.")] = False,
    interval: Annotated[float, typer.Option(help="Seconds between two snapshots, with --state.")] = 10.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here, too.")] = None,
) -> None:
    """Measure throughput beside a pass-through, and memory over a long stream; or several workers, and latency."""
    console = Console(width=110)
    found: dict[str, Any] = {
        "machine": {"python": platform.python_version(), "processor": platform.machine()},
        "records": records,
    }
    with tempfile.TemporaryDirectory(prefix="stream-osr-kafka-") as name, broker_at(brokers, Path(name)) as address:
        found["known_subclasses"] = known = train(Path(name))
        if state:
            bench = alone.Bench(address, Path(name))
            alone.print_state(console, alone.measure_state(bench, records, repeats, interval), interval)
        elif workers:
            asked = several.Asked(records, partitions, seconds)
            counts = [int(count) for count in workers.split(",")]
            found |= several.measure(console, address, Path(name), counts, asked)
        else:
            bench = alone.Bench(address, Path(name))
            found["speed"] = speed = alone.summed_up(alone.measure_speed(bench, records, repeats))
            alone.print_speed(console, speed, known)
            alone.print_split(console, speed)
            if memory:
                long = bench.run(ASKED, fill(address, memory), memory, memory // 20)
                found["memory"] = long._asdict()
                alone.print_memory(console, long)
    if json_file is not None:
        json_file.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    typer.run(main)
