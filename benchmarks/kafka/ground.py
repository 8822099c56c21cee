"""What the service works on in the benchmarks: models, instances, topics, and a broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from kafka import KafkaAdminClient, KafkaProducer

from benchmarks.paper.datasets import load
from benchmarks.paper.protocol import Split, split
from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr_connectors.kafka.run.topics import SPARE_BYTES, USUAL_BYTES
from tests.kafka.brokers import Broker

SEED = 0
PARTITIONS = 4
CLASSES = 20, 6
"""Known and unknown ones, of LETTER."""

ASKED = "one chain, no window"
DEFAULTS = "defaults"
MODELS: dict[str, dict[str, Any]] = {ASKED: {"chains": 1, "window": 0}, DEFAULTS: {}}

JARS = Path(".pytest_cache/d/kafka-jars")
"""Where the tests keep the broker's jars."""


def letter() -> Split:
    """Divide LETTER."""
    data = load("LETTER")
    return split(data.X, data.y, *CLASSES, SEED)


def frame(X: np.ndarray) -> pd.DataFrame:
    """Name the features of rows."""
    return pd.DataFrame(X).add_prefix("x")


def test_part() -> pd.DataFrame:
    """Instances of the known and of the unknown classes, in random order."""
    X = letter().X_test
    return frame(X[np.random.default_rng(SEED).permutation(len(X))])


def train(folder: Path) -> dict[str, int]:
    """Train the models into a folder; return their numbers of known subclasses (of the first chain)."""
    part, known = letter(), {}
    for name, arguments in MODELS.items():
        model = OpenSetRecognizer(**grouped(seed=SEED, **arguments))
        model.learn_many(frame(part.X_train), part.y_train)
        model.freeze()
        model.save(folder / f"{name}.osr")
        known[name] = len(model.trained.known.ids)
    return known


def make_topics(address: str, partitions: int = PARTITIONS) -> str:
    """Make an input and its outputs; return the name of the input."""
    topic = f"letters-{uuid.uuid4().hex[:6]}"
    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics(
        {
            f"{topic}{suffix}": {
                "num_partitions": partitions,
                "replication_factor": 1,
                "configs": {"max.message.bytes": str(USUAL_BYTES + (SPARE_BYTES if suffix == ".dlq" else 0))},
            }
            for suffix in ("", ".decisions", ".events", ".dlq")
        },
        wait_for_metadata=True,
    )
    admin.close()
    return topic


def values(number: int) -> Iterator[bytes]:
    """Give so many instances as JSON; rows again and again, with noise (they are whole numbers)."""
    rows, rng = test_part(), np.random.default_rng(SEED)
    names, numbers = list(rows.columns), rows.to_numpy(dtype=float)
    for at in range(number):
        row = numbers[at % len(numbers)] + rng.uniform(-0.5, 0.5, numbers.shape[1])
        yield json.dumps(dict(zip(names, row.round(3).tolist(), strict=True))).encode()


def send(
    address: str, topic: str, records: int, partitions: int = PARTITIONS, *, at_once: bool = False, keys: int = 0
) -> None:
    """Put records into the partitions of an input in turn; in one transaction, a service sees them all at once.

    Each record has its own key, or with ``keys`` the next of so many keys.
    """
    options: dict[str, Any] = {"linger_ms": 20, "batch_size": 1 << 17}
    if at_once:
        options |= {"transactional_id": topic, "transaction_timeout_ms": 600_000}
    producer = KafkaProducer(bootstrap_servers=address, **options)
    if at_once:
        producer.init_transactions()
        producer.begin_transaction()
    for number, value in enumerate(values(records)):
        producer.send(
            topic, key=b"%d" % (number % keys if keys else number), value=value, partition=number % partitions
        )
    producer.flush()
    if at_once:
        producer.commit_transaction()
    producer.close()


def fill(address: str, records: int, keys: int = 0) -> str:
    """Make topics, and put records into the input; return the name of the input."""
    topic = make_topics(address)
    send(address, topic, records, keys=keys)
    return topic


@contextmanager
def broker_at(address: str | None, folder: Path) -> Iterator[str]:
    """Use the broker that is there, or start one, as the tests do."""
    if address is not None:
        yield address
        return
    broker = Broker(folder, JARS.absolute())
    broker.start()
    try:
        yield broker.address
    finally:
        broker.stop()
