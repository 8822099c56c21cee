"""Names inside `stream_osr_connectors.kafka` that its tests use."""

from __future__ import annotations

from stream_osr_connectors import kafka
from stream_osr_connectors.kafka import command_topic, exits, log, stats
from stream_osr_connectors.kafka.backoff import Backoff
from stream_osr_connectors.kafka.client.admin import TopicAdmin
from stream_osr_connectors.kafka.client.consumers import GroupConsumer, TopicFollower, read_all
from stream_osr_connectors.kafka.client.errors import KINDS, client_error, explained, kind_of, quieten, translated
from stream_osr_connectors.kafka.client.interface import (
    ClientError,
    Committed,
    ErrorKind,
    Offset,
    RefusedMessage,
    SendResult,
    Topic,
)
from stream_osr_connectors.kafka.client.options import connection
from stream_osr_connectors.kafka.client.producer import PlainProducer, TransactionalProducer
from stream_osr_connectors.kafka.command_topic import Commands, CommandTopic, ask, named
from stream_osr_connectors.kafka.log import CALM_SECONDS, FEW_LINES, LONGEST_SILENCE, Seldom, logger
from stream_osr_connectors.kafka.ops import monitor
from stream_osr_connectors.kafka.ops.command import _errors_logged, serve
from stream_osr_connectors.kafka.ops.logs import JsonLines, begin_logging
from stream_osr_connectors.kafka.ops.metrics import METRICS, Overview
from stream_osr_connectors.kafka.ops.monitor import Monitor
from stream_osr_connectors.kafka.ops.workers import FIRST_DELAY, LONGEST_DELAY, StartOrder, Work, Workers, pause
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run import model_metrics, models, partition, recovery, snapshots
from stream_osr_connectors.kafka.run.model_metrics import class_names, find
from stream_osr_connectors.kafka.run.models import CurrentModel, Journal, ModelFile, ModelName
from stream_osr_connectors.kafka.run.partition import ATTEMPTS, Cut, Partition, begin, ready, replayed, seed_of, step
from stream_osr_connectors.kafka.run.partition_by_key import step_by_key
from stream_osr_connectors.kafka.run.partition_keys import PartitionKeys, StreamKey
from stream_osr_connectors.kafka.run.partition_position import StartingPoint
from stream_osr_connectors.kafka.run.publishing import (
    PendingBatch,
    account,
    begin_counts,
    count_decisions,
    count_events,
)
from stream_osr_connectors.kafka.run.reading import FENCED_AGAIN_SECONDS, Reader
from stream_osr_connectors.kafka.run.recovery import LaterModelError, Owned, Recovery
from stream_osr_connectors.kafka.run.snapshots import REACH, Incarnations, Snapshots, name_of
from stream_osr_connectors.kafka.run.state_copies import StateCopies, state_copies
from stream_osr_connectors.kafka.run.topic_store import TopicStore
from stream_osr_connectors.kafka.run.topics import TopicLimits, WantedTopics, _found, look_after, takes_of
from stream_osr_connectors.kafka.run.transactions import InDoubtError, Rivalry, Transactions, UnpublishableError
from stream_osr_connectors.kafka.settings import SUBJECTS, unknown_variables
from stream_osr_connectors.kafka.stats import BOUNDS, LOST, Histogram, PartitionStats, ServiceStats
from stream_osr_connectors.kafka.wire import boundaries
from stream_osr_connectors.kafka.wire.boundaries import Boundary, FailedEnd, History, LaterReleaseError, Progress
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder, Plain, make_decoder
from stream_osr_connectors.kafka.wire.encoding import IN_A_ROW, EncodeError, Encoding, Publisher
from stream_osr_connectors.kafka.wire.messages import (
    Decoder,
    Encoded,
    EncodedKind,
    Encoder,
    Message,
    Outgoing,
    PartitionOutput,
    RawName,
    Received,
    RecordOrigin,
    Refusal,
    TakenRecords,
    origin_of,
)
from stream_osr_connectors.kafka.wire.subclasses import (
    Links,
    Stamp,
    alive,
    largest_summary,
    messages_of_changes,
    parse_summary,
    summary,
)
from stream_osr_connectors.kafka.wire.timestamps import HEADER, TimestampLimits, clamped
