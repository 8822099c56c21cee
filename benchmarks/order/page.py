"""What must hold for each case, whether it does, and the page with the figures before and now."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.order.processes import SIZES

Record = dict[str, Any]
TITLES = {
    "right": "known-class accuracy",
    "last_fifth": "accuracy in the last fifth",
    "rarest_right": "accuracy of the class of 5",
    "false_unknown": "false unknown rate",
    "announced": "announced subclasses",
    "unknown_recall": "unknown recall",
    "auroc": "AUROC",
    "micro_f": "micro-F",
    "live_off": "error of estimated recall",
    "promised_off": "error of expected recall",
    "recall_dropped": "`RecallDropped` at",
    "dropped_after": "`RecallDropped` after",
    "named_after": "column identified after",
}
"""Figures with conditions, and the column of the page that shows each."""

COUNTS = ("announced", "recall_dropped", "dropped_after", "named_after")
"""Figures that are no shares."""

ONLY_WHERE_BOUND = ("rarest_right", "promised_off", "dropped_after", "named_after")
"""Figures that are shown only where they have a condition."""

IN_THE_MEAN = ("live_off",)
"""Figures whose condition is on the mean of the seeds; that of any other is on the worst seed."""

RECALL = 0.9
"""Of the new class in a made-up stream, at least."""


class Bound(NamedTuple):
    """A condition: the figure is at least, or at most, so much."""

    least: bool
    value: float

    def met(self, value: float) -> bool:
        """Say whether a figure meets it, up to what rounding does."""
        return value >= self.value - 1e-9 if self.least else value <= self.value + 1e-9


def at_least(value: float) -> Bound:
    """Bound a figure from below."""
    return Bound(True, value)


def at_most(value: float) -> Bound:
    """Bound a figure from above."""
    return Bound(False, value)


def value_of(record: Record, figure: str) -> float:
    """Read a figure, or derive it; infinite if something that was to happen did not happen."""
    value = {
        "rarest_right": lambda: record["class_right"][str(len(SIZES) - 1)],
        "promised_off": lambda: abs(record["promised"] - record["right"]),
        "dropped_after": lambda: since(record, "recall_dropped"),
        "named_after": lambda: since(record, "column_named"),
    }.get(figure, lambda: record[figure])()
    return math.inf if value is None else float(value)


def since(record: Record, event: str) -> float:
    """Count instances between the beginning of a fault and an event."""
    return math.inf if record[event] is None else record[event] - record["fault"]


def bounds(record: Record, shuffled: Record | None = None) -> dict[str, Bound]:
    """List the conditions on the figures of a run; `shuffled` is the same table with its rows permuted."""
    name, *world = record["case"].split("/")
    frozen = record["frozen_right"]
    match name, *world:
        case _, _, "shuffled":
            return {}
        case "EEGEYE", *_:
            return {"right": at_least(frozen - 0.05), "announced": at_most(3), "recall_dropped": at_most(500)}
        case _, "closed", "order":
            return {
                "right": at_least(frozen - 0.03),
                "false_unknown": at_most(record["frozen_false_unknown"] + 0.03),
                "announced": at_most(0),
                "live_off": at_most(0.1),
            }
        case _, "open", "order":
            ranked = {} if shuffled is None else {"auroc": at_least(shuffled["auroc"] - 0.05)}
            return {
                "right": at_least(frozen - 0.05),
                "unknown_recall": at_least(0.6),
                **ranked,
                "micro_f": at_least(record["frozen_micro_f"] - 0.01),
            }
        case "imbalanced", _:
            return {"rarest_right": at_least(0.85)}
        case "mislabelled", _:
            return {"promised_off": at_most(0.06)}
        case (("zero" | "unit"), _):
            return {"dropped_after": at_most(record["stream"]), "named_after": at_most(100)}
        case "overlapping", _:
            return {"announced": at_least(1)}
        case "rare", _:
            return {"unknown_recall": at_least(0.8)}
    conditions = {
        "last_fifth": at_least(frozen - 0.05),
        "false_unknown": at_most(0.05),
        "announced": at_most(record["new"] + 2),
        "live_off": at_most(0.05),
    }
    return conditions | ({"unknown_recall": at_least(RECALL)} if record["new"] else {})


def unmet(record: Record, shuffled: Record | None = None) -> list[str]:
    """Name the figures of a run that do not meet their conditions."""
    return [name for name, bound in bounds(record, shuffled).items() if not bound.met(value_of(record, name))]


class Summed(NamedTuple):
    """A figure of a case over the seeds: mean, worst, and the condition as far as it is the same for all seeds."""

    mean: float
    worst: float
    met: bool | None
    bound: Bound | None


def summed(records: Sequence[Record], figure: str, permuted: Sequence[Record]) -> Summed | None:
    """Sum up a figure over the seeds; ``None``: there is nothing to show."""
    twins = {record["seed"]: record for record in permuted}
    conditions = [bounds(record, twins.get(record["seed"])).get(figure) for record in records]
    bound = [each for each in conditions if each is not None]
    if figure in ONLY_WHERE_BOUND and not bound:
        return None
    values = [value_of(record, figure) for record in records]
    mean = float(np.mean(values))
    if len(bound) < len(records):
        return Summed(mean, mean, None, None) if math.isfinite(mean) else None
    least = bound[0].least
    worst = min(values) if least else max(values)
    if figure in IN_THE_MEAN:
        return Summed(mean, worst, bound[0].met(mean), bound[0])
    met = all(each.met(value) for each, value in zip(bound, values, strict=True))
    return Summed(mean, worst, met, Bound(least, (max if least else min)(each.value for each in bound)))


def read(path: Path) -> dict[str, list[Record]]:
    """Read the latest record of each case and seed, by case."""
    latest = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        latest[record["case"], record["seed"]] = record
    found: dict[str, list[Record]] = {}
    for (case, _), record in sorted(latest.items(), key=lambda item: item[0][1]):
        found.setdefault(case, []).append(record)
    return found


def shown(value: float, figure: str = "") -> str:
    """Write a figure: a share with two digits, a count with one at most.

    >>> [shown(0.504), shown(1.0), shown(3.0, "announced"), shown(0.6, "announced"), shown(math.inf)]
    ['0.50', '1.00', '3', '0.6', 'never']
    """
    if not math.isfinite(value):
        return "never"
    if figure in COUNTS:
        return f"{value:.0f}" if value == int(value) or value > 100 else f"{value:.1f}"
    return f"{value:.2f}"


def cell(figure: str, before: Summed | None, now: Summed | None) -> str:
    """Write a figure before and now, with the worst seed and the condition; bold: the condition is not met."""
    told = []
    for each in (before, now):
        if each is not None:
            mean, worst = shown(each.mean, figure), shown(each.worst, figure)
            text = mean if worst == mean else f"{mean} ({worst})"
            told.append(f"**{text}**" if each.met is False else text)
    of = now or before
    if of is None or of.bound is None:
        return " → ".join(told)
    return f"{' → '.join(told)}, {'≥' if of.bound.least else '≤'} {shown(of.bound.value, figure)}"


def sums(runs: dict[str, list[Record]], case: str) -> dict[str, Summed | None]:
    """Sum up all figures of a case; empty if it was not measured."""
    permuted = runs.get(f"{case.rpartition('/')[0]}/shuffled", [])
    return {figure: summed(runs[case], figure, permuted) for figure in TITLES} if case in runs else {}


def row(before: dict[str, list[Record]], now: dict[str, list[Record]], case: str) -> list[str]:
    """Make the row of a case: its name, what the frozen model has right, and a cell for each figure."""
    frozen = [float(np.mean([r["frozen_right"] for r in runs[case]])) for runs in (before, now) if case in runs]
    earlier, later = sums(before, case), sums(now, case)
    cells = [cell(figure, earlier.get(figure), later.get(figure)) for figure in TITLES]
    return [case, " → ".join(dict.fromkeys(map(shown, frozen))), *cells]


def count(runs: dict[str, list[Record]]) -> tuple[int, int]:
    """Count the conditions that are met, over the seeds of each case together, and all."""
    sum_of = [each for case in runs for each in sums(runs, case).values() if each is not None]
    found = [each.met for each in sum_of if each.met is not None]
    return sum(found), len(found)


def text(before: dict[str, list[Record]], now: dict[str, list[Record]]) -> str:
    """Make the tables, and sentences on how many conditions are met and how many decisions are as before."""
    from benchmarks.written import table

    cases = list(dict.fromkeys([*before, *now]))
    groups = {
        "Tables in order": [case for case in cases if case.endswith("/order")],
        "The same rows shuffled": [case for case in cases if case.endswith("/shuffled")],
        "Synthetic processes": [case for case in cases if case.count("/") == 1],
    }
    columns, parts = ["", "accuracy of the frozen model", *TITLES.values()], []
    for title, group in groups.items():
        body = [row(before, now, case) for case in group]
        kept = [at for at in range(len(columns)) if any(each[at] for each in body)]
        if body:
            cells = [[each[at] for at in kept] for each in body]
            parts.append(f"## {title}\n\n{table([columns[at] for at in kept], cells)}")
    for runs in filter(None, (before, now)):
        commits = ", ".join(sorted({record["commit"] for records in runs.values() for record in records}))
        met, of = count(runs)
        parts.append(f"At {commits}, {met} of {of} conditions are met.{gained(runs)}")
    same = [case for case in cases if case in before and digests(before, case) == digests(now, case)]
    if before:
        parts.append(f"Every decision is the same bit for bit as before: {', '.join(same) or 'in no case'}.")
    return "\n\n".join(parts)


def digests(runs: dict[str, list[Record]], case: str) -> dict[int, str]:
    """Digests of all decisions, by seed."""
    return {record["seed"]: record["digest"] for record in runs.get(case, [])}


def gained(runs: dict[str, list[Record]]) -> str:
    """Say how the micro-F of open tables in order compares with the frozen model's in the mean."""
    opened = [r for case, records in runs.items() if case.endswith("/open/order") for r in records]
    if not opened:
        return ""
    gain = np.mean([record["micro_f"] - record["frozen_micro_f"] for record in opened])
    return f"\nOn the open tables in order, the mean difference in micro-F to the frozen model is {gain:+.3f}."
