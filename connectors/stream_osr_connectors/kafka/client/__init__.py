"""The Kafka client: an interface for the service, and its implementation with kafka-python.

Only this package depends on kafka-python. :mod:`.interface` defines the types that it returns.
"""

from __future__ import annotations

from stream_osr_connectors.kafka.places import Place

from .admin import TopicAdmin
from .consumers import GroupConsumer, TopicFollower, read_all
from .errors import causes, explain, explained, explained_as, quieten, remedy_of, start_explained, too_few_replicas
from .interface import ClientError, Committed, ErrorKind, Offset, OpenTransaction, RefusedMessage, Topic, Unreadable
from .producer import BY_KEY, PlainProducer, TransactionalProducer, packed_size, transactional_id

__all__ = [
    "BY_KEY",
    "ClientError",
    "Committed",
    "ErrorKind",
    "GroupConsumer",
    "Offset",
    "OpenTransaction",
    "Place",
    "PlainProducer",
    "RefusedMessage",
    "Topic",
    "TopicAdmin",
    "TopicFollower",
    "TransactionalProducer",
    "Unreadable",
    "causes",
    "explain",
    "explained",
    "explained_as",
    "packed_size",
    "quieten",
    "read_all",
    "remedy_of",
    "start_explained",
    "too_few_replicas",
    "transactional_id",
]
