"""What tests use of the inside of the top of ``stream_osr_connectors``."""

from __future__ import annotations

from stream_osr_connectors.base import BatchCloser, Position, Record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.terminal import OneLine, Terminal
from stream_osr_connectors.values import DecodeError
