"""Alarms that noise might drown: a new class beside uniform noise, after a burst of it, and a rare one.

Five Gaussian classes in d dimensions are known (200 instances of each to train on), a sixth is new. Noise is uniform
over the range of known and new instances together, feature by feature. Micro-batches of 64, else the defaults.
Instances come at random:

- *beside*: 1500, a tenth of the new class, 0, 5 or 20 % noise. How many of the new class come until it is announced;
- *noise alone*: 2000, none of the new class, 5 or 20 % noise. What is announced, and how many jumps of the unknown
  rate are told;
- *after, muted*: 500 of noise, then 1500, a tenth of the new class; what the noise has announced is muted before;
- *rare*: 16 000 (40 of the new class on average), one in 400 new.

An announced subclass is of the kind (new, noise, known) that most of its instances at the end are of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.deciding import train
from benchmarks.discovery.streams import BATCH, announced
from benchmarks.discovery.tables import Table, column
from stream_osr import OpenSetRecognizer, UnknownRateJumped
from stream_osr.discovery.events import Event
from stream_osr.parameters import parameters
from stream_osr.training.trained import TrainedModel

DIMENSIONS = {"Gaussians 2": 2, "Gaussians 4": 4, "Gaussians 8": 8}
DATASETS = tuple(DIMENSIONS)
SEEDS = 20
KNOWN = 5
APART = {2: 6.0, 4: 4.0, 8: 3.0}
"""Standard deviation of the centres in so many dimensions; no two are nearer than ``NEAREST``."""
NEAREST = 5.0
LENGTH, SHARE = 1500, 0.1
RARE_LENGTH, RARE = 16_000, 1 / 400
BURST = 500
KINDS = ("known", "new", "noise")
STREAMS = {
    "beside 0 %": (LENGTH, SHARE, 0.0),
    "beside 5 %": (LENGTH, SHARE, 0.05),
    "beside 20 %": (LENGTH, SHARE, 0.2),
    "5 % alone": (2000, 0.0, 0.05),
    "20 % alone": (2000, 0.0, 0.2),
    "rare": (RARE_LENGTH, RARE, 0.0),
}
"""Instances of each stream, and the shares of the new class and of noise."""


class Source(NamedTuple):
    """A trained model, and the means of all classes, shape (C + 1, d), the new one last."""

    trained: TrainedModel
    mean: np.ndarray


def source(dataset: str, seed: int) -> Source:
    """Draw centres of known classes and of the new one, shape (6, d), and train on the known classes."""
    d = DIMENSIONS[dataset]
    rng = np.random.default_rng([seed, d])
    while True:
        mean = rng.normal(scale=APART[d], size=(KNOWN + 1, d))
        distance = np.linalg.norm(mean[:, None] - mean, axis=2) + 2 * NEAREST * np.eye(KNOWN + 1)
        if distance.min() > NEAREST:
            break
    y = np.repeat(np.arange(KNOWN), 200)
    return Source(train(mean[y] + rng.normal(size=(len(y), d)), y, parameters(seed=seed)), mean)


def stream(
    given: Source, n: int, new: float, noise: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw n rows, and of which of `KINDS` each is."""
    mean = given.mean
    kind = rng.choice(3, size=n, p=[1.0 - new - noise, new, noise])
    label = np.where(kind == 1, KNOWN, rng.integers(KNOWN, size=n))
    rows = mean[label] + rng.normal(size=(n, mean.shape[1]))
    low, high = mean.min(axis=0) - 3.0, mean.max(axis=0) + 3.0
    rows[kind == 2] = rng.uniform(low, high, size=(int((kind == 2).sum()), len(low)))
    return rows, kind


def listen(model: OpenSetRecognizer, rows: np.ndarray) -> list[Event]:
    """Run rows through, and close the last batch."""
    model.learn_many(pd.DataFrame(rows, columns=list(model.trained.names)))
    model.flush()
    return list(model.drain_events())


def judge(model: OpenSetRecognizer, events: Sequence[Event], kind: np.ndarray) -> dict[str, Any]:
    """Say when the new class was announced, and what else was."""
    members: dict[int, list[int]] = {}
    for decision in model.drain():
        if decision.subclass_id is not None:
            members.setdefault(decision.subclass_id, []).append(decision.seq)
    by_kind: dict[str, list[int]] = {name: [] for name in KINDS}
    for key, seq in announced(events).items():
        if key in members:
            by_kind[KINDS[np.bincount(kind[members[key]], minlength=3).argmax()]].append(seq)
    late = int((kind[: min(by_kind["new"]) + 1] == 1).sum()) if by_kind["new"] else None
    jumps = sum(isinstance(event, UnknownRateJumped) for event in events)
    return {"late": late, "jumps": jumps, **{f"announced {name}": len(by_kind[name]) for name in KINDS}}


def measure(dataset: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what was announced in each stream."""
    given = source(dataset, seed)

    def fresh() -> OpenSetRecognizer:
        return OpenSetRecognizer.from_trained(given.trained, seed=seed, batch_size=BATCH)

    for name, shape in STREAMS.items():
        rows, kind = stream(given, *shape, np.random.default_rng([seed, 3]))
        model = fresh()
        yield {"stream": name, **judge(model, listen(model, rows), kind)}
    model, rng = fresh(), np.random.default_rng([seed, 4])
    burst, of_burst = stream(given, BURST, 0.0, 1.0, rng)
    rows, kind = stream(given, LENGTH, SHARE, 0.0, rng)
    listen(model, burst)
    if alive := [key for key, _, emerged in model.summary().emerging if emerged]:
        model.mute(alive)
    yield {"stream": "after, muted", **judge(model, listen(model, rows), np.concatenate([of_burst, kind]))}


table = Table(
    {
        "streams": len,
        "median delay": column("late", median, ".1f"),
        "most": column("late", max, ".0f"),
        **{f"announced {name}": column(f"announced {name}", form=".2f") for name in ("new", "noise", "known")},
        "jumps": column("jumps", form=".2f"),
    },
    keys=("dataset", "stream"),
)
