"""What tests use of the inside of ``stream_osr_connectors.cli``."""

from __future__ import annotations

from stream_osr_connectors.cli import demo, demo_result, garbage, is_service, main
from stream_osr_connectors.cli.app import app
from stream_osr_connectors.cli.demo import KNOWN, split
from stream_osr_connectors.cli.demo_files import DemoFiles
from stream_osr_connectors.cli.demo_result import ARROW, BLOCKS
from stream_osr_connectors.cli.stream_summary import Phases
from stream_osr_connectors.cli.warmup import warm_up
