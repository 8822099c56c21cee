"""One-line messages about wrong settings, variables and files of settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path

import yaml
from pydantic import ValidationError

from stream_osr.errors import InvalidParameter
from stream_osr.printable_text import brief

PREFIX = "STREAM_OSR_"

_OTHERS = re.compile(PREFIX + r"(DATA|TOKENS|SERVICE_(HOST|PORT).*|PORT(_\d+_.*)?)")
"""Variables with the prefix that are not settings: those of the benchmarks, the tokens of `stream-osr watch`, and
variables that Kubernetes sets for a service with the name stream-osr."""

SECRETS = ("sasl_password", "tls_key_password")
"""Settings whose values are never shown."""

_HELP = "`stream-osr serve --help` lists them"


def explained(error: ValidationError, known: Collection[str]) -> InvalidParameter:
    """Return an error for all missing settings, or for the first wrong one, with the possible sources."""
    errors = error.errors()
    if missing := [".".join(map(str, each["loc"])) for each in errors if each["type"] == "missing"]:
        named = f"setting {missing[0]}: it is" if len(missing) == 1 else f"settings {', '.join(missing)}: they are"
        return InvalidParameter(
            f"{named} missing. Set {'it' if len(missing) == 1 else 'each'} in the file, as an option "
            f"({', '.join(map(flag, missing))}), or as a variable ({', '.join(map(_variable, missing))})"
        )
    first = errors[0]
    name = ".".join(map(str, first["loc"]))
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = f"there is no such setting: {_meant(name, known, str)}"
    elif (expected := _expected(first["type"], first.get("ctx", {}))) is not None:
        shown = "" if first["loc"][0] in SECRETS else f"found {brief(first['input'])}, "
        message = f"{shown}expected {expected}"
    return InvalidParameter(f"setting {name}: {message}" if name else message)


_EXPECTED = {
    "string_type": "text. Put it in quotes",
    "string_too_short": "text that is not empty",
    "tuple_type": "names, separated by commas",
    "int_parsing int_type int_from_float": "a whole number",
    "float_parsing float_type": "a number, without a unit",
    "finite_number": "a finite number",
    "path_type": "a path. Put it in quotes",
    "greater_than": "a number greater than {gt:g}",
    "greater_than_equal": "a number greater than or equal to {ge:g}",
    "less_than_equal": "a number less than or equal to {le:g}",
    "literal_error": "{expected}",
}
"""What is expected, by the types of errors of pydantic."""


def _expected(kind: str, context: Mapping[str, object]) -> str | None:
    return next((text.format(**context) for kinds, text in _EXPECTED.items() if kind in kinds.split()), None)


def check_file(config: Path) -> None:
    """Reject a file that is not a mapping, or has a setting twice.

    An empty list would count as a file without settings, and the last one of two would win.

    Raises
    ------
    InvalidParameter
        Naming the file.
    """
    try:
        text = config.read_text(encoding="utf-8")
        content, node = yaml.safe_load(text), yaml.compose(text)
    except OSError as error:
        raise InvalidParameter(f"cannot read {config}: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" at line {where.line + 1}" if where is not None else ""
        raise InvalidParameter(f"{config} is not YAML{line}: it needs lines like `input: sensors`") from None
    if not isinstance(content, dict):
        raise InvalidParameter(f"{config} has no settings: it needs lines like `input: sensors`")
    lines: dict[str, int] = {}
    for key, _ in () if node is None else node.value:
        line = key.start_mark.line + 1
        if (other := lines.setdefault(str(key.value).lower(), line)) != line:
            raise InvalidParameter(
                f"{config} has the setting {key.value} in line {other} and again in line {line}. Keep one of them"
            )


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
    """Yield a message for each variable that looks like a setting but is not one.

    >>> list(unknown_variables({"STREAM_OSR_GROP": "a", "STREAM_OSR_GROUP": "b", "PATH": "c"}, ["group"]))
    ['the variable STREAM_OSR_GROP is not a setting and has no effect: did you mean STREAM_OSR_GROUP?']
    """
    for variable in environment:
        name = variable.removeprefix(PREFIX).lower()
        if variable.startswith(PREFIX) and name not in known and not _OTHERS.fullmatch(variable):
            yield f"the variable {variable} is not a setting and has no effect: {_meant(name, known, _variable)}"


def _meant(name: str, known: Collection[str], write: Callable[[str], str]) -> str:
    close = get_close_matches(name.replace("-", "_").lower(), known, n=1)
    return f"did you mean {write(close[0])}?" if close else _HELP


def flag(name: str) -> str:
    """Return the option of a setting.

    >>> flag("batch_size")
    '--batch-size'
    """
    return "--" + name.replace("_", "-")


def _variable(name: str) -> str:
    return PREFIX + name.upper()
