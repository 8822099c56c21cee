"""Choices of the library, made again on seeds that nothing is reported of: python -m benchmarks.choices [--seeds 4].

A choice is a value in the library that could be another. Each is tried with every value on the tuning seeds, the same
splits for all, and the mean difference to the value in place is told with its interval. The choice is of the mean
over sets, and is not made again where no interval is on one side of nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NamedTuple
from unittest.mock import patch

import numpy as np
import typer
from threadpoolctl import threadpool_limits

from benchmarks.openset.cells import figures_of_merit
from benchmarks.openset.methods import Setup
from benchmarks.openset.methods.stream import Stream
from benchmarks.openset.seeds import TUNING
from benchmarks.openset.sets import SETTINGS, problem
from benchmarks.openset.statistics import mean_interval
from benchmarks.written import table
from stream_osr.model import broad

BATCH = 64
SETS = ("LETTER", "PENDIGITS", "USPS", "COIL20", "YALEB", "SATIMAGE", "SHUTTLE")
MEASURES = ("micro_f", "auroc", "unknown_recall", "known_recall")


class Choice(NamedTuple):
    """A value of the library: where it is, what it may be by name, and which it is now."""

    module: object
    attribute: str
    values: dict[str, object]
    now: str


CHOICES = {
    "least degrees of freedom of a broad term above those of a new subclass": Choice(
        broad, "FREEDOM_ABOVE", {str(2**k): 2.0 ** np.arange(k, 9) for k in range(5)}, "4"
    )
}


@contextmanager
def chosen(choice: Choice, value: str) -> Iterator[None]:
    """Put another value in place."""
    with patch.object(choice.module, choice.attribute, choice.values[value]):
        yield


def measure(name: str, seed: int) -> dict[str, float]:
    """Run the stream of highest openness."""
    tested = problem(name, None, seed)
    method = Stream(Setup(SETTINGS[name].pca, seed, None, {}))
    with threadpool_limits(1):
        method.fit(tested.X_train, tested.group, tested.known)
        return figures_of_merit(tested, method.decide(tested.X_test, BATCH, 0))


def main(
    seeds: Annotated[int, typer.Option(min=2, max=len(TUNING), help="How many of the tuning seeds.")] = 4,
    only: Annotated[str, typer.Option(help="Values to try beside the present one, all if empty.")] = "",
) -> None:
    """Measure and print."""
    for title, choice in CHOICES.items():
        values = [v for v in choice.values if v == choice.now or not only or v in only.split(",")]
        found: dict[tuple[str, str, int], dict[str, float]] = {}
        for seed in TUNING[:seeds]:
            for name in SETS:
                for value in values:
                    with chosen(choice, value):
                        found[value, name, seed] = measure(name, seed)
                print(f"measured: {name}, seed {seed}", file=sys.stderr)
        print(f"\n{title} (now {choice.now}), tuning seeds {TUNING[0]} to {TUNING[seeds - 1]}")
        for figure in MEASURES:
            rows = []
            for value in values:
                by_set = [[found[value, name, s][figure] for s in TUNING[:seeds]] for name in SETS]
                by_seed = [
                    float(
                        np.mean([found[value, name, s][figure] - found[choice.now, name, s][figure] for name in SETS])
                    )
                    for s in TUNING[:seeds]
                ]
                _, mean, low, high = mean_interval(by_seed)
                between = "" if value == choice.now else f"{mean:+.4f} ({low:+.4f} to {high:+.4f})"
                rows.append([value, *(f"{np.mean(each):.4f}" for each in by_set), between])
            print(f"\n{figure}\n\n{table(['', *SETS, 'less the present one'], rows)}")


if __name__ == "__main__":
    typer.run(main)
