"""Tables 1 and 2 of the paper: its known classes, all others unknown, and which subclasses are found.

The paper says which classes trained, not which of their instances: seeds draw these, and the method's randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from benchmarks.openset.cells import figures_of_merit
from benchmarks.openset.methods import ENTRIES, OURS, Setup
from benchmarks.openset.sets import SETTINGS, problem
from benchmarks.records import append, lines, versions

METHODS: Mapping[str, int | None] = {"CD-OSR": None, "CD-OSR class-wise": None, OURS: 64}
"""Methods, and the size of their batches; None: the whole test part."""


class Printed(NamedTuple):
    """What the paper prints in a table.

    Attributes
    ----------
    number
        Of the table.
    known
        The known classes, in its order.
    subclasses
        Of each of them.
    known_subclasses, new_subclasses
        In the test part.
    known_share
        Of the test part, that lies in known subclasses.
    """

    number: int
    known: tuple[int, ...]
    subclasses: tuple[int, ...]
    known_subclasses: int
    new_subclasses: int
    known_share: float


PRINTED = {
    "USPS": Printed(1, (2, 9, 1, 6, 3), (1, 4, 4, 3, 7), 19, 14, 0.5523),
    "PENDIGITS": Printed(2, (4, 2, 1, 9, 6), (7, 5, 11, 15, 5), 43, 32, 0.5042),
}

Key = tuple[str, str, int]


def read(path: Path) -> dict[Key, dict[str, Any]]:
    """Read the latest run of each data set, method and seed."""
    return {(r["dataset"], r["method"], r["seed"]): r for r in lines(path)}


def missing(path: Path, seeds: Iterable[int]) -> list[Key]:
    """List the runs that are not in the file, all of a seed before the next."""
    there = read(path)
    wanted = [(name, method, seed) for seed in seeds for name in PRINTED for method in METHODS]
    return [key for key in wanted if key not in there]


def measure(keys: Iterable[Key], path: Path) -> Iterator[Key]:
    """Measure runs, each in the file as soon as it is there."""
    for key in keys:
        name, method, seed = key
        tested = problem(name, None, seed, known=PRINTED[name].known)
        with threadpool_limits(1):
            made = ENTRIES[method].make(Setup(SETTINGS[name].pca, seed, {"names": (method,)}))
            made.fit(tested.X_train, tested.group, tested.known)
            outcome = made.decide(tested.X_test, METHODS[method] or len(tested.X_test), 0)
        record = {"dataset": name, "method": method, "seed": seed, **figures_of_merit(tested, outcome)}
        known_instances = float((tested.truth >= 0).mean())
        append(path, {**record, "known_instances": known_instances, "chosen": made.chosen, "versions": versions()})
        yield key
