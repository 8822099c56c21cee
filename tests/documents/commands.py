"""Commands that a page names: is there such a command, and has it these options?"""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import typer

from stream_osr_connectors.cli.app import app

ROOT = Path(__file__).parents[2]
RUNNERS = ("stream-osr", "make", "python", "pytest")
"""First words of the commands that are looked at."""

_MADE = re.compile(r"^([a-z][a-z-]*):.*?##", re.MULTILINE)
_VARIABLE = re.compile(r"[A-Z_]+=\S*")


def is_command(text: str) -> bool:
    """Tell whether a text of a page is a command line that can be looked at."""
    words = text.split()
    return bool(words) and words[0] in RUNNERS


def problem(text: str) -> str | None:
    """Say what is wrong with a command line, or ``None``."""
    program, *rest = (word for word in shlex.split(text, comments=True) if word != "...")
    if program == "stream-osr":
        return _of_the_command_line(rest)
    if program == "make":
        missing = [word for word in rest if not _VARIABLE.fullmatch(word) and word not in targets()]
        return f"the Makefile has no target {missing[0]}" if missing else None
    if program == "pytest":
        missing = [word for word in rest if "/" in word and not (ROOT / word.partition("::")[0]).exists()]
        return f"there is no {missing[0]}" if missing else None
    return _of_python(rest)


@cache
def targets() -> dict[str, str]:
    """Targets of the Makefile that say what they do, and their line."""
    text = (ROOT / "Makefile").read_text()
    return {match[1]: text[match.start() : text.index("\n", match.start())] for match in _MADE.finditer(text)}


@cache
def options() -> dict[str, set[str]]:
    """Options of each command of ``stream-osr``."""
    group: Any = typer.main.get_command(app)
    return {name: {"--help", *_options(command)} for name, command in {"": group, **group.commands}.items()}


def _options(command: Any) -> set[str]:
    return {
        option
        for each in command.get_params(typer.Context(command))
        for option in (*each.opts, *each.secondary_opts)
        if option[0] == "-"
    }


def _of_the_command_line(words: list[str]) -> str | None:
    """Look at the words after ``stream-osr``; ``fit | run | label`` names three commands."""
    names = words[:1] if "|" not in words else [word for word in words if word != "|"]
    if names and names[0].startswith("-"):
        return _unknown("", words)
    for name in names:
        if name not in options():
            return f"stream-osr has no command {name}; it has {', '.join(filter(None, options()))}"
    if "|" in words or not names:
        return None
    name = "serve" if names == ["run"] and any(word.startswith("--config") for word in words) else names[0]
    name = "serve --http" if names == ["serve"] and "--http" in words else name
    return _unknown(name, words[1:])


def _unknown(command: str, words: list[str]) -> str | None:
    for word in words:
        option = word.partition("=")[0]
        if re.match(r"--?[a-z]", option) and option not in options()[command]:
            return f"stream-osr {command} has no option {option}"
    return None


def _of_python(words: list[str]) -> str | None:
    """Look at ``-m MODULE --option``, ``script.py --option`` or ``-c CODE``."""
    if not words:  # the program itself is meant
        return None
    if words[0] == "-c":
        compile(words[1], "<page>", "exec")
        return None
    named = 2 if words[0] == "-m" else 1
    sources = _sources(words[1]) if words[0] == "-m" else [ROOT / words[0]]
    if not all(source.exists() for source in sources):
        return f"there is no {words[named - 1]}"
    text = "\n".join(source.read_text() for source in sources)
    for word in words[named:]:
        option = word.partition("=")[0]
        parameter = rf'"{option}"|\b{option[2:].replace("-", "_")}:'  # of argparse, or of a function that typer calls
        if option.startswith("--") and not re.search(parameter, text):
            return f"{' '.join(words[:named])} has no option {option}"
    return None


def _sources(module: str) -> list[Path]:
    """Sources of a module of ours; of a package all, its options may be defined beside its ``__main__``."""
    top = ROOT / "connectors" if module.startswith("stream_osr_connectors") else ROOT
    place = top.joinpath(*module.split("."))
    return list(place.glob("*.py")) if (place / "__main__.py").exists() else [place.with_suffix(".py")]
