"""The command ``stream-osr watch``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stream_osr.errors import InvalidParameter, MissingExtra
from stream_osr_connectors.cli import options
from stream_osr_connectors.cli.options import argument, option
from stream_osr_connectors.terminal import Terminal


@dataclass(kw_only=True)
class WatchOptions:
    """Options of the live page."""

    decisions: Path | None = argument("What `stream-osr run --output` writes, or has written (JSON Lines).")
    config: Path | None = option("Settings of a Kafka service, to follow that.")
    events: Path | None = option("Its events; events.jsonl beside DECISIONS, if it is there.", "--events", "-e")
    checkpoint: Path | None = option("Its checkpoint; DECISIONS.checkpoint if not given.")
    input: Path | None = option("What was decided: examples show its features.", "--input", "-i")
    key: str | None = option("Column of the input that names the instance.")
    hide: str | None = option("Comma-separated columns of the input that are no features.")
    image: str | None = option("Address of the picture of an instance, with {key} where its key goes.")
    speed: float | None = option("Replay so many decisions a second; all at once if not given.", min=0.1)
    last: int = option("Of a Kafka service: how many of the latest decisions are read.", min=1, default=1_000_000)
    host: str = option("Address that the page listens at.", default="127.0.0.1")
    port: int = option("Its port; 0 takes a free one.", min=0, max=65535, default=8700)
    name: list[str] | None = option("HOST or HOST:PORT under which browsers reach it, if another.")
    allow_commands: bool = option("Let people with a token give commands.", "--allow-commands", default=False)
    tokens: Path | None = option("File of tokens, name:token on each line; else STREAM_OSR_TOKENS.")


@options.takes(WatchOptions)
def watch(given: WatchOptions) -> None:
    """Show a running or finished stream on a page that lives, and let people name what has emerged (extra: live).

    Example: stream-osr watch decisions.jsonl --input new.csv --key id
    """
    if (given.decisions is None) == (given.config is None):
        raise InvalidParameter("name the decisions of a run, or --config of a Kafka service: one of the two")
    try:
        from stream_osr_connectors.page.live import page_host
        from stream_osr_connectors.page.live.access import is_local, read_tokens
        from stream_osr_connectors.page.live.examples import Images
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the page needs {error.name}; pip install 'stream-osr[live]' brings it") from error
    console = Terminal(stderr=True)
    known = read_tokens(given.tokens, os.environ) if given.allow_commands else None
    if given.tokens is not None and not given.allow_commands:
        raise InvalidParameter("--tokens says who may act, and nobody may: add --allow-commands")
    images = None if given.image is None else Images(given.image)
    listening = page_host.listen(given.host, given.port)
    try:
        parts = _of_service(given) if given.decisions is None else _of_files(given, given.decisions)
    except BaseException:
        listening.close()
        raise
    if not is_local(given.host):
        console.say(
            f"everybody who reaches {given.host} can look at the page; see docs/live.md on what should stand before "
            "it"
        )
    if given.decisions is not None and not given.decisions.exists():
        console.say(f"{given.decisions} is not there yet: waiting for it")
    said = "" if known is not None else "; to look at only (--allow-commands lets people act)"

    def ready(address: str) -> None:
        Terminal().say(f"{address} shows {parts[0].name}{said}; Ctrl-C ends it")

    page_host.serve(listening, *parts, tokens=known, images=images, names=given.name or (), ready=ready)


def _of_files(given: WatchOptions, decisions: Path) -> tuple[Any, Any, Any]:
    from stream_osr_connectors.page.live.checkpoint_view import CheckpointView
    from stream_osr_connectors.page.live.feeds import FileFeed
    from stream_osr_connectors.page.live.file_commands import FileActs
    from stream_osr_connectors.page.live.input_rows import InputRows

    beside = decisions.with_name("events.jsonl")
    events = beside if given.events is None and beside.exists() else given.events
    checkpoint = given.checkpoint or Path(f"{decisions}.checkpoint")
    hidden = () if given.hide is None else tuple(part.strip() for part in given.hide.split(","))
    inputs = None if given.input is None else InputRows(given.input, given.key, hidden)
    feed, acts = FileFeed(decisions, events, inputs, given.speed), FileActs(checkpoint, allowed=given.allow_commands)
    return feed, CheckpointView(checkpoint), acts


def _of_service(given: WatchOptions) -> tuple[Any, Any, Any]:
    try:
        from stream_osr_connectors.page.live.service_feed import parts
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"a Kafka service needs {error.name}; pip install 'stream-osr[kafka]' brings it"
        ) from error
    return parts(given.config, given.last, given.allow_commands)
