"""Commands to a stream: ``stream-osr promote | mute | label | accept-frame | reject-frame | undo``, and ``history``.

With ``--checkpoint`` they go to a run over files, otherwise to a Kafka service.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_osr.errors import InvalidParameter
from stream_osr.printable_text import brief
from stream_osr.support.limits import MOST_DIGITS
from stream_osr_connectors.cli.service import ServiceCommand, settings_of
from stream_osr_connectors.terminal import Terminal
from stream_osr_connectors.values import DecodeError, label_of_text

if TYPE_CHECKING:
    from stream_osr_connectors.commands import Command, CommandEntry, CommandReceipt
    from stream_osr_connectors.kafka.settings import ServiceSettings

commands = typer.Typer()

Checkpoint = Annotated[
    Path | None,
    typer.Option("--checkpoint", help="Checkpoint of `stream-osr run` over files. Without it: the Kafka service."),
]
Config = Annotated[Path | None, typer.Option("--config", help="Settings of the Kafka service (YAML).")]
Subclass = Annotated[
    str,
    typer.Argument(
        help="Id of the subclass. Files: ID, or several (11,12). With `run --by`: KEY/ID. Kafka: TOPIC/PARTITION:ID, "
        "or global:ID."
    ),
]
Key = Annotated[str, typer.Argument(help="Key of the instance.")]
OwnLabel = Annotated[str, typer.Argument(help="True class of the instance.")]
Label = Annotated[str, typer.Argument(help="Name of the class. It may be a known class.")]
Whole = Annotated[bool, typer.Option("--int-key", help="The key is a whole number, not text.")]
Stream = Annotated[str | None, typer.Argument(help="Kafka: TOPIC/PARTITION. With a recognizer per key: the key.")]
StreamKey = Annotated[str | None, typer.Option("--stream", help="With a recognizer per key: the key of the stream.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Reason, for the audit log.")]
By = Annotated[str | None, typer.Option("--by", help="Your name, for the audit log (default: the login name).")]


@commands.command(cls=ServiceCommand)
def label(
    context: typer.Context, key: Key, label: OwnLabel, checkpoint: Checkpoint = None, config: Config = None,
    whole_key: Whole = False, stream: StreamKey = None, reason: Reason = None, by: By = None
) -> None:  # fmt: skip
    """Give the true class of an instance. The model learns it with the next micro-batch.

    Example: stream-osr label reading-7 leak --checkpoint decisions.jsonl.checkpoint
    """
    _ask(context)


@commands.command(cls=ServiceCommand)
def promote(
    context: typer.Context, subclass: Subclass, label: Label, checkpoint: Checkpoint = None, config: Config = None,
    reason: Reason = None, by: By = None
) -> None:  # fmt: skip
    """Name an emerging subclass. It is a known class from the next micro-batch on.

    Example: stream-osr promote 11 sky --checkpoint decisions.jsonl.checkpoint
    """
    _ask(context)


@commands.command(cls=ServiceCommand)
def mute(
    context: typer.Context, subclass: Subclass, checkpoint: Checkpoint = None, config: Config = None,
    reason: Reason = None, by: By = None
) -> None:  # fmt: skip
    """Mute a subclass: no further events.

    Its instances stay unknown.

    Example: stream-osr mute 11 --reason "a lamp" --checkpoint decisions.jsonl.checkpoint
    """
    _ask(context)


@commands.command(cls=ServiceCommand)
def accept_frame(
    context: typer.Context, stream: Stream = None, checkpoint: Checkpoint = None, config: Config = None,
    reason: Reason = None, by: By = None
) -> None:  # fmt: skip
    """Accept the present place of the known classes, after a FrameMoved event.

    Example: stream-osr accept-frame --checkpoint decisions.jsonl.checkpoint
    """
    _ask_stream(context)


@commands.command(cls=ServiceCommand)
def reject_frame(
    context: typer.Context, stream: Stream = None, checkpoint: Checkpoint = None, config: Config = None,
    reason: Reason = None, by: By = None
) -> None:  # fmt: skip
    """Treat the present place of the known classes as new, after a FrameMoved event.

    Example: stream-osr reject-frame --checkpoint decisions.jsonl.checkpoint
    """
    _ask_stream(context)


@commands.command(cls=ServiceCommand)
def undo(
    context: typer.Context, stream: Stream = None, checkpoint: Checkpoint = None, config: Config = None,
    reason: Reason = None, by: By = None
) -> None:  # fmt: skip
    """Undo the last change of a stream.

    A change is a promotion, a mute, a late label, or a verdict on a moved frame.

    Example: stream-osr undo --checkpoint decisions.jsonl.checkpoint
    """
    _ask_stream(context)


@commands.command(cls=ServiceCommand)
def history(context: typer.Context, checkpoint: Checkpoint = None, config: Config = None) -> None:
    """Show the change history of a stream.

    Each line shows the time, the person, the command and the reason. For a run over files it also shows the result.

    Example: stream-osr history --checkpoint decisions.jsonl.checkpoint
    """
    Terminal().say(*([entry.line() for entry in _entries(context)] or ["no commands yet"]))


def _entries(context: typer.Context) -> Iterable[CommandEntry]:
    if (checkpoint := _checkpoint(context)) is not None:
        from stream_osr_connectors.commands import history

        return history(checkpoint)
    from stream_osr_connectors.kafka.command_topic import history as history_of_service

    return history_of_service(_settings(context))


def _ask_stream(context: typer.Context) -> None:
    """Send a command to a stream as a whole."""
    if context.params["checkpoint"] is None and context.params["stream"] is None:
        places = "--checkpoint FILE for a run over files, or TOPIC/PARTITION for a service"
        raise InvalidParameter(f"{context.command.name} needs {places}")
    _ask(context)


def _ask(context: typer.Context) -> None:
    """Send the command of a command line to its stream."""
    from stream_osr_connectors.commands import Command  # slow to import, and --help does without

    given: dict[str, Any] = context.params
    action: Any = str(context.command.name).replace("-", "_")
    key = _whole(given["key"]) if given.get("whole_key") else given.get("key")
    by = _login_name() if given["by"] is None else given["by"]
    command = Command(action, label=given.get("label"), key=key, reason=given["reason"], by=by)
    if (checkpoint := _checkpoint(context)) is not None:
        from stream_osr_connectors.files.checkpoint import ask

        stream, ids = _stream_and_ids(given.get("subclass"))
        stream = given.get("stream") if stream is None else stream
        receipt = ask(checkpoint, command._replace(subclasses=ids, stream=stream))
    else:
        receipt = _ask_service(command, given.get("subclass") or given.get("stream"), _settings(context))
    Terminal().say(receipt.message)


def _ask_service(command: Command, name: str | None, settings: ServiceSettings) -> CommandReceipt:
    from stream_osr_connectors.kafka.command_topic import ask, named

    if command.label is not None:
        try:
            command = command._replace(label=label_of_text(str(command.label), settings.label_type))
        except DecodeError as error:
            raise InvalidParameter(f"the label {error}") from None
    return ask(settings, *([command] if name is None else named(settings, name, command)))


def _checkpoint(context: typer.Context) -> Path | None:
    """Return the checkpoint that the command is for, or ``None`` if it is for a service."""
    checkpoint, config = context.params["checkpoint"], context.params["config"]
    if checkpoint is not None and (config is not None or context.obj):
        other = "--config" if config is not None else f"--{next(iter(context.obj)).replace('_', '-')}"
        raise InvalidParameter(f"{other} is for the Kafka service, --checkpoint for a run over files. Leave one out")
    return None if checkpoint is None else Path(checkpoint)


def _settings(context: typer.Context) -> ServiceSettings:
    """Read the settings of the service. They need no model."""
    from stream_osr_connectors.kafka.client.errors import quieten

    quieten()
    return settings_of(context, model=Path())


def _login_name() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return None


def _stream_and_ids(text: str | None) -> tuple[str | None, tuple[int, ...]]:
    """Read the ids of subclasses, separated by commas, after the key of the stream and a slash, if there is one."""
    if text is None:
        return None, ()
    stream, slash, ids = text.rpartition("/")
    parts = [part.strip() for part in ids.split(",")]
    for part in parts:
        if not (part.isdecimal() and part.isascii() and len(part) <= MOST_DIGITS):
            raise InvalidParameter(f"{brief(text)} is no id of a subclass. Give an id such as 11, or several: 11,12")
    return stream if slash else None, tuple(int(part) for part in parts)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidParameter(f"the key {brief(text)} is not a whole number. Leave out --int-key") from None
