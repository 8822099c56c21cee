"""The command ``stream-osr watch``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stream_osr.errors import InvalidParameter
from stream_osr.support.extras import needing
from stream_osr_connectors.cli import options
from stream_osr_connectors.cli.garbage import end_imports
from stream_osr_connectors.cli.options import argument, option
from stream_osr_connectors.terminal import Terminal

if TYPE_CHECKING:
    from stream_osr_connectors.page.live.access import Tokens
    from stream_osr_connectors.page.live.checkpoint_view import CheckpointView
    from stream_osr_connectors.page.live.feeds import FileFeed
    from stream_osr_connectors.page.live.file_commands import FileActs


@dataclass(kw_only=True)
class StreamOptions:
    """Options of the files of a stream, and of commands to it."""

    events: Path | None = option(
        "Events file (default: events.jsonl beside DECISIONS, if it exists).", "--events", "-e"
    )
    checkpoint: Path | None = option("Checkpoint of the run (default: DECISIONS.checkpoint).")
    input: Path | None = option("Input of the run, to show the features of examples.", "--input", "-i")
    key: str | None = option("Key column of the input.")
    hide: str | None = option("Comma-separated columns of the input to hide.")
    stream: str | None = option("Key of the stream to show, of a run with --by.")
    allow_commands: bool = option("Let people with a token give commands.", "--allow-commands", default=False)
    tokens: Path | None = option("File of tokens, one name:token per line (default: the variable STREAM_OSR_TOKENS).")


@dataclass(kw_only=True)
class WatchOptions(StreamOptions):
    """Options of ``stream-osr watch``."""

    decisions: Path | None = argument("Decisions file of `stream-osr run` (JSON Lines). The run may still write it.")
    config: Path | None = option("Settings of a Kafka service (YAML), in place of DECISIONS.")
    image: str | None = option("URL of the picture of an instance, with {key} in place of the key.")
    speed: float | None = option("Replay speed in decisions a second (default: all at once).", min=0.1)
    last: int = option("Number of latest decisions to read from a Kafka service.", min=1, default=1_000_000)
    host: str = option("Address to listen on.", default="127.0.0.1")
    port: int = option("Port to listen on. 0 chooses a free port.", min=0, max=65535, default=8700)
    name: list[str] | None = option("Further HOST or HOST:PORT under which browsers may reach the page.")


@options.takes(WatchOptions)
def watch(given: WatchOptions) -> None:
    """Serve a live page of a stream (extra: live).

    It shows a running or finished stream. With --allow-commands people can name emerging subclasses on it.

    Example: stream-osr watch decisions.jsonl --input new.csv --key id
    """
    if given.stream is not None and given.decisions is None:
        raise InvalidParameter("--stream chooses a stream of the decisions file. Leave it out for a Kafka service")
    if (given.decisions is None) == (given.config is None):
        raise InvalidParameter("give either the decisions file of a run or --config of a Kafka service")
    with needing("the page needs {}. Install it: pip install 'stream-osr[live]'"):
        from stream_osr_connectors.page.live import page_host
        from stream_osr_connectors.page.live.access import is_local
        from stream_osr_connectors.page.live.examples import Images
    console = Terminal(stderr=True)
    known = tokens_of(given)
    images = None if given.image is None else Images(given.image)
    said = "" if known is not None else ". It is read-only (--allow-commands allows commands)"
    with page_host.listen(given.host, given.port) as listening:
        parts = _of_service(given) if given.decisions is None else parts_of_files(given, given.decisions, given.speed)
        if not is_local(given.host):
            console.say(
                f"anyone who can reach {given.host} can view the page. See docs/live.md for how to protect it"
            )
        if given.decisions is not None and not given.decisions.exists():
            console.say(f"{given.decisions} does not exist yet: waiting for it")

        def ready(address: str) -> None:
            Terminal().say(f"{address} shows {parts[0].name}{said}. Press Ctrl-C to stop")

        end_imports()
        page_host.serve(listening, *parts, tokens=known, images=images, names=given.name or (), ready=ready)


def tokens_of(given: StreamOptions) -> Tokens | None:
    """Read the tokens of the people who may give commands, or return ``None`` if commands are not allowed.

    Raises
    ------
    InvalidParameter
        If there are no tokens, or a file of tokens without ``--allow-commands``.
    """
    from stream_osr_connectors.page.live.access import read_tokens

    if given.tokens is not None and not given.allow_commands:
        raise InvalidParameter("--tokens lists who may give commands. Add --allow-commands")
    return read_tokens(given.tokens, os.environ) if given.allow_commands else None


def parts_of_files(
    given: StreamOptions, decisions: Path, speed: float | None = None
) -> tuple[FileFeed, CheckpointView, FileActs]:
    """Open the files of a run. Return the feed, the facts of the checkpoint, and the interface for commands.

    Raises
    ------
    ConnectorError
        If a file cannot be followed.
    """
    from stream_osr_connectors.page.live.checkpoint_view import CheckpointView
    from stream_osr_connectors.page.live.feeds import FileFeed
    from stream_osr_connectors.page.live.file_commands import FileActs
    from stream_osr_connectors.page.live.input_rows import InputRows

    if given.stream is not None and given.input is not None:
        raise InvalidParameter("--input cannot be searched by the key of a stream. Leave out --input, or --stream")
    beside = decisions.with_name("events.jsonl")
    events = beside if given.events is None and beside.exists() else given.events
    checkpoint = given.checkpoint or Path(f"{decisions}.checkpoint")
    hidden = () if given.hide is None else tuple(part.strip() for part in given.hide.split(","))
    inputs = None if given.input is None else InputRows(given.input, given.key, hidden)
    feed = FileFeed(decisions, events, inputs, speed, given.stream)
    acts = FileActs(checkpoint, allowed=given.allow_commands, stream=given.stream)
    return feed, CheckpointView(checkpoint, given.stream), acts


def _of_service(given: WatchOptions) -> tuple[Any, Any, Any]:
    with needing("a Kafka service needs {}. Install it: pip install 'stream-osr[kafka]'"):
        from stream_osr_connectors.kafka.settings import load_settings
        from stream_osr_connectors.page.live.service_feed import parts
    if load_settings(given.config, model=Path()).by is not None:
        raise InvalidParameter(
            "the live page shows one stream for each partition, and the setting by makes one for each "
            "key. Read the topics of decisions and events, or leave by out"
        )
    return parts(given.config, given.last, given.allow_commands)
