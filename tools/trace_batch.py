"""The way of one micro-batch: which files it enters, and where it enters the model from above.

``python -m tools.trace_batch [--list] [--batches N]`` runs PENDIGITS at the defaults, with new classes in the stream,
and follows the call that closes a micro-batch. A file is entered when Python calls a function in it, a compiled one
too (numba tells the profiler of those; what compiled code calls in turn is not seen). An entry is a pair of
functions: one outside the package of the model calls one inside. What stands within a function (a lambda, a
comprehension) is part of it, and code that is not the library's, as of contextlib, is looked through.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import stream_osr
from stream_osr import OpenSetRecognizer
from tools.streams import Run, instance, make_stream

LIBRARY = Path(stream_osr.__file__).parent
MODEL = next(name for name in ("model", "hdp") if (LIBRARY / name / "__init__.py").exists())
RUN = Run("trace", "PENDIGITS", 5, 5, {"n_jobs": 1})
BATCH = 4
"""The micro-batch that is followed, from 0."""


class Place(NamedTuple):
    """A function: its file in the library, and its name."""

    file: str
    function: str


class Call(NamedTuple):
    """A call within the library; the first has no caller there."""

    caller: Place | None
    callee: Place


class Way(NamedTuple):
    """The files that something enters, and its entries into the model."""

    files: list[str]
    entries: list[Call]


def place_of(code: CodeType) -> Place | None:
    """Find the function that code stands in; None outside of the library."""
    path = Path(code.co_filename)
    if not path.is_relative_to(LIBRARY):
        return None
    return Place(path.relative_to(LIBRARY).as_posix(), code.co_qualname.partition(".<locals>")[0])


def trace(act: Callable[[], object]) -> set[Call]:
    """Run something, and find the calls into the library."""
    calls: set[Call] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        callee = place_of(frame.f_code) if event == "call" else None
        if callee is None:
            return
        caller: Place | None = None
        above: FrameType | None = frame.f_back or sys._getframe(1)  # a frame of numba's stands on no other
        while above is not None and caller is None:
            caller, above = place_of(above.f_code), above.f_back
        calls.add(Call(caller, callee))

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


def way_of(calls: Iterable[Call], model: str = MODEL) -> Way:
    """Sum up calls: files entered, and entries into the model's package from outside of it."""
    calls, inside = list(calls), f"{model}/"
    entries = [
        call
        for call in calls
        if call.callee.file.startswith(inside) and call.caller and not call.caller.file.startswith(inside)
    ]
    return Way(sorted({call.callee.file for call in calls}), sorted(entries))


def closing_batches(first: int, count: int) -> list[Way]:
    """Follow the calls that close micro-batches of a stream, from number ``first`` on."""
    stream, model = make_stream(RUN), OpenSetRecognizer(**RUN.arguments)
    for each, label in stream.trained:
        model.learn_one(each, label)
    model.freeze()
    ways = []
    size = model.batch_size
    for number in range(min((first + count) * size, len(stream.truth))):
        x = instance(stream, number)
        if number % size == size - 1 and number // size >= first:
            copy.copy(model).learn_one(x, key=number)  # so that all that it calls is compiled
            ways.append(way_of(trace(lambda x=x, number=number: model.learn_one(x, key=number))))  # type: ignore[misc]
        else:
            model.learn_one(x, key=number)
    return ways


def main(arguments: list[str] | None = None) -> int:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the files and the entries")
    parser.add_argument(
        "--batches", type=int, metavar="N", help="the counts of the first N micro-batches, and medians"
    )
    chosen = parser.parse_args(arguments)
    print(f"the library is that of {LIBRARY}")
    ways = closing_batches(0, chosen.batches) if chosen.batches else closing_batches(BATCH, 1)
    for number, way in enumerate(ways, start=0 if chosen.batches else BATCH):
        functions = len({entry.callee for entry in way.entries})
        print(
            f"batch {number}: enters {len(way.files)} files, and the model ({MODEL}) "
            f"at {len(way.entries)} places, {functions} functions"
        )
        if chosen.list:
            print(*(f"  {file}" for file in way.files), sep="\n")
            print(*(f"  {a.file} {a.function} -> {b.file} {b.function}" for a, b in way.entries if a), sep="\n")
    if chosen.batches:
        files, entries = [statistics.median(len(part) for part in parts) for parts in zip(*ways, strict=True)]
        print(f"medians: {files:g} files, {entries:g} places")
    return 0


if __name__ == "__main__":
    sys.exit(main())
