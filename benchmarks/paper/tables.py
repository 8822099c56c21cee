"""Tables 1 and 2 beside what the paper prints, and what a rule of size does to its estimate of new classes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.paper.runs import METHODS, PRINTED, Key, Printed
from benchmarks.written import table

SHARES = (0.0, 0.001, 0.01)
"""Smallest share of the test part that a new subclass counts with: the paper states no such rule."""

VALIDATED = ("CD-OSR", "CD-OSR class-wise")
"""Methods whose prior the paper's validation chooses."""

COLUMNS = (
    "",
    "subclasses of the known classes",
    "known subclasses in the test part",
    *(
        "new subclasses, Delta" if share == 0.0 else f"at least {share:.1%} of the test part".replace(".0%", "%")
        for share in SHARES
    ),
    "labelled known",
    "truly known",
    "micro-F",
)


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
