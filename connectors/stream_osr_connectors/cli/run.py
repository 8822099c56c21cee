"""The command ``stream-osr run`` over files."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from stream_osr.errors import ConnectorError
from stream_osr.showing import counted
from stream_osr_connectors.cli import account, options, telling
from stream_osr_connectors.files import Sink, Source, open_sink, open_source
from stream_osr_connectors.files.locking import sole_writer
from stream_osr_connectors.files.opening import is_piped
from stream_osr_connectors.terminal import Terminal

if TYPE_CHECKING:
    from stream_osr import OpenSetRecognizer
    from stream_osr_connectors.files.loop import Sinks


def run(
    model: Annotated[Path, typer.Option("--model", "-m", help="Model made by `stream-osr fit`.")],
    input: Annotated[
        str,
        typer.Option("--input", "-i", help="Instances to decide: a file, a folder of files, or - (standard input)."),
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="Where decisions go, or -.")] = "-",
    events: Annotated[Path | None, typer.Option("--events", "-e", help="Where events go.")] = None,
    errors: options.Errors = None,
    key: options.Key = None,
    time: options.Time = None,
    label: Annotated[
        str | None, typer.Option("--label", help="Column of labels, where there are some: evidence.")
    ] = None,
    features: options.Features = None,
    categorical: Annotated[
        str | None,
        typer.Option("--categorical", help="Comma-separated columns that have to be categories of the model."),
    ] = None,
    format: options.Format = None,
    batch_size: Annotated[int | None, typer.Option(help="Instances of a micro-batch.")] = None,
    max_wait: Annotated[float | None, typer.Option(help="Time units after which a batch closes.")] = None,
    decision_delay: options.DecisionDelay = None,
    min_probability: options.MinProbability = None,
    half_life: options.HalfLife = None,
    chains: Annotated[
        int | None, typer.Option("--chains", help="Run so many of the model's chains: fewer are faster.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Where the position is saved; OUTPUT.checkpoint if not given.")
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Records between two checkpoints.")] = 10_000,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint, if there is one.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for more at the end of the input, until Ctrl-C or SIGTERM.")
    ] = False,
    csv_safe: options.CsvSafe = None,
) -> None:
    """Decide a stream of instances in files, in constant memory, and resume where it was interrupted.

    What is not given is as the model was trained; with --resume it is as the run was begun.

    With --config FILE it is the Kafka service instead: see `stream-osr serve --help`.

    Example: stream-osr run --model model.osr --input new.csv --output decisions.jsonl --events events.jsonl
    """
    from stream_osr_connectors.cli import settings  # slow to import, and --help does without
    from stream_osr_connectors.files import loop
    from stream_osr_connectors.files.survey import read_as_text

    console = Terminal(stderr=True)
    if checkpoint is None and output != "-" and input != "-":
        checkpoint = Path(f"{output}.checkpoint")
    options.check_distinct(
        model=model, input=input, output=output, events=events, errors=errors, checkpoint=checkpoint
    )
    if resume and checkpoint is None:
        raise ConnectorError("--resume goes on from a checkpoint, and there is none: name it by --checkpoint")
    started = loop.load_checkpoint(checkpoint) if resume and checkpoint is not None and checkpoint.exists() else None
    if resume and started is None:
        console.say(f"there is no {checkpoint} to go on from: the run begins anew")
    changes = options.given(
        batch_size=batch_size,
        max_wait=max_wait,
        decision_delay=decision_delay,
        min_probability=min_probability,
        half_life=half_life,
        chains=chains,
    )
    recognizer = settings.begin(model, changes) if started is None else started.model
    settings.check_categories(recognizer, options.feature_list(categorical) or ())
    names = options.feature_list(features)
    if names is None and all(isinstance(name, str) for name in recognizer.trained.names):
        names = [str(name) for name in recognizer.trained.names]
    reading: dict[str, Any] = {"key": key, "time": time, "label": label, "features": names}
    if started is not None:
        console.say(*settings.go_on(model, started, changes, reading, csv_safe))
    reasons = Counter(() if started is None else started.reasons)
    halted = _until_told_to_stop()
    with ExitStack() as stack:
        categories = [str(name) for name in read_as_text(recognizer.trained)]
        waits: dict[str, Any] = {"follow": follow or is_piped(input)}
        source = open_source(input, format=cast(Any, format), categorical=categories, **reading, **waits)
        stack.enter_context(source)
        if started is not None:
            loop.check_outputs(started, (output, events, errors))
        sinks = _open_sinks(stack, source, csv_safe is not False, output, events, errors)
        if started is not None and checkpoint is not None:
            with sole_writer(checkpoint):
                loop.go_on(started, source, sinks)
            console.say(f"resuming after {counted(started.totals['read'], 'record')}")
        elif checkpoint is not None and checkpoint.exists():
            with sole_writer(checkpoint):  # what others write is not replaced
                console.say(*settings.replaced(output, checkpoint))
        if key is None and started is None:
            known = [time, label, *map(str, recognizer.trained.names)]
            telling.suggest_key(console, input, format, known, "the decisions will have no key")
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
            reading=reading,
            tell=lambda *told: console.say(telling.came_of(*told)),
            reasons=reasons,
        )
    _tell(console, totals, recognizer)
    where = f"kept in {errors}" if errors is not None else "--errors FILE keeps them"
    console.say(*account.set_aside(totals["set_aside"], reasons, where))
    if checkpoint is not None and not halted():
        console.say(f"next, to look at it: stream-osr inspect {quote(str(checkpoint))}")
    if 0 < totals["read"] == totals["set_aside"]:
        raise ConnectorError(f"no record of {input} could be used; the reasons are above")
    if halted():
        remedy = "the same command with --resume goes on" if checkpoint is not None else "no checkpoint was kept"
        if is_piped(input):
            remedy = "what came is decided; standard input cannot be gone back to"
        console.say(f"interrupted; {remedy}")
        raise typer.Exit(130)


def _open_sinks(
    stack: ExitStack, source: Source, csv_safe: bool, output: str, events: Path | None, errors: Path | None
) -> Sinks:
    """Open the outputs; a table with types is told what stands in its columns."""
    from stream_osr.decision import Decision
    from stream_osr_connectors.files.columns import SET_ASIDE, columns_of, columns_of_events
    from stream_osr_connectors.files.loop import Sinks

    decided = columns_of(Decision)
    if getattr(source, "whole_keys", False):
        decided["key"] = "whole"
    given = [(output, decided), (events, columns_of_events()), (errors, SET_ASIDE)]
    opened: list[Sink | None] = [
        None
        if path is None
        else stack.enter_context(open_sink(path, csv_safe=csv_safe, private=path is errors, columns=columns))
        for path, columns in given
    ]
    return Sinks(opened[0], *opened[1:])  # type: ignore[arg-type]


def _tell(console: Terminal, totals: dict[str, int], recognizer: OpenSetRecognizer) -> None:
    """Say what came of a run."""
    console.say(f"{totals['read']} read, {totals['decided']} decided, {counted(totals['events'], 'event')}")
    if summed := recognizer.counters["events_summed"]:
        were = "was" if summed == 1 else "were"
        console.say(f"{counted(summed, 'more event', 'more events')} {were} summed up (EventsSummed)")
    if cuts := totals.get("cuts"):
        console.say(f"the input was cut or replaced {counted(cuts, 'time')}, and read from its beginning each time")
    if totals["labelled"]:
        console.say(f"{totals['labelled']} with a label: learnt, not decided")
    if missing := recognizer.counters["missing"]:
        console.say(f"{counted(missing, 'missing value')}: what else there was of their instances decided")
    console.say(*account.account(recognizer))
    console.say(f"signals: {recognizer.signals._replace(expected_recall=None)}")


def _until_told_to_stop() -> Callable[[], bool]:
    """Answer False until SIGINT or SIGTERM has come: the loop then ends between two records."""
    told: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: told.append(number))
    return lambda: bool(told)
