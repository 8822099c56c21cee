"""The command ``stream-osr mcp``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from stream_osr.support.extras import needing
from stream_osr_connectors.cli import options
from stream_osr_connectors.cli.garbage import end_imports
from stream_osr_connectors.cli.options import argument
from stream_osr_connectors.cli.watch import StreamOptions, parts_of_files, tokens_of


@dataclass(kw_only=True)
class McpOptions(StreamOptions):
    """Options of ``stream-osr mcp``."""

    decisions: Path = argument("Decisions file of `stream-osr run` (JSON Lines). The run may still write it.", ...)


@options.takes(McpOptions)
def mcp(given: McpOptions) -> None:
    """Serve a stream to an MCP client on standard input and output (extra: mcp).

    With --allow-commands, and with a token in STREAM_OSR_TOKEN, the client can name emerging subclasses.

    Example: stream-osr mcp decisions.jsonl --input new.csv --key id
    """
    with needing("the MCP server needs {}. Install it: pip install 'stream-osr[mcp]'"):
        from stream_osr_connectors.mcp import VARIABLE, serve
    known = tokens_of(given)
    by = None if known is None else known.who(f"Bearer {os.environ.get(VARIABLE, '')}")
    parts = parts_of_files(given, given.decisions)
    end_imports()
    serve(*parts, by)
