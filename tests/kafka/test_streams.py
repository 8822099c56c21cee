"""What the tests of the service have for a broker that lost track of a transaction."""

from __future__ import annotations

from pathlib import Path

from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition

from tests.kafka.brokers import Broker
from tests.kafka.streams import Stream, abort_hanging_offsets, small_model


def test_offsets_of_an_open_transaction_are_released(broker: Broker, tmp_path: Path) -> None:
    """Until it is aborted by hand, no client reads what the group has committed."""
    stream = Stream(broker.address, tmp_path, 1, small_model())
    left = KafkaProducer(
        bootstrap_servers=broker.address,
        transactional_id=f"{stream.settings['group']}-:left",
        transaction_timeout_ms=600_000,
    )
    left.init_transactions()
    left.begin_transaction()
    left.send_offsets_to_transaction(
        {TopicPartition(stream.topic, 0): OffsetAndMetadata(7, "", -1)}, stream.settings["group"]
    )
    assert not abort_hanging_offsets(broker.address, 60)
    assert len(abort_hanging_offsets(broker.address, 0)) == 1
    assert stream.committed() == [0]
    left._sender.force_close()
    left.close(timeout=1)
