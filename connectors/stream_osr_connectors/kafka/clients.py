"""From settings to Kafka clients: every option that matters for exactly once is here.

The clients are given no deserializers: one that raises wedges the consumer for good, so decoding is ours.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.net.sasl.oauth import AbstractTokenProvider

from .settings import ServiceSettings

BOOTSTRAP_SECONDS = 5.0
"""How long a new client looks for a broker before it says that there is none."""


class TokenFile(AbstractTokenProvider):  # type: ignore[misc]
    """OAUTHBEARER token that something else keeps fresh in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def token(self) -> str:
        """Return the token as it is now."""
        return str(self._path.read_text().strip())

    def extensions(self) -> dict[str, str]:
        """Return no extensions."""
        return {}


def connection(settings: ServiceSettings) -> dict[str, Any]:
    """Options that all clients share: where the brokers are, and who we are."""
    options: dict[str, Any] = {
        "bootstrap_servers": [server.strip() for server in settings.brokers.split(",") if server.strip()],
        "client_id": f"stream-osr-{settings.group}-{settings.instance}",
        "bootstrap_timeout_ms": int(1000 * BOOTSTRAP_SECONDS),
        "reconnect_backoff_max_ms": 1000,
        "security_protocol": settings.security_protocol,
    }
    if "SSL" in settings.security_protocol:
        password = settings.tls_key_password
        options |= {
            "ssl_check_hostname": settings.tls_check_hostname,
            "ssl_cafile": _text(settings.tls_ca),
            "ssl_certfile": _text(settings.tls_certificate),
            "ssl_keyfile": _text(settings.tls_key),
            "ssl_password": None if password is None else password.get_secret_value(),
        }
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


def group_consumer(settings: ServiceSettings, max_poll_records: int) -> KafkaConsumer:
    """Make the consumer of the instances: a static member of the group that shares by the cooperative protocol."""
    session = int(1000 * settings.session_timeout)
    return KafkaConsumer(
        **_reading(settings),
        group_id=settings.group,
        group_instance_id=settings.instance,
        partition_assignment_strategy=[CooperativeStickyAssignor()],
        session_timeout_ms=session,
        heartbeat_interval_ms=min(3000, session // 5),
        max_poll_records=max_poll_records,
    )


def plain_consumer(settings: ServiceSettings) -> KafkaConsumer:
    """Make a consumer that belongs to no group."""
    return KafkaConsumer(**_reading(settings), group_id=None)


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


def quieten() -> None:
    """Silence the client: it logs each step of every reconnection as an error. What matters is raised, and logged."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)


def _reading(settings: ServiceSettings) -> dict[str, Any]:
    return {
        **connection(settings),
        "enable_auto_commit": False,
        "auto_offset_reset": "none",  # a jump over lost records is never silent
        "isolation_level": "read_committed",  # also what makes committed offsets wait for open transactions
        "allow_auto_create_topics": False,
        "retry_backoff_ms": 50,
    }


def _text(path: Any) -> str | None:
    return None if path is None else str(path)
