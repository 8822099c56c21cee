"""Administrative client with kafka-python: existence, rights and offsets of topics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from kafka import KafkaAdminClient, TopicPartition, errors
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec

from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.settings import ServiceSettings

from .errors import Needs, client_error, translated
from .interface import ClientError, Offset, OpenTransaction, Topic
from .options import connection, made

COORDINATOR_SECONDS = 15.0
"""Time limit in seconds for the coordinator of a group. Brokers create its topic for the first group."""

COORDINATOR_ERRORS = (
    errors.CoordinatorNotAvailableError,
    errors.CoordinatorLoadInProgressError,
    errors.NotCoordinatorError,
)

DESCRIBE = Needs("DESCRIBE")


class TopicAdmin:
    """Administrative client that reads the state of topics from the brokers.

    Parameters
    ----------
    settings
        Settings of the service.
    timeout
        Time limit in seconds for an answer.

    Raises
    ------
    ClientError
        If no broker answers.
    """

    def __init__(self, settings: ServiceSettings, timeout: float = 30.0) -> None:
        with translated(DESCRIBE):
            options = {**connection(settings), "request_timeout_ms": int(1000 * timeout)}
            self._client: KafkaAdminClient = made(KafkaAdminClient, **options)

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Describe topics. Topics that do not exist are marked as missing."""
        with translated(DESCRIBE):
            return {found["name"]: _topic(found) for found in self._client.describe_topics(list(names))}

    def configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the settings of topics. They are empty for a topic without the right to read them."""
        asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
        if not asked:
            return {}
        with translated(DESCRIBE):
            found = self._client.describe_configs(asked, config_filter="all").get("topic", {})
        return {name: {key: one["value"] for key, one in configs.items()} for name, configs in found.items()}

    def ends(self, places: Iterable[Place], *, stable: bool = True) -> dict[Place, int]:
        """Return the end offsets of partitions.

        Parameters
        ----------
        places
            Partitions.
        stable
            Return the last stable offset, the end of committed records. Otherwise return the offset after the last
            record.
        """
        return self._offsets(places, OffsetSpec.LATEST, "read_committed" if stable else "read_uncommitted")

    def firsts(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the offset of the first record of partitions."""
        return self._offsets(places, OffsetSpec.EARLIEST, "read_uncommitted")

    def since(self, places: Iterable[Place], milliseconds: int) -> dict[Place, int]:
        """Return the offset of the first record of each partition at or after a time, or the end offset."""
        places = list(places)
        ends, found = self.ends(places), self._offsets(places, milliseconds, "read_committed")
        return {place: offset if offset >= 0 else ends[place] for place, offset in found.items()}

    def _offsets(self, places: Iterable[Place], spec: Any, isolation: str) -> dict[Place, int]:
        asked = {TopicPartition(*place): spec for place in places}
        if not asked:
            return {}
        with translated(DESCRIBE):
            found = self._client.list_partition_offsets(asked, isolation_level=isolation, timeout_ms=2000)
        return {Place(*place): its.offset for place, its in found.items()}

    def open_transaction(self, place: Place, begin: int) -> OpenTransaction | None:
        """Return the producer of the open transaction that starts at an offset, or ``None``.

        The brokers return the transactional id only with the right DESCRIBE on it.
        """
        with translated():
            found = self._client.describe_producers([TopicPartition(*place)])[TopicPartition(*place)]
            ids = [one.producer_id for one in found.active_producers if one.current_transaction_start_offset == begin]
            if not ids:
                return None
            named = self._client.list_transactions(producer_id_filters=ids)
        names = [one.transactional_id for its in named.values() for one in its]
        return OpenTransaction(ids[0], names[0] if names else None)

    def committed(self, group: str) -> dict[Place, Offset]:
        """Return all committed offsets of a group, after waiting for a new coordinator if necessary."""
        ends = time.monotonic() + COORDINATOR_SECONDS
        while True:
            try:
                with translated(DESCRIBE):
                    found = self._client.list_group_offsets([group])[group]
                break
            except ClientError as error:
                if not isinstance(error.__cause__, COORDINATOR_ERRORS) or time.monotonic() > ends:
                    raise
                time.sleep(0.2)
        return {
            Place(*place): Offset(its.offset, its.metadata or "") for place, its in found.items() if its.offset >= 0
        }

    def create(self, topics: Mapping[str, Mapping[str, Any]]) -> None:
        """Create topics, and wait until they exist."""
        with translated(DESCRIBE):
            self._client.create_topics(
                {name: dict(wanted) for name, wanted in topics.items()}, wait_for_metadata=True
            )

    def close(self) -> None:
        """Close the client."""
        with suppress(Exception):
            self._client.close()


def _topic(found: Mapping[str, Any]) -> Topic:
    error = errors.for_code(found["error_code"])
    if error is errors.UnknownTopicOrPartitionError:
        return Topic(missing=True)
    if error is errors.TopicAuthorizationFailedError:
        return Topic(refused=True)
    if error is not errors.NoError:
        raise client_error(error(found["name"]), DESCRIBE)
    told_of = found.get("authorized_operations")
    rights = frozenset(told_of) if told_of else None
    partitions = found["partitions"]
    replicas = min((len(partition["replica_nodes"]) for partition in partitions), default=0)
    in_sync = min((len(partition["isr_nodes"]) for partition in partitions), default=0)
    offline = frozenset(partition["partition_index"] for partition in partitions if partition["leader_id"] < 0)
    return Topic(str(found["topic_id"]), len(partitions), replicas, in_sync, rights=rights, offline=offline)
