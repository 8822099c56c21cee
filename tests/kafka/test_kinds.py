"""Every exception that the client can raise in a transaction has its kind; and nothing of the client gets out."""

from __future__ import annotations

import ast
import inspect
import re
import struct
from pathlib import Path

import pytest
from kafka import errors
from kafka.producer import transaction_manager

from stream_osr_connectors.kafka.client.errors import KINDS, client_error, kind_of, translated
from stream_osr_connectors.kafka.client.interface import ClientError, ErrorKind

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


@pytest.mark.parametrize("kind", classes(), ids=lambda each: each.__name__)
def test_every_class_of_the_client_has_its_kind(kind: type[errors.KafkaError]) -> None:
    expected = next((its for its, names in TABLE.items() if kind.__name__ in names), ErrorKind.AGAIN)
    assert kind_of(made(kind)) is expected
    assert client_error(made(kind)).kind is expected


def test_the_table_names_classes_that_there_are() -> None:
    there = {each.__name__ for each in classes()}
    assert set().union(*TABLE.values()) <= there
    assert {each.__name__ for each in KINDS if issubclass(each, errors.KafkaError)} <= there


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TypeError("headers"), ErrorKind.RECORD),
        (ValueError("key"), ErrorKind.RECORD),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"), ErrorKind.RECORD),
        (OverflowError("int too big"), ErrorKind.RECORD),
        (struct.error("argument out of range"), ErrorKind.RECORD),
        (ConnectionResetError("peer"), ErrorKind.AGAIN),
        (TimeoutError("late"), ErrorKind.AGAIN),
        (RuntimeError("the client has a defect"), ErrorKind.AGAIN),
        (AssertionError("state"), ErrorKind.AGAIN),
        (KeyError("batch"), ErrorKind.AGAIN),
    ],
)
def test_what_is_not_of_the_client(error: Exception, kind: ErrorKind) -> None:
    assert client_error(error).kind is kind


def test_what_the_client_wraps_decides() -> None:
    inner = errors.InvalidTransactionTimeoutError()
    assert client_error(errors.KafkaError(errors.ProducerFencedError())).kind is ErrorKind.FENCED
    assert client_error(errors.KafkaError("it failed with errors.", inner)).kind is ErrorKind.FATAL
    assert (
        client_error(errors.KafkaError(f"Unexpected error in InitProducerIdResponse: {inner}")).kind
        is ErrorKind.FATAL
    )
    assert (
        client_error(errors.KafkaError("Cannot send offsets because the producer is not in a transaction")).kind
        is ErrorKind.AGAIN
    )
    assert client_error(errors.KafkaError()).kind is ErrorKind.AGAIN
    text = str(client_error(errors.TopicAuthorizationFailedError({"sensors.decisions"})))
    assert "TopicAuthorizationFailedError" in text
    assert "sensors.decisions" in text
    assert "\n" not in str(client_error(ValueError("two\nlines")))


def test_errors_that_the_transaction_manager_names_are_in_the_table() -> None:
    """A new release may learn to raise others: they are to be looked at."""
    tree = ast.parse(inspect.getsource(transaction_manager))
    named = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Errors"
    }
    assert len(named) > 20
    unheard_of = named - {"for_code", *PATIENT.split()} - set().union(*TABLE.values())
    assert not unheard_of


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
