"""Options that several commands share: their declaration, their dataclass and their checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.models import OptionInfo

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files.open_file import is_folder

T = TypeVar("T")

_SUBJECTS = {
    "Input and output": "http config model input truth output events errors checkpoint checkpoint_every resume "
    "on_model_change follow format csv_safe title state horizon segment_bytes",
    "Columns and values": "label key time by stream features categorical numeric alarms missing on_missing absent "
    "label_type hide image",
    "Training": "group pca seed yes",
    "Decisions": "unknown batch_size max_wait decision_delay min_probability half_life chains contributions speed "
    "last",
    "Web server": "host port name",
    "Access": "allow_commands tokens",
}
"""Options of each subject in the help."""

_SUBJECT_OF = {name: subject for subject, names in _SUBJECTS.items() for name in names.split()}


def option(help: str, *names: str, default: Any = None, **limits: Any) -> Any:
    """Declare a field of a dataclass as an option. The default ``...`` makes it required."""
    return _declared(default, typer.Option(*names, help=help, **limits))


def argument(help: str, default: Any = None) -> Any:
    """Declare a field of a dataclass as an argument. The default ``...`` makes it required."""
    return _declared(default, typer.Argument(help=help))


def _declared(default: Any, parameter: object) -> Any:
    return field(default=MISSING if default is ... else default, metadata={"parameter": parameter})


@dataclass(kw_only=True)
class SharedOptions:
    """Options of training and of runs."""

    key: str | None = option("Key column: the name of each instance.")
    time: str | None = option("Time column: seconds since 1970 or ISO 8601.")
    features: str | None = option("Comma-separated feature columns (default: all others).")
    format: str | None = option("Format if the file name does not show it: csv, tsv, jsonl or parquet.")
    errors: Path | None = option("File to write for records that cannot be used, with row and reason.")
    decision_delay: int | None = option("Delay each decision by N instances (default: 0).")
    min_probability: float | None = option("Label as unknown below this probability, 0 to 1 (default: 0).")
    half_life: float | None = option("Instances after which the weight of a stream instance halves (default: 200).")
    csv_safe: bool | None = option(
        "Put an apostrophe before table text that a spreadsheet would run as a formula, or leave it as it is.",
        "--csv-safe/--csv-raw",
    )


def takes(kind: type[T]) -> Callable[[Callable[[T], None]], Callable[..., None]]:
    """Make a command take its options as one dataclass. Its own fields come before inherited ones in the help.

    >>> @dataclass(kw_only=True)
    ... class Options:
    ...     seed: int = option("Random seed.", default=0)
    >>> @takes(Options)
    ... def command(options): print(options)
    >>> command(seed=3)
    Options(seed=3)
    """

    def wrap(command: Callable[[T], None]) -> Callable[..., None]:
        def read(**given: Any) -> None:
            command(kind(**given))

        hints = get_type_hints(kind)
        for each in fields(kind):  # type: ignore[arg-type]
            if isinstance(given := each.metadata["parameter"], OptionInfo):
                given.rich_help_panel = _SUBJECT_OF.get(each.name)
        parameters = [
            Parameter(
                each.name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if each.default is MISSING else each.default,
                annotation=Annotated[hints[each.name], each.metadata["parameter"]],
            )
            for each in sorted(fields(kind), key=lambda each: each.name not in kind.__annotations__)  # type: ignore[arg-type]
        ]
        read.__name__, read.__doc__ = command.__name__, command.__doc__
        read.__annotations__ = {each.name: each.annotation for each in parameters}
        read.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return read

    return wrap


def feature_list(features: str | None) -> list[str] | None:
    """Read the names of ``--features``."""
    return None if features is None else [name.strip() for name in features.split(",") if name.strip()]


def components(pca: str | None) -> int | float | None:
    """Read ``--pca``: a number of components or a share of the variance.

    Raises
    ------
    ConnectorError
        If it is neither.

    Examples
    --------
    >>> components("30"), components("0.99")
    (30, 0.99)
    """
    if pca is None:
        return None
    for kind in (int, float):
        with suppress(ValueError):
            return kind(pca)
    raise ConnectorError(f"--pca {pca}: give a number of components (30), or a share of the variance (0.99)")


def given(options: object, *names: str) -> dict[str, Any]:
    """Return the named options that have a value."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def check_distinct(**paths: str | Path | None) -> None:
    """Refuse options that would overwrite an input, write into an input folder, or write two outputs to one file.

    Raises
    ------
    ConnectorError
        The message names the two options.
    """
    seen: dict[object, str] = {}
    for name, path in paths.items():
        if path is None or str(path) == "-":
            continue
        places = list(_places(path))
        for place in places:
            if place in seen:
                raise ConnectorError(
                    f"--{name} and --{seen[place]} are the same file, {path}. Give each its own file"
                )
        seen |= dict.fromkeys(places, name)
    folder = paths.get("input")
    if folder is not None and is_folder(folder):
        for name, path in paths.items():
            if path is not None and Path(os.path.realpath(path)).parent == Path(os.path.realpath(folder)):
                raise ConnectorError(
                    f"--{name} {path} is in the input folder and would be read as well. Put it elsewhere"
                )


def _places(path: str | Path) -> Iterator[object]:
    """Yield the identity of a file: its resolved path and, if it exists, its device and inode."""
    yield os.path.realpath(path)
    with suppress(OSError):
        found = Path(path).stat()
        yield found.st_dev, found.st_ino
