"""Tables of the results: rows are methods, columns data set by openness, entries mean and deviation over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.openset.cells import DISCOVERY, Cell
from benchmarks.openset.methods import GROUPS, OURS
from benchmarks.openset.results import Record
from benchmarks.openset.sets import LEVELS, SETTINGS

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
    epsilon: float | None
    test_share: float = 1.0

    def __str__(self) -> str:
        parts = [self.method]
        if self.method == OURS:
            parts.append("full batch" if self.batch_size == "full" else f"batch {self.batch_size}")
        if self.decision_delay:
            parts.append(f"delay {self.decision_delay}")
        if self.epsilon is not None:
            parts.append(f"epsilon {self.epsilon:g}")
        if self.test_share != 1.0:
            parts.append(f"{self.test_share:.0%} of the test part")
        return ", ".join(parts)

    @property
    def order(self) -> tuple[Any, ...]:
        """Ours first, then the paper's, then the others by name."""
        rank = 0 if self.method in GROUPS["stream"] else 1 if self.method in GROUPS["cocluster"] else 2
        size = math.inf if self.batch_size in ("full", None) else float(self.batch_size)  # type: ignore[arg-type]
        name = self.method.lower() if rank == 2 else ""
        return rank, ENTRY_ORDER.index(self.method) if rank < 2 else 0, name, size, self.decision_delay


Column = tuple[str, str]
"""Data set and level of openness."""


def row_of(cell: Cell) -> Row:
    """Return the row that a cell belongs to."""
    return Row(cell.method, cell.batch_size, cell.decision_delay, cell.epsilon, cell.test_share)


def gather(records: Iterable[Record], measure: str) -> dict[Row, dict[Column, list[float]]]:
    """Collect the values of a measure over seeds; what is undefined (null) is left out."""
    found: dict[Row, dict[Column, list[float]]] = {}
    for record in records:
        value = record.get(measure)
        if value is not None:
            cell = Cell.from_record(record)
            found.setdefault(row_of(cell), {}).setdefault((cell.dataset, cell.level), []).append(value)
    return dict(sorted(found.items(), key=lambda item: (item[0].order, item[0].epsilon or 0.0)))


def columns(values: Mapping[Row, Mapping[Column, Any]]) -> list[Column]:
    """List the columns that have an entry, in the order of the paper."""
    there = {column for row in values.values() for column in row}
    return [(name, level) for name in SETTINGS for level in LEVELS if (name, level) in there]


def entry(values: Sequence[float] | None) -> str:
    """Write mean and standard deviation over seeds.

    Examples
    --------
    >>> entry([0.5, 0.7]), entry([1.0]), entry(None)
    ('0.600 ± 0.141', '1.000', '')
    """
    if not values:
        return ""
    mean = f"{np.mean(values):.3f}"
    if len(values) == 1:
        return mean
    return f"{mean} ± {np.std(values, ddof=1):.3f}"


def without_sweeps(records: Iterable[Record]) -> list[Record]:
    """Leave out the runs at other epsilons than the default: they belong to the figure of epsilon."""
    return [record for record in records if record["options"]["epsilon"] is None]


def show(records: Sequence[Record], console: Console) -> None:
    """Print the tables, as many data sets side by side as fit."""
    kept = without_sweeps(records)
    for measure, title in MEASURES.items():
        values = gather(kept, measure)
        width = max((len(str(row)) for row in values), default=0)
        for number, part in enumerate(_side_by_side(columns(values), (console.width - width - 4) // 15)):
            table = Table(title=title if number == 0 else f"{title} (continued)", title_justify="left")
            table.add_column("method", no_wrap=True)
            for name, level in part:
                table.add_column(f"{name}\n{level}", justify="right", no_wrap=True)
            for row, of_row in values.items():
                if any(head in of_row for head in part):
                    style = "bold" if row.method == OURS else ""
                    table.add_row(str(row), *(entry(of_row.get(head)) for head in part), style=style)
            console.print(table)
    for title, text in discovery_tables(kept):
        console.print(f"\n{title}\n{text}", markup=False, highlight=False, soft_wrap=True)


def _side_by_side(heads: Sequence[Column], fit: int) -> list[list[Column]]:
    """Divide the columns into tables of at most so many, data sets whole."""
    parts: list[list[Column]] = []
    for name in dict.fromkeys(name for name, _ in heads):
        of_set = [head for head in heads if head[0] == name]
        if parts and len(parts[-1]) + len(of_set) <= fit:
            parts[-1].extend(of_set)
        else:
            parts.append(of_set)
    return parts


def markdown(records: Sequence[Record]) -> str:
    """Write all tables as markdown."""
    kept = without_sweeps(records)
    seeds = sorted({record["seed"] for record in kept})
    lines = [
        "# Accuracy by the paper's protocol",
        "",
        "Mean ± standard deviation over the seeds "
        f"({len(seeds)} of them in the file, {seeds[0]} to {seeds[-1]}; n: seeds of a cell that has fewer). "
        "Closed, medium and high are the levels of openness; `docs/results/README.md` says how they were made.",
        "",
    ]
    for measure, title in MEASURES.items():
        values = gather(kept, measure)
        heads = columns(values)
        if not heads:
            continue
        lines += [f"## {title}", "", "| method | " + " | ".join(f"{name} {level}" for name, level in heads) + " |"]
        lines.append("| --- |" + " ---: |" * len(heads))
        for row, of_row in values.items():
            entries = []
            for head in heads:
                found = of_row.get(head, [])
                short = f" (n = {len(found)})" if 0 < len(found) < len(seeds) else ""
                entries.append(entry(found) + short)
            name = f"**{row}**" if row.method == OURS else str(row)
            lines.append(f"| {name} | " + " | ".join(entries) + " |")
        lines.append("")
    lines += _speed(kept)
    for title, text in discovery_tables(kept):
        lines += [f"## {title}", "", "```", text, "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def _speed(records: Sequence[Record]) -> list[str]:
    train, decide = gather(records, "train_seconds"), gather(records, "us_per_instance")
    rows = list({**decide, **train})
    names = [name for name in SETTINGS if any(name == head[0] for row in decide.values() for head in row)]
    if not names:
        return []
    lines = ["## Time: training in seconds / a decision in microseconds (medians, all levels)", ""]
    lines += ["| method | " + " | ".join(names) + " |", "| --- |" + " ---: |" * len(names)]
    for row in sorted(rows, key=lambda row: row.order):
        parts = []
        for name in names:
            seconds = [v for head, found in train.get(row, {}).items() if head[0] == name for v in found]
            micro = [v for head, found in decide.get(row, {}).items() if head[0] == name for v in found]
            first = f"{np.median(seconds):.2f}" if seconds else "-"
            parts.append(f"{first} / {np.median(micro):.0f}" if micro else "")
        lines.append(f"| {row} | " + " | ".join(parts) + " |")
    return [*lines, ""]


def discovery_tables(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Lay out the paper's tables 1 and 2: highest openness, its smallest seed, full batch if there is one."""
    found = []
    for name in DISCOVERY:
        of_set = [
            record
            for record in records
            if record["dataset"] == name and record.get("discovery") and Cell.from_record(record).level == "high"
        ]
        if of_set:
            chosen = min(of_set, key=lambda r: (r["options"]["decision_delay"], r["batch_size"] != "full", r["seed"]))
            size = chosen["batch_size"]
            how = "whole test part as one batch" if size == "full" else f"batches of {size}"
            title = (
                f"New class discovery on {name} ({chosen['n_unknown']} unknown classes, seed {chosen['seed']}, {how})"
            )
            found.append((title, discovery_table(chosen)))
    return found


def discovery_table(record: Record) -> str:
    """Lay out one discovery table: groups, number of subclasses, proportions in the group.

    Beside a new subclass stands the true class that most of it is of, and that class's share of it.
    """
    found = record["discovery"]
    n_test = record["n_test"]
    rows = [("group", "subclasses", "proportion of the subclass in its group, %")]
    for group in found["known"]:
        shares = [f"S{key} {100 * share:.2f}" for key, share in group["subclasses"]]
        rows += _wrapped(f"class {group['label']!r}", len(shares), shares)
    emerged = [(key, size) for key, size, announced in found["emerging"] if announced]
    n_known = sum(len(group["subclasses"]) for group in found["known"])
    unknown = 100 * found["unknown_share"]
    rows.append(("test part", str(n_known + len(emerged)), ""))
    rows.append(("  known", str(n_known), f"{100 - unknown:.2f}"))
    of = found["made_of"]
    shares = []
    for key, size in emerged:
        label, share = of.get(str(key), ("?", math.nan))
        shares.append(f"S{key} {100 * size / n_test:.2f} ({label!r} {100 * share:.0f} %)")
    rows.append(("  new", str(len(emerged)), f"{unknown:.2f}"))
    rows += _wrapped("", None, shares, per_line=4)
    widths = [max(len(row[c]) for row in rows) for c in range(2)]
    lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c}".rstrip() for a, b, c in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    candidates = len(found["emerging"]) - len(emerged)
    lines.append(f"{candidates} more subclasses without support; the paper's Delta: {found['delta']}")
    return "\n".join(lines)


def _wrapped(name: str, number: int | None, shares: Sequence[str], per_line: int = 7) -> list[tuple[str, str, str]]:
    parts = [shares[begin : begin + per_line] for begin in range(0, len(shares), per_line)] or [[]]
    lines = [("", "", "  ".join(part)) for part in parts]
    return [(name, "" if number is None else str(number), lines[0][2]), *lines[1:]]
