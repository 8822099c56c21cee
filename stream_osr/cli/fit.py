"""The command ``stream-osr fit``."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Collection
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from stream_osr.cli import options, telling
from stream_osr.errors import ConnectorError
from stream_osr.limits import MOST_DIGITS
from stream_osr.terminal import Terminal
from stream_osr_connectors import BadRecord, CsvSource, FolderSource, Record, Source, open_sink, open_source
from stream_osr_connectors.aside import raw_of, row_of
from stream_osr_connectors.columns import SET_ASIDE
from stream_osr_connectors.likely_key import find_key
from stream_osr_connectors.locking import sole_writer
from stream_osr_connectors.opening import is_folder, is_standard, may_be_regular, why

if TYPE_CHECKING:
    pass

_WHOLE = re.compile(rf"-?[0-9]{{1,{MOST_DIGITS}}}")


def fit(
    file: Annotated[
        str,
        typer.Argument(help="Labelled instances (.csv, .jsonl, .parquet), a folder of them, or - (standard input)."),
    ],
    label: Annotated[str, typer.Option("--label", "-l", help="Column of the label.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes.")],
    key: options.Key = None,
    time: options.Time = None,
    features: options.Features = None,
    categorical: options.Categorical = None,
    format: options.Format = None,
    errors: options.Errors = None,
    csv_safe: options.CsvSafe = None,
    unknown: Annotated[str | None, typer.Option(help="Label of unknown instances.")] = None,
    covariance: Annotated[str, typer.Option(help="full, diagonal or tied.")] = "full",
    pca_components: Annotated[int | None, typer.Option(help="Project to so many principal components.")] = None,
    pca_variance: Annotated[float | None, typer.Option(help="... or to this share of the variance.")] = None,
    batch_size: Annotated[int, typer.Option(help="Instances of a micro-batch.")] = 256,
    max_wait: Annotated[float | None, typer.Option(help="Time units after which a batch closes.")] = None,
    decision_delay: options.DecisionDelay = None,
    min_probability: options.MinProbability = None,
    half_life: options.HalfLife = None,
    chains: Annotated[
        int | None, typer.Option("--chains", help="Models that are averaged; time grows with it. 4 if not given.")
    ] = None,
    on_missing: Annotated[str, typer.Option(help="Missing features: impute, error or skip.")] = "impute",
    absent: Annotated[
        str,
        typer.Option(help="Features that a JSON object does not name: missing, zero, or auto (training decides)."),
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    yes: Annotated[
        bool, typer.Option("--yes", help="Train although the labels look like none, or a feature like a key.")
    ] = False,
) -> None:
    """Train on labelled instances and save the model.

    Example: stream-osr fit labelled.csv --label species -o model.osr
    """
    from stream_osr import OpenSetRecognizer  # slow to import, and --help does without
    from stream_osr.config import Parameters
    from stream_osr.labels import doubtful
    from stream_osr_connectors.loop import take

    console = Terminal(stderr=True)
    options.check_distinct(input=file, output=output, errors=errors)
    model = OpenSetRecognizer(
        unknown=int(unknown) if unknown is not None and _WHOLE.fullmatch(unknown) else unknown,
        covariance=cast(Any, covariance),
        pca_components=pca_components,
        pca_variance=pca_variance,
        batch_size=batch_size,
        max_wait=max_wait,
        on_missing=cast(Any, on_missing),
        absent=cast(Any, absent),
        categorical=tuple(named) if (named := options.feature_list(categorical)) else None,
        seed=seed,
        **options.given(
            decision_delay=decision_delay, min_probability=min_probability, half_life=half_life, chains=chains
        ),
    )
    complain, counts = telling.complainer(console), Counter[str]()
    names, labels = options.feature_list(features), Counter[Any]()
    with ExitStack() as stack:
        stack.enter_context(sole_writer(output))
        reading = {"key": key, "time": time, "label": label, "features": names}
        source = _source(stack, file, format, model.categorical or (), keys=yes, **reading)
        if left_out := getattr(source, "left_out", None):
            console.say("left out: " + ", ".join(f"{name!r} ({kind})" for name, kind in left_out.items()))
        dead = None
        if errors is not None:
            opened = open_sink(errors, csv_safe=csv_safe is not False, private=True, columns=SET_ASIDE)
            dead = stack.enter_context(opened)
        bar = stack.enter_context(telling.progress_bar(console, total=False))
        task = bar.add_task("reading", total=None)
        for record in source:
            counts["read"] += 1
            bar.advance(task)
            _refuse_unknown(record, model.unknown)
            labels.update([getattr(record, "label", None)])
            take(model, _for_training(record, counts["read"], label), dead, counts, complain)
        bar.remove_task(task)
        if not counts["labelled"]:
            raise ConnectorError(f"{file} holds no usable labelled instance ({counts['set_aside']} set aside)")
        labels.pop(None, None)
        if not yes and (question := doubtful(len(labels), labels.total())):
            raise ConnectorError(f"--label {label}: {question} Give another column, or --yes to train all the same")
        task = bar.add_task("training sweeps", total=Parameters.model_fields["training_sweeps"].default)
        report = model.freeze(progress=lambda done: bar.update(task, completed=done))
        model.save(output)
    console.say(*str(report).split("\n"))
    telling.set_aside(console, counts["set_aside"], errors)
    used = [str(name) for name in model.trained.names]
    shown = ", ".join(used[:12]) + (f" and {len(used) - 12} more" if len(used) > 12 else "")
    console.say(f"features: {shown}", f"model saved to {output}")


def _source(
    stack: ExitStack, file: str, format: str | None, categorical: Collection[Any], *, keys: bool, **reading: Any
) -> Source:
    """Open the labelled instances; a table is read once to see which columns are categories, and no keys, if not so.

    What can be read only once (standard input, a pipe) goes to a temporary file first.
    """
    chosen = cast(Any, format)
    said = "standard input" if is_standard(file) else file
    if not may_be_regular(file) and not is_folder(file) and (not is_standard(file) or chosen is not None):
        file = _kept(stack, file, chosen)
    source = stack.enter_context(open_source(file, format=chosen, categorical=categorical, **reading))
    if isinstance(source, CsvSource | FolderSource):
        source.find_categories()
    columns = getattr(source, "feature_columns", ())
    if columns and (unknown := sorted(set(categorical) - set(columns))):
        raise ConnectorError(f"--categorical {unknown[0]}: it is none of the features {list(columns)}")
    if not keys and reading["features"] is None:
        _refuse_key(
            file,
            said,
            chosen,
            categorical=categorical,
            key=reading["key"],
            time=reading["time"],
            label=reading["label"],
        )
    return source


def _kept(stack: ExitStack, file: str, format: str | None) -> str:
    """Keep what comes through a pipe, which can be read only once, in a file, for as long as it is needed."""
    name = f"standard-input.{format}" if is_standard(file) else Path(file).name
    path = Path(stack.enter_context(tempfile.TemporaryDirectory()), name)
    try:
        with path.open("wb") as copy, nullcontext() if is_standard(file) else Path(file).open("rb") as pipe:
            shutil.copyfileobj(pipe or sys.stdin.buffer, copy)
    except OSError as error:
        raise ConnectorError(f"cannot read {file}: {why(error)}; check the path") from None
    return str(path)


def _refuse_key(file: str, said: str, format: Any, **known: Any) -> None:
    """Refuse a column that names the instances as a feature: by it, no instance of the stream is like these.

    Raises
    ------
    ConnectorError
        Naming the column.
    """
    found = find_key(file, format, [*known.pop("categorical"), *known.values()])
    if found is not None:
        free = known[found.option.strip("-")] is None
        meant = f"did you mean {found.option} {found.name}? If not, name" if free else "name"
        raise ConnectorError(
            f"column {found.name!r} of {said} looks like no feature ({found.why}), and would spoil the model: "
            f"{meant} the features by --features, or say --yes to train with it all the same"
        )


def _refuse_unknown(record: Record | BadRecord, unknown: Any) -> None:
    """Refuse a class that has the name that was given to unknown instances."""
    if unknown is not None and getattr(record, "label", None) == unknown:
        raise ConnectorError(f"--unknown {unknown} is a class of the table; give unknown instances another name")


def _for_training(record: Record | BadRecord, number: int, label: str) -> Record | BadRecord:
    """Refuse a record without a label; of the others neither key nor time is of use."""
    if isinstance(record, BadRecord):
        return record
    if record.label is None:
        reason = f"it has no label; give column {label!r} a value"
        return BadRecord(record.position, row_of(record, number), raw_of(record), reason)
    return record._replace(key=None, time=None)
