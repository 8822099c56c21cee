"""Choices of the library, made again on seeds that nothing is reported of: python -m benchmarks.choices [--seeds 4].

A choice is a value in the library that could be another. Each is tried with every value on the tuning seeds, the same
splits for all, and the mean difference to the value in place is told with its interval. The choice is of the mean
over sets, and is not made again where no interval is on one side of nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple
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
from stream_osr.model import known
from stream_osr.model.moves import hyperparameters

BATCH = 64
SETS = ("LETTER", "PENDIGITS", "USPS", "COIL20", "YALEB", "SATIMAGE", "SHUTTLE")
MEASURES = ("micro_f", "auroc", "unknown_recall", "known_recall")


class Choice(NamedTuple):
    """A value of the library: where it is, what it may be by name, and which it is now.

    Without a module it is an argument of the recognizer.
    """

    module: object | None
    attribute: str
    values: dict[str, Any]
    now: str


CHOICES = {
    "freedom": Choice(known, "FREEDOM_ABOVE", {str(2**k): 2.0 ** np.arange(k, 9) for k in range(5)}, "4"),
    "floor": Choice(
        hyperparameters,
        "PSI_PER_DIMENSION",
        {str(least): np.geomspace(least, 10.0, 60) for least in (0.0005, 0.02, hyperparameters.FLOOR, 0.1)},
        str(hyperparameters.FLOOR),
    ),
    "window": Choice(None, "window", {str(n): n for n in (0, 64, 256, 640)}, "256"),
}
"""By name: least degrees of freedom of a broad term above those of a new subclass; least psi of the base measure for
each dimension; instances that are seated again with each batch."""


@contextmanager
def chosen(choice: Choice, value: str) -> Iterator[dict[str, Any]]:
    """Put another value in place; what is yielded are arguments for the recognizer."""
    if choice.module is None:
        yield {choice.attribute: choice.values[value]}
    else:
        with patch.object(choice.module, choice.attribute, choice.values[value]):
            yield {}


def measure(name: str, seed: int, arguments: dict[str, Any]) -> dict[str, float]:
    """Run the stream of highest openness."""
    tested = problem(name, None, seed)
    method = Stream(Setup(SETTINGS[name].pca, seed, None, {}), **arguments)
    with threadpool_limits(1):
        method.fit(tested.X_train, tested.group, tested.known)
        return figures_of_merit(tested, method.decide(tested.X_test, BATCH, 0))


def main(
    seeds: Annotated[int, typer.Option(min=2, max=len(TUNING), help="How many of the tuning seeds.")] = 4,
    only: Annotated[str, typer.Option(help="Values to try beside the present one, all if empty.")] = "",
    choices: Annotated[str, typer.Option(help=f"Which, of {', '.join(CHOICES)}; all if empty.")] = "",
) -> None:
    """Measure and print."""
    for title, choice in CHOICES.items():
        if choices and title not in choices.split(","):
            continue
        values = [v for v in choice.values if v == choice.now or not only or v in only.split(",")]
        found: dict[tuple[str, str, int], dict[str, float]] = {}
        for seed in TUNING[:seeds]:
            for name in SETS:
                for value in values:
                    with chosen(choice, value) as arguments:
                        found[value, name, seed] = measure(name, seed, arguments)
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
