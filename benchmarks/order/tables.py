"""Real tables in the order in which they were recorded.

The splits are those of ``shared/data/ordered/README.md`` and ``shared/data/ordered2/README.md``. Rows of a room's
sensors and of SATIMAGE, whose rows are independent, are added.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.order.case import Case
from benchmarks.paper.datasets import data_directory

Rows = int | tuple[int, ...]
"""A number of rows, or the recordings that contain them."""


class Table(NamedTuple):
    """Split of a table.

    Attributes
    ----------
    training, closed
        The first rows, and the rows after them that are the stream; or the recordings of both.
    open
        Stream with new classes. ``None``: the same rows.
    left_out
        Classes that the training of an open case lacks.
    least
        Least number of training instances of a class. Other classes are in neither part.
    file
        Path below the data folder. Empty: in the folder ``ordered``.
    variants
        Third parts of the names of the cases.
    worlds
        ``"closed"``, ``"open"`` or both.
    permuted
        Permute the rows before the split.
    """

    training: Rows
    closed: Rows
    open: tuple[int, ...] | None = None
    left_out: tuple[str, ...] = ()
    least: int = 1
    file: str = ""
    variants: tuple[str, ...] = ("order", "shuffled")
    worlds: tuple[str, ...] = ("closed", "open")
    permuted: bool = False


TABLES = {
    "TEP": Table((0, 1, 2, 6), (100, 101, 102, 106), (100, 101, 104, 102), ("4",)),
    "OUTDOOR": Table(2000, 5000, left_out=tuple(sorted(map(str, range(40)))[20:])),
    "KEYSTROKE": Table(400, 5000, left_out=("2",)),
    "ELEC2": Table(5000, 5000, worlds=("closed",)),
    "WEATHER": Table(4000, 5000, worlds=("closed",)),
    "EEGEYE": Table(5000, 5000, worlds=("closed",)),
    "STEEL": Table(4000, 8000, None, ("Maximum_Load",), 30, "ordered2/STEEL.parquet"),
    "METRO": Table(5000, 8000, None, ("Fog", "Snow"), 15, "ordered2/METRO.parquet"),
    "HOME": Table(719, 719, None, ("Leaving", "Toileting"), 10, "ordered2/HOME.parquet"),
    "SKAB": Table(
        (0, 1, 2, *range(14, 22), 30, 31),
        (3, *range(22, 26), 32, 33),
        (3, 22, 7, 23, 24, 8, 32, 33),
        ("cavitation",),
        30,
        "ordered2/SKAB.npz",
        ("order", "shuffled", "moved"),
    ),
    "GESTURE": Table((1,), (2, 3), None, ("Rest",), 30, "ordered2/GESTURE.npz"),
    "ROOM": Table(4000, 5000, None, ("2",), 1, "openstream/room_occupancy.npz", ("order",), ("open",)),
    "SATIMAGE": Table(
        3217, 3000, file="SATIMAGE.npz", variants=("order", "moved"), worlds=("closed",), permuted=True
    ),
}
PERMUTED = 0
"""Seed of the order in the shuffled twin of a table, and in a table of independent rows."""

Moved = tuple[np.ndarray, tuple[int, ...]]
MOVES: dict[str, Callable[[Case], Moved]] = {
    "SATIMAGE": lambda case: (case.X + (np.arange(36) < 4) * case.X_train.std(0), (0, 1, 2, 3)),
    "SKAB": lambda case: (1.2 * case.X, tuple(range(8))),
}
"""Moved stream of a table, and the moved columns."""

NAMES = [
    f"{name}/{world}/{variant}"
    for variant in ("order", "moved", "shuffled")
    for world in ("closed", "open")
    for name, table in TABLES.items()
    if world in table.worlds and variant in table.variants and (variant, world) != ("moved", "open")
]


class Read(NamedTuple):
    """A table: rows, labels as text, the recording of each row, and the names of the columns if the file has some."""

    X: np.ndarray
    y: np.ndarray
    run: np.ndarray
    columns: tuple[str, ...] = ()


def read(name: str) -> Read:
    """Read a table.

    Raises
    ------
    FileNotFoundError
        If the file is missing.
    """
    path = data_directory() / (TABLES[name].file or f"ordered/{name}.npz")
    return read_frame(path) if path.suffix == ".parquet" else read_arrays(path)


def read_arrays(path: Path) -> Read:
    """Read arrays of numbers."""
    with np.load(path) as found:
        X, y = found["X"].astype(float), found["y"].astype(str)
        return Read(X, y, found["run"] if "run" in found else np.zeros(len(y)))


def read_frame(path: Path) -> Read:
    """Read a data frame with columns of text."""
    found = pd.read_parquet(path)
    X = found.drop(columns=["y", "run"])
    return Read(X.to_numpy(object), found["y"].to_numpy(str), found["run"].to_numpy(), tuple(X.columns))


def in_order(name: str, world: str) -> Case:
    """Split a table; `world` is ``"closed"``, or ``"open"`` with classes left out of training."""
    table, (X, y, run, columns) = TABLES[name], read(name)
    streamed = table.closed if world == "closed" or table.open is None else table.open
    if isinstance(table.training, int):
        rows = np.random.default_rng(PERMUTED).permutation(len(X)) if table.permuted else np.arange(len(X))
        assert isinstance(streamed, int)
        training, stream = rows[: table.training], rows[table.training :][:streamed]
    else:
        assert isinstance(streamed, tuple)
        training, stream = (
            np.concatenate([np.flatnonzero(run == each) for each in runs]) for runs in (table.training, streamed)
        )
    left_out = table.left_out if world == "open" else ()
    training = training[~np.isin(y[training], left_out)]
    known, counts = np.unique(y[training], return_counts=True)
    known = known[counts >= table.least]
    training, stream = training[np.isin(y[training], known)], stream[np.isin(y[stream], [*known, *left_out])]
    return Case(X[training], y[training], X[stream], y[stream], columns=columns)


def shuffled(case: Case) -> Case:
    """Permute all rows of a case and split them at the same sizes; a new class stays out of training."""
    rng = np.random.default_rng(PERMUTED)
    X, y = np.concatenate([case.X_train, case.X]), np.concatenate([case.y_train, case.y])
    at = rng.permutation(len(X))
    known = at[np.isin(y[at], np.unique(case.y_train))]
    training = known[: len(case.X_train)]
    stream = at[~np.isin(at, training)]
    stream = rng.permutation(stream[np.isin(y[stream], [*np.unique(y[training]), *np.unique(case.y[case.new])])])
    return Case(X[training], y[training], X[stream], y[stream], columns=case.columns)


def case(name: str) -> Case:
    """Make the case of a name ``TABLE/closed/order``, ``TABLE/open/shuffled``, ``TABLE/closed/moved`` and so on."""
    table, world, variant = name.split("/")
    found = in_order(table, world)
    if variant == "moved":
        X, columns = MOVES[table](found)
        return found._replace(X=X, moved=columns, fault=0)
    return shuffled(found) if variant == "shuffled" else found
