"""Tables of the results: rows are methods, columns data set by openness, entries mean and deviation over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.openset.cells import DISCOVERY, Cell
from benchmarks.openset.methods import GROUPS, OURS
from benchmarks.openset.sets import LEVELS, SETTINGS
from benchmarks.records import Record
from benchmarks.written import table

MEASURES = {
    "micro_f": "Micro-F",
    "accuracy": "Accuracy",
    "known_recall": "Recall of the known, by name",
    "unknown_recall": "Recall of the unknown",
    "auroc": "AUROC of the unknown score",
    "fpr95": "Share of the unknown taken for known where 0.95 of the known are accepted (FPR95)",
    "oscr": "Area under the open-set classification rate (OSCR)",
    "ece": "Expected calibration error of p_unknown (15 bins of equal mass)",
}

ENTRY_ORDER = (*GROUPS["stream"], *GROUPS["cocluster"])


class Row(NamedTuple):
    """What a row of a table stands for: a method and how it was run."""

    method: str
    batch_size: int | str | None
    decision_delay: int
    test_share: float = 1.0

    @classmethod
    def of(cls, cell: Cell) -> Row:
        """Return the row that a cell belongs to."""
        return cls(cell.method, cell.batch_size, cell.decision_delay, cell.test_share)

    def __str__(self) -> str:
        parts = [self.method]
        if self.method == OURS:
            parts.append(f"batch {self.batch_size}")
        if self.decision_delay:
            parts.append(f"delay {self.decision_delay}")
        if self.test_share != 1.0:
            parts.append(f"{self.test_share:.0%} of the test part")
        return ", ".join(parts)

    @property
    def order(self) -> tuple[Any, ...]:
        """Ours first, then the paper's, then the others by name."""
        rank = 0 if self.method in GROUPS["stream"] else 1 if self.method in GROUPS["cocluster"] else 2
        name = self.method.lower() if rank == 2 else ""
        return rank, ENTRY_ORDER.index(self.method) if rank < 2 else 0, name, self.decision_delay


Column = tuple[str, str]
"""Data set and level of openness."""


def gather(records: Iterable[Record], measure: str) -> dict[Row, dict[Column, list[float]]]:
    """Collect the values of a measure over seeds; what is undefined (null) is left out."""
    found: dict[Row, dict[Column, list[float]]] = {}
    for record in records:
        if (value := record.get(measure)) is not None:
            cell = Cell.from_record(record)
            found.setdefault(Row.of(cell), {}).setdefault((cell.dataset, cell.level), []).append(value)
    return dict(sorted(found.items(), key=lambda item: item[0].order))


def markdown(records: Sequence[Record]) -> str:
    """Write all tables as markdown."""
    seeds = sorted({record["seed"] for record in records})
    parts = [
        "# Accuracy by the paper's protocol",
        "Mean ± standard deviation over the seeds "
        f"({len(seeds)} of them in the file, {seeds[0]} to {seeds[-1]}; n: seeds of a cell that has fewer). "
        "Closed, medium and high are the levels of openness; `docs/results/README.md` says how they were made.",
    ]

    def entry(values: Sequence[float]) -> str:
        if not values:
            return ""
        deviation = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
        short = f" (n = {len(values)})" if len(values) < len(seeds) else ""
        return f"{np.mean(values):.3f}{deviation}{short}"

    for measure, title in MEASURES.items():
        values = gather(records, measure)
        there = {column for row in values.values() for column in row}
        heads = [(name, level) for name in SETTINGS for level in LEVELS if (name, level) in there]
        rows = [
            [f"**{row}**" if row.method == OURS else str(row), *(entry(of.get(head, [])) for head in heads)]
            for row, of in values.items()
        ]
        if heads:
            parts += [f"## {title}", table(["method", *map(" ".join, heads)], rows, right=True)]
    parts += _speed(records)
    for title, text in discovery_tables(records):
        parts += [f"## {title}", f"```\n{text}\n```"]
    return "\n\n".join(parts) + "\n"


def _speed(records: Sequence[Record]) -> list[str]:
    train, decide = gather(records, "train_seconds"), gather(records, "us_per_instance")
    names = [name for name in SETTINGS if any(name == head[0] for row in decide.values() for head in row)]
    rows = []
    for row in sorted({**decide, **train}, key=lambda row: row.order):
        cells = []
        for name in names:
            seconds = [v for head, found in train.get(row, {}).items() if head[0] == name for v in found]
            micro = [v for head, found in decide.get(row, {}).items() if head[0] == name for v in found]
            first = f"{np.median(seconds):.2f}" if seconds else "-"
            cells.append(f"{first} / {np.median(micro):.0f}" if micro else "")
        rows.append([str(row), *cells])
    title = "## Time: training in seconds / a decision in microseconds (medians, all levels)"
    return [title, table(["method", *names], rows, right=True)] if names else []


def discovery_tables(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Lay out the paper's tables 1 and 2: highest openness, its smallest seed, full batch if there is one."""
    found = []
    for name in DISCOVERY:
        of_set = [record for record in records if record["dataset"] == name and record.get("discovery")]
        if of_set:
            chosen = min(of_set, key=lambda r: (r["options"]["decision_delay"], r["batch_size"] != "full", r["seed"]))
            size = chosen["batch_size"]
            how = "whole test part as one batch" if size == "full" else f"batches of {size}"
            title = f"{name} ({chosen['n_unknown']} unknown classes, seed {chosen['seed']}, {how})"
            found.append((f"New class discovery on {title}", discovery_table(chosen)))
    return found


def discovery_table(record: Record) -> str:
    """Lay out one discovery table: groups, number of subclasses, proportions in the group.

    Beside a new subclass stands the true class that most of it is of, and that class's share of it.
    """
    found = record["discovery"]
    rows = [("group", "subclasses", "proportion of the subclass in its group, %")]
    for group in found["known"]:
        shares = [f"S{key} {100 * share:.2f}" for key, share in group["subclasses"]]
        rows += _wrapped(f"class {group['label']!r}", str(len(shares)), shares)
    emerged = [(key, size) for key, size, announced in found["emerging"] if announced]
    n_known = sum(len(group["subclasses"]) for group in found["known"])
    unknown = 100 * found["unknown_share"]
    rows.append(("test part", str(n_known + len(emerged)), ""))
    rows.append(("  known", str(n_known), f"{100 - unknown:.2f}"))
    shares = []
    for key, size in emerged:
        label, share = found["made_of"].get(str(key), ("?", math.nan))
        shares.append(f"S{key} {100 * size / record['n_test']:.2f} ({label!r} {100 * share:.0f} %)")
    rows.append(("  new", str(len(emerged)), f"{unknown:.2f}"))
    rows += _wrapped("", "", shares, per_line=4)
    widths = [max(len(row[c]) for row in rows) for c in range(2)]
    lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c}".rstrip() for a, b, c in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    candidates = len(found["emerging"]) - len(emerged)
    lines.append(f"{candidates} more subclasses without support; the paper's Delta: {found['delta']}")
    return "\n".join(lines)


def _wrapped(name: str, number: str, shares: Sequence[str], per_line: int = 7) -> list[tuple[str, str, str]]:
    first, *others = (
        "  ".join(shares[begin : begin + per_line]) for begin in range(0, max(len(shares), 1), per_line)
    )
    return [(name, number, first), *(("", "", text) for text in others)]
