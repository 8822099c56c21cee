"""The recognizer of a run: a trained model with what the command line changes, or that of a checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from stream_osr import OpenSetRecognizer
from stream_osr.errors import ConnectorError, StreamOSRError
from stream_osr.showing import counted
from stream_osr_connectors.files.checkpoint import Checkpoint, load_checkpoint

SETTABLE = ("min_probability",)
"""What may change while a stream runs; all else is for its whole length."""


def begin(path: Path, changes: Mapping[str, Any]) -> OpenSetRecognizer:
    """Make the recognizer of a new run.

    Parameters
    ----------
    path
        The model.
    changes
        Arguments of the recognizer that the command line gives.

    Raises
    ------
    InvalidParameter
        If a value cannot be used.
    PersistenceError
        If the file is no model.
    """
    loaded = OpenSetRecognizer.load(path)
    trained = loaded.trained
    if "chains" in changes:
        trained = trained.with_chains(changes["chains"])
    return OpenSetRecognizer.from_trained(trained, **{**loaded.arguments, **changes})


def go_on(
    path: Path, started: Checkpoint, changes: Mapping[str, Any], reading: Mapping[str, Any], csv_safe: bool | None
) -> list[str]:
    """Let a run go on as it was begun, but for what may change on the way.

    Parameters
    ----------
    path
        The model that the command line names.
    started
        The checkpoint.
    changes
        As for :func:`begin`.
    reading
        Names of the columns, by the options that name them.
    csv_safe
        Whether tables are to be safe for spreadsheets; ``None``: nothing was said.

    Returns
    -------
    What is different from now on, a line for each.

    Raises
    ------
    ConnectorError
        If the model is another one, or something is asked that holds for the whole of a run.
    """
    model, trained = started.model, OpenSetRecognizer.load(path).trained
    chains = len(model.trained.draws)
    if chains < len(trained.draws):
        trained = trained.with_chains(chains)
    if trained.fingerprint != model.trained.fingerprint:
        raise ConnectorError(f"{path} is not the model of the checkpoint; give that one, or leave out --resume")
    begun = {**model.arguments, "chains": chains}
    other = {name: value for name, value in changes.items() if value != begun[name]}
    for name, value in other.items():
        if name not in SETTABLE:
            raise ConnectorError(_as_begun(f"{_option(name)} {value:g}", f"{_option(name)} {begun[name]}"))
    for name, was in (started.reading or {}).items():
        asked, read = _said(name, reading.get(name)), _said(name, was)
        if asked != read:
            raise ConnectorError(_as_begun(asked, read))
    for position in started.sinks if csv_safe is not None else ():
        if position is not None and position.get("safe", csv_safe) != csv_safe:
            names = ("--csv-raw", "--csv-safe")
            raise ConnectorError(_as_begun(names[bool(csv_safe)], names[not csv_safe]))
    told = [f"{_option(name)} is {value:g} from here on; it was {begun[name]:g}" for name, value in other.items()]
    if "min_probability" in other:
        model.set_min_probability(other["min_probability"])
    return told


def replaced(output: str, checkpoint: Path) -> list[str]:
    """Say what a run that begins anew takes the place of: one that has a checkpoint, in a line; or nothing."""
    try:
        before = load_checkpoint(checkpoint)
    except (StreamOSRError, OSError, ValueError):  # whatever it is, nobody has asked to go on from it
        return []
    if not before.totals["read"]:
        return []
    held, stream = counted(before.totals["read"], "record"), before.model.value.stream
    named = 0 if stream is None else len(stream.labels) - len(before.model.trained.labels)
    held += f", {counted(named, 'name')} given" if named else ""
    if str(checkpoint) == f"{output}.checkpoint":
        return [f"{output} and its checkpoint ({held}) are replaced; --resume would have gone on"]
    return [f"the checkpoint {checkpoint} ({held}) is replaced; --resume would have gone on"]


def check_categories(model: OpenSetRecognizer, named: Collection[str]) -> None:
    """Refuse categories that the model does not take for such: what a column is, training says.

    Raises
    ------
    ConnectorError
        Naming one.
    """
    trained = model.trained
    for name in named:
        if name not in trained.names:
            listed = ", ".join(map(str, trained.names[:20])) + (", ..." if len(trained.names) > 20 else "")
            raise ConnectorError(f"--categorical {name}: it is none of the model's features ({listed})")
        if name not in trained.values:
            raise ConnectorError(
                f"--categorical {name}: the model was trained with it as a number, and what a column is, training "
                f"says; train with it as a category: stream-osr fit --categorical {name}"
            )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _said(name: str, value: Any) -> str:
    """Say what names columns, or that nothing does."""
    names = ",".join(value) if isinstance(value, list | tuple) else value
    return f"no {_option(name)}" if value is None else f"{_option(name)} {names}"


def _as_begun(asked: str, begun: str) -> str:
    return (
        f"{asked} with --resume: the run was begun with {begun}, and that holds for the whole of it; "
        "resume as it was, or begin anew without --resume"
    )
