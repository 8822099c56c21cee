"""How the service ends when it cannot go on: one line that says why and what to do, and an exit code of its own."""

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
"""Another process has this group and instance."""

AGAIN = 75
"""The process is used up; starting it again at once is right."""

NO_RIGHT = 77
"""The user lacks a right."""


class NoBrokerError(ConnectorError):
    """No broker answers as the settings say."""

    exit_code: ClassVar[int] = NO_BROKER


class TakenError(ConnectorError):
    """Another process of this group has our name."""

    exit_code: ClassVar[int] = TAKEN


class StartAgainError(ConnectorError):
    """This process should be replaced by a new one."""

    exit_code: ClassVar[int] = AGAIN


class NoRightError(ConnectorError):
    """The user lacks a right, or is not let in."""

    exit_code: ClassVar[int] = NO_RIGHT


def exit_code(error: BaseException) -> int:
    """Say with which code an error ends the process.

    >>> exit_code(NoBrokerError("no broker")), exit_code(ConnectorError("no topic"))
    (69, 1)
    """
    return int(getattr(error, "exit_code", REFUSED))
