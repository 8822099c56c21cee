"""The commands that ask something of a stream: ``stream-osr promote | mute | undo | label``, and ``history``.

With ``--checkpoint`` it is the stream of a run over files, else that of a Kafka service.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_osr.errors import InvalidParameter
from stream_osr.limits import MOST_DIGITS
from stream_osr.showing import counted, shown
from stream_osr_connectors.terminal import Terminal

if TYPE_CHECKING:
    from stream_osr_connectors.files.commands import Entry

commands = typer.Typer()

_SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}
"""What a command does not know is a setting of the service."""

Checkpoint = Annotated[
    Path | None,
    typer.Option("--checkpoint", help="Of `stream-osr run` over files; without it, Kafka."),
]
Config = Annotated[Path | None, typer.Option("--config", help="Settings of the Kafka service (YAML).")]
Subclass = Annotated[
    str,
    typer.Argument(
        help="As events name it: on files ID, or several (11,12); on Kafka TOPIC/PARTITION:ID, or global:ID."
    ),
]
Reason = Annotated[str | None, typer.Option("--reason", help="Why, for the audit log.")]
By = Annotated[str | None, typer.Option("--by", help="Who asks, for the audit log; the login name if not given.")]


@commands.command(context_settings=_SETTINGS)
def label(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="Key of the instance.")],
    label: Annotated[str, typer.Argument(help="Its class.")],
    checkpoint: Checkpoint = None,
    config: Config = None,
    whole_key: Annotated[bool, typer.Option("--int-key", help="The key is a whole number, not text.")] = False,
    reason: Reason = None,
    by: By = None,
) -> None:
    """Say which class an instance was of; that is learnt with the next micro-batch.

    Example: stream-osr label reading-7 leak --checkpoint decisions.jsonl.checkpoint
    """
    if checkpoint is None:
        _kafka("label", context, config, reason, by, key=key, label=label, whole_key=whole_key)
    else:
        given = _whole(key) if whole_key else key
        _files("label", checkpoint, context, config, reason, by, label=label, key=given)


@commands.command(context_settings=_SETTINGS)
def promote(
    context: typer.Context,
    subclass: Subclass,
    label: Annotated[str, typer.Argument(help="The class that it is, or is part of.")],
    checkpoint: Checkpoint = None,
    config: Config = None,
    reason: Reason = None,
    by: By = None,
) -> None:
    """Say what an emerging subclass is: from the next micro-batch on it is a known class.

    Example: stream-osr promote 11 sky --checkpoint decisions.jsonl.checkpoint
    """
    if checkpoint is None:
        _kafka("promote", context, config, reason, by, subclass=subclass, label=label)
    else:
        _files("promote", checkpoint, context, config, reason, by, subclasses=_ids(subclass), label=label)


@commands.command(context_settings=_SETTINGS)
def mute(
    context: typer.Context,
    subclass: Subclass,
    checkpoint: Checkpoint = None,
    config: Config = None,
    reason: Reason = None,
    by: By = None,
) -> None:
    """Say that an emerging subclass is of no interest: nothing more is told of it.

    Example: stream-osr mute 11 --reason "a lamp" --checkpoint decisions.jsonl.checkpoint
    """
    if checkpoint is None:
        _kafka("mute", context, config, reason, by, subclass=subclass)
    else:
        _files("mute", checkpoint, context, config, reason, by, subclasses=_ids(subclass))


@commands.command(context_settings=_SETTINGS)
def undo(
    context: typer.Context,
    stream: Annotated[str | None, typer.Argument(help="On Kafka: TOPIC/PARTITION.")] = None,
    checkpoint: Checkpoint = None,
    config: Config = None,
    reason: Reason = None,
    by: By = None,
) -> None:
    """Take back what was last asked of a stream: a promotion, a mute or a late label.

    Example: stream-osr undo --checkpoint decisions.jsonl.checkpoint
    """
    if checkpoint is not None:
        if stream is not None:
            raise InvalidParameter(f"undo {shown(stream)} with --checkpoint: files are one stream; leave it out")
        _files("undo", checkpoint, context, config, reason, by)
    elif stream is None:
        raise InvalidParameter("undo of what? --checkpoint FILE of a run over files, or TOPIC/PARTITION of a service")
    else:
        _kafka("undo", context, config, reason, by, stream=stream)


@commands.command(context_settings=_SETTINGS)
def history(context: typer.Context, checkpoint: Checkpoint = None, config: Config = None) -> None:
    """Print all that was ever asked of a stream: who, when, what and why; of files also what came of it.

    Example: stream-osr history --checkpoint decisions.jsonl.checkpoint
    """
    out, count = Terminal(), 0
    if checkpoint is not None:
        from stream_osr_connectors.files.commands import history as asked_of

        _check_alone(context, config)
        lines: Iterable[str] = [_line(entry) for entry in asked_of(checkpoint)]
    else:
        from stream_osr_connectors.kafka.ops.command import history as asked_of_service

        lines = asked_of_service(config, context.args)
    for count, line in enumerate(lines, start=1):  # noqa: B007
        out.say(line)
    if not count:
        out.say("nothing was ever asked")


def _line(entry: Entry) -> str:
    from stream_osr_connectors.files.command_log import Asked

    asked = Asked(entry.action, entry.subclasses, entry.label, entry.key)
    by = "" if entry.by is None else f" {entry.by}:"
    reason = "" if entry.reason is None else f" ({entry.reason})"
    came: str = entry.outcome
    if entry.after is not None and entry.outcome == "done":
        came += f" after {counted(entry.after, 'record')}"
    if entry.undone_by is not None:
        came += f", undone by {entry.undone_by}"
    if entry.takes_back is not None:
        came += f", takes back {entry.takes_back}"
    if entry.why is not None:
        came += f": {entry.why}"
    return f"{entry.n}  {entry.at[:19]}Z {by} {asked.said()}{reason}: {came}"


def _files(
    name: Any,
    checkpoint: Path,
    context: typer.Context,
    config: Path | None,
    reason: str | None,
    by: str | None,
    **given: Any,
) -> None:
    from stream_osr_connectors.files.command_log import Asked
    from stream_osr_connectors.files.commands import ask

    _check_alone(context, config)
    Terminal().say(ask(checkpoint, Asked(name, **given, reason=reason, by=_who(by))).said)


def _check_alone(context: typer.Context, config: Path | None) -> None:
    if config is not None or context.args:
        other = "--config" if config is not None else context.args[0]
        raise InvalidParameter(f"{other} is of the Kafka service, --checkpoint of a run over files; leave one out")


def _kafka(
    name: str, context: typer.Context, config: Path | None, reason: str | None, by: str | None, **given: Any
) -> None:
    from stream_osr_connectors.kafka.ops import command

    ask: Callable[..., str] = getattr(command, name)
    Terminal().say(ask(config, context.args, reason=reason, by=_who(by), **given))


def _who(by: str | None) -> str | None:
    if by is not None:
        return by
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return None


def _ids(text: str) -> tuple[int, ...]:
    """Read ids of subclasses, divided by commas."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not (part.isdecimal() and part.isascii() and len(part) <= MOST_DIGITS):
            raise InvalidParameter(f"{shown(text)} is no id of a subclass; give one such as 11, or several: 11,12")
    return tuple(int(part) for part in parts)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidParameter(f"the key {shown(text)} is not a whole number; leave out --int-key") from None
