"""Commands of the Kafka service: ``stream-osr serve | topics | reconcile``.

They import :mod:`stream_osr_connectors.kafka.ops.command` when they run, because its extra may be missing and the
import is slow.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_osr_connectors.terminal import Terminal

commands = typer.Typer()

OF_SERVICE = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Options that a command does not know are settings of the service."""

ConfigOption = Annotated[Path | None, typer.Option("--config", help="Settings of the service (YAML).")]


@commands.command(context_settings=OF_SERVICE, add_help_option=False)
def serve(context: typer.Context, config: ConfigOption = None) -> None:
    """Run the Kafka service (extra: kafka).

    --help lists its settings. Each setting is a flag, an environment variable (STREAM_OSR_BATCH_SIZE for
    --batch-size), or a line of the file.

    Example: stream-osr serve --config service.yaml --instance worker-1
    """
    from stream_osr_connectors.kafka.ops.command import serve as serve_kafka

    serve_kafka(config, context.args)


@commands.command(context_settings=OF_SERVICE)
def topics(
    context: typer.Context,
    config: ConfigOption = None,
    create: Annotated[bool, typer.Option("--create", help="Create missing topics.")] = False,
    partitions: Annotated[int | None, typer.Option(min=1, help="Partitions of a new input topic.")] = None,
    replicas: Annotated[
        int | None,
        typer.Option("--replication-factor", min=1, help="Replicas of new topics (default: as the brokers)."),
    ] = None,
    max_message_bytes: Annotated[
        int | None, typer.Option(min=1, help="Largest record of a new input topic, in bytes.")
    ] = None,
) -> None:
    """Check the topics of a Kafka service. --create creates missing ones.

    The settings of the service come from the same places as for `stream-osr serve`.

    Example: stream-osr topics --config service.yaml --create --partitions 8
    """
    from stream_osr_connectors.kafka.ops.command import topics as look

    asked = {"partitions": partitions, "replicas": replicas}
    if max_message_bytes is not None:
        asked["max_message_bytes"] = max_message_bytes
    lines = look(config, context.args, asked if create else None)
    widths = [max(len(line[column]) for line in lines) for column in range(2)]
    for line in lines:
        Terminal().say(f"{line.role:<{widths[0]}}  {line.name:<{widths[1]}}  {line.found}")
        for problem in line.problems:
            Terminal().say(f"{'':<{widths[0]}}  {problem}")
    if any(line.problems for line in lines):
        raise typer.Exit(1)


@commands.command(context_settings=OF_SERVICE)
def reconcile(context: typer.Context, config: ConfigOption = None) -> None:
    """Join subclasses across partitions (extra: kafka).

    Emerging subclasses of all partitions of a service that are the same get one global id.

    Example: stream-osr reconcile --config service.yaml
    """
    from stream_osr_connectors.kafka.ops.command import reconcile as join

    join(config, context.args)
