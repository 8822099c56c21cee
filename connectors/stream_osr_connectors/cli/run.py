"""The command ``stream-osr run`` over files."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

import typer

from stream_osr.errors import ConnectorError, StreamOSRError
from stream_osr.printable_text import counted
from stream_osr_connectors.cli import options, stream_summary
from stream_osr_connectors.cli.options import option
from stream_osr_connectors.files import Sink, Source, open_sink, open_source
from stream_osr_connectors.files.locking import sole_writer
from stream_osr_connectors.files.open_file import is_piped
from stream_osr_connectors.terminal import Terminal

if TYPE_CHECKING:
    from stream_osr import OpenSetRecognizer
    from stream_osr_connectors.files.checkpoint import Checkpoint
    from stream_osr_connectors.files.file_run import FileRun, Sinks

SETTABLE = ("min_probability",)
"""What may change while a stream runs; all else is for its whole length."""
CHANGES = ("batch_size", "max_wait", "decision_delay", "min_probability", "half_life", "chains")
"""Options that are arguments of the recognizer."""


@dataclass(kw_only=True)
class RunOptions(options.SharedOptions):
    """Options of a run."""

    model: Path = option("Model made by `stream-osr fit`.", "--model", "-m", default=...)
    input: str = option(
        "Instances to decide: a file, a folder of files, or - (standard input).", "--input", "-i", default=...
    )
    output: str = option("Where decisions go, or -.", "--output", "-o", default="-")
    events: Path | None = option("Where events go.", "--events", "-e")
    label: str | None = option("Column of labels, where there are some: evidence.")
    categorical: str | None = option("Comma-separated columns that have to be categories of the model.")
    batch_size: int | None = option("Instances of a micro-batch.")
    max_wait: float | None = option("Time units after which a batch closes.")
    chains: int | None = option("Run so many of the model's chains: fewer are faster.")
    checkpoint: Path | None = option("Where the position is saved; OUTPUT.checkpoint if not given.")
    checkpoint_every: int = option("Records between two checkpoints.", min=1, default=10_000)
    resume: bool = option("Go on from the checkpoint, if there is one.", "--resume", default=False)
    follow: bool = option(
        "Wait for more at the end of the input, until Ctrl-C or SIGTERM.", "--follow", default=False
    )

    def __post_init__(self) -> None:
        if self.checkpoint is None and self.output != "-" and self.input != "-":
            self.checkpoint = Path(f"{self.output}.checkpoint")

    @property
    def outputs(self) -> tuple[str, Path | None, Path | None]:
        """Where decisions, events and unusable records go."""
        return self.output, self.events, self.errors

    def started(self, console: Terminal) -> Checkpoint | None:
        """Read the checkpoint to go on from; ``None``: the run is a new one."""
        from stream_osr_connectors.files.checkpoint import load_checkpoint  # slow to import, and --help does without

        if not self.resume:
            return None
        if self.checkpoint is None:
            raise ConnectorError("--resume goes on from a checkpoint, and there is none: name it by --checkpoint")
        if self.checkpoint.exists():
            return load_checkpoint(self.checkpoint)
        console.say(f"there is no {self.checkpoint} to go on from: the run begins anew")
        return None

    def reading(self, recognizer: OpenSetRecognizer) -> dict[str, Any]:
        """Name the columns of the input."""
        names = options.feature_list(self.features)
        if names is None and all(isinstance(name, str) for name in recognizer.trained.names):
            names = [str(name) for name in recognizer.trained.names]
        return {"key": self.key, "time": self.time, "label": self.label, "features": names}


@options.takes(RunOptions)
def run(given: RunOptions) -> None:
    """Decide a stream of instances in files, in constant memory, and resume where it was interrupted.

    What is not given is as the model was trained; with --resume it is as the run was begun.

    With --config FILE it is the Kafka service instead: see `stream-osr serve --help`.

    Example: stream-osr run --model model.osr --input new.csv --output decisions.jsonl --events events.jsonl
    """
    console, checkpoint = Terminal(stderr=True), given.checkpoint
    paths = {name: getattr(given, name) for name in ("model", "input", "output", "events", "errors", "checkpoint")}
    options.check_distinct(**paths)
    started = given.started(console)
    recognizer = begin(given) if started is None else started.model
    check_categories(recognizer, options.feature_list(given.categorical) or [])
    if started is not None:
        console.say(*go_on(given, started, given.reading(recognizer)))
    halted = _until_signal()
    with ExitStack() as stack:
        files = _assemble(stack, console, given, recognizer, started)
        if given.key is None and started is None:
            known = [given.time, given.label, *map(str, recognizer.trained.names)]
            stream_summary.suggest_key(console, given.input, given.format, known, "the decisions will have no key")
        bar = stack.enter_context(stream_summary.progress_bar(console, total=False))
        task = bar.add_task("deciding", total=None)
        files.stop, files.progress = halted, lambda read: bar.update(task, completed=read)
        totals = files.run()
    _tell(console, totals, recognizer)
    where = f"kept in {given.errors}" if given.errors is not None else "--errors FILE keeps them"
    console.say(*stream_summary.set_aside(totals["set_aside"], files.reasons, where))
    if checkpoint is not None and not halted():
        console.say(f"next, to look at it: stream-osr inspect {quote(str(checkpoint))}")
    if 0 < totals["read"] == totals["set_aside"]:
        raise ConnectorError(f"no record of {given.input} could be used; the reasons are above")
    if halted():
        remedy = "the same command with --resume goes on" if checkpoint is not None else "no checkpoint was kept"
        if is_piped(given.input):
            remedy = "what came is decided; standard input cannot be gone back to"
        console.say(f"interrupted; {remedy}")
        raise typer.Exit(130)


def _assemble(
    stack: ExitStack, console: Terminal, given: RunOptions, recognizer: OpenSetRecognizer, started: Checkpoint | None
) -> FileRun:
    """Open the input and the outputs, and put the run together."""
    from stream_osr_connectors.files.file_run import FileRun, check_outputs
    from stream_osr_connectors.files.survey import read_as_text

    reading, checkpoint = given.reading(recognizer), given.checkpoint
    source = stack.enter_context(
        open_source(
            given.input,
            format=cast(Any, given.format),
            categorical=[str(name) for name in read_as_text(recognizer.trained)],
            follow=given.follow or is_piped(given.input),
            **reading,
        )
    )
    if started is not None:
        check_outputs(started, given.outputs)
    sinks = _open_sinks(stack, source, given)
    rest: dict[str, Any] = {"checkpoint": checkpoint, "checkpoint_every": given.checkpoint_every, "reading": reading}
    rest |= {
        "complain": stream_summary.complainer(console),
        "tell": lambda *of: console.say(stream_summary.came_of(*of)),
    }
    if started is not None and checkpoint is not None:
        with sole_writer(checkpoint):
            files = FileRun.go_on(started, source, sinks, **rest)
        console.say(f"resuming after {counted(started.totals['read'], 'record')}")
        return files
    if checkpoint is not None and checkpoint.exists():
        with sole_writer(checkpoint):  # what others write is not replaced
            console.say(*replaced(given.output, checkpoint))
    return FileRun(recognizer, source, sinks, **rest)


def _open_sinks(stack: ExitStack, source: Source, given: RunOptions) -> Sinks:
    """Open the outputs; a table with types is told what stands in its columns."""
    from stream_osr.decision import Decision
    from stream_osr_connectors.files.columns import SET_ASIDE, columns_of, columns_of_events
    from stream_osr_connectors.files.file_run import Sinks

    decided = columns_of(Decision)
    if getattr(source, "whole_keys", False):
        decided["key"] = "whole"
    sinks: list[Sink | None] = [
        None
        if path is None
        else stack.enter_context(
            open_sink(path, csv_safe=given.csv_safe is not False, private=path is given.errors, columns=columns)
        )
        for path, columns in zip(given.outputs, (decided, columns_of_events(), SET_ASIDE), strict=True)
    ]
    return Sinks(sinks[0], *sinks[1:])  # type: ignore[arg-type]


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
    console.say(*stream_summary.account(recognizer))
    console.say(f"signals: {recognizer.signals._replace(expected_recall=None)}")


def _until_signal() -> Callable[[], bool]:
    """Answer False until SIGINT or SIGTERM has come: the loop then ends between two records."""
    signals: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: signals.append(number))
    return lambda: bool(signals)


def begin(given: RunOptions) -> OpenSetRecognizer:
    """Make the recognizer of a new run: the model, with what the command line changes.

    Raises
    ------
    InvalidParameter
        If a value cannot be used.
    PersistenceError
        If the file is no model.
    """
    from stream_osr import OpenSetRecognizer

    loaded, changes = OpenSetRecognizer.load(given.model), options.given(given, *CHANGES)
    trained = loaded.trained
    if "chains" in changes:
        trained = trained.with_chains(changes["chains"])
    return OpenSetRecognizer.from_trained(trained, **{**loaded.arguments, **changes})


def go_on(given: RunOptions, started: Checkpoint, reading: Mapping[str, Any]) -> list[str]:
    """Let a run go on as it was begun, but for what may change on the way.

    Returns
    -------
    What is different from now on, a line for each.

    Raises
    ------
    ConnectorError
        If the model is another one, or something is asked that holds for the whole of a run.
    """
    from stream_osr import OpenSetRecognizer

    model, trained = started.model, OpenSetRecognizer.load(given.model).trained
    csv_safe, changes = given.csv_safe, options.given(given, *CHANGES)
    chains = len(model.trained.draws)
    if chains < len(trained.draws):
        trained = trained.with_chains(chains)
    if trained.fingerprint != model.trained.fingerprint:
        raise ConnectorError(
            f"{given.model} is not the model of the checkpoint; give that one, or leave out --resume"
        )
    begun = {**model.arguments, "chains": chains}
    other = {name: value for name, value in changes.items() if value != begun[name]}
    for name, value in other.items():
        if name not in SETTABLE:
            raise ConnectorError(_as_begun(f"{_option(name)} {value:g}", f"{_option(name)} {begun[name]}"))
    for name, was in (started.reading or {}).items():
        asked, read = _column_text(name, reading.get(name)), _column_text(name, was)
        if asked != read:
            raise ConnectorError(_as_begun(asked, read))
    for position in started.sinks if csv_safe is not None else ():
        if position is not None and position.get("safe", csv_safe) != csv_safe:
            names = ("--csv-raw", "--csv-safe")
            raise ConnectorError(_as_begun(names[bool(csv_safe)], names[not csv_safe]))
    changed = [f"{_option(name)} is {value:g} from here on; it was {begun[name]:g}" for name, value in other.items()]
    if "min_probability" in other:
        model.set_min_probability(other["min_probability"])
    return changed


def replaced(output: str, checkpoint: Path) -> list[str]:
    """Say what a run that begins anew takes the place of: one that has a checkpoint, in a line; or nothing."""
    from stream_osr_connectors.files.checkpoint import load_checkpoint

    try:
        before = load_checkpoint(checkpoint)
    except (StreamOSRError, OSError, ValueError):  # whatever it is, nobody has asked to go on from it
        return []
    if not before.totals["read"]:
        return []
    held, stream = counted(before.totals["read"], "record"), before.model.value.stream
    named = 0 if stream is None else len(stream.labels) - len(before.model.trained.labels)
    held += f", {counted(named, 'name')} given" if named else ""
    if str(checkpoint) == f"{output}.checkpoint":
        return [f"{output} and its checkpoint ({held}) are replaced; --resume would have gone on"]
    return [f"the checkpoint {checkpoint} ({held}) is replaced; --resume would have gone on"]


def check_categories(model: OpenSetRecognizer, named: list[str]) -> None:
    """Refuse categories that the model does not take for such: what a column is, training says.

    Raises
    ------
    ConnectorError
        Naming one.
    """
    trained = model.trained
    for name in named:
        if name not in trained.names:
            listed = ", ".join(map(str, trained.names[:20])) + (", ..." if len(trained.names) > 20 else "")
            raise ConnectorError(f"--categorical {name}: it is none of the model's features ({listed})")
        if name not in trained.values:
            raise ConnectorError(
                f"--categorical {name}: the model was trained with it as a number, and what a column is, training "
                f"says; train with it as a category: stream-osr fit --categorical {name}"
            )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _column_text(name: str, value: Any) -> str:
    """Say what names columns, or that nothing does."""
    names = ",".join(value) if isinstance(value, list | tuple) else value
    return f"no {_option(name)}" if value is None else f"{_option(name)} {names}"


def _as_begun(given: str, begun: str) -> str:
    return (
        f"{given} with --resume: the run was begun with {begun}, and that holds for the whole of it; "
        "resume as it was, or begin anew without --resume"
    )
