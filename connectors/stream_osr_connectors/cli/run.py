"""The command ``stream-osr run`` over files."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, cast

import typer

from stream_osr.errors import ConnectorError, StreamOSRError
from stream_osr.printable_text import counted
from stream_osr_connectors.cli import options, stream_summary
from stream_osr_connectors.cli.garbage import end_imports
from stream_osr_connectors.cli.options import option
from stream_osr_connectors.files import Sink, Source, open_sink, open_source
from stream_osr_connectors.files.locking import sole_writer
from stream_osr_connectors.files.open_file import is_piped
from stream_osr_connectors.terminal import Terminal

if TYPE_CHECKING:
    from stream_osr import Keyed, OpenSetRecognizer
    from stream_osr_connectors.files.checkpoint import Checkpoint
    from stream_osr_connectors.files.file_run import FileRun, Sinks
    from stream_osr_connectors.files.output_columns import Kind

SETTABLE = ("min_probability",)
"""Options that may change when a run resumes. All others apply to the whole run."""
CHANGES = ("batch_size", "max_wait", "decision_delay", "min_probability", "half_life", "chains")
"""Options that are arguments of the recognizer."""


@dataclass(kw_only=True)
class RunOptions(options.SharedOptions):
    """Options of ``stream-osr run``."""

    model: Path = option("Model made by `stream-osr fit`.", "--model", "-m", default=...)
    input: str = option(
        "Instances to decide: a file, a folder of files, or - (standard input).", "--input", "-i", default=...
    )
    output: str = option(
        "Decisions file to write, or - (standard output, as JSON Lines).", "--output", "-o", default="-"
    )
    events: Path | None = option("Events file to write.", "--events", "-e")
    label: str | None = option("Label column. The model learns labelled instances and does not decide them.")
    by: str | None = option("Column of stream keys: one recognizer for each key, for example for each device.")
    categorical: str | None = option("Comma-separated columns that must be categories of the model.")
    batch_size: int | None = option("Micro-batch size, in instances.")
    max_wait: float | None = option("Time units after which a micro-batch closes.")
    chains: int | None = option("Number of the model's chains to run. Fewer are faster.")
    contributions: int | None = option("Show the contributions of N features with each decision.", min=1)
    checkpoint: Path | None = option("Checkpoint file (default: OUTPUT.checkpoint).")
    checkpoint_every: int = option("Records between two checkpoints.", min=1, default=10_000)
    resume: bool = option("Resume from the checkpoint, if it exists.", "--resume", default=False)
    on_model_change: Literal["refuse", "carry"] = option(
        "With --resume and another model: refuse to resume, or carry the subclasses over to it.", default="refuse"
    )
    follow: bool = option(
        "At the end of the input, wait for more, until Ctrl-C or SIGTERM.", "--follow", default=False
    )

    def __post_init__(self) -> None:
        if self.checkpoint is None and self.output != "-" and self.input != "-":
            self.checkpoint = Path(f"{self.output}.checkpoint")

    @property
    def outputs(self) -> tuple[str, Path | None, Path | None]:
        """Paths of decisions, events and records that cannot be used."""
        return self.output, self.events, self.errors

    def started(self, console: Terminal) -> Checkpoint | None:
        """Read the checkpoint to resume from. ``None`` means a new run."""
        from stream_osr_connectors.files.checkpoint import load_checkpoint  # slow to import, and --help does without

        if not self.resume:
            return None
        if self.checkpoint is None:
            raise ConnectorError("--resume needs a checkpoint, and this run has none. Name it with --checkpoint")
        if self.checkpoint.exists():
            return load_checkpoint(self.checkpoint)
        console.say(f"{self.checkpoint} does not exist. The run starts from the beginning")
        return None

    def reading(self, recognizer: OpenSetRecognizer) -> dict[str, Any]:
        """Return the columns of the input, by their role."""
        names = options.feature_list(self.features)
        if names is None and all(isinstance(name, str) for name in recognizer.trained.names):
            names = [str(name) for name in recognizer.trained.names]
        return {"key": self.key, "time": self.time, "label": self.label, "features": names, "by": self.by}


@options.takes(RunOptions)
def run(given: RunOptions) -> None:
    """Decide a stream of instances from files.

    The run needs constant memory, and resumes where it was interrupted. Options that you omit have the values of
    training. With --resume they have the values of the earlier run.

    With --config FILE this command runs the Kafka service: see `stream-osr serve --help`.

    Example: stream-osr run --model model.osr --input new.csv --output decisions.jsonl --events events.jsonl
    """
    console, checkpoint = Terminal(stderr=True), given.checkpoint
    paths = {name: getattr(given, name) for name in ("model", "input", "output", "events", "errors", "checkpoint")}
    options.check_distinct(**paths)
    started = given.started(console)
    recognizer, successor = begin(given) if started is None else started.model, None
    if started is not None and given.on_model_change == "carry" and is_another(given.model, recognizer):
        recognizer = successor = begin(given, recognizer)
    check_categories(recognizer, options.feature_list(given.categorical) or [])
    if started is not None:
        console.say(*go_on(given, started, given.reading(started.model), changes_model=successor is not None))
    halted = _until_signal()
    with ExitStack() as stack:
        files = _assemble(stack, console, given, recognizer, started, successor)
        if given.key is None and started is None:
            known = [given.time, given.label, given.by, *map(str, recognizer.trained.names)]
            stream_summary.suggest_key(console, given.input, given.format, known, "the decisions will have no key")
        files.stop, files.progress = halted, stack.enter_context(stream_summary.Phases(console)).begin("deciding")
        end_imports()
        totals = files.run()
    _tell(console, totals, recognizer, files.keyed)
    written = zip(("decisions", "events", "unusable records"), given.outputs, strict=True)
    named = [f"{name} to {path}" for name, path in written if path is not None and str(path) != "-"]
    console.say(*([f"written: {', '.join(named)}"] if named else []))
    where = f"kept in {given.errors}" if given.errors is not None else "--errors FILE keeps them"
    console.say(*stream_summary.set_aside(totals["set_aside"], files.reasons, where))
    if checkpoint is not None and not halted():
        console.say(f"next, to look at it: stream-osr inspect {quote(str(checkpoint))}")
    if 0 < totals["read"] == totals["set_aside"]:
        raise ConnectorError(f"no record of {given.input} could be used. See the reasons above")
    if halted():
        remedy = (
            "run the same command with --resume to continue" if checkpoint is not None else "there is no checkpoint"
        )
        if is_piped(given.input):
            remedy = "the records so far are decided, and standard input cannot be read again"
        console.say(f"interrupted: {remedy}")
        raise typer.Exit(130)


def _assemble(
    stack: ExitStack,
    console: Terminal,
    given: RunOptions,
    recognizer: OpenSetRecognizer,
    started: Checkpoint | None,
    successor: OpenSetRecognizer | None,
) -> FileRun:
    """Open the input and the outputs, and create the run."""
    from stream_osr_connectors.files.file_run import FileRun, check_outputs
    from stream_osr_connectors.files.streams import keyed_of
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
        check_outputs(started, given.outputs, None if successor is None else "model")
    sinks = _open_sinks(stack, source, given, recognizer.trained.labels)
    first = recognizer if started is None else started.model
    keys = None if given.by is None else partial(keyed_of, first, checkpoint)
    rest: dict[str, Any] = {"checkpoint": checkpoint, "checkpoint_every": given.checkpoint_every, "reading": reading}
    rest["contributions"] = given.contributions
    rest |= {
        "complain": stream_summary.complainer(console),
        "tell": lambda *of: console.say(stream_summary.command_outcome(*of)),
    }
    if started is not None and checkpoint is not None:
        with sole_writer(checkpoint):
            rest["keyed"] = None if keys is None else keys(started.keys)
            files = FileRun.go_on(started, source, sinks, successor, **rest)
        console.say(f"resuming after {counted(started.totals['read'], 'record')}")
        if successor is not None:
            console.say(f"the model {given.model} continues from here: the subclasses keep their ids and names")
        return files
    if checkpoint is not None and checkpoint.exists():
        with sole_writer(checkpoint):  # what others write is not replaced
            console.say(*replaced(given.output, checkpoint))
    return FileRun(recognizer, source, sinks, keyed=None if keys is None else keys(), **rest)


def _open_sinks(stack: ExitStack, source: Source, given: RunOptions, classes: Sequence[object]) -> Sinks:
    """Open the outputs. A typed table gets the type of each column."""
    from stream_osr.decision import Decision
    from stream_osr_connectors.files.file_run import Sinks
    from stream_osr_connectors.files.output_columns import SET_ASIDE, columns_of, columns_of_events

    by: dict[str, Kind] = {} if given.by is None else {"by": "text"}
    more: dict[str, Kind] = {} if given.contributions is None else {"contributions": "json"}
    decided = {**by, **columns_of(Decision), **more}
    if getattr(source, "whole_keys", False):
        decided["key"] = "whole"
    sinks: list[Sink | None] = [
        None
        if path is None
        else stack.enter_context(
            open_sink(
                path,
                csv_safe=given.csv_safe is not False,
                private=path is given.errors,
                columns=columns,
                classes=classes,
            )
        )
        for path, columns in zip(given.outputs, (decided, {**by, **columns_of_events()}, SET_ASIDE), strict=True)
    ]
    return Sinks(sinks[0], *sinks[1:])  # type: ignore[arg-type]


def _tell(console: Terminal, totals: dict[str, int], recognizer: OpenSetRecognizer, keyed: Keyed | None) -> None:
    """Print the totals of a run."""
    console.say(f"{totals['read']} read, {totals['decided']} decided, {counted(totals['events'], 'event')}")
    if summed := recognizer.counters["events_summed"]:
        were = "was" if summed == 1 else "were"
        console.say(f"{counted(summed, 'more event', 'more events')} {were} summed up (EventsSummed)")
    if cuts := totals.get("cuts"):
        console.say(
            f"the input was cut or replaced {counted(cuts, 'time')}, and read again from its beginning each time"
        )
    if totals["labelled"]:
        console.say(f"{totals['labelled']} with a label: learnt, not decided")
    if keyed is not None:
        console.say(*stream_summary.keys(keyed, totals["read"]))
        return
    if missing := recognizer.counters["missing"]:
        console.say(f"{counted(missing, 'missing value')}: what else there was of their instances decided")
    console.say(*stream_summary.account(recognizer))
    console.say(f"signals: {recognizer.signals._replace(expected_recall=None)}")


def _until_signal() -> Callable[[], bool]:
    """Return a function that is true once SIGINT or SIGTERM has arrived. The loop then ends between two records."""
    signals: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: signals.append(number))
    return lambda: bool(signals)


def begin(given: RunOptions, earlier: OpenSetRecognizer | None = None) -> OpenSetRecognizer:
    """Create the recognizer of a new run: the model with the changes of the command line.

    Options that are omitted have the values of training, or those of the recognizer of an earlier run.

    Raises
    ------
    InvalidParameter
        If a value cannot be used.
    PersistenceError
        If the file is no model.
    """
    from stream_osr import OpenSetRecognizer

    loaded, changes = OpenSetRecognizer.load(given.model), options.given(given, *CHANGES)
    trained, chains = loaded.trained, changes.get("chains")
    if chains is None and earlier is not None:
        chains = min(len(trained.draws), len(earlier.trained.draws))
    if chains is not None:
        trained = trained.with_chains(chains)
    return OpenSetRecognizer.from_trained(trained, **{**(earlier or loaded).arguments, **changes})


def is_another(path: Path, earlier: OpenSetRecognizer) -> bool:
    """Return whether a file has not the model of an earlier run, whose number of chains may be smaller."""
    from stream_osr import OpenSetRecognizer

    trained, count = OpenSetRecognizer.load(path).trained, len(earlier.trained.draws)
    trained = trained.with_chains(count) if count < len(trained.draws) else trained
    return trained.fingerprint != earlier.trained.fingerprint


def go_on(
    given: RunOptions, started: Checkpoint, reading: Mapping[str, Any], *, changes_model: bool = False
) -> list[str]:
    """Resume a run with its original settings, except those that may change.

    With another model, only the settings of the input must stay.

    Returns
    -------
    One line for each setting that changes.

    Raises
    ------
    ConnectorError
        If the model is another one, or an option that applies to the whole run differs.
    """
    model, csv_safe, changes = started.model, given.csv_safe, options.given(given, *CHANGES)
    if not changes_model and is_another(given.model, model):
        raise ConnectorError(
            f"{given.model} is not the model of the checkpoint. Give that model, leave out --resume, or give "
            "--on-model-change carry to keep the subclasses"
        )
    begun = {**model.arguments, "chains": len(model.trained.draws)}
    other = {name: value for name, value in changes.items() if value != begun[name] and not changes_model}
    for name, value in other.items():
        if name not in SETTABLE:
            raise ConnectorError(_as_begun(f"{_option(name)} {value:g}", f"{_option(name)} {begun[name]}"))
    begun_with = started.reading or {}
    for name in {**begun_with, **reading} if begun_with else ():
        asked, read = _column_text(name, reading.get(name)), _column_text(name, begun_with.get(name))
        if asked != read:
            raise ConnectorError(_as_begun(asked, read))
    for position in started.sinks if csv_safe is not None else ():
        if position is not None and position.get("safe", csv_safe) != csv_safe:
            names = ("--csv-raw", "--csv-safe")
            raise ConnectorError(_as_begun(names[bool(csv_safe)], names[not csv_safe]))
    changed = [f"{_option(name)} is {value:g} from here on. It was {begun[name]:g}" for name, value in other.items()]
    if "min_probability" in other:
        model.set_min_probability(other["min_probability"])
    return changed


def replaced(output: str, checkpoint: Path) -> list[str]:
    """Return a line about the earlier run that a new run replaces, if there is one."""
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
        return [f"{output} and its checkpoint ({held}) are replaced. Use --resume to continue instead"]
    return [f"the checkpoint {checkpoint} ({held}) is replaced. Use --resume to continue instead"]


def check_categories(model: OpenSetRecognizer, named: list[str]) -> None:
    """Refuse columns that are not categories of the model, because training sets the type of a column.

    Raises
    ------
    ConnectorError
        The message names one such column.
    """
    trained = model.trained
    for name in named:
        if name not in trained.names:
            listed = ", ".join(map(str, trained.names[:20])) + (", ..." if len(trained.names) > 20 else "")
            raise ConnectorError(f"--categorical {name}: this is none of the model's features ({listed})")
        if name not in trained.values:
            raise ConnectorError(
                f"--categorical {name}: this column was a number in training, which sets the type of a column. "
                f"Train with it as a category: stream-osr fit --categorical {name}"
            )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _column_text(name: str, value: Any) -> str:
    """Write an option that names columns, or its absence."""
    names = ",".join(value) if isinstance(value, list | tuple) else value
    return f"no {_option(name)}" if value is None else f"{_option(name)} {names}"


def _as_begun(given: str, begun: str) -> str:
    return (
        f"{given} with --resume: the run was begun with {begun}, and --resume continues with the same. "
        "Omit the option, or omit --resume to start again"
    )
