"""The command that names a candidate."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path


def naming_command(ids: Sequence[int | str], checkpoint: Path, stream: str | None = None) -> str:
    """Return the command that names the subclasses of a candidate.

    Parameters
    ----------
    ids
        Ids of the subclasses.
    checkpoint
        Checkpoint of the run.
    stream
        Key of the stream, if there is one for each key.

    Examples
    --------
    >>> naming_command([11, 12], Path("a b.checkpoint"))
    "stream-osr promote 11,12 NAME --checkpoint 'a b.checkpoint'"
    """
    text = str(checkpoint)
    text = f"./{text}" if text.startswith("-") else text
    where = shlex.quote(text) if text.isprintable() else "CHECKPOINT"  # nobody can type a character without a shape
    of = "" if stream is None else f"{stream}/"
    return f"stream-osr promote {shlex.quote(of + ','.join(map(str, ids)))} NAME --checkpoint {where}"


def naming_in_python(ids: Sequence[int | str]) -> str:
    """Return the Python code that names the subclasses of a candidate.

    >>> naming_in_python([11, 12])
    'model.promote([11, 12], "NAME")'
    """
    return f'model.promote([{", ".join(map(str, ids))}], "NAME")'
