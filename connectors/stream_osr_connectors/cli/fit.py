"""The command ``stream-osr fit``."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from stream_osr.errors import ConnectorError
from stream_osr.support.limits import MOST_DIGITS
from stream_osr_connectors.cli import options, stream_summary
from stream_osr_connectors.cli.options import argument, option
from stream_osr_connectors.files import BadRecord, Record, Source, open_sink, open_source
from stream_osr_connectors.files.columns import ColumnReader, Columns, converted
from stream_osr_connectors.files.key_check import find_key
from stream_osr_connectors.files.locking import sole_writer
from stream_osr_connectors.files.open_file import is_folder, is_standard, may_be_regular, why
from stream_osr_connectors.files.output_columns import SET_ASIDE
from stream_osr_connectors.files.rejected_record import raw_of, row_of
from stream_osr_connectors.terminal import Terminal
from stream_osr_connectors.values import DecodeError, LabelType, category

if TYPE_CHECKING:
    from stream_osr import OpenSetRecognizer
    from stream_osr.parameters import Parameters
    from stream_osr_connectors.files.account import Account
    from stream_osr_connectors.files.survey import Survey

_WHOLE = re.compile(rf"-?[0-9]{{1,{MOST_DIGITS}}}")

DEFAULT_OUTPUT = Path("model.osr")


@dataclass(kw_only=True)
class FitOptions(options.SharedOptions):
    """Options of ``stream-osr fit``."""

    file: str = argument(
        "Labelled instances (.csv, .jsonl, .parquet), a folder of such files, or - (standard input).", default=...
    )
    label: str = option("Label column.", "--label", "-l", default=...)
    output: Path | None = option("Model file to write (default: model.osr, unless it exists).", "--output", "-o")
    categorical: str | None = option(
        "Comma-separated numeric columns to treat as categories. Text columns are always categories."
    )
    numeric: str | None = option("Comma-separated columns to treat as numbers, whatever their values look like.")
    alarms: str | None = option("Comma-separated columns in which a new value alone means unknown.")
    missing: str | None = option("Comma-separated markers of a missing value, in addition to NA, ?, ...")
    label_type: str = option("Type of the labels: str, int or auto (int if all are whole numbers).", default="auto")
    unknown: str | None = option("Label for unknown instances.")
    group: str | None = option("Column of the person, device or day that a row comes from. It is no feature.")
    pca: str | None = option("Principal components: a number (30) or a share of the variance (0.99).")
    batch_size: int = option("Micro-batch size, in instances.", default=256)
    max_wait: float | None = option("Time units after which a micro-batch closes.")
    chains: int | None = option("Chains to average (default: 4). More chains take more time.")
    on_missing: str = option("Handling of missing values: impute, error or skip.", default="impute")
    absent: str = option(
        "Handling of features that a JSON object omits: missing, zero, or auto (set in training).", default="auto"
    )
    seed: int = option("Random seed.", default=0)
    yes: bool = option("Train even if a column looks unsuitable as label or feature.", "--yes", default=False)

    def recognizer(self, declared: Collection[str] = ()) -> OpenSetRecognizer:
        """Create the recognizer, with the categories that the options name and those that the table declares."""
        from stream_osr import Input, OpenSetRecognizer  # slow to import, and --help does without

        unknown, named = self.unknown, options.feature_list(self.categorical) or []
        return OpenSetRecognizer(
            unknown=int(unknown) if unknown is not None and _WHOLE.fullmatch(unknown) else unknown,
            batch_size=self.batch_size,
            max_wait=self.max_wait,
            pca=options.components(self.pca),
            seed=self.seed,
            categorical=[*named, *(name for name in declared if name not in named)] or None,
            input=Input(
                numeric=options.feature_list(self.numeric) or None,
                alarms=options.feature_list(self.alarms) or None,
                missing=options.feature_list(self.missing) or None,
                on_missing=cast(Any, self.on_missing),
                absent=cast(Any, self.absent),
            ),
            **options.given(self, "decision_delay", "min_probability", "half_life", "chains"),
        )


@options.takes(FitOptions)
def fit(given: FitOptions) -> None:
    """Train on labelled instances and save the model.

    Example: stream-osr fit labelled.csv --label species -o model.osr
    """
    from stream_osr.instances.labels import doubtful  # slow to import, and --help does without
    from stream_osr_connectors.files.account import Account

    console, file, reasons = Terminal(stderr=True), given.file, Counter[str]()
    output = _default_output() if given.output is None else given.output
    options.check_distinct(input=file, output=output, errors=given.errors)
    model = given.recognizer()
    counts, labels = Counter[str](), Counter[Any]()
    with ExitStack() as stack:
        stack.enter_context(sole_writer(output))
        source, found = _source(stack, given, model.value.parameters, minus_one=model.unknown is not None)
        if declared := [*getattr(source, "declared", ())]:
            model = given.recognizer(declared)
        left_out = {**getattr(source, "left_out", {}), **dict.fromkeys(sorted(found.left_out), "list")}
        if left_out:
            console.say("left out: " + ", ".join(f"{name!r} ({kind})" for name, kind in left_out.items()))
        dead = None
        if given.errors is not None:
            opened = open_sink(given.errors, csv_safe=given.csv_safe is not False, private=True, columns=SET_ASIDE)
            dead = stack.enter_context(opened)
        phases = stack.enter_context(stream_summary.Phases(console))
        account = Account(model, counts, dead, stream_summary.complainer(console), reasons)
        learn_all(source, given, found, account, labels, phases.begin("reading"))
        if not counts["labelled"]:
            raise ConnectorError(f"{file} holds no usable labelled instance ({counts['set_aside']} set aside)")
        _refuse_lost_classes(file, found, labels, model)
        if not given.yes and (question := doubtful(len(labels), labels.total())):
            remedy = "Give another column, or --yes to train anyway"
            raise ConnectorError(f"--label {given.label}: {question} {remedy}")
        if model.value.training is not None and given.group is not None:
            model.value.training.group_name = given.group
        report = model.freeze(progress=phases.begin("training", model.value.parameters.training_sweeps))
        model.save(output)
    console.say(*str(report).split("\n"))
    if counts["set_aside"]:
        where = f"kept in {given.errors}" if given.errors is not None else "--errors FILE keeps them"
        console.say(f"{counts['set_aside']} set aside; {where}")
    used = [str(name) for name in model.trained.names]
    shown = ", ".join(used[:12]) + (f" and {len(used) - 12} more" if len(used) > 12 else "")
    console.say(f"features: {shown}", f"model saved to {output}")


def learn_all(
    source: Source,
    given: FitOptions,
    found: Survey,
    account: Account,
    labels: Counter[Any],
    show: Callable[[int], object] = lambda read: None,
) -> None:
    """Learn the records of a source, or set them aside, and count their labels.

    Raises
    ------
    ConnectorError
        If the label of unknown instances is a class of the table.
    """
    from stream_osr_connectors.files.streams import OneStream  # slow to import, and --help does without

    model, counts, stream = account.model, account.totals, OneStream(account)
    for record in (reader := ColumnReader(source, found.known)):
        if isinstance(record, Columns):
            if _learn_columns(model, record, found, given.group, labels):
                reader.accept(record)
                counts.update(read=record.n, labelled=record.n)
                show(counts["read"])
            else:
                reader.refuse(record)
            continue
        counts["read"] += 1
        show(counts["read"])
        group = record.features.get(given.group) if isinstance(record, Record) and given.group else None
        ready = _for_training(record, counts["read"], given, found)
        if isinstance(ready, BadRecord):
            account.refuse(ready, ready.reason)
            continue
        if ready.label == model.unknown:
            raise ConnectorError(
                f"--unknown {model.unknown} is a class of the table. Give unknown instances another name"
            )
        labels[ready.label] += 1
        stream.take(ready, group)


def _learn_columns(
    model: OpenSetRecognizer, columns: Columns, found: Survey, group: str | None, labels: Counter[Any]
) -> bool:
    """Learn a block of records, and count their labels. Return false if they must be learnt one by one."""
    from stream_osr.errors import InvalidInstance  # slow to import, and --help does without
    from stream_osr.instances.times_and_keys import group_of
    from stream_osr.stream.training_blocks import learn_block

    ready = found.block(columns, model.value.parameters.categorical or (), group)
    if ready is None or model.unknown in ready[1] or (group is not None and group not in columns.features):
        return False
    block, its = ready
    try:
        units = columns.features.get(group or "")
        groups = None if units is None else converted([*map(category, units)] if columns.as_text else units, group_of)
    except (InvalidInstance, TypeError):  # a list is no group
        return False
    learnt = learn_block(model.value, block, its, groups)
    if learnt is not None:
        model.value = learnt
        labels.update(its)
    return learnt is not None


def _default_output() -> Path:
    """Return the model file to write without ``--output``.

    Raises
    ------
    ConnectorError
        If the file exists.
    """
    if DEFAULT_OUTPUT.exists():
        raise ConnectorError(
            f"{DEFAULT_OUTPUT} exists. Give --output {DEFAULT_OUTPUT} to replace it, or --output with another name"
        )
    return DEFAULT_OUTPUT


def _source(stack: ExitStack, given: FitOptions, parameters: Parameters, *, minus_one: bool) -> tuple[Source, Survey]:
    """Open the labelled instances. Read them to determine the types of the columns, and refuse a key as a feature.

    An input that can be read only once (standard input, a pipe) goes to a temporary file first.
    """
    from stream_osr_connectors.files.survey import survey

    file, chosen = given.file, cast(Any, given.format)
    categorical, numeric = [[*map(str, names or ())] for names in (parameters.categorical, parameters.numeric)]
    groups = [] if given.group is None else [given.group]
    if given.label_type not in get_args(LabelType):
        raise ConnectorError(f"--label-type {given.label_type}: it is one of {', '.join(get_args(LabelType))}")
    if not may_be_regular(file) and not is_folder(file) and (not is_standard(file) or chosen is not None):
        file = _kept(stack, file, chosen)
    columns: dict[str, Any] = {"key": given.key, "time": given.time, "label": given.label}
    features = options.feature_list(given.features)
    read = None if features is None else [*features, *groups]
    texts = [*categorical, *groups]
    source = stack.enter_context(
        open_source(file, format=chosen, categorical=texts, label_type="str", features=read, **columns)
    )
    found = survey(
        source,
        numeric=numeric,
        categorical=[*texts, *getattr(source, "declared", ())],
        missing=parameters.markers,
        label_type=cast(LabelType, given.label_type),
        minus_one=minus_one,
    )
    there = getattr(source, "feature_columns", None) or list(found.columns)
    for kind, names in (("categorical", categorical), ("numeric", numeric), ("group", groups)):
        if there and (strange := sorted({*names} - {*there})):
            what = "columns" if kind == "group" else "features"
            raise ConnectorError(f"--{kind} {strange[0]}: this is none of the {what} {list(there)}")
    if not given.yes and features is None:
        said = "standard input" if is_standard(given.file) else given.file
        _refuse_key(file, said, chosen, categorical=[*texts, *found.indexes, *numeric], **columns)
    return source, found


def _kept(stack: ExitStack, file: str, format: str | None) -> str:
    """Copy an input that can be read only once, such as a pipe, to a temporary file."""
    name = f"standard-input.{format}" if is_standard(file) else Path(file).name
    path = Path(stack.enter_context(tempfile.TemporaryDirectory()), name)
    try:
        with path.open("wb") as copy, nullcontext() if is_standard(file) else Path(file).open("rb") as pipe:
            shutil.copyfileobj(pipe or sys.stdin.buffer, copy)
    except OSError as error:
        raise ConnectorError(f"cannot read {file}: {why(error)}. Check the path") from None
    return str(path)


def _refuse_lost_classes(file: str, found: Survey, labels: Counter[Any], model: OpenSetRecognizer) -> None:
    """Refuse to train if all rows of a class were set aside.

    Raises
    ------
    ConnectorError
        The message names the class.
    """
    from stream_osr.instances.reading import spelled_label

    learnt = {spelled_label(label) for label in model.value.labels}
    lost = {label: count for label, count in found.labels.items() if label not in learnt}
    if lost:
        label, count = next(iter(lost.items()))
        more = f", and so were all rows of {len(lost) - 1} more classes" if len(lost) > 1 else ""
        raise ConnectorError(
            f"all {count} rows of class {label!r} of {file} were set aside{more}: the model would not know it. "
            "See the reasons above. --errors FILE keeps the rows. Correct the table, or leave the class out"
        )


def _refuse_key(file: str, message: str, format: Any, **known: Any) -> None:
    """Refuse a key as a feature: with it, no instance of the stream would look like the training instances.

    Raises
    ------
    ConnectorError
        The message names the column.
    """
    found = find_key(file, format, [*known.pop("categorical"), *known.values()])
    if found is not None:
        free = known[found.option.strip("-")] is None
        meant = f"did you mean {found.option} {found.name}? If not, name" if free else "name"
        raise ConnectorError(
            f"column {found.name!r} of {message} looks like no feature ({found.why}), and would spoil the model: "
            f"{meant} the features by --features, or say --yes to train with it all the same"
        )


def _for_training(record: Record | BadRecord, number: int, given: FitOptions, found: Survey) -> Record | BadRecord:
    """Refuse a record without a label or with an invalid value. Remove key, time and group, which are no features."""
    if isinstance(record, BadRecord):
        return found.refused(record)
    try:
        record = found.ready(record)
        if record.label is None:
            raise DecodeError(f"it has no label. Give column {given.label!r} a value")
    except DecodeError as error:
        return BadRecord(record.position, row_of(record, number), raw_of(record), str(error))
    features = {name: value for name, value in record.features.items() if name != given.group}
    return record._replace(features=features, key=None, time=None)
