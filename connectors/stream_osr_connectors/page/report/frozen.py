"""The live page frozen into one HTML file: style, scripts and content are embedded, and the file loads nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stream_osr.printable_text import printable
from stream_osr_connectors.page.glossary import WORDS
from stream_osr_connectors.page.report.records_feed import as_json

LONGEST = 200
"""Most characters of the title."""
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|const) (\w+)", re.MULTILINE)


def frozen_page(title: str, state: Mapping[str, Any], answers: Mapping[str, Any]) -> str:
    """Write the page.

    Parameters
    ----------
    title
        Title of the page.
    state
        State of the page (:func:`stream_osr_connectors.summary.view_model.view_model`).
    answers
        Answers to the requests of the page, by address.
    """
    style, script = _static("page.css"), bundle()
    content = as_json({"state": state, "answers": answers}).decode().replace("<", "\\u003c")
    page = Environment(loader=PackageLoader("stream_osr_connectors.page.live"), autoescape=True)
    page.undefined = StrictUndefined
    return page.get_template("page.html.j2").render(
        version=version("stream-osr"),
        name=printable(title.encode("utf-8", "backslashreplace").decode(), LONGEST),
        words=WORDS,
        frozen=Markup(content),
        style=Markup(style),
        script=Markup(script),
        policy=Markup(
            f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        ),
    )


@cache
def bundle() -> str:
    """Join the modules of the live page into one script. Browsers load no modules from a file on disk.

    Each module becomes a function that returns its exports. A module follows those that it imports.
    """
    return '"use strict";\nconst modules = {};\n' + "".join(
        f"modules.{name} = (() => {{\n{_as_function(text)}}})();\n" for name, text in _in_order("main", [])
    )


def _in_order(name: str, done: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the modules that a module imports, then the module, with their texts."""
    done.append(name)
    text = _static(f"{name}.js")
    for found in _IMPORT.finditer(text):
        if found[2] not in done:
            yield from _in_order(found[2], done)
    yield name, text


def _as_function(text: str) -> str:
    r"""Replace the imports and exports of a module.

    >>> print(_as_function('import { a } from "./one.js";\nexport const b = a + 1;\n'))
    const { a } = modules.one;
    const b = a + 1;
    return { b };
    <BLANKLINE>
    """
    names = ", ".join(name for _, name in _EXPORT.findall(text))
    body = _EXPORT.sub(r"\1 \2", _IMPORT.sub(r"const {\1} = modules.\2;\n", text))
    return f"{body}return {{ {names} }};\n"


def _static(name: str) -> str:
    return files("stream_osr_connectors.page.live").joinpath("static", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
