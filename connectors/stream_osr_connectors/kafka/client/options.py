"""Options of kafka-python's clients from the settings, including all options for exactly-once delivery.

The clients have no deserializers. A deserializer that raises blocks the consumer permanently, so stream-osr decodes
records itself.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from stream_osr.errors import InvalidParameter
from stream_osr_connectors.kafka.settings import ServiceSettings
from stream_osr_connectors.kafka.settings_errors import read_secret

BOOTSTRAP_SECONDS = 5.0
"""Time limit in seconds for a new client to find a broker."""

METADATA_SECONDS = 10.0
"""Maximum age of topic metadata in seconds. New partitions are found within this time."""

CLOSE_MILLISECONDS = 1000


class TokenFile(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python carries no types
    """OAUTHBEARER token in a file that another program updates."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        read_secret("sasl_token_file", path)

    def token(self) -> str:
        """Return the current token."""
        return str(self._path.read_text().strip())


def connection(settings: ServiceSettings) -> dict[str, Any]:
    """Return the options of all clients: brokers, client id and login."""
    options: dict[str, Any] = {
        **begin_at(settings.brokers),
        "client_id": f"stream-osr-{settings.group}-{settings.instance}",
        "metadata_max_age_ms": int(1000 * METADATA_SECONDS),
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
    """Create the TLS context with trusted certificates and the client certificate.

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
            f"setting tls_ca: cannot read certificates from {settings.tls_ca} ({why(error)})"
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
                f"{settings.tls_key or 'the key in it'} ({why(error)})"
            ) from None
    return context


READ_COMMITTED: dict[str, Any] = {
    "enable_auto_commit": False,
    "auto_offset_reset": "none",  # a jump over lost records is never silent
    "isolation_level": "read_committed",  # also what makes committed offsets wait for open transactions
    "allow_auto_create_topics": False,
}


def begin_at(brokers: str) -> dict[str, Any]:
    """Return the options for the bootstrap brokers."""
    return {
        "bootstrap_servers": [server.strip() for server in brokers.split(",") if server.strip()],
        "bootstrap_timeout_ms": int(1000 * BOOTSTRAP_SECONDS),
        "reconnect_backoff_max_ms": 1000,
    }


def reading(settings: ServiceSettings) -> dict[str, Any]:
    """Return the options of consumers."""
    return {**connection(settings), **READ_COMMITTED, "retry_backoff_ms": 50}


def why(error: OSError) -> str:
    """Return the reason of an error in the words of the system."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "no PEM file, or a wrong password").lower().replace("_", " ")
    return error.strerror or str(error)


def made(kind: type, **options: Any) -> Any:
    """Create a client. If that fails, end the thread that it started before it looked for a broker.

    The client itself does not end the thread, so each attempt in an outage would leave a thread and three open files.

    Raises
    ------
    Exception
        The error of the client.
    """
    client: Any = object.__new__(kind)
    try:
        client.__init__(**options)
    except BaseException:
        net = getattr(client, "_net", None)
        if net is not None:
            with suppress(Exception):
                net.stop(CLOSE_MILLISECONDS)
            with suppress(Exception):
                net.close()
        raise
    return client


@contextmanager
def closed_on_error(client: Any) -> Iterator[None]:
    """Close a new client if its first use fails."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            client.close()
        raise
