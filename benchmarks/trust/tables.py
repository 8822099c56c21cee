"""The results as markdown: means over seeds with standard errors, differences to another file, what is met."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from benchmarks.trust.criteria import criteria, not_met, told
from benchmarks.trust.running import Record, Run
from benchmarks.trust.statistics import (
    Mean,
    Seeds,
    Streams,
    differences,
    gather,
    get,
    mean_of,
    over_seeds,
    paired,
    short,
)

TITLES = {
    "closed": "Closed streams",
    "open": "The five sets",
    "breadth": "The seventeen sets",
    "overlap": "New classes that overlap a known class",
    "persistent": "A new class that stays",
    "demo": "The segments of the demonstration, sky, foliage and window new",
}

COLUMNS: dict[str, dict[str, str]] = {
    "closed": {
        "promised": "expected recall",
        "frozen": "frozen",
        "right": "known-class accuracy",
        "right_last": "last fifth",
        "unknown": "false unknown rate",
        "unknown_last": "last fifth",
        "announced": "announced",
        "standing": "standing",
    },
    "open": {
        "closed_accuracy": "closed set",
        "medium_micro_f": "medium",
        "high_micro_f": "highest",
        "high_auroc": "AUROC, highest",
        "high_ece": "calibration error, highest",
    },
    "breadth": {
        "micro_f": "micro-F",
        "auroc": "AUROC",
        "ece": "calibration error",
        "known_right": "known-class accuracy",
        "unknown_recall": "unknown recall",
    },
    "overlap": {
        "ece": "calibration error",
        "ece_bayes": "of the true densities",
        "ece_late": "settled",
        "ece_late_bayes": "of the true densities",
        "p_unknown_late": "mean p_unknown, settled",
        "share_late": "share of new instances, settled",
        "known_right": "known-class accuracy",
        "unknown_recall": "unknown recall",
        "number": "new classes",
    },
    "persistent": {
        "accuracy": "accuracy",
        "accuracy_last": "last fifth",
        "accuracy_bayes": "of the true densities",
        "known_right": "known-class accuracy",
        "unknown_recall": "unknown recall",
        "drifted": "ClassDrifted",
        "announced": "announced",
        "number": "new classes",
    },
    "demo": {
        "ece": "calibration error",
        "auroc": "AUROC",
        "micro_f": "micro-F",
        "known_right": "known-class accuracy",
        "unknown_recall": "unknown recall",
        "number": "new classes",
        "announced": "announced",
    },
}
"""Figures of each part and how they are headed."""

AVERAGED = ("open", "breadth")
"""Parts in which a last row has the means over streams."""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a table; all columns but the first are numbers.

    Examples
    --------
    >>> print(table(["set", "F"], [["A", "0.9"]]))
    | set | F |
    | --- | ---: |
    | A | 0.9 |
    """
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def seeds_said(streams: Streams) -> str:
    """Write which seeds there are.

    Examples
    --------
    >>> seeds_said({"A": {0: {}, 1: {}, 2: {}, 7: {}}})
    '0-2, 7'
    """
    seeds = sorted({seed for runs in streams.values() for seed in runs})
    cuts = [0, *(i for i in range(1, len(seeds)) if seeds[i] != seeds[i - 1] + 1), len(seeds)]
    parts = [seeds[a:b] for a, b in pairwise(cuts) if a < b]
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _live_cells(runs: Seeds) -> list[str]:
    """Write how far the live figure is from the truth on average, and how often its interval holds it."""
    found = told(runs.values())
    if not len(found.error):
        return ["", ""]
    return [short(float(np.abs(found.error).mean())), short(float(found.covered.mean()))]


def _more_cells(part: str, runs: Seeds) -> list[str]:
    """Write what is in a row beside means of figures."""
    seconds = over_seeds(runs, get("seconds")).mean
    cells = [f"{seconds:.2f}"]
    if part == "closed":
        return [*_live_cells(runs), *cells, not_met(runs)]
    return cells


def part_table(part: str, streams: Streams) -> str:
    """Write the means over seeds of a part."""
    columns = COLUMNS[part]
    more = {"closed": ["live: difference", "covered", "seconds", "not met"]}.get(part, ["seconds"])
    training = part == "closed"
    heads = ["stream", "seeds", *(["training", "stream"] if training else []), *columns.values(), *more]
    rows = []
    for name, runs in streams.items():
        sizes = [f"{over_seeds(runs, get(size)).mean:.0f}" for size in ("n_train", "n")] if training else []
        means = [str(over_seeds(runs, get(figure))) for figure in columns]
        rows.append([name, str(len(runs)), *sizes, *means, *_more_cells(part, runs)])
    if part in AVERAGED and len(streams) > 1:
        means = [short(mean_of(_means(streams, figure)).mean) for figure in columns]
        rows.append(["mean", "", *means, *[""] * len(more)])
    return table(heads, rows)


def _means(streams: Streams, figure: str) -> list[float]:
    return [mean.mean for runs in streams.values() if (mean := over_seeds(runs, get(figure))).n]


def _seconds(now: Seeds, before: Seeds) -> str:
    both = [seed for seed in now if seed in before]
    spent, was = (sum(runs[seed]["seconds"] for seed in both) for runs in (now, before))
    return short(spent / was) if was else ""


def difference_table(part: str, now: Streams, before: Streams) -> str:
    """Write the paired differences of a part, and the ratio of processor times."""
    columns = COLUMNS[part]
    rows = []
    found: dict[str, list[float]] = {figure: [] for figure in columns}
    for name in paired(now, before):
        cells = []
        for figure in columns:
            difference = differences(now[name], before[name], get(figure))
            cells.append(_signed(difference))
            if difference.n:
                found[figure].append(difference.mean)
        both = sum(seed in before[name] for seed in now[name])
        rows.append([name, str(both), *cells, _seconds(now[name], before[name])])
    over = [_signed(mean_of(values)._replace(error=math.nan)) for values in found.values()]
    rows.append(["mean", "", *over, ""])
    return table(["now less before", "seeds", *columns.values(), "seconds, ratio"], rows)


def _signed(mean: Mean) -> str:
    """Write a difference; without its error where that is nan."""
    if not mean.n:
        return ""
    sign = "+" if mean.mean > 0 else ""
    if math.isnan(mean.error) or mean.n == 1:
        return f"{sign}{short(mean.mean)}"
    return f"{sign}{mean}"


def markdown(records: Mapping[Run, Record], before: Mapping[Run, Record]) -> str:
    """Write everything that was measured, part by part, and at the end what is met."""
    parts: list[str] = []
    for part, title in TITLES.items():
        now, was = gather(records, part), gather(before, part)
        if not now:
            continue
        parts += [f"## {title} (seeds {seeds_said(now)})", part_table(part, now)]
        if paired(now, was):
            parts.append(difference_table(part, now, was))
    judged = criteria(records, before)
    rows = [[one.wanted, one.found, "met" if one.met else "**not met**"] for one in judged]
    parts += ["## Criteria", table(["criterion", "result", ""], rows)]
    return "\n\n".join(parts)
