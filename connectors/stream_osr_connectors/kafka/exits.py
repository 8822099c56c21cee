"""Exit codes of the service. Each exit logs one line with reason and remedy."""

from __future__ import annotations

from typing import ClassVar

from stream_osr.errors import ConnectorError

REFUSED = 1
"""A person must change something first: a setting, the model, a topic, or the folder of snapshots."""

NO_BROKER = 69
"""No broker answered at the start. Start the service again later."""

HUNG = 70
"""The process was ended because its loop hung, or stopping took too long."""

TAKEN = 73
"""Another process has this group and instance, or another producer uses the transactional id."""

AGAIN = 75
"""The process must be replaced. Start it again at once."""

NO_TOPIC = 76
"""A topic is missing."""

NO_RIGHT = 77
"""The user lacks a right."""

MAY_COME_BACK = (NO_BROKER, NO_TOPIC, NO_RIGHT)
"""Errors for which a service waits if it has reached the brokers and topics before."""


class NoBrokerError(ConnectorError):
    """No broker answers with these settings."""

    exit_code: ClassVar[int] = NO_BROKER


class TakenError(ConnectorError):
    """Another process of this group has the same instance name."""

    exit_code: ClassVar[int] = TAKEN


class StartAgainError(ConnectorError):
    """The process must be replaced by a new one."""

    exit_code: ClassVar[int] = AGAIN


class NoTopicError(ConnectorError):
    """A topic is missing."""

    exit_code: ClassVar[int] = NO_TOPIC


class NoRightError(ConnectorError):
    """The user lacks a right, or the login is refused."""

    exit_code: ClassVar[int] = NO_RIGHT


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error.

    >>> exit_code(NoBrokerError("no broker")), exit_code(ConnectorError("too small"))
    (69, 1)
    """
    return int(getattr(error, "exit_code", REFUSED))


class EndedError(ConnectorError):
    """A worker ended in a way that ends the service. Its last log line has the reason.

    Parameters
    ----------
    message
        Text in one line.
    exit_code
        Exit code of the worker and the service.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def ends_service(code: int | None, was_open: bool, first: bool = True) -> bool:
    """Return whether the end of a worker ends the service. Otherwise a new worker replaces it.

    Parameters
    ----------
    code
        Exit code of the worker, or a negative signal number.
    was_open
        Whether a worker of the service has reached the brokers and topics before, so that a missing resource may come
        back.
    first
        Whether this is the first worker. If two services have the same name, their first workers determine which
        service ends. If every worker could end its service, sometimes both services would end.

    Examples
    --------
    >>> ends_service(NO_BROKER, False), ends_service(NO_BROKER, True), ends_service(-9, False)
    (True, False, False)
    """
    return code == REFUSED or (code == TAKEN and first) or (code in MAY_COME_BACK and not was_open)


def passes(error: BaseException) -> bool:
    """Return whether a process that must stop can ignore an error, because waiting could resolve it.

    >>> passes(NoBrokerError("no broker")), passes(ConnectorError("too small"))
    (True, False)
    """
    return exit_code(error) in (NO_BROKER, NO_TOPIC, AGAIN)
