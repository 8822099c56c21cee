"""Why the brokers cannot be talked to, in one line that a person can act on; and quiet for the client's own log."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kafka.errors import AuthorizationError, KafkaTimeoutError

from stream_osr.errors import ConnectorError, StreamOSRError
from stream_osr_connectors.kafka.exits import NoBrokerError, NoRightError
from stream_osr_connectors.kafka.settings import ServiceSettings

from .causes import REFUSALS, causes, explain, refused_login
from .options import BOOTSTRAP_SECONDS, begin_at, tls_context, why
from .seam import ClientError, Kind

ALERT_SECONDS = 1.0
"""How long a broker may take to refuse our certificate: with TLS 1.3 it says so after the handshake."""


@contextmanager
def start_explained(settings: ServiceSettings) -> Iterator[None]:
    """Say in a line why it cannot start; later any patience with the brokers is right.

    Raises
    ------
    ConnectorError
        In place of what the client raises, with the exit code that fits.
    """
    try:
        yield
    except ClientError as error:
        raise explained(settings, error) from None


@contextmanager
def said_of(what: str) -> Iterator[None]:
    """Say what cannot be done when the client raises.

    Raises
    ------
    ConnectorError
        In place of what the client raises.
    """
    try:
        yield
    except ClientError as error:
        raise ConnectorError(f"cannot {what}: {error}") from None


def explained(settings: ServiceSettings, error: ClientError) -> ConnectorError:
    """Say in a line, without secrets, why the brokers cannot be talked to, and what to look at."""
    place, cause = f"cannot connect to {settings.brokers}", error.__cause__
    if isinstance(cause, StreamOSRError):  # a file that the settings name
        return ConnectorError(str(cause))
    if isinstance(cause, AuthorizationError):
        return NoRightError(f"{place}: {error}")
    late = isinstance(cause, KafkaTimeoutError | TimeoutError)
    problem = _tls_problem(settings) if late and settings.uses_tls else None
    if problem is not None:
        return ConnectorError(f"{place}: {problem}")
    if isinstance(cause, REFUSALS) or (late and causes.is_refused()):
        return NoRightError(f"{place}: {refused_login(settings.sasl_username, settings.sasl_mechanism)}")
    if late:
        return NoBrokerError(
            explain(
                f"{place}: no broker answered as {settings.security_protocol} within {BOOTSTRAP_SECONDS:g} s; check "
                "that it runs, the port, and security_protocol"
            )
        )
    return (NoBrokerError if error.kind is Kind.AGAIN else ConnectorError)(f"{place}: {error}")


REMEDIES = {
    "InvalidTransactionTimeoutError": "set transaction_timeout to less (transaction.max.timeout.ms)",
    "InvalidSessionTimeoutError": "set session_timeout to what the brokers allow (group.max.session.timeout.ms)",
    "OffsetMetadataTooLargeError": "the brokers have to take 4096 bytes beside an offset (offset.metadata.max.bytes)",
    "InvalidCommitOffsetSizeError": "the topic __consumer_offsets has to take larger messages",
    "InconsistentGroupProtocolError": "something else is a member of the group: take another group",
    "GroupMaxSizeReachedError": "the group is full (group.max.size): run fewer workers",
    "UnsupportedVersionError": "the brokers are too old: transactions with offsets need Kafka 2.5",
    "UnsupportedCompressionTypeError": "set another compression",
}


def remedy_of(error: ClientError) -> str:
    """Say what a person can do about an error that no patience will mend."""
    return REMEDIES.get(type(error.__cause__).__name__, "mend the settings or the brokers, and start again")


def quieten() -> None:
    """Keep the client's log to ourselves: it has a line for each step of every reconnection.

    What counts is raised, or is one of the :data:`.causes.causes`.
    """
    logger = logging.getLogger("kafka")
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.handlers = [causes]
    causes.clear()


def _tls_problem(settings: ServiceSettings) -> str | None:
    """Find out why a broker cannot be talked to by TLS; the client does not tell."""
    context = tls_context(settings)
    for server in begin_at(settings.brokers)["bootstrap_servers"]:
        host, _, port = server.rpartition(":")
        try:
            connection = socket.create_connection((host.strip("[]"), int(port)), timeout=BOOTSTRAP_SECONDS)
        except (OSError, ValueError):
            continue
        try:
            with (
                connection,
                context.wrap_socket(connection, server_hostname=host.strip("[]")) as wrapped,
                suppress(TimeoutError),
            ):
                wrapped.settimeout(ALERT_SECONDS)
                wrapped.recv(1)
        except ssl.SSLCertVerificationError as error:
            return (
                f"the certificate of {server} is not trusted ({error.verify_message}); give the certificate of its "
                "authority as tls_ca, and name the host as the certificate does"
            )
        except OSError as error:
            reason = why(error)
            if "alert" in reason and "certificate" in reason:
                return f"{server} asks for a certificate of ours that it trusts ({reason}); give tls_certificate"
            return f"{server} does not speak TLS as we do ({reason}); check the port and security_protocol"
    return None
