"""The Kafka client: what the service needs of one, and kafka-python behind it.

All that knows which client it is lies in this folder: :mod:`.seam` says what another one would have to bring.
"""

from __future__ import annotations

from .admin import TopicAdmin
from .explaining import explained, quieten, remedy_of, start_explained
from .group import GroupConsumer
from .plain import TopicFollower, read_all
from .producer import BY_KEY, PlainProducer, TransactionalProducer
from .seam import Admin, ClientError, Committed, Consumer, Kind, Offset, Place, Producer, Refused, Topic, Unreadable

__all__ = [
    "BY_KEY",
    "Admin",
    "ClientError",
    "Committed",
    "Consumer",
    "GroupConsumer",
    "Kind",
    "Offset",
    "Place",
    "PlainProducer",
    "Producer",
    "Refused",
    "Topic",
    "TopicAdmin",
    "TopicFollower",
    "TransactionalProducer",
    "Unreadable",
    "explained",
    "quieten",
    "read_all",
    "remedy_of",
    "start_explained",
]
