"""The client: each of its exceptions has a kind, and one that cannot be made leaves nothing behind."""

from __future__ import annotations

import gc
import inspect
import re
import struct
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from kafka import errors
from kafka.producer import transaction_manager

from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.client.admin import TopicAdmin
from stream_osr_connectors.kafka.client.consumers import GroupConsumer, TopicFollower
from stream_osr_connectors.kafka.client.errors import KINDS, client_error, kind_of, quieten, translated
from stream_osr_connectors.kafka.client.interface import ClientError, ErrorKind
from stream_osr_connectors.kafka.client.producer import TransactionalProducer

pytestmark = pytest.mark.thorough

FOLDER = Path(inspect.getfile(ClientError)).parents[1]

NAMES = {
    ErrorKind.RECORD: ("InvalidRecordError InvalidTimestampError MessageSizeTooLargeError RecordListTooLargeError"),
    ErrorKind.RIGHT: (
        "AuthorizationError ClusterAuthorizationFailedError DelegationTokenAuthorizationFailedError "
        "GroupAuthorizationFailedError InconsistentTopicIdError SaslAuthenticationFailedError "
        "TopicAuthorizationFailedError TransactionalIdAuthorizationFailedError UnknownTopicIdError "
        "UnknownTopicOrPartitionError"
    ),
    ErrorKind.TAKEN: "FencedInstanceIdError",
    ErrorKind.FENCED: "InvalidProducerEpochError ProducerFencedError",
    ErrorKind.FATAL: (
        "GroupMaxSizeReachedError IllegalArgumentError IllegalSaslStateError IncompatibleBrokerVersion "
        "InconsistentGroupProtocolError InvalidCommitOffsetSizeError InvalidGroupIdError "
        "InvalidRequiredAcksError InvalidSessionTimeoutError InvalidTopicError "
        "InvalidTransactionTimeoutError KafkaConfigurationError OffsetMetadataTooLargeError "
        "SecurityDisabledError UnrecognizedBrokerVersion UnsupportedCodecError "
        "UnsupportedCompressionTypeError UnsupportedForMessageFormatError UnsupportedSaslMechanismError "
        "UnsupportedVersionError"
    ),
}
PATIENT = (
    "BrokerResponseError CommitFailedError ConcurrentTransactionsError CoordinatorLoadInProgressError "
    "CoordinatorNotAvailableError IllegalGenerationError IllegalStateError InvalidProducerIdMappingError "
    "InvalidTxnStateError KafkaConnectionError KafkaError KafkaTimeoutError NoError NotCoordinatorError "
    "OperationNotAttemptedError OutOfOrderSequenceNumberError RequestTimedOutError RetriableError "
    "TransactionAbortedError TransactionCoordinatorFencedError UnknownMemberIdError UnknownProducerIdError"
)
"""Names of the others that the manager of transactions raises."""
TABLE = {kind: {*names.split()} for kind, names in NAMES.items()}
"""By name, of all classes of the client; every other one asks for patience."""


def classes() -> list[type[errors.KafkaError]]:
    """All exceptions of the client."""
    found = (each for each in vars(errors).values() if inspect.isclass(each))
    return [each for each in found if issubclass(each, errors.KafkaError)]


def made(kind: type[errors.KafkaError]) -> errors.KafkaError:
    """One of them."""
    return kind({}) if kind is errors.LogTruncationError else kind()


def test_every_class_of_the_client_has_its_kind() -> None:
    for kind in classes():
        expected = next((its for its, names in TABLE.items() if kind.__name__ in names), ErrorKind.AGAIN)
        assert kind_of(made(kind)) is expected, kind
        assert client_error(made(kind)).kind is expected, kind
    there = {each.__name__ for each in classes()}
    assert set().union(*TABLE.values()) <= there
    assert {each.__name__ for each in KINDS if issubclass(each, errors.KafkaError)} <= there


def test_kinds_of_errors_that_are_not_of_the_client() -> None:
    surrogate = UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates")
    too_large = OverflowError("int too big"), struct.error("argument out of range")
    for error in (TypeError("headers"), ValueError("key"), surrogate, *too_large):
        assert client_error(error).kind is ErrorKind.RECORD, error
    unknown = RuntimeError("the client has a defect"), AssertionError("state"), KeyError("batch")
    for error in (ConnectionResetError("peer"), TimeoutError("late"), *unknown):
        assert client_error(error).kind is ErrorKind.AGAIN, error


def test_what_the_client_wraps_decides() -> None:
    inner = errors.InvalidTransactionTimeoutError()
    for error, kind in (
        (errors.KafkaError(errors.ProducerFencedError()), ErrorKind.FENCED),
        (errors.KafkaError("it failed with errors.", inner), ErrorKind.FATAL),
        (errors.KafkaError(f"Unexpected error in InitProducerIdResponse: {inner}"), ErrorKind.FATAL),
        (errors.KafkaError("Cannot send offsets because the producer is not in a transaction"), ErrorKind.AGAIN),
        (errors.KafkaError(), ErrorKind.AGAIN),
    ):
        assert client_error(error).kind is kind, error
    text = str(client_error(errors.TopicAuthorizationFailedError({"sensors.decisions"})))
    assert "TopicAuthorizationFailedError" in text
    assert "sensors.decisions" in text
    assert "\n" not in str(client_error(ValueError("two\nlines")))


def test_errors_that_the_transaction_manager_names_are_in_the_table() -> None:
    """A new release may raise others, which somebody has to check."""
    named = set(re.findall(r"\bErrors\.(\w+)", inspect.getsource(transaction_manager)))
    assert len(named) > 20
    assert named - {"for_code", *PATIENT.split()} <= set().union(*TABLE.values())


def test_nothing_of_the_client_gets_out() -> None:
    with pytest.raises(ClientError, match="KafkaTimeoutError: late") as caught, translated():
        raise errors.KafkaTimeoutError("late")
    assert caught.value.kind is ErrorKind.AGAIN
    with pytest.raises(MemoryError), translated():
        raise MemoryError


def test_the_client_is_known_in_its_folder_only() -> None:
    """Another client can be put there."""
    for path in FOLDER.rglob("*.py"):
        imports = re.search(r"^\s*(import|from) kafka\b", path.read_text(), re.MULTILINE)
        assert imports is None or path.parent.name == "client", path.name


SETTINGS = ServiceSettings(model="m", brokers="127.0.0.1:1", input="in", transaction_deadline=1.0)

MAKERS: dict[str, Callable[[], object]] = {
    "admin": partial(TopicAdmin, SETTINGS),
    "consumer": partial(GroupConsumer, SETTINGS, "in", 10, print),
    "follower": partial(TopicFollower.of, SETTINGS, "in"),
    "producer": partial(TransactionalProducer, SETTINGS),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_client_that_finds_no_broker_leaves_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quieten()  # what is logged would be kept, and sockets with it
    monkeypatch.setattr("stream_osr_connectors.kafka.client.options.BOOTSTRAP_SECONDS", 0.3)
    others = set(threading.enumerate())  # what ran before may end at any time: only what is new counts
    threads, files = [], []
    for _ in range(4):
        with pytest.raises(ClientError):
            MAKERS[kind]()
        gc.collect()  # the client leaves sockets of failed connections to it, and the service calls it now and then
        threads.append(len(set(threading.enumerate()) - others))
        files.append(len(list(Path("/proc/self/fd").iterdir())))
    assert threads[-1] <= threads[0], "threads"
    assert files[-1] <= files[0] + 3, "open files"
