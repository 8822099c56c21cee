"""Exit codes of the service, each with one line that gives the reason and the remedy."""

from __future__ import annotations

from typing import ClassVar

from stream_osr.errors import ConnectorError

REFUSED = 1
"""A person has to change something first: a setting, the model, a topic, the folder of the snapshots."""

NO_BROKER = 69
"""No broker answered when the service began; starting it again later is right."""

HUNG = 70
"""The process was ended because its loop hung, or stopping took too long."""

TAKEN = 73
"""Another process has this group and instance, or another producer uses the transactional id."""

AGAIN = 75
"""The process is used up; starting it again at once is right."""

NO_TOPIC = 76
"""A topic is missing."""

NO_RIGHT = 77
"""The user lacks a right."""

MAY_COME_BACK = (NO_BROKER, NO_TOPIC, NO_RIGHT)
"""A service that has got through to the brokers and the topics once has had it, and waits for it."""


class NoBrokerError(ConnectorError):
    """No broker answers as the settings say."""

    exit_code: ClassVar[int] = NO_BROKER


class TakenError(ConnectorError):
    """Another process of this group has our name."""

    exit_code: ClassVar[int] = TAKEN


class StartAgainError(ConnectorError):
    """The process should be replaced by a new one."""

    exit_code: ClassVar[int] = AGAIN


class NoTopicError(ConnectorError):
    """A topic is missing."""

    exit_code: ClassVar[int] = NO_TOPIC


class NoRightError(ConnectorError):
    """The user lacks a right, or is not let in."""

    exit_code: ClassVar[int] = NO_RIGHT


def exit_code(error: BaseException) -> int:
    """Say with which code an error ends the process.

    >>> exit_code(NoBrokerError("no broker")), exit_code(ConnectorError("too small"))
    (69, 1)
    """
    return int(getattr(error, "exit_code", REFUSED))


class EndedError(ConnectorError):
    """A worker ended in a way that ends the service; its own last line says why.

    Parameters
    ----------
    message
        One line.
    exit_code
        How the worker ended, and the service does.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def ends_service(code: int | None, was_open: bool, first: bool = True) -> bool:
    """Say whether the end of a worker ends the service; otherwise a new one takes its place.

    Parameters
    ----------
    code
        How the worker ended; negative: by that signal.
    was_open
        Some worker of the service has got through to the brokers and the topics: what is missing now was there, and
        may come back.
    first
        It is the first worker. Of two services of one name the first workers settle which one ends: if each worker
        could end its service, they would now and then both end.

    Examples
    --------
    >>> ends_service(NO_BROKER, False), ends_service(NO_BROKER, True), ends_service(-9, False)
    (True, False, False)
    """
    return code == REFUSED or (code == TAKEN and first) or (code in MAY_COME_BACK and not was_open)


def passes(error: BaseException) -> bool:
    """Say whether an error is of no account to a process that was told to stop: waiting would have helped.

    >>> passes(NoBrokerError("no broker")), passes(ConnectorError("too small"))
    (True, False)
    """
    return exit_code(error) in (NO_BROKER, NO_TOPIC, AGAIN)
