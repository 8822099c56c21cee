"""The command ``stream-osr inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_osr.showing import counted
from stream_osr.terminal import Terminal


def inspect(model: Annotated[Path, typer.Argument(help="A model, or a checkpoint of `stream-osr run`.")]) -> None:
    """Print the discovery table of a model: its classes, their subclasses, and what has emerged.

    Example: stream-osr inspect decisions.jsonl.checkpoint
    """
    from stream_osr_connectors.loop import load_model  # slow to import, and --help does without

    recognizer, out = load_model(model), Terminal()
    out.say(*str(recognizer.summary()).split("\n"))
    trained = recognizer.trained
    out.say(f"signals: {recognizer.signals}")
    if trained.unguarded:
        out.say(f"no guard: {trained.unguarded}")
    else:
        guards = counted(recognizer.menu.references, "reference instance")
        out.say(f"{guards} {'guards' if recognizer.menu.references == 1 else 'guard'} the known classes")
    dimensions = counted(trained.prior.n_features, "whitened dimension")
    out.say(f"{counted(len(trained.names), 'feature')}, {dimensions}")
    counters = {name: count for name, count in sorted(recognizer.counters.items()) if count}
    if counters:
        out.say("data: " + ", ".join(f"{name} {count}" for name, count in counters.items()))
    out.say(f"fingerprint {trained.fingerprint}")
