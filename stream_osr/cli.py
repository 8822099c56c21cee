"""The command line: ``stream-osr demo | fit | run | report | inspect | warmup``, and the commands of the service."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

import stream_osr
from stream_osr import OpenSetRecognizer
from stream_osr import demo as demonstration
from stream_osr.config import Parameters
from stream_osr.errors import ConnectorError, InvalidInstance, InvalidLabel, StreamOSRError
from stream_osr.limits import MOST_DIGITS
from stream_osr.report.command import report as report_command
from stream_osr.service_commands import commands as service_commands
from stream_osr.terminal import Terminal, guard
from stream_osr.warmup import warm_up
from stream_osr_connectors import BadRecord, Sink, open_sink, open_source
from stream_osr_connectors.locking import sole_writer
from stream_osr_connectors.loop import Checkpoint, Sinks, go_on, load_checkpoint, load_model
from stream_osr_connectors.loop import run as run_loop
from stream_osr_connectors.values import written


class _Commands(TyperGroup):
    """``run`` with ``--config`` is the service: what is set there belongs to it, and files have no use for it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[:1] == ["run"] and any(arg.partition("=")[0] == "--config" for arg in args):
            args = ["serve", *args[1:]]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Commands,
    help="Open-set recognition for streams: which known class, or unknown, and what the unknown is made of.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

COMPLAINTS_SHOWN = 3

_WHOLE = re.compile(rf"-?[0-9]{{1,{MOST_DIGITS}}}")

Model = Annotated[Path, typer.Option("--model", "-m", help="Model made by `stream-osr fit`.")]
FormatOption = Annotated[
    str | None, typer.Option("--format", help="csv, tsv or jsonl, when the name of the input does not tell.")
]
KeyOption = Annotated[str | None, typer.Option("--key", help="Column that names the instance.")]
TimeOption = Annotated[str | None, typer.Option("--time", help="Column of the time: seconds or ISO 8601.")]
FeaturesOption = Annotated[
    str | None, typer.Option("--features", help="Comma-separated feature columns; all others if not given.")
]
ErrorsOption = Annotated[
    Path | None, typer.Option("--errors", help="Where unusable records go, with row and reason (.jsonl).")
]


CsvSafeOption = Annotated[
    bool,
    typer.Option(
        "--csv-safe/--csv-raw",
        help="In tables: an apostrophe before text that a spreadsheet would run as a formula, or text as it is.",
    ),
]


def _progress(console: Terminal, total: bool) -> Progress:
    """Make a progress bar, silent unless a person is watching."""
    columns: list[Any] = [SpinnerColumn(), TextColumn("{task.description}")]
    columns += [BarColumn(), MofNCompleteColumn()] if total else [TextColumn("{task.completed} records")]
    return Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
        redirect_stdout=False,  # it would read what others write for its colours
        redirect_stderr=False,
    )


def _complainer(console: Terminal) -> Callable[[int, str], None]:
    """Report the first few unusable records, each in a line."""
    told = Counter[str]()

    def complain(row: int, reason: str) -> None:
        told["all"] += 1
        if told["all"] <= COMPLAINTS_SHOWN:
            console.say(f"row {row} set aside: {reason}")
        elif told["all"] == COMPLAINTS_SHOWN + 1:
            console.say("(further rows are set aside without a line each)")

    return complain


def _feature_list(features: str | None) -> list[str] | None:
    return None if features is None else [name.strip() for name in features.split(",") if name.strip()]


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        Terminal().say(f"stream-osr {stream_osr.__version__}")
        raise typer.Exit


@app.command()
def warmup() -> None:
    """Compile the sampler ahead of time, so that no first instance waits for it: one to three minutes, once.

    It is kept where NUMBA_CACHE_DIR says, else beside the installed package, else in the user's cache directory.

    Example: stream-osr warmup
    """
    console, begin = Terminal(stderr=True), time.perf_counter()
    for covariance in warm_up():
        console.say(f"{covariance} covariances: ready after {time.perf_counter() - begin:.0f} s")


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the three files.")] = Path("demo-output"),
    seed: Annotated[int, typer.Option(help="Of the split and of the recognizer.")] = 2,
) -> None:
    """Show the main job on real data: river's ImageSegments, bundled, 2310 instances of 7 classes.

    Four classes are known; the other three appear in the stream one after the other. Leaves decisions.jsonl,
    events.jsonl and model.osr.

    Example: stream-osr demo --seed 3
    """
    console, out = Terminal(stderr=True), Terminal()
    training, stream = demonstration.split(seed)
    model = demonstration.make_recognizer(seed=seed)
    output.mkdir(parents=True, exist_ok=True)
    paths = demonstration.output_paths(output)
    out.say(f"Known classes: {', '.join(demonstration.KNOWN)}. New ones, in order: {', '.join(demonstration.NEW)}.")
    tally = demonstration.Tally(stream)
    with _progress(console, total=True) as bar:
        task = bar.add_task("training", total=len(training))
        for segment in training:
            model.learn_one(segment.features, segment.label)
            bar.advance(task)
        report = model.freeze()
        bar.remove_task(task)
        out.say(*str(report).split("\n"), "")
        task = bar.add_task("streaming", total=len(stream))
        with open_sink(paths[0]) as decisions, open_sink(paths[1]) as events:
            for seq, segment in enumerate(stream):
                model.learn_one(segment.features, key=seq)
                if seq == len(stream) - 1:
                    model.flush()
                for decision in model.drain():
                    tally.decided(decision)
                    decisions.write(decision.as_dict())
                for event in model.drain_events():
                    tally.happened(event)
                    events.write(event.as_dict())
                bar.advance(task)
    model.save(output / "model.osr")
    demonstration.show(tally, model, out)
    out.say("", f"Every decision is in {paths[0]}, every event in {paths[1]}.")
    out.say(f"Pictures: stream-osr report {output / 'model.osr'} {paths[0]} {paths[1]} (extra: plot)")


@app.command()
def fit(
    file: Annotated[
        str, typer.Argument(help="Labelled instances (.csv, .jsonl, also .gz), or - for standard input.")
    ],
    label: Annotated[str, typer.Option("--label", "-l", help="Column of the label.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes.")],
    key: KeyOption = None,
    time: TimeOption = None,
    features: FeaturesOption = None,
    format: FormatOption = None,
    errors: ErrorsOption = None,
    csv_safe: CsvSafeOption = True,
    unknown: Annotated[str | None, typer.Option(help="Label of unknown instances.")] = None,
    covariance: Annotated[str, typer.Option(help="full, diagonal or tied.")] = "full",
    pca_components: Annotated[int | None, typer.Option(help="Project to so many principal components.")] = None,
    pca_variance: Annotated[float | None, typer.Option(help="... or to this share of the variance.")] = None,
    batch_size: Annotated[int, typer.Option(help="Instances of a micro-batch.")] = 256,
    max_wait: Annotated[float | None, typer.Option(help="Time units after which a batch closes.")] = None,
    on_missing: Annotated[str, typer.Option(help="Missing features: impute, error or skip.")] = "impute",
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
) -> None:
    """Train on labelled instances and save the model.

    Example: stream-osr fit labelled.csv --label species -o model.osr
    """
    console = Terminal(stderr=True)
    _check_distinct(input=file, output=output, errors=errors)
    numbers_as_unknown: Any = int(unknown) if unknown is not None and _WHOLE.fullmatch(unknown) else unknown
    arguments: dict[str, Any] = {
        "unknown": numbers_as_unknown,
        "covariance": covariance,
        "pca_components": pca_components,
        "pca_variance": pca_variance,
        "batch_size": batch_size,
        "max_wait": max_wait,
        "on_missing": on_missing,
        "seed": seed,
    }
    model = OpenSetRecognizer(**arguments)
    complain = _complainer(console)
    counts = Counter[str]()
    names = _feature_list(features)
    with ExitStack() as stack:
        stack.enter_context(sole_writer(output))
        source = stack.enter_context(
            open_source(file, format=_format(format), key=key, time=time, label=label, features=names)
        )
        dead = None if errors is None else stack.enter_context(open_sink(errors, csv_safe=csv_safe, private=True))
        bar = stack.enter_context(_progress(console, total=False))
        task = bar.add_task("reading", total=None)
        for number, record in enumerate(source, start=1):
            bar.advance(task)
            bad = model.counters["bad_rows"]
            if isinstance(record, BadRecord):
                row, reason, raw = record.row, record.reason, record.raw
            elif record.label is None:
                row, raw = _row(record.position, number), written(record.features)
                reason = f"it has no label; give column {label!r} a value"
            else:
                try:
                    model.learn_one(record.features, record.label)
                    counts["learnt"] += 1
                    continue
                except (InvalidInstance, InvalidLabel) as error:
                    row, reason, raw = _row(record.position, number), str(error), written(record.features)
            counts["set aside"] += 1
            model.count_refused(counted=model.counters["bad_rows"] - bad)
            complain(row, reason)
            if dead is not None:
                dead.write({"row": row, "reason": reason, "raw": raw})
        bar.remove_task(task)
        if not counts["learnt"]:
            raise ConnectorError(f"{file} holds no usable labelled instance ({counts['set aside']} set aside)")
        total = Parameters.model_fields["training_sweeps"].default
        task = bar.add_task("training sweeps", total=total)
        report = model.freeze(progress=lambda done: bar.update(task, completed=done))
        model.save(output)
    console.say(*str(report).split("\n"))
    _tell_set_aside(console, counts["set aside"], errors)
    names = [str(name) for name in model.trained.names]
    shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    console.say(f"features: {shown}", f"model saved to {output}")


@app.command()
def run(
    model: Model,
    input: Annotated[str, typer.Option("--input", "-i", help="Instances to decide, or - for standard input.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Where decisions go, or -.")] = "-",
    events: Annotated[Path | None, typer.Option("--events", "-e", help="Where events go.")] = None,
    errors: ErrorsOption = None,
    key: KeyOption = None,
    time: TimeOption = None,
    label: Annotated[
        str | None, typer.Option("--label", help="Column of labels, where there are some: evidence.")
    ] = None,
    features: FeaturesOption = None,
    format: FormatOption = None,
    batch_size: Annotated[int | None, typer.Option(help="Instances of a micro-batch.")] = None,
    max_wait: Annotated[float | None, typer.Option(help="Time units after which a batch closes.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Where the position is saved; OUTPUT.checkpoint if not given.")
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Records between two checkpoints.")] = 10_000,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint, if there is one.")] = False,
    csv_safe: CsvSafeOption = True,
) -> None:
    """Decide a stream of instances in files, in constant memory, and resume where it was interrupted.

    With --config FILE it is the Kafka service instead: see `stream-osr serve --help`.

    Example: stream-osr run --model model.osr --input new.csv --output decisions.jsonl --events events.jsonl
    """
    console = Terminal(stderr=True)
    if checkpoint is None and output != "-" and input != "-":
        checkpoint = Path(f"{output}.checkpoint")
    _check_distinct(model=model, input=input, output=output, events=events, errors=errors, checkpoint=checkpoint)
    started = load_checkpoint(checkpoint) if resume and checkpoint is not None and checkpoint.exists() else None
    recognizer = _streaming_model(model, started, batch_size, max_wait)
    halted = _until_told_to_stop()
    names = _feature_list(features)
    if names is None and all(isinstance(name, str) for name in recognizer.trained.names):
        names = [str(name) for name in recognizer.trained.names]
    with ExitStack() as stack:
        source = stack.enter_context(
            open_source(input, format=_format(format), key=key, time=time, label=label, features=names)
        )
        opened: list[Sink | None] = [
            None if path is None else stack.enter_context(open_sink(path, csv_safe=csv_safe, private=path is errors))
            for path in (output, events, errors)
        ]
        sinks = Sinks(opened[0], *opened[1:])  # type: ignore[arg-type]
        if started is not None and checkpoint is not None:
            with sole_writer(checkpoint):
                go_on(started, source, sinks)
            console.say(f"resuming after {started.totals['read']} records")
        bar = stack.enter_context(_progress(console, total=False))
        task = bar.add_task("deciding", total=None)
        totals = run_loop(
            recognizer,
            source,
            sinks,
            totals=None if started is None else started.totals,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            stop=halted,
            progress=lambda read: bar.update(task, completed=read),
            complain=_complainer(console),
        )
    console.say(f"{totals['read']} read, {totals['decided']} decided, {totals['events']} events")
    if summed := recognizer.counters["events_summed"]:
        console.say(f"{summed} more events were summed up (EventsSummed)")
    if totals["labelled"]:
        console.say(f"{totals['labelled']} with a label: learnt, not decided")
    if missing := recognizer.counters["missing"]:
        console.say(f"{missing} missing values were filled with the feature's training mean")
    console.say(f"signals: {recognizer.signals}")
    _tell_set_aside(console, totals["set_aside"], errors)
    if 0 < totals["read"] == totals["set_aside"]:
        raise ConnectorError(f"no record of {input} could be used; the reasons are above")
    if halted():
        remedy = "the same command with --resume goes on" if checkpoint is not None else "no checkpoint was kept"
        console.say(f"interrupted; {remedy}")
        raise typer.Exit(130)


app.command(name="report")(report_command)
app.add_typer(service_commands)


@app.command()
def inspect(
    model: Annotated[Path, typer.Argument(help="A model, or a checkpoint of `stream-osr run`.")],
) -> None:
    """Print the discovery table of a model: its classes, their subclasses, and what has emerged.

    Example: stream-osr inspect decisions.jsonl.checkpoint
    """
    recognizer, out = load_model(model), Terminal()
    out.say(*str(recognizer.summary()).split("\n"))
    trained = recognizer.trained
    out.say(f"signals: {recognizer.signals}")
    if trained.unguarded:
        out.say(f"no guard: {trained.unguarded}")
    else:
        out.say(f"{recognizer.menu.references} reference instances guard the known classes")
    out.say(f"{len(trained.names)} features, {trained.prior.n_features} whitened dimensions")
    counters = {name: count for name, count in sorted(recognizer.counters.items()) if count}
    if counters:
        out.say("data: " + ", ".join(f"{name} {count}" for name, count in counters.items()))
    out.say(f"fingerprint {trained.fingerprint}")


def _streaming_model(
    path: Path, started: Checkpoint | None, batch_size: int | None, max_wait: float | None
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


def _check_distinct(**paths: str | Path | None) -> None:
    """Refuse to write over something that is read, or to write two things to one file."""
    seen: dict[object, str] = {}
    for name, path in paths.items():
        if path is None or str(path) == "-":
            continue
        for place in _places(path):
            if place in seen:
                raise ConnectorError(f"--{name} and --{seen[place]} are the same file, {path}; give each its own")
        seen |= dict.fromkeys(_places(path), name)


def _places(path: str | Path) -> list[object]:
    """Tell a file by where its name leads and, if it is there, by what it is under any name."""
    try:
        found = Path(path).stat()
    except OSError:
        return [os.path.realpath(path)]
    return [os.path.realpath(path), (found.st_dev, found.st_ino)]


def _until_told_to_stop() -> Callable[[], bool]:
    """Answer False until SIGINT or SIGTERM has come: the loop then ends between two records."""
    told = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal told
        told = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
    return lambda: told


def _format(given: str | None) -> Any:
    return given


def _row(position: Any, number: int) -> int:
    row = (position or {}).get("row", number)
    return row if isinstance(row, int) else number


def _tell_set_aside(console: Terminal, count: int, errors: Path | None) -> None:
    if count:
        where = f"kept in {errors}" if errors is not None else "--errors FILE keeps them"
        console.say(f"{count} set aside; {where}")


def main() -> None:
    """Run the command line; errors are a line, and the exit code tells."""
    guard()
    try:
        app()
    except StreamOSRError as error:
        if isinstance(error.__context__, BrokenPipeError):
            sys.exit(141)  # whoever reads has enough, as `head` does
        Terminal(stderr=True).say(f"error: {error}")
        sys.exit(getattr(error, "exit_code", 1))
    except BrokenPipeError:
        sys.exit(141)


if __name__ == "__main__":
    main()
