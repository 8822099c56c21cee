"""Replay a real data set as a stream: river's ImageSegments.

The model of ``stream-osr demo`` knows four of its classes. The other three appear one after the other. Nothing is
downloaded.

    python examples/kafka/produce.py --brokers 127.0.0.1:9092 --topic segments --rate 200
"""

from __future__ import annotations

import argparse
import json
import time

from kafka import KafkaProducer

from stream_osr_connectors.cli.demo import split


def main() -> None:
    """Send the stream, one instance a record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="segments")
    parser.add_argument("--rate", type=float, default=200.0, help="records a second")
    parser.add_argument("--rounds", type=int, default=1, help="times the stream is sent")
    parser.add_argument("--seed", type=int, default=2, help="of the split, as for stream-osr demo")
    arguments = parser.parse_args()

    _, stream = split(arguments.seed)
    producer = KafkaProducer(bootstrap_servers=arguments.brokers, acks="all", linger_ms=20)
    begun, sent = time.monotonic(), 0
    for number in range(arguments.rounds):
        for at, segment in enumerate(stream):
            time.sleep(max(0.0, begun + sent / arguments.rate - time.monotonic()))
            producer.send(
                arguments.topic,
                key=f"{number}-{at}".encode(),
                value=json.dumps(segment.features).encode(),
                headers=[("truth", segment.label.encode())],  # passed through to the decision, and not read
            )
            sent += 1
    producer.flush()
    producer.close()
    print(f"{sent} instances sent to {arguments.topic}")


if __name__ == "__main__":
    main()
