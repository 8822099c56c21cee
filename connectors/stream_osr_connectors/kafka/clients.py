"""From settings to Kafka clients: every option that matters for exactly once is here.

The clients are given no deserializers: one that raises wedges the consumer for good, so decoding is ours.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import (
    AuthorizationError,
    KafkaConnectionError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.sasl.oauth import AbstractTokenProvider

from stream_osr.errors import ConnectorError, InvalidParameter

from .settings import ServiceSettings
from .unpacking import unpack_all

BOOTSTRAP_SECONDS = 5.0
"""How long a new client looks for a broker before it says that there is none."""

ALERT_SECONDS = 1.0
"""How long a broker may take to refuse our certificate: with TLS 1.3 it says so after the handshake."""

SILENCE_SECONDS = 30.0
"""How long records that are there may take to come."""

REFUSALS = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError)


class TokenFile(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python carries no types
    """OAUTHBEARER token that something else keeps fresh in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        try:
            self.token()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise InvalidParameter(f"cannot read sasl_token_file {path}: {why}") from None

    def token(self) -> str:
        """Return the token as it is now."""
        return str(self._path.read_text().strip())

    def extensions(self) -> dict[str, str]:
        """Return no extensions."""
        return {}


def connection(settings: ServiceSettings) -> dict[str, Any]:
    """Options that all clients share: where the brokers are, and who we are."""
    options: dict[str, Any] = {
        "bootstrap_servers": _servers(settings),
        "client_id": f"stream-osr-{settings.group}-{settings.instance}",
        "bootstrap_timeout_ms": int(1000 * BOOTSTRAP_SECONDS),
        "reconnect_backoff_max_ms": 1000,
        "security_protocol": settings.security_protocol,
    }
    if settings.uses_tls:
        options["ssl_context"] = tls_context(settings)
    if settings.sasl_mechanism is not None:
        password = settings.password
        options |= {
            "sasl_mechanism": settings.sasl_mechanism,
            "sasl_plain_username": settings.sasl_username,
            "sasl_plain_password": None if password is None else password.get_secret_value(),
        }
        if settings.sasl_token_file is not None:
            options["sasl_oauth_token_provider"] = TokenFile(settings.sasl_token_file)
    return options


def tls_context(settings: ServiceSettings) -> ssl.SSLContext:
    """Make what checks the brokers' certificates, and shows ours.

    Raises
    ------
    InvalidParameter
        If a file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = settings.tls_check_hostname
    try:
        if settings.tls_ca is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(settings.tls_ca)
    except OSError as error:
        raise InvalidParameter(
            f"setting tls_ca: cannot read certificates from {settings.tls_ca} ({_why(error)})"
        ) from None
    if settings.tls_certificate is not None:
        password = settings.tls_key_password
        try:
            context.load_cert_chain(
                settings.tls_certificate, settings.tls_key, "" if password is None else password.get_secret_value()
            )
        except OSError as error:
            raise InvalidParameter(
                f"settings tls_certificate, tls_key and tls_key_password: cannot use {settings.tls_certificate} with "
                f"{settings.tls_key or 'the key in it'} ({_why(error)})"
            ) from None
    return context


def group_consumer(settings: ServiceSettings, max_poll_records: int) -> KafkaConsumer:
    """Make the consumer of the instances: a static member of the group that shares by the cooperative protocol."""
    session = int(1000 * settings.session_timeout)
    consumer = KafkaConsumer(
        **_reading(settings),
        group_id=settings.group,
        group_instance_id=settings.instance,
        partition_assignment_strategy=[CooperativeStickyAssignor()],
        session_timeout_ms=session,
        heartbeat_interval_ms=min(3000, session // 5),
        max_poll_records=max_poll_records,
    )
    return unpack_all(consumer)


def plain_consumer(settings: ServiceSettings) -> KafkaConsumer:
    """Make a consumer that belongs to no group."""
    return unpack_all(KafkaConsumer(**_reading(settings), group_id=None))


def read_all(settings: ServiceSettings, topic: str, end: int | None = None) -> Iterator[ConsumerRecord]:
    """Read the committed records of a topic, or of its one partition up to an offset.

    Raises
    ------
    ConnectorError
        If there is no such topic.
    KafkaError
        If the brokers do not answer, or nothing comes for half a minute.
    """
    consumer = plain_consumer(settings)
    try:
        numbers = consumer.partitions_for_topic(topic)
        if not numbers:
            raise ConnectorError(
                f"topic {topic} does not exist at {settings.brokers}; create it, or correct the name"
            )
        places = [TopicPartition(topic, number) for number in sorted(numbers)]
        consumer.assign(places)
        ends = consumer.end_offsets(places) if end is None else dict.fromkeys(places, end)
        consumer.seek_to_beginning(*places)
        heard = time.monotonic()
        while any((consumer.position(place, timeout_ms=5000) or 0) < ends[place] for place in places):
            for place, records in consumer.poll(timeout_ms=200).items():
                heard = time.monotonic()
                yield from (record for record in records if record.offset < ends[place])
            if time.monotonic() - heard > SILENCE_SECONDS:
                raise KafkaTimeoutError(f"nothing came from {topic} for {SILENCE_SECONDS:g} s")
    finally:
        consumer.close()


def transactional_producer(settings: ServiceSettings) -> KafkaProducer:
    """Make the producer. Its id is the worker's, so that a restarted worker ends what the dead one had begun."""
    return KafkaProducer(
        **connection(settings),
        transactional_id=f"{settings.group}-{settings.instance}",
        transaction_timeout_ms=int(1000 * settings.transaction_timeout),
        acks="all",
        enable_idempotence=True,
        compression_type=None if settings.compression == "none" else settings.compression,
        batch_size=1 << 17,
        max_request_size=1 << 26,  # what the topics take is looked at before
        max_block_ms=int(1000 * settings.transaction_deadline),
        retry_backoff_ms=10,  # the default stalls 100 ms whenever the last transaction is still being marked
        allow_auto_create_topics=False,
    )


def admin(settings: ServiceSettings) -> KafkaAdminClient:
    """Make a client that looks after topics."""
    return KafkaAdminClient(**connection(settings))


def explained(settings: ServiceSettings, error: Exception) -> str:
    """Say in a line, without secrets, why the brokers cannot be talked to, and what to look at."""
    place = f"cannot connect to {settings.brokers}"
    if isinstance(error, AuthorizationError):
        return f"{place}: {type(error).__name__}: {error}; the user lacks a right, which the brokers' ACLs grant"
    late = isinstance(error, KafkaTimeoutError)
    problem = _tls_problem(settings) if late and settings.uses_tls else None
    if problem is not None:
        return f"{place}: {problem}"
    if isinstance(error, REFUSALS) or (late and settings.sasl_mechanism is not None and _told.refused):
        who = f" as {settings.sasl_username}" if settings.sasl_username is not None else ""
        return (
            f"{place}: the broker refuses to let us in{who} by {settings.sasl_mechanism}; check sasl_mechanism, "
            "sasl_username, the password (or token), and security_protocol"
        )
    if late:
        return (
            f"{place}: no broker answered as {settings.security_protocol} within {BOOTSTRAP_SECONDS:g} s; check that "
            "it runs, the port, and security_protocol"
        )
    return f"{place}: {error}"


class _Told(logging.Handler):
    """Hears the client's log out for the one thing that it does not raise: that a new client was not let in.

    Often it does not hear the broker's reason either, because the broker hangs up first.
    """

    refused = False

    def emit(self, record: logging.LogRecord) -> None:
        """Look for a refusal among what the message is made of."""
        for arg in record.args if isinstance(record.args, tuple) else ():
            hung_up = isinstance(arg, KafkaConnectionError) and "socket disconnected" in str(arg)
            self.refused |= hung_up or isinstance(arg, REFUSALS)


_told = _Told()


def quieten() -> None:
    """Keep the client's log to ourselves: it tells of each step of every reconnection. What counts is raised, too."""
    logger = logging.getLogger("kafka")
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.handlers = [_told]
    _told.refused = False


def _tls_problem(settings: ServiceSettings) -> str | None:
    """Find out why a broker cannot be talked to by TLS; the client does not tell."""
    context = tls_context(settings)
    for server in _servers(settings):
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
            why = _why(error)
            if "alert" in why and "certificate" in why:
                return (
                    f"{server} asks for a certificate of ours that it trusts ({why}); give tls_certificate, tls_key"
                )
            return f"{server} does not speak TLS as we do ({why}); check the port and security_protocol"
    return None


def _servers(settings: ServiceSettings) -> list[str]:
    return [server.strip() for server in settings.brokers.split(",") if server.strip()]


def _why(error: OSError) -> str:
    """Say what is wrong, in the words of the system."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "no PEM file, or a wrong password").lower().replace("_", " ")
    return error.strerror or str(error)


def _reading(settings: ServiceSettings) -> dict[str, Any]:
    return {
        **connection(settings),
        "enable_auto_commit": False,
        "auto_offset_reset": "none",  # a jump over lost records is never silent
        "isolation_level": "read_committed",  # also what makes committed offsets wait for open transactions
        "allow_auto_create_topics": False,
        "retry_backoff_ms": 50,
    }
