"""The command ``stream-osr inspect``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from stream_osr.errors import InvalidParameter
from stream_osr.printable_text import counted
from stream_osr_connectors.cli import stream_summary
from stream_osr_connectors.terminal import Terminal


def inspect(
    model: Annotated[Path, typer.Argument(help="A model, or a checkpoint of `stream-osr run`.")],
    subclasses: Annotated[bool, typer.Option("--subclasses", help="List all subclasses with their shares.")] = False,
    stream: Annotated[
        str | None, typer.Option("--stream", help="Key of the stream to show, in a checkpoint of `run --by`.")
    ] = None,
) -> None:
    """Print the classes, subclasses and counters of a model.

    Example: stream-osr inspect decisions.jsonl.checkpoint
    """
    from stream_osr.discovery.summaries import ALL_MET
    from stream_osr_connectors.files.checkpoint import load_model_and_run
    from stream_osr_connectors.files.streams import keyed_of, recognizer_of

    (recognizer, run), out = load_model_and_run(model), Terminal()
    keys = None if run is None else run.keys
    if stream is not None:
        if keys is None:
            raise InvalidParameter(f"{model} has no streams by key. Leave out --stream")
        recognizer, run, keys = recognizer_of(recognizer, keys, model, stream), None, None
    trained = recognizer.trained
    if keys is not None:
        out.say(f"{counted(len(trained.labels), 'known class', 'known classes')}, and a stream for each key")
    else:
        out.say(*replace(recognizer.summary(), unmet=ALL_MET).text(subclasses=subclasses).split("\n"))
        out.say(f"signals: {recognizer.signals._replace(expected_recall=None)}")
    if trained.unguarded:
        out.say(f"no reference check: {trained.unguarded}")
    else:
        guards = counted(recognizer.value.menu.references, "reference instance")
        out.say(f"{guards} {'guards' if recognizer.value.menu.references == 1 else 'guard'} the known classes")
    dimensions = counted(trained.prior.n_features, "whitened dimension")
    out.say(f"{counted(len(trained.names), 'feature')}, {dimensions}")
    counters = {name: count for name, count in sorted(recognizer.counters.items()) if count}
    if counters:
        out.say("data: " + ", ".join(f"{name} {count}" for name, count in counters.items()))
    out.say(f"fingerprint {trained.fingerprint}")
    if keys is None:
        out.say(*stream_summary.account(recognizer))
    if run is not None:
        out.say(*stream_summary.set_aside(run.totals["set_aside"], run.reasons, "`run --errors FILE` keeps them"))
    if run is not None and keys is not None:
        out.say(*stream_summary.keys(keyed_of(recognizer, model, keys), run.totals["read"]))
        out.say(f"next, to look at a key: stream-osr inspect {quote(str(model))} --stream KEY")
    elif run is None and stream is None:
        out.say(f"next: stream-osr run --model {quote(str(model))} --input FILE --output decisions.jsonl")
    elif (command := stream_summary.naming(recognizer, model, stream)) is not None:
        out.say(command)
