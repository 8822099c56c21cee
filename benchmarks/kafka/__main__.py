"""How fast the Kafka service is: python -m benchmarks.kafka [--records N] [--memory N].

One worker beside a pass-through, and its memory over a long stream (:mod:`.alone`). With ``--workers 1,2,4`` instead
several workers: throughput, processor time and latency (:mod:`.several`). With ``--keys 500`` a recognizer per key.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.kafka import alone, several
from benchmarks.kafka.ground import broker_at, train


def main(
    records: Annotated[int, typer.Option(help="Records of a timed run.")] = 100_000,
    repeats: Annotated[int, typer.Option(help="Timed runs of each.")] = 3,
    memory: Annotated[int, typer.Option(help="Records of the long run; 0: none.")] = 1_000_000,
    brokers: Annotated[str | None, typer.Option(help="host:port; a broker is started if not given.")] = None,
    workers: Annotated[str, typer.Option(help="Numbers of workers, 1,2,4 say: measure these instead.")] = "",
    partitions: Annotated[int, typer.Option(help="Partitions of the input, with --workers.")] = 8,
    keys: Annotated[int, typer.Option(help="Measure a recognizer per key for so many keys instead.")] = 0,
    seconds: Annotated[float, typer.Option(help="Seconds of each measurement of latency, with --workers.")] = 30.0,
) -> None:
    """Measure throughput beside a pass-through, and memory over a long stream; or several workers, and latency."""
    with tempfile.TemporaryDirectory(prefix="stream-osr-kafka-") as name, broker_at(brokers, Path(name)) as address:
        known = train(Path(name))
        if workers:
            counts = [int(count) for count in workers.split(",")]
            print(several.measure(address, Path(name), counts, records, partitions, seconds))
        elif keys:
            print(alone.by_key(address, Path(name), records, keys))
        else:
            print(alone.speed(address, Path(name), records, repeats, known))
            if memory:
                print(f"\n{alone.memory(address, Path(name), memory)}")


if __name__ == "__main__":
    typer.run(main)
