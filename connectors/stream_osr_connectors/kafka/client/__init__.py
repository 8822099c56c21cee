"""The Kafka client: what the service needs of one, and kafka-python behind it.

All that knows which client it is lies in this folder; :mod:`.seam` is what comes out of it.
"""

from __future__ import annotations

from stream_osr_connectors.kafka.places import Place

from .admin import TopicAdmin
from .consumers import GroupConsumer, TopicFollower, read_all
from .errors import causes, explain, explained, quieten, remedy_of, said_of, start_explained, too_few_replicas
from .producer import BY_KEY, PlainProducer, TransactionalProducer, packed_size, transactional_id
from .seam import ClientError, Committed, Kind, Offset, OpenTransaction, Refused, Topic, Unreadable

__all__ = [
    "BY_KEY",
    "ClientError",
    "Committed",
    "GroupConsumer",
    "Kind",
    "Offset",
    "OpenTransaction",
    "Place",
    "PlainProducer",
    "Refused",
    "Topic",
    "TopicAdmin",
    "TopicFollower",
    "TransactionalProducer",
    "Unreadable",
    "causes",
    "explain",
    "explained",
    "packed_size",
    "quieten",
    "read_all",
    "remedy_of",
    "said_of",
    "start_explained",
    "too_few_replicas",
    "transactional_id",
]
