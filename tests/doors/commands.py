"""What tests use of the inside of ``stream_osr_connectors.commands``, and of its transports."""

from __future__ import annotations

from stream_osr_connectors import commands
from stream_osr_connectors.commands import runner
from stream_osr_connectors.commands.command import MOST_COMMAND_BYTES, Command, parse_record
from stream_osr_connectors.commands.file_log import CommandLog
from stream_osr_connectors.files.checkpoint import ask

__all__ = ["MOST_COMMAND_BYTES", "Command", "CommandLog", "ask", "parse_record", "runner"]
