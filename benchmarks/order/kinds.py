"""Made-up streams that differ from training: a moved frame, a new host, other people, a column that was constant.

Rows are independent, apart from the activities of people. Standard deviations are 1 within a class.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.order.case import Case

STREAM = 3000
"""Instances of each stream but those of people."""
TRAINING = 900
"""Training instances of the streams with one column more."""
BOUT = 20
"""Instances in a row of an activity of a person."""


class Move(NamedTuple):
    """An offset that all classes share, and a gain.

    Attributes
    ----------
    columns
        Number of the first moved column, and of the first one after the moved ones.
    by
        Offset, in standard deviations of the training instances.
    since, until
        Positions in the stream.
    gain
        Factor of the values before the offset.
    slow
        Instances until the offset is complete. 0: the frame jumps.
    """

    columns: tuple[int, int] = (0, 3)
    by: float = 4.0
    since: int = 0
    until: int = STREAM
    gain: float = 1.0
    slow: int = 0


def frame(seed: int, *moves: Move, new: float = 0.0, d: int = 18, classes: int = 4, training: int = 2000) -> Case:
    """Move columns for all classes; `new` is the share of a new class in the stream."""
    rng = np.random.default_rng(seed)
    centre = 1.2 * rng.normal(size=(classes + 1, d))
    y_train, y = rng.integers(classes, size=training), rng.integers(classes, size=STREAM)
    y[rng.random(STREAM) < new] = classes
    X_train = centre[y_train] + rng.normal(size=(training, d))
    X = centre[y] + rng.normal(size=(STREAM, d))
    for move in moves:
        rows, own = slice(move.since, move.until), slice(*move.columns)
        part = np.minimum(1.0, np.arange(1, move.until - move.since + 1) / (move.slow or 1))
        X[rows, own] = move.gain * X[rows, own] + move.by * part[:, None] * X_train[:, own].std(0)
    return Case(
        X_train,
        y_train.astype(str),
        X,
        y.astype(str),
        fault=min((move.since for move in moves), default=None),
        columns=tuple(f"x{at}" for at in range(d)),
        moved=tuple(at for move in moves for at in range(*move.columns)),
    )


def one_more(seed: int, column: str, training: np.ndarray, stream: np.ndarray) -> Case:
    """Add a column to three classes whose six numeric columns are not moved."""
    sound = frame(seed, d=6, classes=3, training=TRAINING)
    X_train, X = (
        np.column_stack([numbers.astype(values.dtype), values])
        for numbers, values in ((sound.X_train, training), (sound.X, stream))
    )
    return sound._replace(X_train=X_train, X=X, columns=(*sound.columns, column))


def host(seed: int, share: float) -> Case:
    """Send a share of the stream from a host that training did not have."""
    rng = np.random.default_rng(seed)
    training, unseen = rng.integers(6, size=TRAINING), rng.random(STREAM) < share
    stream = np.where(unseen, 99, rng.integers(6, size=STREAM))
    texts = (np.array([f"n{value}" for value in hosts], dtype=object) for hosts in (training, stream))
    return one_more(seed, "node", *texts)


def constant(seed: int, before: float, after: float) -> Case:
    """Give one column a value in training and another one in the whole stream."""
    return one_more(seed, "x6", np.full(TRAINING, before), np.full(STREAM, after))


def people(seed: int, training: int, stream: int = 8, d: int = 8, classes: int = 5) -> Case:
    """Give each person an own offset for each class; some people train, others stream."""
    rng = np.random.default_rng(seed)
    centre = 2.2 * rng.normal(size=(classes, d))

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        rows, labels = [], []
        for _ in range(count):
            own = centre + 1.2 * rng.normal(size=(classes, d))
            y = np.repeat(rng.permutation(np.repeat(np.arange(classes), 3)), BOUT)
            rows.append(own[y] + rng.normal(size=(len(y), d)))
            labels.append(y)
        return np.concatenate(rows), np.concatenate(labels).astype(str)

    parts = *draw(training), *draw(stream)
    return Case(*parts, columns=tuple(f"x{at}" for at in range(d)), group=np.arange(len(parts[1])) // 300)


KINDS: dict[str, Callable[[int], Case]] = {
    "frame/unmoved": frame,
    "frame/one": lambda seed: frame(seed, Move((0, 1), 3.0)),
    "frame/all": lambda seed: frame(seed, Move((0, 18), 0.7)),
    "frame/three": lambda seed: frame(seed, Move()),
    "frame/three-new": lambda seed: frame(seed, Move(), new=0.1),
    "frame/middle": lambda seed: frame(seed, Move(since=1500)),
    "frame/back": lambda seed: frame(seed, Move(since=1000, until=2000)),
    "frame/two": lambda seed: frame(seed, Move(since=750), Move((3, 6), since=1875)),
    "frame/slow": lambda seed: frame(seed, Move(since=500, slow=2000)),
    "frame/gain": lambda seed: frame(seed, Move((0, 6), 1.0, gain=1.2)),
    "frame/gain-alone": lambda seed: frame(seed, Move((0, 18), 0.0, gain=1.2)),
    "new/30": partial(frame, new=0.3),
    "new/50": partial(frame, new=0.5),
    "new/90": partial(frame, new=0.9),
    "host/tenth": partial(host, share=0.1),
    "host/all": partial(host, share=1.0),
    "people/3": partial(people, training=3),
    "people/12": partial(people, training=12),
    "constant/6": partial(constant, before=5.0, after=6.0),
    "constant/2026": partial(constant, before=2025.0, after=2026.0),
}

NAMES = list(KINDS)


def case(name: str, seed: int) -> Case:
    """Make the case of a name, reproducible from the seed."""
    return KINDS[name](seed)
