"""Alarms that noise might drown: a new class beside uniform noise, after a burst of it, and a rare one.

Five Gaussian classes in d dimensions are known (200 instances of each to train on), a sixth is new; PENDIGITS and
LETTER: the known test part, and one unknown class drawn by the seed. Noise is uniform over the range of known and new
instances together, feature by feature. Micro-batches of 64, else the defaults. Instances come at random:

- *beside*: 1500, a tenth of the new class, 0, 5 or 20 % noise. How many of the new class come until it is announced;
- *noise alone*: 2000, none of the new class, 5 or 20 % noise. What is announced, and how many jumps of the unknown
  rate are told;
- *after*: 500 of noise, then 1500, a tenth of the new class; *muted*: what the noise has announced is muted before;
- *rare*: 16 000 (40 of the new class on average), one in 400 new.

An announced subclass is of the kind (new, noise, known) that most of its instances at the end are of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.discovery.streams import announced, prepare
from stream_osr import OpenSetRecognizer, UnknownRateJumped
from stream_osr.discovery.event_base import Event
from stream_osr.instances.features import Features
from stream_osr.parameters import parameters
from stream_osr.training.trained import TrainedModel, train_model

DIMENSIONS = {"Gaussians 2": 2, "Gaussians 4": 4, "Gaussians 8": 8}
DATASETS = (*DIMENSIONS, "PENDIGITS", "LETTER")
KNOWN = 5
APART = {2: 6.0, 4: 4.0, 8: 3.0}
"""Standard deviation of the centres in so many dimensions; no two are nearer than ``NEAREST``."""
NEAREST = 5.0
BATCH = 64
LENGTH = 1500
SHARE = 0.1
RARE = 1 / 400
RARE_LENGTH = 16_000
BURST = 500
KINDS = ("known", "new", "noise")


class Source(NamedTuple):
    """What instances are made of.

    Attributes
    ----------
    trained
        The model of the known classes.
    draw
        Draws rows, whether they are new, shape (n,), given.
    low, high
        Range of the noise, shape (p,).
    """

    trained: TrainedModel
    draw: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    low: np.ndarray
    high: np.ndarray


def source(dataset: str, seed: int) -> Source:
    """Make up Gaussians, or divide a data set."""
    if dataset not in DIMENSIONS:
        given = prepare(dataset, seed)
        new = given.unknown[int(np.random.default_rng([seed, 5]).integers(len(given.unknown)))]
        parts = given.X[given.of_known], given.X[given.y == new]

        def sample(is_new: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            out = np.empty((len(is_new), given.X.shape[1]))
            for part, inside in zip(parts, (~is_new, is_new), strict=True):
                turns = -(-int(inside.sum()) // len(part))
                order = np.concatenate([np.zeros(0, int), *(rng.permutation(len(part)) for _ in range(turns))])
                out[inside] = part[order[: inside.sum()]]
            return out

        together = np.concatenate(parts)
        return Source(given.trained, sample, together.min(axis=0), together.max(axis=0))
    d = DIMENSIONS[dataset]
    rng = np.random.default_rng([seed, d])
    while True:
        mean = rng.normal(scale=APART[d], size=(KNOWN + 1, d))
        distance = np.linalg.norm(mean[:, None] - mean, axis=2) + 2 * NEAREST * np.eye(KNOWN + 1)
        if distance.min() > NEAREST:
            break

    def draw(is_new: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        label = np.where(is_new, KNOWN, rng.integers(KNOWN, size=len(is_new)))
        return np.asarray(mean[label] + rng.normal(size=(len(label), d)))

    y = np.repeat(np.arange(KNOWN), 200)
    rows = mean[y] + rng.normal(size=(len(y), d))
    trained = train_model(Features(range(d)), rows, y, tuple(range(KNOWN)), parameters(seed=seed))
    return Source(trained, draw, mean.min(axis=0) - 3.0, mean.max(axis=0) + 3.0)


def stream(
    given: Source, n: int, new: float, noise: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw n rows, and of which of `KINDS` each is."""
    kind = rng.choice(3, size=n, p=[1.0 - new - noise, new, noise])
    rows = given.draw(kind == 1, rng)
    rows[kind == 2] = rng.uniform(given.low, given.high, size=(int((kind == 2).sum()), len(given.low)))
    return rows, kind


def listen(model: OpenSetRecognizer, rows: np.ndarray) -> list[Event]:
    """Run rows through, and close the last batch."""
    begin = model.summary().stream_size
    model.learn_many(pd.DataFrame(rows, columns=list(model.trained.names)), key=range(begin, begin + len(rows)))
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


def measure(seeds: Sequence[int], datasets: Sequence[str] = DATASETS) -> Iterator[dict[str, Any]]:
    """Yield what was announced in each stream."""
    for dataset in datasets:
        for seed in seeds:
            given = source(dataset, seed)
            for name, n, new, noise in (
                ("beside 0 %", LENGTH, SHARE, 0.0),
                ("beside 5 %", LENGTH, SHARE, 0.05),
                ("beside 20 %", LENGTH, SHARE, 0.2),
                ("5 % alone", 2000, 0.0, 0.05),
                ("20 % alone", 2000, 0.0, 0.2),
                ("rare", RARE_LENGTH, RARE, 0.0),
            ):
                rows, kind = stream(given, n, new, noise, np.random.default_rng([seed, 3]))
                model = OpenSetRecognizer.from_trained(given.trained, seed=seed, batch_size=BATCH)
                yield {"dataset": dataset, "seed": seed, "stream": name, **judge(model, listen(model, rows), kind)}
            for name in ("after", "muted"):
                rng = np.random.default_rng([seed, 4])
                burst, of_burst = stream(given, BURST, 0.0, 1.0, rng)
                rows, kind = stream(given, LENGTH, SHARE, 0.0, rng)
                model = OpenSetRecognizer.from_trained(given.trained, seed=seed, batch_size=BATCH)
                events = listen(model, burst)
                if name == "muted":
                    alive = [key for key, _, emerged in model.summary().emerging if emerged]
                    if alive:
                        model.mute(alive)
                    events = []
                events += listen(model, rows)
                whole = np.concatenate([of_burst, kind])
                yield {"dataset": dataset, "seed": seed, "stream": name, **judge(model, events, whole)}


def table(figures: Sequence[dict[str, Any]]) -> str:
    """Return instances until the new class was announced (median, most), and what was announced a stream."""
    lines = [
        f"{'noise':<14}{'stream':<13}{'streams':>8}{'median':>8}{'most':>7}{'new':>6}{'noise':>7}{'known':>7}{'jumps':>7}"
    ]
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in figures:
        cells.setdefault((one["dataset"], one["stream"]), []).append(one)
    for (dataset, name), found in cells.items():
        late = [math.inf if one["late"] is None else one["late"] for one in found]
        means = [
            fmean(one[key] for one in found)
            for key in ("announced new", "announced noise", "announced known", "jumps")
        ]
        lines.append(
            f"{dataset:<14}{name:<13}{len(found):8d}{median(late):8.1f}{max(late):7.0f}"
            f"{means[0]:6.2f}{means[1]:7.2f}{means[2]:7.2f}{means[3]:7.2f}"
        )
    return "\n".join(lines)
