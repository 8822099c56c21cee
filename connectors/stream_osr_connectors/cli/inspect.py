"""The command ``stream-osr inspect``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from stream_osr.printable_text import counted
from stream_osr_connectors.cli import stream_summary
from stream_osr_connectors.terminal import Terminal


def inspect(
    model: Annotated[Path, typer.Argument(help="A model, or a checkpoint of `stream-osr run`.")],
    subclasses: Annotated[bool, typer.Option("--subclasses", help="List all subclasses with their shares.")] = False,
) -> None:
    """Print the classes, subclasses and counters of a model.

    Example: stream-osr inspect decisions.jsonl.checkpoint
    """
    from stream_osr.discovery.summaries import ALL_MET
    from stream_osr_connectors.files.checkpoint import load_model_and_run

    (recognizer, run), out = load_model_and_run(model), Terminal()
    out.say(*replace(recognizer.summary(), unmet=ALL_MET).text(subclasses=subclasses).split("\n"))
    trained = recognizer.trained
    out.say(f"signals: {recognizer.signals._replace(expected_recall=None)}")
    if trained.unguarded:
        out.say(f"no reference check: {trained.unguarded}")
    else:
        guards = counted(recognizer.menu.references, "reference instance")
        out.say(f"{guards} {'guards' if recognizer.menu.references == 1 else 'guard'} the known classes")
    dimensions = counted(trained.prior.n_features, "whitened dimension")
    out.say(f"{counted(len(trained.names), 'feature')}, {dimensions}")
    counters = {name: count for name, count in sorted(recognizer.counters.items()) if count}
    if counters:
        out.say("data: " + ", ".join(f"{name} {count}" for name, count in counters.items()))
    out.say(f"fingerprint {trained.fingerprint}")
    out.say(*stream_summary.account(recognizer))
    if run is None:
        out.say(f"next: stream-osr run --model {quote(str(model))} --input FILE --output decisions.jsonl")
        return
    out.say(*stream_summary.set_aside(run.totals["set_aside"], run.reasons, "`run --errors FILE` keeps them"))
    if (command := stream_summary.naming(recognizer, model)) is not None:
        out.say(command)
