"""The results as markdown: means over seeds with standard errors, differences to another file, what is met."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from benchmarks.records import Record
from benchmarks.trust.criteria import criteria, not_met, told
from benchmarks.trust.running import Run
from benchmarks.trust.statistics import Mean, Seeds, Streams, differences, gather, mean_of, over_seeds, paired, short
from benchmarks.written import table

HEADS = {
    "promised": "expected recall",
    "frozen": "frozen",
    "right": "known-class accuracy",
    "right_last": "last fifth",
    "unknown": "false unknown rate",
    "unknown_last": "last fifth",
    "announced": "announced",
    "standing": "standing",
    "closed_accuracy": "closed set",
    "medium_micro_f": "medium",
    "high_micro_f": "highest",
    "high_auroc": "AUROC, highest",
    "high_ece": "calibration error, highest",
    "micro_f": "micro-F",
    "auroc": "AUROC",
    "ece": "calibration error",
    "known_right": "known-class accuracy",
    "unknown_recall": "unknown recall",
    "ece_bayes": "of the true densities",
    "ece_late": "settled",
    "ece_late_bayes": "of the true densities",
    "p_unknown_late": "mean p_unknown, settled",
    "share_late": "share of new instances, settled",
    "number": "new classes",
    "accuracy": "accuracy",
    "accuracy_last": "last fifth",
    "accuracy_bayes": "of the true densities",
    "drifted": "ClassDrifted",
}
"""Heads of figures."""

TITLES = {
    "closed": "Closed streams",
    "open": "The five sets",
    "breadth": "The seventeen sets",
    "overlap": "New classes that overlap a known class",
    "persistent": "A new class that stays",
    "demo": "The segments of the demonstration, sky, foliage and window new",
}

FIGURES = {
    "closed": "promised frozen right right_last unknown unknown_last announced standing",
    "open": "closed_accuracy medium_micro_f high_micro_f high_auroc high_ece",
    "breadth": "micro_f auroc ece known_right unknown_recall",
    "overlap": "ece ece_bayes ece_late ece_late_bayes p_unknown_late share_late known_right unknown_recall number",
    "persistent": "accuracy accuracy_last accuracy_bayes known_right unknown_recall drifted announced number",
    "demo": "ece auroc micro_f known_right unknown_recall number announced",
}
"""Figures of each part, in the order of the columns."""

AVERAGED = ("open", "breadth")
"""Parts in which a last row has the means over streams."""


def part_table(part: str, streams: Streams) -> str:
    """Write the means over seeds of a part."""
    columns, closed = FIGURES[part].split(), part == "closed"
    sizes, live = (["n_train", "n"], ["live: difference", "covered"]) if closed else ([], [])
    heads = ["stream", "seeds", *["training", "stream"][: len(sizes)], *map(HEADS.get, columns), *live, "seconds"]
    rows = []
    for name, runs in streams.items():
        cells = [f"{over_seeds(runs, size).mean:.0f}" for size in sizes]
        cells += [str(over_seeds(runs, figure)) for figure in columns]
        if closed:  # how far the live figure is from the truth on average, and how often its interval holds it
            found = told(runs.values())
            figures = (np.abs(found.error), found.covered) if len(found.error) else ()
            cells += [short(float(each.mean())) for each in figures] or ["", ""]
        cells += [f"{over_seeds(runs, 'seconds').mean:.2f}", *([not_met(runs)] if closed else [])]
        rows.append([name, str(len(runs)), *cells])
    if part in AVERAGED and len(streams) > 1:
        means = (mean_of(over_seeds(runs, figure).mean for runs in streams.values()) for figure in columns)
        rows.append(["mean", "", *(short(mean.mean) for mean in means), ""])
    return table([*heads, *(["not met"] if closed else [])], rows, right=True)


def _seconds(now: Seeds, before: Seeds) -> str:
    both = [seed for seed in now if seed in before]
    spent, was = (sum(runs[seed]["seconds"] for seed in both) for runs in (now, before))
    return short(spent / was) if was else ""


def difference_table(part: str, now: Streams, before: Streams) -> str:
    """Write the paired differences of a part, and the ratio of processor times."""
    columns = FIGURES[part].split()
    rows = []
    found: dict[str, list[float]] = {figure: [] for figure in columns}
    for name in paired(now, before):
        cells = []
        for figure in columns:
            difference = differences(now[name], before[name], figure)
            cells.append(_signed(difference))
            if difference.n:
                found[figure].append(difference.mean)
        both = sum(seed in before[name] for seed in now[name])
        rows.append([name, str(both), *cells, _seconds(now[name], before[name])])
    over = [_signed(mean_of(values)._replace(error=math.nan)) for values in found.values()]
    rows.append(["mean", "", *over, ""])
    return table(["now less before", "seeds", *map(HEADS.get, columns), "seconds, ratio"], rows, right=True)


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
        seeds = sorted({seed for runs in now.values() for seed in runs})
        parts += [f"## {title} (seeds {'-'.join(map(str, sorted({seeds[0], seeds[-1]})))})", part_table(part, now)]
        if paired(now, was):
            parts.append(difference_table(part, now, was))
    judged = criteria(records, before)
    rows = [[one.wanted, one.found, "met" if one.met else "**not met**"] for one in judged]
    parts += ["## Criteria", table(["criterion", "result", ""], rows, right=True)]
    return "\n\n".join(parts)
