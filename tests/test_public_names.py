"""The public surface: a change here is a change for everybody who uses the library.

``tests/public_names.txt`` lists it; ``python -m tests.test_public_names`` writes that file anew.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import stream_osr
from stream_osr import Input, Limits, ModelOptions, OpenSetRecognizer, evaluation
from stream_osr.trust.recall import ExpectedRecall

LISTED = Path(__file__).with_name("public_names.txt")


def called(function: Any) -> str:
    """Arguments with their defaults, without types."""
    signature = inspect.signature(function)
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def members(kind: type) -> Iterator[str]:
    """Public methods and attributes of a class and of those of the house that it is made of."""
    house = [each for each in kind.__mro__ if each.__module__.startswith("stream_osr.")]
    own = {name for each in house for name in vars(each) if not name.startswith("_")}
    for name in sorted(own - {*inspect.signature(kind).parameters}):
        member = getattr(kind, name)
        yield f"{name}{called(member) if callable(member) else ''}"


def surface() -> Iterator[str]:
    for module in (stream_osr, evaluation):
        for name in sorted(module.__all__):
            it = getattr(module, name)
            yield f"{module.__name__}.{name}{called(it) if callable(it) else ''}"
            if inspect.isclass(it):
                yield from (f"    {member}" for member in members(it))
    yield f"{ExpectedRecall.__name__}{called(ExpectedRecall)}"


def test_the_public_surface_is_as_listed() -> None:
    assert list(surface()) == LISTED.read_text().splitlines()
    assert isinstance(stream_osr.__version__, str)


def test_documentation_says_what_each_argument_means() -> None:
    for kind in (OpenSetRecognizer, Input, Limits, ModelOptions):
        section = inspect.cleandoc(kind.__doc__ or "").partition("Parameters\n----------\n")[2].partition("\n\n")[0]
        named = [name for line in section.splitlines() if not line.startswith(" ") for name in line.split(", ")]
        assert named == list(inspect.signature(kind).parameters)


if __name__ == "__main__":
    LISTED.write_text("".join(f"{line}\n" for line in surface()))
