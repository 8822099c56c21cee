"""Send dead letters to the input again, after their cause is removed.

    python examples/kafka/resend.py --config examples/kafka/service.yaml --stage ENCODE

A dead letter goes to its topic and partition again, with its key, value, timestamp and headers. The headers that the
service added are left out. The same transaction commits the position in the dead-letter topic, for the group
GROUP-resend-STAGE. So each run starts after the previous one of its stage, and no dead letter is sent twice.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import get_args

from stream_osr_connectors.engine.stream import Stage
from stream_osr_connectors.kafka import ServiceSettings, load_settings
from stream_osr_connectors.kafka.client.admin import TopicAdmin
from stream_osr_connectors.kafka.client.consumers import TopicFollower
from stream_osr_connectors.kafka.client.interface import Offset
from stream_osr_connectors.kafka.client.producer import TransactionalProducer
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.wire.messages import Outgoing, Received

ERRORS = "__connect.errors."
WITHOUT_VALUE = "stream-osr.value"


class Resender(TransactionalProducer):
    """A producer with a transactional id that no worker has."""

    name = staticmethod(lambda settings: f"{settings.group}-resend")


def originals(letters: Iterable[Received], stage: str, counts: Counter[str]) -> list[Outgoing]:
    """Return the original records of the dead letters of a stage, and count the letters."""
    found = []
    for letter in letters:
        headers = dict(letter.headers)
        topic, partition, offset, its = (
            (headers.get(ERRORS + name) or b"").decode() for name in ("topic", "partition", "offset", "stage")
        )
        if its != stage:
            counts["of other stages"] += 1
        elif WITHOUT_VALUE in headers:
            counts["without value"] += 1
            print(f"{topic}/{partition} at {offset}: the dead letter has no value")
        else:
            counts["sent"] += 1
            own = [each for each in letter.headers if not each[0].startswith((ERRORS, "stream-osr."))]
            found.append(Outgoing(topic, int(partition), letter.key, letter.value, own, letter.timestamp))
    return found


def resend(settings: ServiceSettings, stage: str) -> Counter[str]:
    """Send the dead letters up to the current end of their topic, and return their number by outcome."""
    group, topic, counts = f"{settings.group}-resend-{stage}", settings.dead_letters, Counter[str]()
    with closing(TopicAdmin(settings)) as admin:
        committed = admin.committed(group)
    producer = Resender(settings)
    producer.open()
    with closing(TopicFollower.of(settings, topic)) as follower:
        first, ends = follower.bounds()
        follower.seek({place: max(first[place], committed.get(place, Offset(0, "")).offset) for place in first})
        while any(follower.position(place) < ends[place] for place in follower.places):
            letters = follower.poll(0.5, most=500)
            if letters:
                producer.begin()
                if refused := producer.send(originals(letters, stage, counts)).refused:
                    raise refused[0].error
                after = {Place(topic, letter.partition): Offset(letter.offset + 1, "") for letter in letters}
                producer.send_offsets(after, group)
                producer.commit()
    producer.close(1.0)
    return counts


def main() -> None:
    """Send them, and print their number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True, help="settings of the service")
    parser.add_argument("--stage", required=True, choices=get_args(Stage), help="stage of the dead letters")
    arguments = parser.parse_args()
    counts = resend(load_settings(arguments.config), arguments.stage)
    print(", ".join(f"{counts[outcome]} {outcome}" for outcome in ("sent", "without value", "of other stages")))


if __name__ == "__main__":
    main()
