"""Print what the service tells: its events, and now and then how the decisions stand.

python examples/kafka/consume.py --brokers 127.0.0.1:9092 --topic segments
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from typing import Any

from kafka import KafkaConsumer

from stream_osr.printable_text import printable


def shown(event: dict[str, Any]) -> str:
    """Say an event in a line."""
    if event["type"] == "SubclassEmerged":
        like = event["explanation"]
        return (
            f"{event['subject']} has emerged: {event['size']} instances, at a distance of {like['distance']:.1f} "
            f"from the nearest known class, {like['nearest_class']}"
        )
    if event["type"] == "SubclassPromoted":
        return f"{event['subject']} is {event['label']} now"
    if event["type"] == "NamingUndone":
        back = ", ".join(map(str, event["subclass_ids"]))
        return f"{event['subject']} {event['action']} taken back: {back} emerging again"
    if event["type"] == "EventsSummed":
        more = ", ".join(f"{count} {kind}" for kind, count in event["counts"].items())
        return f"{event['subject']} more than is told one by one: {more}"
    return f"{event.get('subject', '')} {event['type']}"


def main() -> None:
    """Print until interrupted, or until nothing has come for a while."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="segments", help="the input")
    parser.add_argument("--every", type=int, default=500, help="decisions between two lines about them")
    parser.add_argument("--idle", type=float, default=float("inf"), help="seconds without news after which it ends")
    arguments = parser.parse_args()

    decisions, events = f"{arguments.topic}.decisions", f"{arguments.topic}.events"
    consumer = KafkaConsumer(
        decisions,
        events,
        bootstrap_servers=arguments.brokers,
        group_id=None,
        auto_offset_reset="earliest",
        isolation_level="read_committed",  # what a transaction that was given up has left is not shown
    )
    counts: Counter[str] = Counter()
    heard = time.monotonic()
    try:
        while time.monotonic() - heard < arguments.idle:
            for records in consumer.poll(timeout_ms=500).values():
                heard = time.monotonic()
                for record in records:
                    try:
                        value = json.loads(record.value)
                    except ValueError:
                        place = f"{record.topic}/{record.partition} at {record.offset}"
                        parser.exit(
                            1,
                            f"{place} is not JSON, which is all that this program reads; run the service with "
                            "`encoder: json`\n",
                        )
                    if record.topic == events:
                        print(printable(shown(value)), flush=True)
                        continue
                    counts[str(value["label"])] += 1
                    if counts.total() % arguments.every == 0:
                        print(f"{counts.total()} decided: {dict(counts.most_common())}", flush=True)
    except KeyboardInterrupt:
        pass
    consumer.close()
    print(f"{counts.total()} decided: {dict(counts.most_common())}")


if __name__ == "__main__":
    main()
