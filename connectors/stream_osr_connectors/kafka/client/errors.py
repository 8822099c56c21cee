"""Kinds of kafka-python's exceptions, hidden causes of timeouts, and remedies.

The client retries a refused login, a request that a quota delays, and a batch with too few replicas until a deadline,
and then raises a timeout. Only its log contains the cause. Therefore a log handler stores the newest causes, and
error texts include them.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
import struct
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from typing import Any, NamedTuple

from kafka import TopicPartition, errors
from kafka.protocol.sasl import SaslAuthenticateRequest

from stream_osr.errors import ConnectorError, StreamOSRError
from stream_osr_connectors.kafka.exits import NoBrokerError, NoRightError
from stream_osr_connectors.kafka.settings import ServiceSettings

from .interface import ClientError, ErrorKind
from .options import BOOTSTRAP_SECONDS, begin_at, tls_context, why

FRESH_SECONDS = 10.0
"""Seconds for which a cause explains failures after its last occurrence."""

LONGEST_SECONDS = 30.0
"""Most additional seconds for which a quota delay explains failures. The quota may be raised meanwhile."""

REFUSALS = (errors.SaslAuthenticationFailedError, errors.UnsupportedSaslMechanismError)

LATE = (errors.KafkaTimeoutError, errors.KafkaConnectionError, errors.NodeNotReadyError, TimeoutError, *REFUSALS)
"""Errors that may have another cause."""

TOO_FEW = {each.__name__ for each in (errors.NotEnoughReplicasError, errors.NotEnoughReplicasAfterAppendError)}


class Causes(logging.Handler):
    """The newest cause of each kind. This is the handler of the client's log, for all threads."""

    def __init__(self) -> None:
        super().__init__()
        self._guard = threading.Lock()
        self._found: dict[str, tuple[str, float]] = {}  # a text, and the time until which it explains a failure

    def clear(self) -> None:
        """Discard all causes."""
        with self._guard:
            self._found.clear()

    def emit(self, record: logging.LogRecord) -> None:
        """Find a cause in a log message of the client."""
        args = record.args if isinstance(record.args, tuple) else ()
        if len(args) == 3 and "throttled by broker" in str(record.msg):
            connection, response, milliseconds = args
            seconds = float(str(milliseconds)) / 1000
            self.note("quota", _throttled(connection, str(response), seconds), min(seconds, LONGEST_SECONDS))
        elif TOO_FEW & {arg for arg in args if isinstance(arg, str)}:
            for place in args:
                if isinstance(place, TopicPartition):
                    self.note(f"replicas of {place.topic}", too_few_replicas(place.topic))
        elif len(args) == 2 and _config(args[0]).get("sasl_mechanism") is not None and _is_refusal(*args):
            self.note("login", refused_login(*map(_config(args[0]).get, ("sasl_plain_username", "sasl_mechanism"))))

    def text(self) -> str:
        """Return the current causes as one text, or an empty text."""
        now = time.monotonic()
        with self._guard:
            self._found = {kind: cause for kind, cause in self._found.items() if now < cause[1]}
            return "; ".join(text for text, _ in self._found.values())

    def is_refused(self) -> bool:
        """Return whether a broker has refused a login recently."""
        return bool(self.text()) and "login" in self._found

    def note(self, kind: str, text: str, lasts: float = 0.0) -> None:
        """Record a cause that probably lasts for some seconds."""
        with self._guard:
            self._found[kind] = text, time.monotonic() + lasts + FRESH_SECONDS


causes = Causes()
"""Causes of this process. All its clients have the same user and quotas."""


def explain(text: str) -> str:
    """Append the current causes to a text about a failure or delay."""
    found = causes.text()
    return f"{text}; {found}" if found and found not in text else text


def refused_login(user: str | None, mechanism: str | None) -> str:
    """Return the text for a refused login, with the settings to check."""
    who = f" as {user}" if user is not None else ""
    return (
        f"the broker refuses to let us in{who} by {mechanism}. Check sasl_mechanism, sasl_username, the password (or "
        "token), and security_protocol"
    )


def _throttled(connection: Any, response: str, seconds: float) -> str:
    client, user = (_config(connection).get(key) for key in ("client_id", "sasl_plain_username"))
    whose = f"the client {client}" + ("" if user is None else f" or the user {user}")
    return (
        f"the broker throttles us by a quota, for {seconds:.1f} s ({response}). Raise the quota of "
        f"{whose} (kafka-configs.sh --describe --entity-type clients, users)"
    )


def too_few_replicas(topic: str) -> str:
    """Return the text for a topic with too few in-sync replicas, with the remedy."""
    return (
        f"topic {topic} has fewer replicas in sync than its min.insync.replicas, and rejects all records. Bring "
        "brokers back, or lower min.insync.replicas of the topic"
    )


def _is_refusal(connection: Any, error: Any) -> bool:
    """Return whether a login has failed: the broker refused it, or closed the connection during it."""
    if isinstance(error, REFUSALS):
        return True
    hung_up = isinstance(error, errors.KafkaConnectionError) and "socket disconnected" in str(error)
    waiting = getattr(getattr(connection, "parser", None), "in_flight_requests", ())
    return hung_up and any(header.request_api_key == SaslAuthenticateRequest.API_KEY for header in waiting)


def _config(connection: Any) -> dict[str, Any]:
    return getattr(connection, "config", None) or {}


_TABLE = tomllib.loads(files(__package__).joinpath("errors.toml").read_text(encoding="utf-8"))

KINDS: dict[type[BaseException], ErrorKind] = {
    **{getattr(errors, name): ErrorKind(kind) for kind, names in _TABLE["kinds"].items() for name in names},
    **dict.fromkeys((TypeError, ValueError, OverflowError, struct.error), ErrorKind.RECORD),
    # Own errors, such as an unreadable file of a password or certificate, and errors of the operating system.
    **dict.fromkeys((StreamOSRError, OSError), ErrorKind.AGAIN),
}
"""Kinds of errors by class. Other classes have the kind of their nearest base, or else AGAIN."""


class Needs(NamedTuple):
    """The right that a call needs, for error texts without it.

    Attributes
    ----------
    right
        The right on a topic: ``READ``, ``WRITE`` or ``DESCRIBE``.
    topic, transactional_id
        Resource of the right, if the client's errors do not name it.
    """

    right: str = ""
    topic: str = ""
    transactional_id: str = ""


NOTHING = Needs()


def kind_of(error: BaseException) -> ErrorKind:
    """Return the kind of an exception.

    >>> kind_of(errors.TopicAuthorizationFailedError()), kind_of(errors.KafkaTimeoutError())
    (<ErrorKind.RIGHT: 'right'>, <ErrorKind.AGAIN: 'again'>)
    """
    return next((KINDS[each] for each in type(error).__mro__ if each in KINDS), ErrorKind.AGAIN)


def client_error(error: BaseException, needs: Needs = NOTHING) -> ClientError:
    """Convert an exception of the client to a :class:`ClientError`.

    The client may wrap the broker's error in a generic exception, or only name it in the text. Then the inner error
    determines the kind.

    Parameters
    ----------
    error
        Exception of the client.
    needs
        Right that the call needed.
    """
    kind, inner = kind_of(error), error
    while type(inner) is errors.KafkaError:
        wrapped = [arg for arg in inner.args if isinstance(arg, BaseException)]
        if not wrapped:
            named = (getattr(errors, word, None) for word in re.findall(r"\w+", str(inner))[1:])
            found = [each for each in named if isinstance(each, type) and issubclass(each, errors.KafkaError)]
            kind = kind_of(found[0]()) if found else kind
            if found and issubclass(found[0], errors.AuthorizationError):
                inner = found[0]()
            break
        inner = wrapped[0]
        kind = kind_of(inner)
    said = _error_text(inner, needs)
    too_large = kind is ErrorKind.RECORD and "TooLarge" in said
    made = ClientError(kind, explain(said) if isinstance(inner, LATE) else said, too_large=too_large)
    made.__cause__ = inner
    return made


@contextmanager
def translated(needs: Needs = NOTHING) -> Iterator[None]:
    """Convert all exceptions of the client."""
    try:
        yield
    except (ClientError, MemoryError):
        raise
    except Exception as error:
        raise client_error(error, needs) from error


def _error_text(error: BaseException, needs: Needs) -> str:
    """Return name and message in one line, or the missing right."""
    if isinstance(error, errors.AuthorizationError):
        return f"{type(error).__name__}: the user lacks {_lacked(error, needs)}, which the brokers' ACLs grant"
    name, text = type(error).__name__, " ".join(str(error).split())
    return text if text.startswith(name) else f"{name}: {text}" if text else name


def _lacked(error: errors.AuthorizationError, needs: Needs) -> str:
    """Return the missing right of an error, and its resource."""
    found = error.args[0] if error.args else ""
    names = ", ".join(sorted(map(str, found))) if isinstance(found, set | frozenset | list | tuple) else str(found)
    texts: dict[type, str] = {
        errors.TopicAuthorizationFailedError: f"{needs.right or 'READ or WRITE'} on the topic {names or needs.topic}",
        errors.GroupAuthorizationFailedError: f"READ on the group {names}",
        errors.TransactionalIdAuthorizationFailedError: f"WRITE on the transactional id {needs.transactional_id}",
    }
    text = texts.get(type(error))
    return (f"a right on the cluster {names}" if text is None else f"the right {text}").rstrip()


ALERT_SECONDS = 1.0
"""Seconds to wait for a broker that refuses the client certificate after the handshake (TLS 1.3)."""


@contextmanager
def start_explained(settings: ServiceSettings) -> Iterator[None]:
    """Report in one line why the service cannot start. A running service retries instead.

    Raises
    ------
    ConnectorError
        In place of the client's error, with the matching exit code.
    """
    try:
        yield
    except ClientError as error:
        raise explained(settings, error) from None


@contextmanager
def explained_as(what: str) -> Iterator[None]:
    """Report what failed when the client raises.

    Raises
    ------
    ConnectorError
        In place of the client's error.
    """
    try:
        yield
    except ClientError as error:
        raise ConnectorError(f"cannot {what}: {error}") from None


def explained(settings: ServiceSettings, error: ClientError) -> ConnectorError:
    """Return an error in one line, without secrets, with the reason for a failed connection and the remedy."""
    place, cause = f"cannot connect to {settings.brokers}", error.__cause__
    if isinstance(cause, StreamOSRError):  # a file that the settings name
        return ConnectorError(str(cause))
    if isinstance(cause, errors.AuthorizationError):
        return NoRightError(f"{place}: {error}")
    late = isinstance(cause, errors.KafkaTimeoutError | TimeoutError)
    problem = _tls_problem(settings) if late and settings.uses_tls else None
    if problem is not None:
        return ConnectorError(f"{place}: {problem}")
    if isinstance(cause, REFUSALS) or (late and causes.is_refused()):
        return NoRightError(f"{place}: {refused_login(settings.sasl_username, settings.sasl_mechanism)}")
    if late:
        return NoBrokerError(
            explain(
                f"{place}: no broker answered as {settings.security_protocol} within {BOOTSTRAP_SECONDS:g} s. Check "
                "that it runs, the port, and security_protocol"
            )
        )
    return (NoBrokerError if error.kind is ErrorKind.AGAIN else ConnectorError)(f"{place}: {error}")


def remedy_of(error: ClientError) -> str:
    """Return the remedy for an error that a retry cannot resolve."""
    return str(
        _TABLE["remedies"].get(type(error.__cause__).__name__, "correct the settings or the brokers, and start again")
    )


def quieten() -> None:
    """Suppress the client's log, which has a line for each step of every reconnection.

    Relevant messages are exceptions, or in :data:`causes`.
    """
    logger = logging.getLogger("kafka")
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.handlers = [causes]
    causes.clear()


def _tls_problem(settings: ServiceSettings) -> str | None:
    """Return the reason for a failed TLS connection, which the client does not report."""
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
                f"the certificate of {server} is not trusted ({error.verify_message}). Set tls_ca to the "
                "certificate of the authority, and use the host name in the certificate"
            )
        except OSError as error:
            reason = why(error)
            if "alert" in reason and "certificate" in reason:
                return f"{server} asks for a certificate of ours that it trusts ({reason}). Set tls_certificate"
            return f"{server} does not speak TLS as we do ({reason}). Check the port and security_protocol"
    return None
