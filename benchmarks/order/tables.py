"""Real tables in the order in which they were recorded, split as ``shared/data/ordered/README.md`` says."""

from __future__ import annotations

import zipfile

import numpy as np

from benchmarks.order.case import Case
from benchmarks.paper.datasets import data_directory

LONGEST = 5000
"""Instances of a stream at most; of TEP the whole runs."""

TRAINING = {"OUTDOOR": 2000, "KEYSTROKE": 400, "ELEC2": 5000, "WEATHER": 4000, "EEGEYE": 5000}
"""Rows that train, from the first."""

RUNS = {"closed": (100, 101, 102, 106), "open": (100, 101, 104, 102)}
"""Recordings of TEP that make up the stream; fault 4 is the new class."""

TRAINING_RUNS = (0, 1, 2, 6)
"""Recordings of TEP that train."""

PERMUTED = 0
"""Seed of the order in the shuffled twin of a table."""

OPEN = ("TEP", "OUTDOOR", "KEYSTROKE")
"""Tables with classes that can be left out of training."""

NAMES = [
    f"{table}/{world}/{order}"
    for world, order in (("closed", "order"), ("open", "order"), ("closed", "shuffled"), ("open", "shuffled"))
    for table in ("TEP", *TRAINING)
    if world == "closed" or table in OPEN
]


def read(table: str) -> dict[str, np.ndarray]:
    """Read a table: rows ``X``, labels ``y`` as text, and for TEP the recording ``run`` of each row.

    Raises
    ------
    FileNotFoundError
        If the file is missing.
    """
    path = data_directory() / "ordered" / f"{table}.npz"
    try:
        with np.load(path) as found:
            arrays = {name: found[name] for name in found.files}
    except (FileNotFoundError, zipfile.BadZipFile) as error:
        raise FileNotFoundError(f"{path}: expected a table; STREAM_OSR_DATA names the folder") from error
    return {**arrays, "X": arrays["X"].astype(float), "y": arrays["y"].astype(str)}


def in_order(table: str, world: str) -> Case:
    """Split a table; `world` is ``"closed"``, or ``"open"`` with classes left out of training."""
    of = read(table)
    X, y = of["X"], of["y"]
    if table == "TEP":
        training, stream = (
            np.concatenate([np.flatnonzero(of["run"] == run) for run in runs])
            for runs in (TRAINING_RUNS, RUNS[world])
        )
        left_out = np.array(["4"])
    else:
        rows = np.arange(len(X))
        training, stream = rows[: TRAINING[table]], rows[TRAINING[table] :][:LONGEST]
        labels = np.unique(y)
        left_out = labels[len(labels) // 2 :] if table == "OUTDOOR" else np.array(["2"])
    if world == "closed":
        left_out = left_out[:0]
    training = training[~np.isin(y[training], left_out)]
    stream = stream[np.isin(y[stream], [*np.unique(y[training]), *left_out])]
    return Case(X[training], y[training], X[stream], y[stream])


def shuffled(case: Case) -> Case:
    """Permute all rows of a case and split them at the same sizes; a new class stays out of training."""
    rng = np.random.default_rng(PERMUTED)
    X, y = np.concatenate([case.X_train, case.X]), np.concatenate([case.y_train, case.y])
    at = rng.permutation(len(X))
    known = at[np.isin(y[at], np.unique(case.y_train))]
    training = known[: len(case.X_train)]
    stream = at[~np.isin(at, training)]
    stream = rng.permutation(stream[np.isin(y[stream], [*np.unique(y[training]), *np.unique(case.y[case.new])])])
    return Case(X[training], y[training], X[stream], y[stream])


def case(name: str) -> Case:
    """Make the case of a name ``TABLE/closed/order``, ``TABLE/open/shuffled`` and so on."""
    table, world, order = name.split("/")
    found = in_order(table, world)
    return shuffled(found) if order == "shuffled" else found
