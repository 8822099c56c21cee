"""Options that commands share: how they are declared, read into a dataclass, and checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files.open_file import is_folder

T = TypeVar("T")


def option(help: str, *names: str, default: Any = None, **limits: Any) -> Any:
    """Declare a field of a dataclass as an option; one whose default is ``...`` has to be given."""
    return _declared(default, typer.Option(*names, help=help, **limits))


def argument(help: str, default: Any = None) -> Any:
    """Declare a field of a dataclass as an argument; one whose default is ``...`` has to be given."""
    return _declared(default, typer.Argument(help=help))


def _declared(default: Any, parameter: object) -> Any:
    return field(default=MISSING if default is ... else default, metadata={"parameter": parameter})


@dataclass(kw_only=True)
class SharedOptions:
    """Options of training and of runs."""

    key: str | None = option("Column that names the instance.")
    time: str | None = option("Column of the time: seconds or ISO 8601.")
    features: str | None = option("Comma-separated feature columns; all others if not given.")
    format: str | None = option("csv, tsv, jsonl or parquet, when the name of the input does not tell.")
    errors: Path | None = option("Where unusable records go, with row and reason (.jsonl).")
    decision_delay: int | None = option(
        "Hold each decision back until so many later instances have come; 0 if not given."
    )
    min_probability: float | None = option(
        "Call unknown what no known class is so probable for, 0 to 1; 0 if not given."
    )
    half_life: float | None = option("Instances after which a seat in the stream weighs half; 200 if not given.")
    csv_safe: bool | None = option(
        "In tables: an apostrophe before text that a spreadsheet would run as a formula, or text as it is.",
        "--csv-safe/--csv-raw",
    )


def takes(kind: type[T]) -> Callable[[Callable[[T], None]], Callable[..., None]]:
    """Let a command take its options as one dataclass, whose own fields come before inherited ones in its help.

    >>> @dataclass(kw_only=True)
    ... class Options:
    ...     seed: int = option("Of everything random.", default=0)
    >>> @takes(Options)
    ... def command(options): print(options)
    >>> command(seed=3)
    Options(seed=3)
    """

    def wrap(command: Callable[[T], None]) -> Callable[..., None]:
        def read(**given: Any) -> None:
            command(kind(**given))

        hints = get_type_hints(kind)
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
    """Read the number or the share of ``--pca``.

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
    """Return those of some options that were given."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def check_distinct(**paths: str | Path | None) -> None:
    """Refuse to write over something that is read, or into a folder that is, or to write two things to one file.

    Raises
    ------
    ConnectorError
        Naming the two options.
    """
    seen: dict[object, str] = {}
    for name, path in paths.items():
        if path is None or str(path) == "-":
            continue
        places = list(_places(path))
        for place in places:
            if place in seen:
                raise ConnectorError(f"--{name} and --{seen[place]} are the same file, {path}; give each its own")
        seen |= dict.fromkeys(places, name)
    folder = paths.get("input")
    if folder is not None and is_folder(folder):
        for name, path in paths.items():
            if path is not None and Path(os.path.realpath(path)).parent == Path(os.path.realpath(folder)):
                raise ConnectorError(
                    f"--{name} {path} is in the folder that is read, and would be read as well; put it elsewhere"
                )


def _places(path: str | Path) -> Iterator[object]:
    """Tell a file by where its name leads and, if it is there, by what it is under any name."""
    yield os.path.realpath(path)
    with suppress(OSError):
        found = Path(path).stat()
        yield found.st_dev, found.st_ino
