"""Log format of the service: text or JSON lines. Logs never contain the content of a record."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import orjson

from stream_osr.printable_text import printable
from stream_osr_connectors.terminal import OneLine, traceback_lines

from ..client.errors import quieten
from ..settings import ServiceSettings


class JsonLines(OneLine):
    """One JSON object on each line: ``time``, ``level``, ``logger``, ``instance``, ``message``, optionally ``error``.

    Examples
    --------
    >>> record = logging.makeLogRecord({"levelname": "INFO", "name": "a", "msg": "3 read", "created": 0})
    >>> JsonLines("w").format(record)
    '{"time":"1970-01-01T00:00:00.000Z","level":"info","logger":"a","instance":"w","message":"3 read"}'
    """

    def __init__(self, instance: str) -> None:
        super().__init__("%(message)s", traces=True)
        self._instance = printable(instance)

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as a line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": printable(record.name),
            "instance": self._instance,
            "message": printable(record.getMessage()),
        }
        if record.exc_info:
            line["error"] = "\n".join(traceback_lines(record.exc_info))
        return orjson.dumps(line).decode()


def begin_logging(settings: ServiceSettings) -> None:
    """Log messages and warnings to standard error, with the format and level of the settings."""
    handler, name = logging.StreamHandler(sys.stderr), settings.instance.replace("%", "%%")
    text = OneLine(f"%(asctime)s %(levelname)s {name} %(message)s", traces=True)
    handler.setFormatter(JsonLines(settings.instance) if settings.log_format == "json" else text)
    logging.basicConfig(handlers=[handler], level=settings.log_level.upper(), force=True)
    logging.captureWarnings(capture=True)
    quieten()
