"""The commands ``stream-osr demo | fit | run | promote | ... | report | inspect`` and those of the Kafka service."""

from __future__ import annotations

import errno
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import stream_osr
from stream_osr.errors import StreamOSRError
from stream_osr_connectors.cli import (
    commands,
    demo,
    fit,
    inspect,
    mcp,
    report,
    run,
    serve_http,
    service,
    warmup,
    watch,
)
from stream_osr_connectors.cli.grouped_command import GroupedCommand
from stream_osr_connectors.terminal import Terminal, protect_terminal

_SYNONYMS = {
    **dict.fromkeys(("predict", "decide", "classify", "score"), "run"),
    **dict.fromkeys(("train", "learn"), "fit"),
    **dict.fromkeys(("show", "info", "summary"), "inspect"),
    **dict.fromkeys(("dashboard", "live", "monitor"), "watch"),
    **dict.fromkeys(("start", "service"), "serve"),
    **{"name": "promote", "plot": "report", "revert": "undo", "log": "history", "compile": "warmup"},
}
"""Names of commands in other programs. typer itself suggests a command for a mistyped name."""


SERVE_HTTP = "serve --http"
"""Name of the command for ``serve`` with ``--http``."""


class _Commands(TyperGroup):
    """The group of commands. ``run`` with ``--config`` runs the service, because only a service has such settings.

    ``serve`` with ``--http`` is a separate command, because it has other options.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[:1] == ["run"] and any(arg.partition("=")[0] == "--config" for arg in args):
            args = ["serve", *args[1:]]
        elif args[:1] == ["serve"] and "--http" in args:
            args = [SERVE_HTTP, *args[1:]]
        elif args and args[0] in _SYNONYMS:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{_SYNONYMS[args[0]]}'?")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Commands,
    help="Recognize known classes in a data stream, and group unknown instances into new subclasses.",
    no_args_is_help=True,
    context_settings={"max_content_width": 120},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (warmup.warmup, demo.demo, fit.fit, run.run, report.report, watch.watch, mcp.mcp, inspect.inspect):
    app.command(cls=GroupedCommand)(command)
app.add_typer(commands.commands)
app.add_typer(service.commands)
app.command(SERVE_HTTP, cls=GroupedCommand, hidden=True)(serve_http.serve_http)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        Terminal().say(f"stream-osr {stream_osr.__version__}")
        raise typer.Exit


_OF_PATHS = (errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.ENOTDIR)
"""Errors of a path that the user gave."""
_OF_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a full disk. Standard output can lead to one."""


def main() -> None:
    """Run the command line. It prints an error as one line and sets the exit code."""
    protect_terminal()
    try:
        typer.main.get_command(app)()  # a call of the app itself would replace the hook for defects
    except StreamOSRError as error:
        if isinstance(error.__context__, BrokenPipeError):
            sys.exit(141)  # whoever reads has enough, as `head` does
        Terminal(stderr=True).say(f"error: {error}")
        sys.exit(getattr(error, "exit_code", 1))
    except BrokenPipeError:
        sys.exit(141)
    except OSError as error:
        if error.errno not in (*_OF_PATHS, *_OF_SPACE):
            raise
        remedy = "Free some space" if error.errno in _OF_SPACE else "Check the path"
        where = f"{error.filename}: " if error.filename else ""  # standard output has no name
        Terminal(stderr=True).say(f"error: {where}{error.strerror}. {remedy}")
        sys.exit(1)
