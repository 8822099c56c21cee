"""The data sets of Geng and Chen, two more, and many tables, from files that the user provides.

Each is a file ``NAME.npz`` with arrays ``X`` (n rows of features), ``y`` (n labels) and, where the provider
divides the data, ``n_train`` (so many rows at the top are the provider's training part). They are looked for
in the directory that the environment variable ``STREAM_OSR_DATA`` names; without it, in ``shared/data``
beside the checkout of this project. No scaling or projection is applied.
"""

from __future__ import annotations

import os
import zipfile
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

_ORIGIN = {
    "LETTER": "UCI Letter Recognition, 20000 x 16",
    "PENDIGITS": "UCI Pen-Based Recognition of Handwritten Digits, pendigits.tra then .tes, 10992 x 16",
    "USPS": "zip.train then zip.test of 'The Elements of Statistical Learning', 9298 x 256, n_train 7291",
    "COIL20": "the Columbia Object Image Library COIL-20, grey levels averaged to 16 x 16, 1440 x 256",
    "YALEB": "the Extended Yale Face Database B, cropped, 32 x 32 grey levels, 2414 x 1024",
    "SATIMAGE": "UCI Statlog (Landsat Satellite), sat.trn then sat.tst, 6435 x 36, n_train 4435",
    "SHUTTLE": "UCI Statlog (Shuttle), shuttle.trn then shuttle.tst, 58000 x 9, n_train 43500",
}

_TABLES = {
    "ANNEAL": "UCI Annealing, categories one-hot, 890 x 34",
    "BALANCE": "UCI Balance Scale, 625 x 4",
    "DERMATOLOGY": "UCI Dermatology, categories one-hot, 366 x 129",
    "DIGITS": "sklearn.datasets.load_digits, 1797 x 64",
    "GLASS": "UCI Glass Identification, 205 x 9",
    "HYPOTHYROID": "UCI Thyroid Disease (hypothyroid), categories one-hot, 3770 x 31",
    "KRKOPT": "UCI Chess (King-Rook vs. King), files of the pieces one-hot, 11992 x 23",
    "LED7": "UCI LED Display Domain, 500 x 7",
    "LIBRAS": "UCI Libras Movement, 360 x 90",
    "NURSERY": "UCI Nursery, categories one-hot, 12000 x 26",
    "PAGEBLOCKS": "UCI Page Blocks Classification, 5473 x 10",
    "SEGMENT": "UCI Image Segmentation, 2310 x 19",
    "TEXTURE": "ELENA's Texture, 5500 x 40",
    "VEHICLE": "UCI Statlog (Vehicle Silhouettes), 846 x 18",
    "VOWEL": "UCI Connectionist Bench (Vowel Recognition), 990 x 13",
    "WAVEFORM": "UCI Waveform Database Generator (version 2), 5000 x 40",
    "WINE": "UCI Wine, 178 x 13",
}
"""Tables of ``python -m benchmarks.breadth``, in the folder ``breadth``; classes below 12 instances left out."""

NAMES = (*_ORIGIN, *_TABLES)
"""Names that `load` knows."""


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
    return data_directory() / ("breadth" if name in _TABLES else "") / f"{name}.npz"


def load(name: str, *, full: bool = False) -> Dataset:
    """Read a data set.

    Parameters
    ----------
    name
        One of `NAMES`.
    full
        USPS only: all 9298 rows instead of the 7291 of the provider's training part, which are what the paper
        uses. The other sets are always read whole, as in the paper.

    Raises
    ------
    InvalidParameter
        If there is no data set of that name.
    DatasetNotFoundError
        If its file is missing; a `FileNotFoundError` too.
    ConnectorError
        If its file is not what it should be.

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
            f"provider divides the data; to make it yourself, take {(_ORIGIN | _TABLES)[name]}"
        )
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            X = np.asarray(arrays["X"], dtype=np.float64)
            y = np.asarray(arrays["y"])
            n_rows = int(arrays["n_train"]) if name == "USPS" and not full else len(X)
    except (KeyError, TypeError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ConnectorError(
            f"{path} cannot be read as {name} ({error}): expected an archive of numpy.savez with arrays X "
            "and y, and n_train for USPS"
        ) from error
    if X.ndim != 2 or y.shape != (len(X),):
        raise ConnectorError(
            f"{path} holds X of shape {X.shape} and y of shape {y.shape}: expected (n, n_features) and (n,)"
        )
    return Dataset(X[:n_rows], y[:n_rows])
