"""Docstrings for the API reference: what numpydoc and Sphinx read in them, in the terms of mkdocstrings.

A role (``:meth:`freeze```) becomes a link, and must name something that is there; what is returned needs no name.
"""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import Any

from griffe import (
    AliasResolutionError,
    Class,
    Extension,
    Function,
    GriffeLoader,
    Module,
    NameResolutionError,
    Object,
    get_logger,
)

from stream_osr.config import SEE_ARGUMENTS

logger = get_logger("site.docstrings")

ROLE = re.compile(r":(?:class|meth|func|mod|attr|data|exc):`(?P<short>~?)(?P<name>[\w.]+)`")
SECTION = re.compile(r"^(?P<title>[A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)
FOOTNOTE = re.compile(r"(?:\.\. )?\[(\d+)\]_?")
CONTINUED = re.compile(r"\n +(?=\S)")
PACKAGES = {"stream_osr", "stream_osr_connectors"}
ARGUMENTS = "stream_osr.config.Arguments"
PUBLIC_CLASS = "stream_osr.OpenSetRecognizer"
"""The class whose methods are documented as its own, wherever they are inherited from."""


class Docstrings(Extension):
    """Rewrite every docstring, once everything is loaded."""

    def on_package(self, *, pkg: Module, loader: GriffeLoader, **_: Any) -> None:
        """Load the other packages, too, before a docstring that names something of them is looked at."""
        for other in PACKAGES - {pkg.name}:
            if other not in loader.modules_collection:
                loader.load(other)

    def on_object(self, *, obj: Object, loader: GriffeLoader, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            text = obj.docstring.value
            if SEE_ARGUMENTS in text:
                told = loader.modules_collection[ARGUMENTS].docstring
                text = text.replace(SEE_ARGUMENTS, cleandoc(told.value).partition("----------\n")[2])
            text = ROLE.sub(lambda role: link(role, obj, loader), text)
            obj.docstring.value = FOOTNOTE.sub(r"[\1]", sections(text, obj)).replace("::\n\n", "\n\n", 1)


def sections(text: str, obj: Object) -> str:
    """Let sections that mkdocstrings would misread be of a kind that it reads."""
    parts = SECTION.split(text)
    out = [parts[0]]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        if title in ("Returns", "Yields") and isinstance(obj, Function) and obj.returns is not None:
            body = f"{obj.returns}\n" + "\n".join(f"    {line}" if line else line for line in body.split("\n"))
        elif title == "References":
            body = CONTINUED.sub(" ", body)
        elif title == "Parameters" and isinstance(obj, Class) and "NamedTuple" in map(str, obj.bases):
            title = "Attributes"
        out.append(f"{title}\n{'-' * len(title)}\n{body}")
    return "".join(out)


def link(role: re.Match[str], obj: Object, loader: GriffeLoader) -> str:
    """Turn a role into a link, if the reference has what it names, or code."""
    name = role["name"]
    path = found(name.lstrip("."), obj, loader)
    if path is None:
        logger.warning("%s: the docstring of %s names %s, and there is no such thing", obj.filepath, obj.path, name)
        return f"`{name}`"
    shown = name.rpartition(".")[2] if role["short"] else name
    return f'<autoref identifier="{path}" optional>`{shown}`</autoref>'


def found(name: str, obj: Object, loader: GriffeLoader) -> str | None:
    """Where a name of a docstring leads: at the top, at the object, around it, or at that class."""
    if there(name, loader):
        return name
    around: Object | None = obj
    while around is not None:
        for place in (around, *beside(around)):
            if there(f"{place.path}.{name}", loader):
                return public(f"{place.path}.{name}", loader)
        around = around.parent
    return f"{PUBLIC_CLASS}.{name}" if there(f"{PUBLIC_CLASS}.{name}", loader) else None


def beside(obj: Object) -> list[Module]:
    """Modules of a package."""
    return [each for each in obj.members.values() if isinstance(each, Module)] if isinstance(obj, Module) else []


def public(path: str, loader: GriffeLoader) -> str:
    """Call a method by the class that users see, if it has it."""
    its = f"{PUBLIC_CLASS}.{path.rpartition('.')[2]}"
    return its if there(its, loader) and canonical(its, loader) == path else path


def canonical(path: str, loader: GriffeLoader) -> str:
    """Where something is defined."""
    return str(loader.modules_collection[path].canonical_path)


def there(path: str, loader: GriffeLoader) -> bool:
    """Say whether something that was loaded has this path."""
    try:
        canonical(path, loader)
    except (KeyError, AliasResolutionError, NameResolutionError):
        return False
    return True
