"""Options that commands share: how they are declared, read into a dataclass, and checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files.open_file import is_folder

T = TypeVar("T")

Format = Annotated[
    str | None, typer.Option("--format", help="csv, tsv, jsonl or parquet, when the name of the input does not tell.")
]
Key = Annotated[str | None, typer.Option("--key", help="Column that names the instance.")]
Time = Annotated[str | None, typer.Option("--time", help="Column of the time: seconds or ISO 8601.")]
Features = Annotated[
    str | None, typer.Option("--features", help="Comma-separated feature columns; all others if not given.")
]
Categorical = Annotated[
    str | None,
    typer.Option(
        "--categorical", help="Comma-separated columns that are categories although they hold numbers; text is one."
    ),
]
DecisionDelay = Annotated[
    int | None,
    typer.Option(
        "--decision-delay", help="Hold each decision back until so many later instances have come; 0 if not given."
    ),
]
MinProbability = Annotated[
    float | None,
    typer.Option(
        "--min-probability", help="Call unknown what no known class is so probable for, 0 to 1; 0 if not given."
    ),
]
HalfLife = Annotated[
    float | None,
    typer.Option("--half-life", help="Instances after which a seat in the stream weighs half; 200 if not given."),
]
Errors = Annotated[
    Path | None, typer.Option("--errors", help="Where unusable records go, with row and reason (.jsonl).")
]
CsvSafe = Annotated[
    bool | None,
    typer.Option(
        "--csv-safe/--csv-raw",
        help="In tables: an apostrophe before text that a spreadsheet would run as a formula, or text as it is.",
    ),
]


def takes(kind: type[T]) -> Callable[[Callable[[T], None]], Callable[..., None]]:
    """Let a command take its options as one dataclass, each field of which is declared as typer has it.

    >>> from dataclasses import dataclass
    >>> @dataclass(kw_only=True)
    ... class Options:
    ...     seed: Annotated[int, typer.Option(help="Of everything random.")] = 0
    >>> @takes(Options)
    ... def command(options): print(options)
    >>> command(seed=3)
    Options(seed=3)
    """

    def wrap(command: Callable[[T], None]) -> Callable[..., None]:
        def read(**given: Any) -> None:
            command(kind(**given))

        hints = get_type_hints(kind, include_extras=True)
        read.__name__, read.__doc__ = command.__name__, command.__doc__
        read.__annotations__ = hints
        read.__signature__ = Signature(  # type: ignore[attr-defined]
            [
                Parameter(
                    field.name,
                    Parameter.KEYWORD_ONLY,
                    default=Parameter.empty if field.default is MISSING else field.default,
                    annotation=hints[field.name],
                )
                for field in fields(kind)  # type: ignore[arg-type]
            ]
        )
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
