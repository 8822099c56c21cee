"""Made-up processes: five classes of two Gaussian blobs in eight features, and what befalls a stream of them.

Standard deviations are 1 within a blob. The distances of the blobs were chosen so that the frozen model of 2c2959a
is right as often as on real tables in order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.signal import lfilter

from benchmarks.order.case import Case

FEATURES, CLASSES, BLOBS = 8, 5, 2
TRAINING, STREAM = 500, 8000
LEVEL = 20.0
"""Mean of every feature: zero is no usual value."""

APART = 2.5
"""Standard deviation of the blobs' centres; blobs of different classes are at least twice as far apart."""

FARTHER = {"autoregressive": 5.0, "noisy": 3.5}
"""The same of processes in which the training instances say less about the classes."""

EPISODE = 40, 80
"""Least and greatest length of the episodes of a class."""

PERSISTENCE, WHITE = 0.95, 0.1
"""Correlation of a class's neighbouring residuals, and the share of independent noise in the noisy process."""

SHIFT, OFFSET = 250, 0.6
"""Instances of a shift, and the standard deviation of its offset in each feature."""

DRIFT = 2.0
"""Standard deviations that each class moves along the stream, in a direction of its own."""

USUAL = 0.2
"""Quantile of a column's training values at which it is stuck."""

COPIES, NOISE, UNIT = 500, 0.1, 1000.0
SIZES = 500, 20, 5
"""Training instances of the three classes of the imbalanced problem."""

NEW = CLASSES
"""Number of the new class; it comes from an eighth of the stream on."""

OVERLAP, OVERLAP_SHARE = 3.0, 0.1
RARE, RARE_SHARE = 5.0, 0.005
"""Distance of the new class from blobs of a known one, and its share of the stream."""


def centres(rng: np.random.Generator, classes: int = CLASSES + 1, apart: float = APART) -> np.ndarray:
    """Draw the centres of the blobs, shape (classes, blobs, features)."""
    while True:
        drawn = rng.normal(scale=apart, size=(classes, BLOBS, FEATURES))
        flat, own = drawn.reshape(-1, FEATURES), np.repeat(np.arange(classes), BLOBS)
        distances = np.linalg.norm(flat[:, None] - flat, axis=2)
        if distances[own[:, None] != own].min() >= 2 * apart:
            return drawn


def mixed(rng: np.random.Generator, new: bool, share: float | None = None) -> np.ndarray:
    """Draw classes independently, shape (training + stream,); the new class is as large as others, or has a share."""
    y = rng.integers(CLASSES, size=TRAINING + STREAM)
    if new:
        late = np.arange(len(y)) >= TRAINING + STREAM // 8
        y[late & (rng.random(len(y)) < (share or 1 / (CLASSES + 1)))] = NEW
    return y


def episodes(rng: np.random.Generator, new: bool) -> np.ndarray:
    """Draw classes that last for about 60 instances each; training sees all the known ones."""
    y = np.empty(0, dtype=int)
    first = rng.permutation(CLASSES).tolist()
    while len(y) < TRAINING + STREAM:
        late = new and len(y) >= TRAINING + STREAM // 8
        others = [own for own in range(CLASSES + late) if not len(y) or own != y[-1]]
        own = first.pop() if first else rng.choice(others)
        y = np.append(y, np.full(rng.integers(EPISODE[0], EPISODE[1] + 1), own))
    return y[: TRAINING + STREAM]


def around(rng: np.random.Generator, at: np.ndarray, y: np.ndarray, noise: np.ndarray | None = None) -> np.ndarray:
    """Draw an instance of each class of `y` around one of its centres `at`, shape (n, features)."""
    blob = rng.integers(BLOBS, size=len(y))
    return LEVEL + at[y, blob] + (rng.normal(size=(len(y), FEATURES)) if noise is None else noise)


def split(X: np.ndarray, y: np.ndarray) -> Case:
    """Train with the beginning, and stream the rest."""
    labels = y.astype(str)
    return Case(X[:TRAINING], labels[:TRAINING], X[TRAINING:], labels[TRAINING:])


def independent(rng: np.random.Generator, new: bool) -> Case:
    """Draw a stream that nothing befalls: the control."""
    at, y = centres(rng), mixed(rng, new)
    return split(around(rng, at, y), y)


def wandering(rng: np.random.Generator, new: bool, apart: float, white: float) -> Case:
    """Let each class wander slowly around its centres, present or not, and last for an episode.

    An AR(1) process of each class is added to its centres, with a share of independent noise in its variance.
    """
    at, y = centres(rng, apart=apart), episodes(rng, new)
    steps = rng.normal(size=(CLASSES + 1, len(y), FEATURES))
    steps[:, 1:] *= np.sqrt(1 - PERSISTENCE**2)
    states = lfilter([1.0], [1.0, -PERSISTENCE], steps, axis=1)[y, np.arange(len(y))]
    residuals = np.sqrt(1 - white) * states + np.sqrt(white) * rng.normal(size=states.shape)
    return split(around(rng, at, y, residuals), y)


def offsets(rng: np.random.Generator, new: bool) -> Case:
    """Add an offset to each shift, the same for all classes."""
    at, y = centres(rng), mixed(rng, new)
    each = rng.normal(scale=OFFSET, size=(len(y) // SHIFT + 1, FEATURES))
    return split(around(rng, at, y) + each[np.arange(len(y)) // SHIFT], y)


def drift(rng: np.random.Generator, new: bool) -> Case:
    """Let each class move away evenly."""
    at, y = centres(rng), mixed(rng, new)
    directions = rng.normal(size=(CLASSES + 1, FEATURES))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    moved = np.clip((np.arange(len(y)) - TRAINING) / STREAM, 0.0, None)
    return split(around(rng, at, y) + DRIFT * moved[:, None] * directions[y], y)


def faulty(
    rng: np.random.Generator, new: bool, spoil: Callable[[np.ndarray, np.ndarray], np.ndarray | float]
) -> Case:
    """Spoil the column that varies most from the middle on; `spoil` maps its values in training and now to others."""
    sound, half = independent(rng, new), STREAM // 2
    X, column = sound.X.copy(), int(np.argmax(np.std(sound.X_train, axis=0)))
    X[half:, column] = spoil(sound.X_train[:, column], X[half:, column])
    return sound._replace(X=X, fault=half, column=column)


def repeated(rng: np.random.Generator, new: bool) -> Case:
    """Send one instance of a known class so many times more, one after the other."""
    sound, half = independent(rng, new), STREAM // 2
    row = half + int(np.argmin(np.isin(sound.y[half:], str(NEW))))
    X, y = sound.X.copy(), sound.y.copy()
    X[row : row + COPIES], y[row : row + COPIES] = X[row], y[row]
    return sound._replace(X=X, y=y, fault=row)


def imbalanced(rng: np.random.Generator, new: bool) -> Case:
    """Train three classes with many, few and next to no instances; the stream is balanced."""
    at = centres(rng, len(SIZES))
    y = np.concatenate(
        [rng.permutation(np.repeat(np.arange(len(SIZES)), SIZES)), rng.integers(len(SIZES), size=STREAM)]
    )
    X, labels, m = around(rng, at, y), y.astype(str), sum(SIZES)
    return Case(X[:m], labels[:m], X[m:], labels[m:])


def mislabelled(rng: np.random.Generator, new: bool) -> Case:
    """Give a tenth of the training instances the label of another class."""
    sound = independent(rng, new)
    wrong = rng.random(TRAINING) < NOISE
    y = (sound.y_train.astype(int) + wrong * rng.integers(1, CLASSES, size=TRAINING)) % CLASSES
    return sound._replace(y_train=y.astype(str))


def beside(rng: np.random.Generator, blobs: slice, distance: float, share: float) -> Case:
    """Put the new class at a distance from some blobs of a known one (each, or the first), and send its share."""
    at, y = centres(rng), mixed(rng, True, share)
    direction = rng.normal(size=at[0, blobs].shape)
    at[NEW] = at[0, blobs] + distance * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    return split(around(rng, at, y), y)


PROCESSES: dict[str, Callable[[np.random.Generator, bool], Case]] = {
    "independent": independent,
    "autoregressive": lambda rng, new: wandering(rng, new, FARTHER["autoregressive"], 0.0),
    "noisy": lambda rng, new: wandering(rng, new, FARTHER["noisy"], WHITE),
    "offsets": offsets,
    "drift": drift,
    "stuck": lambda rng, new: faulty(rng, new, lambda before, now: float(np.quantile(before, USUAL))),
    "repeated": repeated,
    "zero": lambda rng, new: faulty(rng, new, lambda before, now: 0.0),
    "unit": lambda rng, new: faulty(rng, new, lambda before, now: UNIT * now),
    "imbalanced": imbalanced,
    "mislabelled": mislabelled,
    "overlapping": lambda rng, new: beside(rng, slice(None), OVERLAP, OVERLAP_SHARE),
    "rare": lambda rng, new: beside(rng, slice(1), RARE, RARE_SHARE),
}

BOTH = ("independent", "autoregressive", "noisy", "offsets", "drift", "stuck", "repeated")
"""Processes with and without a new class; of the others the last two have one."""

NAMES = [
    f"{name}/{world}"
    for name in PROCESSES
    for world in ("closed", "open")
    if name in BOTH or (world == "open") == (name in ("overlapping", "rare"))
]


def case(name: str, seed: int) -> Case:
    """Make the case of a name ``PROCESS/closed`` or ``PROCESS/open``, reproducible from the seed."""
    process, world = name.split("/")
    return PROCESSES[process](np.random.default_rng([seed, *process.encode()]), world == "open")
