"""Tables 1 and 2 of the paper: its known classes, all others unknown, and which subclasses are found.

The tables show them beside what the paper prints, and what a rule of size does to its estimate of new classes.

The paper says which classes trained, not which of their instances: seeds draw these, and the method's randomness.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.openset.cells import figures_of_merit
from benchmarks.openset.methods import ENTRIES, OURS, Setup
from benchmarks.openset.sets import SETTINGS, problem
from benchmarks.records import append, lines, versions
from benchmarks.written import table

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


# The tables

SHARES = (0.0, 0.001, 0.01)
"""Smallest share of the test part that a new subclass counts with: the paper states no such rule."""

VALIDATED = ("CD-OSR", "CD-OSR class-wise")
"""Methods whose prior the paper's validation chooses."""

COLUMNS = ["", "subclasses of the known classes", "known subclasses in the test part", "new subclasses, Delta"]
COLUMNS += [f"at least {share:.1%} of the test part".replace(".0%", "%") for share in SHARES[1:]]
COLUMNS += ["labelled known", "truly known", "micro-F"]


def estimate(new: int, known: int, n_known: int) -> int:
    """Estimate the number of new classes by the paper's equation (14).

    Examples
    --------
    >>> estimate(14, 19, 5), estimate(32, 43, 5)  # the paper's tables
    (4, 4)
    """
    return math.floor(new / (known / n_known) + 0.5)


def discovered(name: str, found: Mapping[Key, Mapping[str, Any]]) -> str:
    """Lay out the table of one data set: the paper's line, then a line a method with the range over the seeds."""
    printed = PRINTED[name]
    delta = estimate(printed.new_subclasses, printed.known_subclasses, len(printed.known))
    first = ["the paper", "/".join(map(str, printed.subclasses)), printed.known_subclasses]
    rows: list[Sequence[object]] = [
        [*first, f"{printed.new_subclasses}, {delta}", "", "", f"{printed.known_share:.1%}", "", ""]
    ]
    for method in METHODS:
        of_method = [record for key, record in found.items() if key[:2] == (name, method)]
        if of_method:
            rows.append([f"{method} ({len(of_method)} seeds)", *_cells(of_method, printed)])
    return table(COLUMNS, rows)


def _cells(records: Sequence[Mapping[str, Any]], printed: Printed) -> list[str]:
    counts = [[len(group["subclasses"]) for group in r["discovery"]["known"]] for r in records]
    known = [r["discovery"].get("known_met", sum(of)) for r, of in zip(records, counts, strict=True)]
    cells = ["/".join(_range(of) for of in zip(*counts, strict=True)), _range(known)]
    for share in SHARES:
        new = [sum(size >= max(share * r["n_test"], 1) for _, size, _ in r["discovery"]["emerging"]) for r in records]
        deltas = [estimate(n, k, len(printed.known)) for n, k in zip(new, known, strict=True)]
        cells.append(f"{_range(new)}, {_range(deltas)}")
    called = np.mean([1.0 - r["discovery"]["unknown_share"] for r in records])
    there = np.mean([r["known_instances"] for r in records])
    return [*cells, f"{called:.1%}", f"{there:.1%}", f"{np.mean([r['micro_f'] for r in records]):.3f}"]


def chosen(records: Iterable[Mapping[str, Any]]) -> str:
    """Lay out which priors the paper's validation chose: the median over seeds, and the range."""
    of: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        of.setdefault((record["dataset"], record["method"]), []).append(record["chosen"])
    rows = []
    for (name, method), found in of.items():
        above = [each["nu_above_dimension"] for each in found]
        scale = [each["scale"] for each in found]
        rows.append([name, method, len(found), f"{np.median(above):g} ({_range(above)})", f"{_range(scale, 'g')}"])
    return table(["data set", "method", "seeds", "nu - d, median (range)", "scale"], rows)


def _range(values: Iterable[float], form: str = "") -> str:
    """Write smallest and largest.

    >>> _range([3, 5]), _range([4, 4])
    ('3-5', '4')
    """
    low, high = min(values := list(values)), max(values)
    return format(low, form) if low == high else f"{low:{form}}-{high:{form}}"
