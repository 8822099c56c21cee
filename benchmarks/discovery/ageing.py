"""No ageing: a class that first appears at instance 10^6 beside one that first appears at 10^4.

A stream of known instances, drawn from mixtures fitted to the known classes (and so are those that train), runs for
10^6 instances; its state is kept at 10^4 and at 10^6. From each state the same short streams are tried: one unknown
class, a twentieth of the instances, begins at once, its rows in several random orders. What counts are its instances
until it is announced.

Micro-batches of 64; *defaults*: else untouched; *cheap*: one chain, no window.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.discovery.closed import BATCH
from benchmarks.discovery.mixtures import Mixture, draw_known, fit, replace_known
from benchmarks.discovery.opened import finite
from benchmarks.discovery.streams import Problem, listen, prepare, recognizer
from stream_osr import OpenSetRecognizer, SubclassEmerged

DATASETS = ("LETTER", "PENDIGITS")
EARLY, LATE = 10_000, 1_000_000
CHUNK = 10_000
SHARE = 0.05
ROWS = 100
"""Instances of the new class in a short stream."""
ORDERS = 4
VARIANTS: dict[str, dict[str, Any]] = {"defaults": {}, "cheap": {"chains": 1, "window": 0}}


def grow_old(given: Problem, mixture: Mixture, until: Sequence[int], **arguments: Any) -> Iterator[tuple[bytes, int]]:
    """Run known instances through a stream; yield its state at each place, and the announcements so far."""
    model = recognizer(given, given.seed, batch_size=BATCH, **arguments)
    rng = np.random.default_rng([given.seed, LATE])
    seen = announced = 0
    for place in until:
        while seen < place:
            n = min(CHUNK, place - seen)
            X, _ = draw_known(mixture, n, rng)
            model.learn_many(pd.DataFrame(X, columns=list(model.trained.names)))
            announced += sum(isinstance(event, SubclassEmerged) for event in model.drain_events())
            for _ in model.drain():
                pass
            seen += n
        model.flush()
        for _ in model.drain():
            pass
        yield pickle.dumps(model), announced


def short_stream(
    given: Problem, mixture: Mixture, label: Any, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and classes of a stream that begins with an instance of a new class."""
    own = rng.permutation(np.flatnonzero(given.y == label))[:ROWS]
    known, of = draw_known(mixture, round(len(own) * (1.0 / SHARE - 1.0)), rng)
    at = np.concatenate([[0], 1 + rng.permutation(len(own) + len(known) - 1)])
    return np.concatenate([given.X[own], known])[at], np.concatenate([given.y[own], of])[at]


def tries(state: bytes, given: Problem, mixture: Mixture) -> Iterator[tuple[Any, int, float]]:
    """Yield, for each unknown class and order, its instances until it was announced, from one state."""
    for label in given.unknown:
        for number in range(ORDERS):
            model: OpenSetRecognizer = pickle.loads(state)
            rng = np.random.default_rng([given.seed, given.unknown.index(label), number])
            heard = listen(model, *short_stream(given, mixture, label, rng))
            yield label, number, heard.times.detections[label].instances


def measure(seeds: Sequence[int], datasets: Sequence[str] = DATASETS) -> Iterator[dict[str, Any]]:
    """Yield how late each class is announced at both places: of each data set, seed, variant, class and order."""
    for dataset in datasets:
        for seed in seeds:
            given = prepare(dataset, seed)
            mixture = fit(given)
            given = replace_known(given, mixture, np.random.default_rng([seed, EARLY]))
            for variant, arguments in VARIANTS.items():
                places = (EARLY, LATE)
                states = grow_old(given, mixture, places, **arguments)
                for place, (state, announced) in zip(places, states, strict=True):
                    for label, number, instances in tries(state, given, mixture):
                        yield {
                            "dataset": dataset,
                            "variant": variant,
                            "seed": seed,
                            "place": place,
                            "class": str(label),
                            "order": number,
                            "instances": finite(instances),
                            "false alarms before": announced,
                            "bytes": len(state),
                        }


def table(figures: Sequence[dict[str, Any]]) -> str:
    """Return the instances until detection at both places, and their ratio."""
    lines = [f"{'ageing':<22}{'tries':>7}{'place':>11}{'median':>8}{'mean':>8}{'<= 30':>7}{'never':>7}{'false':>7}"]
    cells: dict[tuple[str, str], dict[int, list[dict[str, Any]]]] = {}
    for one in figures:
        cells.setdefault((one["dataset"], one["variant"]), {}).setdefault(one["place"], []).append(one)
    for (dataset, variant), places in cells.items():
        means = []
        for place, found in places.items():
            late = [math.inf if one["instances"] is None else one["instances"] for one in found]
            means.append(fmean(min(n, ROWS) for n in late))
            lines.append(
                f"{f'{dataset}, {variant}':<22}{len(late):7d}{place:11,d}{median(late):8.1f}{means[-1]:8.2f}"
                f"{fmean(n <= 30 for n in late):7.3f}{1.0 - fmean(map(math.isfinite, late)):7.3f}"
                f"{max(one['false alarms before'] for one in found):7d}"
            )
        lines.append(f"{'':<22}mean at {LATE:,} relative to that at {EARLY:,}: {means[-1] / means[0]:.3f}")
    lines.append(f"mean: one that is never announced counts as {ROWS}; false: announced before, without need")
    return "\n".join(lines)
