"""The command line in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_osr.errors import StreamOSRError

if TYPE_CHECKING:
    from typer.testing import Result


def run(*arguments: object) -> Result:
    """Run a command."""
    from typer.testing import CliRunner

    from stream_osr_connectors.cli.app import app

    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments: object) -> str:
    """Run a command that has to succeed, and return what it prints."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return str(result.output)


def refused(*arguments: object) -> str:
    """Run a command that has to fail, and return the message of its error."""
    result = run(*arguments)
    assert isinstance(result.exception, StreamOSRError), result.output
    return str(result.exception)
