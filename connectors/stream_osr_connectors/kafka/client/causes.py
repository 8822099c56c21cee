"""Why the brokers keep a client waiting: what kafka-python writes to its log alone, and raises as a timeout.

The client retries a login that was refused, a request that a quota delays and a batch that too few replicas hold,
until a deadline passes. Its log names the cause. So the log's handler keeps the newest causes, and whoever turns an
error of the client into a text asks for them.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka.errors import (
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.protocol.sasl import SaslAuthenticateRequest

FRESH_SECONDS = 10.0
"""A cause explains what fails within this time after it was last seen."""

LONGEST_SECONDS = 30.0
"""How much longer a delay by a quota explains failures: the quota may have been raised meanwhile."""

REFUSALS = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError)

LATE = (KafkaTimeoutError, KafkaConnectionError, NodeNotReadyError, TimeoutError, *REFUSALS)
"""Errors behind which there may be another cause."""

TOO_FEW = {each.__name__ for each in (NotEnoughReplicasError, NotEnoughReplicasAfterAppendError)}


class Cause(NamedTuple):
    """A cause that the client's log has named.

    Attributes
    ----------
    text
        What was found, and what to do.
    until
        Moment until which it explains a failure.
    """

    text: str
    until: float


class Causes(logging.Handler):
    """The newest cause of each kind. It is the handler of the client's log, in all threads of the client."""

    def __init__(self) -> None:
        super().__init__()
        self._guard = threading.Lock()
        self._found: dict[str, Cause] = {}

    def clear(self) -> None:
        """Forget all causes."""
        with self._guard:
            self._found.clear()

    def emit(self, record: logging.LogRecord) -> None:
        """Look for a cause in a message of the client."""
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
            self.note("login", _refused(_config(args[0])))

    def text(self) -> str:
        """Return the causes that hold now, as one text; empty: none is known."""
        now = time.monotonic()
        with self._guard:
            self._found = {kind: cause for kind, cause in self._found.items() if now < cause.until}
            return "; ".join(cause.text for cause in self._found.values())

    def is_refused(self) -> bool:
        """Return whether a broker has just refused a login."""
        return bool(self.text()) and "login" in self._found

    def note(self, kind: str, text: str, lasts: float = 0.0) -> None:
        """Take note of a cause that lasts for so many seconds, as far as is known."""
        with self._guard:
            self._found[kind] = Cause(text, time.monotonic() + lasts + FRESH_SECONDS)


causes = Causes()
"""Of this process: all its clients have one user, and share the quotas."""


def explain(text: str) -> str:
    """Add the causes that hold now to a text about something that has failed or is late."""
    found = causes.text()
    return f"{text}; {found}" if found and found not in text else text


def refused_login(user: str | None, mechanism: str | None) -> str:
    """Say that a login was refused, and what to check."""
    who = f" as {user}" if user is not None else ""
    return (
        f"the broker refuses to let us in{who} by {mechanism}; check sasl_mechanism, sasl_username, the password (or "
        "token), and security_protocol"
    )


def _refused(config: dict[str, Any]) -> str:
    return refused_login(config.get("sasl_plain_username"), config.get("sasl_mechanism"))


def _throttled(connection: Any, response: str, seconds: float) -> str:
    client, user = (_config(connection).get(key) for key in ("client_id", "sasl_plain_username"))
    whose = f"the client {client}" + ("" if user is None else f" or the user {user}")
    return (
        f"the broker throttles us by a quota, for {seconds:.1f} s ({response}); raise the quota of "
        f"{whose} (kafka-configs.sh --describe --entity-type clients, users)"
    )


def too_few_replicas(topic: str) -> str:
    """Say that a topic takes nothing, and what to do."""
    return (
        f"topic {topic} has fewer replicas in sync than its min.insync.replicas, and takes nothing; bring brokers "
        "back, or lower min.insync.replicas of the topic"
    )


def _is_refusal(connection: Any, error: Any) -> bool:
    """Say whether a login has failed: the broker says so, or hangs up during it, which is the same without words."""
    if isinstance(error, REFUSALS):
        return True
    hung_up = isinstance(error, KafkaConnectionError) and "socket disconnected" in str(error)
    waiting = getattr(getattr(connection, "parser", None), "in_flight_requests", ())
    return hung_up and any(header.request_api_key == SaslAuthenticateRequest.API_KEY for header in waiting)


def _config(connection: Any) -> dict[str, Any]:
    return getattr(connection, "config", None) or {}
