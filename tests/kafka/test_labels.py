"""The topic of labels: what people ask takes effect once, in an order that a replay keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from stream_osr_connectors.commands import Command
from stream_osr_connectors.commands.command import parse_record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.models import ModelFile
from stream_osr_connectors.kafka.run.partition import begin, step
from stream_osr_connectors.kafka.wire.boundaries import Boundary, Progress
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder
from stream_osr_connectors.kafka.wire.messages import Message
from tests.kafka.brokers import Broker
from tests.kafka.streams import CONSUMER, Stream, Worker, instances, small_model


class Labels:
    """The topic of labels of a stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.topic = stream.settings["labels"]
        self.sent: list[bytes] = []
        admin = KafkaAdminClient(bootstrap_servers=stream.address)
        admin.create_topics({self.topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        admin.close()

    def ask(self, *commands: Any) -> None:
        producer = KafkaProducer(bootstrap_servers=self.stream.address)
        for command in commands:
            value = command if isinstance(command, bytes) else json.dumps(command).encode()
            producer.send(self.topic, value=value)
            self.sent.append(value)
        producer.flush(10)
        producer.close()

    def between(self, begin: int, end: int) -> list[Command]:
        return [parse_record(value) for value in self.sent[begin:end] if value != b"{"]


def progress(stream: Stream, number: int) -> Progress:
    """What was committed last."""
    consumer = KafkaConsumer(bootstrap_servers=stream.address, group_id=stream.settings["group"], **CONSUMER)
    committed = consumer.committed(TopicPartition(stream.topic, number), metadata=True, timeout_ms=15_000)
    consumer.close()
    return Progress.parse(committed.metadata)


def test_labels_are_replayed_where_they_were(broker: Broker, tmp_path: Path) -> None:
    stream = Stream(
        broker.address, tmp_path, 2, small_model(), labels="labels-" + tmp_path.name, snapshot_interval=1000.0
    )
    labels = Labels(stream)
    worker = Worker(stream)
    stream.send(instances(400, 2))
    stream.wait()
    ids = [
        next(v["subclass_id"] for v in (json.loads(r.value) for r in events) if v["type"] == "SubclassEmerged")
        for events in stream.read("events")
    ]
    labels.ask({"subclass": f"{stream.topic}/0:{ids[0]}", "label": "third"}, b"{")
    stream.wait(lambda: types(stream, 0).count("SubclassPromoted") == 1)  # the partition is idle
    stream.send(instances(100, 2, 1, begin=400))
    stream.wait()
    labels.ask({"key": "k401", "label": "fourth"}, {"subclass": f"{stream.topic}/1:{ids[1]}", "mute": True})
    stream.wait(lambda: types(stream, 1).count("SubclassMuted") == 1)
    worker.kill()
    stream.send(instances(200, 2, 2, begin=500))
    labels.ask({"undo": f"{stream.topic}/1"})
    worker = Worker(stream)
    stream.wait()
    stream.wait(lambda: types(stream, 1).count("NamingUndone") == 1)
    worker.kill()  # no snapshot has been written: everything is replayed from the beginning
    worker = Worker(stream)
    stream.send(instances(200, 2, 3, begin=700))
    stream.wait()
    assert worker.stop() == 0
    assert any("is live at" in line for line in worker.lines()), "it did replay"
    decided = [[json.loads(record.value) for record in partition] for partition in stream.read("decisions")]
    assert "third" in {value["label"] for value in decided[0]}
    model = ModelFile.load(ServiceSettings(**stream.settings))
    decode = JsonDecoder(JsonFields(features=["a", "b"]), 10_000)
    for number in range(2):
        history = progress(stream, number).history
        assert history.fresh, "all boundaries are there"
        state = begin(model.recognizer(Place(stream.topic, number)), history.base)
        expected, told = [], []
        for end in history.after(history.base):
            records = [
                Message(stream.topic, number, o, 1_700_000_000_000 + o, sent.key, sent.value, [])
                for o, sent in enumerate(stream.sent[number])
                if state.history.last.offset <= o < end.offset
            ]
            asked = labels.between(state.history.last.labels, end.labels)
            state, outcome = step(state, (stream.topic, number), records, asked, Boundary(*end), decode)
            expected += [json.loads(json.dumps(decision.as_dict())) for _, decision in outcome.decisions]
            told += [type(event).__name__ for event in outcome.events]
        assert [{k: v for k, v in value.items() if k in expected[0]} for value in decided[number]] == expected
        assert types(stream, number) == told
        assert history.last.labels == len(labels.sent)


def types(stream: Stream, number: int) -> list[str]:
    """Kinds of the events of a partition, in order."""
    return [json.loads(record.value)["type"] for record in stream.read("events")[number]]
