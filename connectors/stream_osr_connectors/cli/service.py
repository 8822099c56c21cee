"""Commands of the Kafka service: ``stream-osr serve | topics | reconcile``.

Their options include the settings of the service. They import the service when they run, because its extra may be
missing and the import is slow.
"""

from __future__ import annotations

from functools import cache
from inspect import Parameter, Signature
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

from stream_osr.errors import MissingExtra
from stream_osr_connectors.cli.grouped_command import GroupedCommand
from stream_osr_connectors.terminal import Terminal

if TYPE_CHECKING:
    from stream_osr_connectors.kafka.settings import ServiceSettings

commands = typer.Typer()

ConfigOption = Annotated[Path | None, typer.Option("--config", help="Settings of the service (YAML).")]

_MARK = "setting_"
"""Beginning of the parameters of settings. A command may have an argument with the name of a setting."""


class ServiceCommand(GroupedCommand):
    """A command that takes the settings of the service as options. Only the help of ``serve`` lists them."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the command, and then the settings."""
        own = super().get_params(ctx)
        taken = {option for each in own for option in each.opts}  # --by of a command is its author
        try:
            return [*own, *(each for each in setting_options() if taken.isdisjoint(each.opts))]
        except MissingExtra:
            if "checkpoint" not in (each.name for each in own):
                raise
            return own  # the command may be for a run over files, which needs no extra

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. The given settings go to ``ctx.obj``."""
        rest = super().parse_args(ctx, args)
        values = {name: ctx.params.pop(name) for name in [*ctx.params] if name.startswith(_MARK)}
        ctx.obj = {name.removeprefix(_MARK): value for name, value in values.items() if value is not None}
        return rest

    def lists(self, parameter: Any) -> bool:
        """Return whether the help lists a parameter."""
        return self.name == "serve" or not parameter.name.startswith(_MARK)


@cache
def setting_options() -> list[Any]:
    """Return an option for each setting of the service, from the table of settings."""
    from stream_osr_connectors.kafka.settings import SUBJECTS, ServiceSettings
    from stream_osr_connectors.kafka.settings_errors import flag

    subject, parameters = "", []
    for name, field in ServiceSettings.model_fields.items():
        subject = SUBJECTS.get(name, subject)
        kind, metavar = _kind(field.annotation)
        text = f"{field.description}{_default(field)}"
        given = typer.Option(flag(name), help=text, rich_help_panel=subject, metavar=metavar)
        annotation = Annotated[kind | None, given]  # type: ignore[valid-type]
        parameters.append(Parameter(_MARK + name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation))

    def settings(**given: object) -> None:
        """Take the settings."""

    settings.__annotations__ = {each.name: each.annotation for each in parameters}
    settings.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False)
    app.command()(settings)
    return list(typer.main.get_command(app).params)


def _kind(hint: Any) -> tuple[Any, str | None]:
    """Return the type of an option for a type of settings, and its name in the help if it differs."""
    while get_origin(hint) in (Union, UnionType, Annotated):
        hint = get_args(hint)[0]
    if hint is bool:
        return str, "<true|false>"
    simple = hint in (int, float, Path) or get_origin(hint) is Literal
    return hint if simple else str, None


def _default(field: Any) -> str:
    """Return the end of a help text, as typer writes it: the default of a setting, unless it is described."""
    if field.is_required():
        return "  [required]"
    default = "the host's name" if field.default_factory is not None else field.default
    if default in (None, ""):
        return ""
    if isinstance(default, bool):
        default = str(default).lower()
    return f"  [default: {default:g}]" if isinstance(default, float) else f"  [default: {default}]"


def settings_of(context: typer.Context, **fixed: Any) -> ServiceSettings:
    """Read the settings of a command: its options, the environment and the file."""
    from stream_osr_connectors.kafka.settings import load_settings

    config = context.params["config"]
    return load_settings(None if config is None else Path(config), **{**context.obj, **fixed})


@commands.command(cls=ServiceCommand)
def serve(context: typer.Context, config: ConfigOption = None) -> None:
    """Run the Kafka service (extra: kafka).

    Each setting is an option, an environment variable (STREAM_OSR_BATCH_SIZE for --batch-size), or a line of the file
    (batch_size: 64). Options override variables, and variables override the file.

    With --http this command serves over HTTP: see `stream-osr serve --http --help`.

    Example: stream-osr serve --config service.yaml --instance worker-1
    """
    settings = settings_of(context)  # a wrong setting is reported before the slow import
    from stream_osr_connectors.kafka.ops.command import serve as serve_kafka

    serve_kafka(settings)


@commands.command(cls=ServiceCommand)
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

    All settings of the service are options, too. `stream-osr serve --help` lists them.

    Example: stream-osr topics --config service.yaml --create --partitions 8
    """
    from stream_osr_connectors.kafka.ops.command import topics as look

    asked = {"partitions": partitions, "replicas": replicas}
    if max_message_bytes is not None:
        asked["max_message_bytes"] = max_message_bytes
    lines = look(settings_of(context, model=Path()), asked if create else None)
    widths = [max(len(line[column]) for line in lines) for column in range(2)]
    for line in lines:
        Terminal().say(f"{line.role:<{widths[0]}}  {line.name:<{widths[1]}}  {line.found}")
        for problem in line.problems:
            Terminal().say(f"{'':<{widths[0]}}  {problem}")
    if any(line.problems for line in lines):
        raise typer.Exit(1)


@commands.command(cls=ServiceCommand)
def reconcile(context: typer.Context, config: ConfigOption = None) -> None:
    """Join subclasses across partitions (extra: kafka).

    Emerging subclasses of all partitions of a service that are the same get one global id.

    All settings of the service are options, too. `stream-osr serve --help` lists them.

    Example: stream-osr reconcile --config service.yaml
    """
    settings = settings_of(context)
    from stream_osr_connectors.kafka.ops.command import reconcile as join

    join(settings)
