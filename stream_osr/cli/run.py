"""The command ``stream-osr run`` over files."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from stream_osr import OpenSetRecognizer
from stream_osr.cli import options, telling
from stream_osr.cli.options import check_distinct
from stream_osr.errors import ConnectorError
from stream_osr.terminal import Terminal
from stream_osr_connectors import Sink, loop, open_sink, open_source
from stream_osr_connectors.locking import sole_writer
from stream_osr_connectors.opening import is_piped


def run(
    model: Annotated[Path, typer.Option("--model", "-m", help="Model made by `stream-osr fit`.")],
    input: Annotated[str, typer.Option("--input", "-i", help="Instances to decide, or - for standard input.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Where decisions go, or -.")] = "-",
    events: Annotated[Path | None, typer.Option("--events", "-e", help="Where events go.")] = None,
    errors: options.Errors = None,
    key: options.Key = None,
    time: options.Time = None,
    label: Annotated[
        str | None, typer.Option("--label", help="Column of labels, where there are some: evidence.")
    ] = None,
    features: options.Features = None,
    format: options.Format = None,
    batch_size: Annotated[int | None, typer.Option(help="Instances of a micro-batch.")] = None,
    max_wait: Annotated[float | None, typer.Option(help="Time units after which a batch closes.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Where the position is saved; OUTPUT.checkpoint if not given.")
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Records between two checkpoints.")] = 10_000,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint, if there is one.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for more at the end of the input, until Ctrl-C or SIGTERM.")
    ] = False,
    csv_safe: options.CsvSafe = True,
) -> None:
    """Decide a stream of instances in files, in constant memory, and resume where it was interrupted.

    With --config FILE it is the Kafka service instead: see `stream-osr serve --help`.

    Example: stream-osr run --model model.osr --input new.csv --output decisions.jsonl --events events.jsonl
    """
    console = Terminal(stderr=True)
    if checkpoint is None and output != "-" and input != "-":
        checkpoint = Path(f"{output}.checkpoint")
    check_distinct(model=model, input=input, output=output, events=events, errors=errors, checkpoint=checkpoint)
    started = loop.load_checkpoint(checkpoint) if resume and checkpoint is not None and checkpoint.exists() else None
    recognizer = _streaming_model(model, started, batch_size, max_wait)
    halted = _until_told_to_stop()
    names = options.feature_list(features)
    if names is None and all(isinstance(name, str) for name in recognizer.trained.names):
        names = [str(name) for name in recognizer.trained.names]
    with ExitStack() as stack:
        reading: dict[str, Any] = {"key": key, "time": time, "label": label, "features": names}
        reading["follow"] = follow or is_piped(input)
        categorical = [str(name) for name in recognizer.trained.values]
        source = open_source(input, format=cast(Any, format), categorical=categorical, **reading)
        stack.enter_context(source)
        opened: list[Sink | None] = [
            None if path is None else stack.enter_context(open_sink(path, csv_safe=csv_safe, private=path is errors))
            for path in (output, events, errors)
        ]
        sinks = loop.Sinks(opened[0], *opened[1:])  # type: ignore[arg-type]
        if started is not None and checkpoint is not None:
            with sole_writer(checkpoint):
                loop.go_on(started, source, sinks)
            console.say(f"resuming after {started.totals['read']} records")
        bar = stack.enter_context(telling.progress_bar(console, total=False))
        task = bar.add_task("deciding", total=None)
        totals = loop.run(
            recognizer,
            source,
            sinks,
            totals=None if started is None else started.totals,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            stop=halted,
            progress=lambda read: bar.update(task, completed=read),
            complain=telling.complainer(console),
            position=None if started is None else started.source,
            tell=lambda act, outcome: console.say(telling.came_of(act, outcome)),
        )
    console.say(f"{totals['read']} read, {totals['decided']} decided, {totals['events']} events")
    if summed := recognizer.counters["events_summed"]:
        console.say(f"{summed} more events were summed up (EventsSummed)")
    if totals["labelled"]:
        console.say(f"{totals['labelled']} with a label: learnt, not decided")
    if missing := recognizer.counters["missing"]:
        console.say(f"{missing} missing values: what else there was of their instances decided")
    console.say(f"signals: {recognizer.signals}")
    telling.set_aside(console, totals["set_aside"], errors)
    if 0 < totals["read"] == totals["set_aside"]:
        raise ConnectorError(f"no record of {input} could be used; the reasons are above")
    if halted():
        remedy = "the same command with --resume goes on" if checkpoint is not None else "no checkpoint was kept"
        if is_piped(input):
            remedy = "what came is decided; standard input cannot be gone back to"
        console.say(f"interrupted; {remedy}")
        raise typer.Exit(130)


def _streaming_model(
    path: Path, started: loop.Checkpoint | None, batch_size: int | None, max_wait: float | None
) -> OpenSetRecognizer:
    """Load the model with what the command line overrides; a resumed one is as it was."""
    loaded = OpenSetRecognizer.load(path)
    if started is not None:
        if loaded.trained.fingerprint != started.model.trained.fingerprint:
            raise ConnectorError(f"{path} is not the model of the checkpoint; give that one, or leave out --resume")
        return started.model
    changes = {"batch_size": batch_size, "max_wait": max_wait}
    arguments = {**loaded.arguments, **{name: v for name, v in changes.items() if v is not None}}
    return OpenSetRecognizer.from_trained(loaded.trained, **arguments)


def _until_told_to_stop() -> Callable[[], bool]:
    """Answer False until SIGINT or SIGTERM has come: the loop then ends between two records."""
    told: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: told.append(number))
    return lambda: bool(told)
