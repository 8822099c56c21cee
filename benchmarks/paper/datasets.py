"""The data sets of Geng and Chen, two more, and many tables, from files that the user provides.

Each is a file ``NAME.npz`` with arrays ``X`` (n rows of features), ``y`` (n labels) and, where the provider
divides the data, ``n_train`` (so many rows at the top are the provider's training part). They are looked for
in the directory that the environment variable ``STREAM_OSR_DATA`` names; without it, in ``shared/data``
beside the checkout of this project. No scaling or projection is applied.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_osr.errors import ConnectorError, InvalidParameter

DATA_VARIABLE = "STREAM_OSR_DATA"

KNOWN_CLASSES = {"LETTER": 10, "PENDIGITS": 5, "USPS": 5, "COIL20": 10, "YALEB": 10}
"""Number of known classes in the paper's experiments."""

UNKNOWN_CLASSES = {"LETTER": (10, 16), "PENDIGITS": (3, 5), "USPS": (3, 5), "COIL20": (6, 10), "YALEB": (10, 28)}
"""Number of unknown classes at the paper's medium and at its highest openness."""

PCA_DIMENSIONS = {"USPS": 39, "COIL20": 55, "YALEB": 69}
"""Principal components to which the paper reduces a set; the others are used as they are."""

with Path(__file__).with_name("sources.csv").open() as _file:
    _SOURCES = {row["name"]: row for row in csv.DictReader(_file)}

NAMES = tuple(_SOURCES)
"""Names that `load` knows."""

TABLES = tuple(name for name, row in _SOURCES.items() if row["folder"])
"""Tables of ``python -m benchmarks.breadth``, in the folder ``breadth``; classes below 12 instances left out."""


class DatasetNotFoundError(ConnectorError, FileNotFoundError):
    """The file of a data set is not where it was looked for; the message says how to provide it."""


class Dataset(NamedTuple):
    """Instances and labels.

    Attributes
    ----------
    X
        Array of shape (n, n_features), float64.
    y
        Array of n labels: str (LETTER) or int; ``y.tolist()`` gives Python's own.
    """

    X: NDArray[np.float64]
    y: NDArray[Any]


def data_directory() -> Path:
    """Where `load` looks: ``STREAM_OSR_DATA`` if set, else ``shared/data`` beside the checkout."""
    named = os.environ.get(DATA_VARIABLE)
    if named:
        return Path(named).expanduser()
    return Path(__file__).resolve().parents[3] / "shared" / "data"


def path_of(name: str) -> Path:
    """Where `load` looks for a set: tables are in a folder of their own.

    Examples
    --------
    >>> path_of("GLASS").relative_to(data_directory()).as_posix(), path_of("USPS").name
    ('breadth/GLASS.npz', 'USPS.npz')
    """
    return data_directory() / _SOURCES[name]["folder"] / f"{name}.npz"


def load(name: str) -> Dataset:
    """Read a data set.

    Parameters
    ----------
    name
        One of `NAMES`. Of USPS the 7291 rows of the provider's training part are read, as in the paper.

    Raises
    ------
    InvalidParameter
        If there is no data set of that name.
    DatasetNotFoundError
        If its file is missing; a `FileNotFoundError` too.

    Examples
    --------
    >>> load("IRIS")
    Traceback (most recent call last):
        ...
    stream_osr.errors.InvalidParameter: no data set 'IRIS': expected one of LETTER, PENDIGITS, USPS, COIL20, \
YALEB, SATIMAGE, SHUTTLE, ANNEAL, BALANCE, DERMATOLOGY, DIGITS, GLASS, HYPOTHYROID, KRKOPT, LED7, LIBRAS, NURSERY, \
PAGEBLOCKS, SEGMENT, TEXTURE, VEHICLE, VOWEL, WAVEFORM, WINE
    """
    if name not in NAMES:
        raise InvalidParameter(f"no data set {name!r}: expected one of {', '.join(NAMES)}")
    path = path_of(name)
    if not path.is_file():
        raise DatasetNotFoundError(
            f"{name}.npz not found at {path}; set {DATA_VARIABLE} to the directory that holds it. It is an "
            "archive of numpy.savez with arrays X (one row an instance) and y (labels), and n_train if the "
            f"provider divides the data; to make it yourself, take {_SOURCES[name]['source']}"
        )
    with np.load(path, allow_pickle=False) as arrays:
        n_rows = int(arrays["n_train"]) if name == "USPS" else None
        return Dataset(np.asarray(arrays["X"], dtype=np.float64)[:n_rows], arrays["y"][:n_rows])
