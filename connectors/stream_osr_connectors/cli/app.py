"""The command line: ``stream-osr demo | fit | run | promote | ... | report | inspect``, and the Kafka service."""

from __future__ import annotations

import errno
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import stream_osr
from stream_osr.errors import StreamOSRError
from stream_osr_connectors.cli import commands, demo, fit, inspect, report, run, service, warmup, watch
from stream_osr_connectors.terminal import Terminal, protect_terminal


class _Commands(TyperGroup):
    """``run`` with ``--config`` is the service: what is set there belongs to it, and files have no use for it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[:1] == ["run"] and any(arg.partition("=")[0] == "--config" for arg in args):
            args = ["serve", *args[1:]]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Commands,
    help="Open-set recognition for streams: which known class, or unknown, and what the unknown is made of.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (warmup.warmup, demo.demo, fit.fit, run.run, report.report, watch.watch, inspect.inspect):
    app.command()(command)
app.add_typer(commands.commands)
app.add_typer(service.commands)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        Terminal().say(f"stream-osr {stream_osr.__version__}")
        raise typer.Exit


_OF_PATHS = (errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.ENOTDIR)
"""Errors of a path that was given, whatever looks it up first."""


def main() -> None:
    """Run the command line; errors are a line, and the exit code tells."""
    protect_terminal()
    try:
        app()
    except StreamOSRError as error:
        if isinstance(error.__context__, BrokenPipeError):
            sys.exit(141)  # whoever reads has enough, as `head` does
        Terminal(stderr=True).say(f"error: {error}")
        sys.exit(getattr(error, "exit_code", 1))
    except BrokenPipeError:
        sys.exit(141)
    except OSError as error:
        if error.errno not in _OF_PATHS:
            raise
        Terminal(stderr=True).say(f"error: {error.filename}: {error.strerror}; check the path")
        sys.exit(1)
