"""What people get wrong in settings, said in a line: in the file, a flag, a variable, or a file that one names."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import yaml
from pydantic import ValidationError

from stream_osr.errors import InvalidParameter

PREFIX = "STREAM_OSR_"

_OTHERS = re.compile(PREFIX + r"(DATA|TOKENS|SERVICE_(HOST|PORT).*|PORT(_\d+_.*)?)")
"""Variables with the prefix that are no settings: the benchmarks' own, the tokens of
`stream-osr watch`, and what Kubernetes sets for a service that is
called stream-osr."""

_HELP = "`stream-osr serve --help` lists them"


def explained(error: ValidationError, known: Collection[str]) -> InvalidParameter:
    """Say what is wrong with the first setting that is: its name, what was expected, and where it may come from."""
    first = error.errors(include_input=False)[0]
    name = ".".join(map(str, first["loc"]))
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        message = f"it is missing; give it in the file, as {_flag(name)}, or as {_variable(name)}"
    elif first["type"] == "extra_forbidden":
        message = f"there is no such setting; {_meant(name, known, str)}"
    return InvalidParameter(f"setting {name}: {message}" if name else message)


def check_flags(flags: Sequence[str], known: Collection[str]) -> None:
    """Refuse flags that name no setting.

    Raises
    ------
    InvalidParameter
        Naming the first.
    """
    flags_known = {_flag(name) for name in known} | {"--help"}
    for flag in flags:
        name = flag.partition("=")[0]
        if name.startswith("--") and name not in flags_known:
            raise InvalidParameter(f"there is no flag {name}; {_meant(name.removeprefix('--'), known, _flag)}")


def check_file(config: Path) -> None:
    """Refuse a file that is no mapping: an empty list, say, would be taken for one without settings.

    Raises
    ------
    InvalidParameter
        Naming the file.
    """
    try:
        content = yaml.safe_load(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidParameter(f"cannot read {config}: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" at line {where.line + 1}" if where is not None else ""
        raise InvalidParameter(f"{config} is not YAML{line}; it should hold lines like `input: sensors`") from None
    if not isinstance(content, dict):
        raise InvalidParameter(f"{config} holds no settings; it should hold lines like `input: sensors`")


def read_secret(name: str, path: Path) -> str:
    """Read the file that a setting names.

    Raises
    ------
    InvalidParameter
        If it cannot be read.
    """
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise InvalidParameter(f"cannot read {name} {path}: {why}") from None


def unknown_variables(environment: Mapping[str, str], known: Collection[str]) -> Iterator[str]:
    """Give a line for each variable that looks like a setting and is none.

    >>> list(unknown_variables({"STREAM_OSR_GROP": "a", "STREAM_OSR_GROUP": "b", "PATH": "c"}, ["group"]))
    ['the variable STREAM_OSR_GROP is no setting and does nothing; did you mean STREAM_OSR_GROUP?']
    """
    for variable in environment:
        name = variable.removeprefix(PREFIX).lower()
        if variable.startswith(PREFIX) and name not in known and not _OTHERS.fullmatch(variable):
            yield f"the variable {variable} is no setting and does nothing; {_meant(name, known, _variable)}"


def _meant(name: str, known: Collection[str], write: Callable[[str], str]) -> str:
    close = get_close_matches(name.replace("-", "_").lower(), known, n=1)
    return f"did you mean {write(close[0])}?" if close else _HELP


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _variable(name: str) -> str:
    return PREFIX + name.upper()
