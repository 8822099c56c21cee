"""Output for people. All text of commands and services passes through here, so no outside text controls a terminal.

Lines go through a :class:`Terminal`, and log records through :class:`OneLine`. A message is one line.
:func:`protect_terminal` escapes everything else on a standard stream (usage errors, warnings, other libraries).
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO, cast

from stream_osr.printable_text import escaped_lines, printable

if TYPE_CHECKING:
    from stream_osr_connectors.console import SafeConsole

logger = logging.getLogger("stream_osr")

LINES = 50
"""Most lines of a traceback, at its beginning and at its end."""


class Terminal:
    r"""A standard stream for people. It escapes everything in a line that would control the terminal.

    Parameters
    ----------
    stderr
        Write to standard error, for everything that is not a result.

    Examples
    --------
    >>> Terminal().say("kind [b]a[/b]" + chr(27) + "[31m")
    kind [b]a[/b]\x1b[31m
    """

    def __init__(self, *, stderr: bool = False) -> None:
        self._stderr = stderr
        self._console: SafeConsole | None = None

    @property
    def console(self) -> SafeConsole:
        """The console of this stream, for tables and progress. From its first use, lines pass through it."""
        if self._console is None:
            from stream_osr_connectors.console import SafeConsole  # slow to import

            self._console = SafeConsole(stderr=self._stderr)
        return self._console

    @property
    def is_terminal(self) -> bool:
        """Whether the stream is a terminal that can show progress."""
        stream = self._stream
        return stream is not None and stream.isatty() and self.console.is_terminal

    @property
    def _stream(self) -> TextIO | None:
        return sys.stderr if self._stderr else sys.stdout

    def say(self, *lines: str) -> None:
        """Print text, one line for each argument."""
        for line in lines:
            if self._console is not None:
                self._console.print(line)
            elif self._stream is not None:
                print(printable(line), file=self._stream, flush=True)


class OneLine(logging.Formatter):
    r"""A log record in one line. With ``traces``, its indented traceback follows.

    >>> record = logging.makeLogRecord({"msg": "topic %s", "args": ("a" + chr(10) + "b",)})
    >>> OneLine("%(message)s", traces=False).format(record)
    'topic a\\nb'
    """

    def __init__(self, form: str, *, traces: bool) -> None:
        super().__init__(form)
        self._traces = traces

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # as logging has it
        """Format the message."""
        return printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """Format the line, with the traceback if wanted."""
        record.message = record.getMessage()
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        lines = [self.formatMessage(record)]
        if self._traces and record.exc_info:
            lines += traceback_lines(record.exc_info)
        return "\n    ".join(lines)


def traceback_lines(error: Any) -> list[str]:
    """Return the first and last lines of a traceback, from the result of ``sys.exc_info()``."""
    lines = [printable(line) for part in traceback.format_exception(*error) for line in part.splitlines()]
    return lines if len(lines) <= 2 * LINES else [*lines[:LINES], "...", *lines[-LINES:]]


def protect_terminal() -> None:
    """Protect the terminal of this process. Text on a standard stream cannot control it, and a defect is one line.

    With ``PYTHONDEVMODE=1`` the traceback of a defect follows.
    """
    sys.stdout, sys.stderr = _guarded(sys.stdout), _guarded(sys.stderr)
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(OneLine("%(message)s", traces=sys.flags.dev_mode))
    sys.excepthook = _tell
    threading.excepthook = lambda hook: _tell(hook.exc_type, hook.exc_value, hook.exc_traceback)
    sys.unraisablehook = lambda hook: _tell(hook.exc_type, hook.exc_value, hook.exc_traceback)


class _Guarded:
    """A standard stream that escapes text. Use its ``buffer`` to write data."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream  # where a console writes, which escapes by itself, and steers
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(escaped_lines(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def _guarded(stream: TextIO) -> TextIO:
    return stream if stream is None or isinstance(stream, _Guarded) else cast(TextIO, _Guarded(stream))


def _tell(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Report an exception that was not caught."""
    if issubclass(kind, KeyboardInterrupt):
        logger.warning("interrupted")
        return
    what = " ".join("".join(traceback.format_exception_only(kind, error)).split("\n")).strip()
    entry = (traceback.extract_tb(trace) or [None])[-1]
    where = "" if entry is None else f" at {entry.filename.rpartition('/')[2]}:{entry.lineno} in {entry.name}"
    logger.critical(
        "a defect: %s%s. Please report it (PYTHONDEVMODE=1 shows the traceback)",
        printable(what, 500),
        where,
        exc_info=None if error is None else (kind, error, trace),
    )
