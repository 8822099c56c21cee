"""What is done to topics, rights and offsets behind the back of a service."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ConfigResource,
    ConfigResourceType,
    MemberToRemove,
    ResourcePattern,
    ResourceType,
)
from kafka.errors import KafkaError, NoError, PolicyViolationError, UnknownTopicOrPartitionError
from kafka.protocol.admin import AlterClientQuotasRequest

from tests.kafka.security import GUARDED_USER, OTHER_USER
from tests.kafka.streams import until

TOPIC_CONFIGS = {"retention.ms": "-1"}
"""The timestamps of the tests are old."""


@contextmanager
def administering(address: str) -> Iterator[KafkaAdminClient]:
    """A client that may do all."""
    with KafkaAdminClient(bootstrap_servers=address) as client:
        yield client


class Rights:
    """The right of the guarded user to write to a topic, or another one.

    Another user keeps it: a topic with no ACL at all is open to all users. The right to write includes the right to
    see the topic. A user whose right is deleted does not see the topic any more; a denial prevents only the writing.
    """

    def __init__(
        self,
        address: str,
        name: str,
        resource: ResourceType = ResourceType.TOPIC,
        operation: ACLOperation = ACLOperation.WRITE,
    ) -> None:
        self._address = address
        self._pattern, self._operation = ResourcePattern(resource, name), operation
        with administering(address) as client:
            client.create_acls([self._acl(OTHER_USER, ACLPermissionType.ALLOW), self._allowed])

    @contextmanager
    def without(self, way: str) -> Iterator[None]:
        """Take the right away, ``deleted`` or ``denied``, and grant it again at the end."""
        with administering(self._address) as client:
            if way == "deleted":
                client.delete_acls([self._allowed])
                yield
                client.create_acls([self._allowed])
            else:
                denied = self._acl(GUARDED_USER, ACLPermissionType.DENY)
                client.create_acls([denied])
                yield
                client.delete_acls([denied])

    @property
    def _allowed(self) -> ACL:
        return self._acl(GUARDED_USER, ACLPermissionType.ALLOW)

    def _acl(self, user: str, permission: ACLPermissionType) -> ACL:
        return ACL(f"User:{user}", "*", self._operation, permission, self._pattern)


def replicate(address: str, topic: str, partitions: int, *nodes: int) -> None:
    """Have the first partitions of a topic on these brokers, and wait until all of them are in sync."""
    with administering(address) as client:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        answer = client.alter_partition_reassignments({place: list(nodes) for place in places})
        assert set(answer.values()) == {None}, answer

        def in_sync() -> bool:
            found = client.describe_topics([topic])[0]["partitions"]
            own = [each for each in found if each["partition_index"] < partitions]
            return all(sorted(each["isr_nodes"]) == sorted(nodes) for each in own)

        until(in_sync, 30, lambda: f"the replicas of {topic} did not come into sync")


def set_quota(address: str, client_id: str, bytes_per_second: float | None) -> None:
    """Limit what clients of a name may write; None: no longer."""
    value, removed = (0.0, True) if bytes_per_second is None else (bytes_per_second, False)
    entry = ([("client-id", client_id)], [("producer_byte_rate", value, removed)])
    with administering(address) as client:
        request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
        answer = client._manager.run(client._manager.send, request)
    assert [each.error_code for each in answer.entries] == [0], answer


def make_topics(address: str, partitions: int, configs: Mapping[str, Mapping[str, str]]) -> None:
    """Make topics with these settings; a name that is just being deleted is waited for."""
    sizes = {"num_partitions": partitions, "replication_factor": 1}
    topics = {topic: {**sizes, "configs": dict(its)} for topic, its in configs.items()}
    for _ in range(100):
        try:
            with administering(address) as client:
                client.create_topics(topics, wait_for_metadata=True)
            return
        except KafkaError:
            time.sleep(0.1)
    raise AssertionError(f"{', '.join(configs)} could not be made")


def delete_topic(address: str, topic: str) -> None:
    """Delete a topic, and wait until it is gone."""
    with administering(address) as client:
        client.delete_topics([topic])
        while topic in client.list_topics():
            time.sleep(0.05)


def add_partitions(address: str, topic: str, count: int) -> None:
    """Let a topic have more partitions."""
    with administering(address) as client:
        client.create_partitions({topic: count})

        def has_them() -> bool:
            with suppress(UnknownTopicOrPartitionError):
                return len(client.describe_topics([topic])[0]["partitions"]) == count
            return False

        until(has_them, 10, lambda: f"{topic} did not get {count} partitions")


def members(address: str, group: str) -> list[str]:
    """Names of the static members of a group."""
    with administering(address) as client:
        return sorted(member["group_instance_id"] for member in client.describe_groups([group])[group]["members"])


def configure(address: str, topic: str, settings: Mapping[str, str]) -> None:
    """Change settings of a topic."""
    with administering(address) as client:
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, dict(settings))])


class Offsets:
    """The committed offsets of a group, moved by hand while the group is empty."""

    def __init__(self, address: str, group: str, topic: str) -> None:
        self._address, self._group, self._topic = address, group, topic

    def leave(self, instance: str) -> None:
        """Remove a static member that was killed from the group."""
        with administering(self._address) as client:
            client.remove_group_members(self._group, [MemberToRemove(group_instance_id=instance)])

    def move(self, number: int, offset: int) -> bool:
        """Commit another offset as Kafka's own tool does: without metadata. False: the broker has refused."""
        return self._done(number, "alter_group_offsets", lambda place: {place: OffsetAndMetadata(offset, "", -1)})

    def reset(self, number: int, offset: int) -> bool:
        """Commit another offset as kafka-python does: with the metadata that were there."""
        return self._done(number, "reset_group_offsets", lambda place: {place: offset})

    def delete(self, number: int) -> bool:
        """Forget the offset."""
        return self._done(number, "delete_group_offsets", lambda place: [place])

    def _done(self, number: int, request: str, about: Callable[[TopicPartition], object]) -> bool:
        place = TopicPartition(self._topic, number)
        with administering(self._address) as client:
            answer = getattr(client, request)(self._group, about(place))[place]
        return (answer["error"] if isinstance(answer, dict) else answer) is NoError


def delete_group(address: str, group: str) -> None:
    """Delete a group that has no members, with all that it has committed; one that still has some is waited for."""
    with administering(address) as client:
        until(lambda: client.delete_groups([group])[group] == "OK", 30, lambda: f"group {group} could not be deleted")


def delete_records(address: str, topic: str, number: int, offset: int) -> None:
    """Delete the records of a partition before an offset, as retention does.

    The leader may learn of a new ``cleanup.policy`` after the answer to `configure`.
    """

    def is_done() -> bool:
        with suppress(PolicyViolationError):
            client.delete_records({TopicPartition(topic, number): offset})
            return True
        return False

    with administering(address) as client:
        until(is_done, 10, lambda: f"the policy of {topic} stays")
