"""Asking something of a running service: writing to the topic of labels."""

from __future__ import annotations

from typing import Any

import orjson
from kafka import KafkaProducer
from kafka.errors import KafkaError

from stream_osr.errors import ConnectorError, InvalidParameter
from stream_osr_connectors.values import DecodeError

from .clients import connection, explained
from .labelling import parse
from .settings import ServiceSettings

ANSWER_SECONDS = 30.0


def ask(settings: ServiceSettings, asked: dict[str, Any]) -> str:
    """Write a command to the topic of labels, and say where it stands.

    Parameters
    ----------
    settings
        Of the service.
    asked
        As it goes over the wire (:mod:`stream_osr_connectors.kafka.labelling`).

    Raises
    ------
    InvalidParameter
        If the service could not do it.
    ConnectorError
        If it cannot be written.
    """
    topic = settings.labels
    if topic is None:
        raise InvalidParameter("setting labels: name the topic of labels that the service reads")
    value = orjson.dumps(asked)
    try:
        command = parse(value)
    except DecodeError as error:
        raise InvalidParameter(f"the service could not do that: {error}") from None
    try:
        producer = KafkaProducer(
            **connection(settings),
            acks="all",
            max_block_ms=int(1000 * ANSWER_SECONDS),
            allow_auto_create_topics=False,
        )
        try:
            _check_place(producer, settings, command.topic, command.partition)
            written = producer.send(topic, value=value, partition=0).get(timeout=ANSWER_SECONDS)
        finally:
            producer.close(timeout=1)
    except KafkaError as error:
        raise ConnectorError(explained(settings, error)) from None
    return f"{command.action} asked for, at {written.offset} of topic {topic}"


def _check_place(
    producer: KafkaProducer, settings: ServiceSettings, topic: str | None, partition: int | None
) -> None:
    """Make sure that somebody will feel meant."""
    if topic is None:
        return
    if topic != settings.input:
        raise InvalidParameter(f"the service reads topic {settings.input}, not {topic}")
    count = len(producer.partitions_for(topic) or ())
    if partition is None or partition >= count:
        raise InvalidParameter(f"topic {topic} has {count} partitions, counted from 0: there is no {partition}")
