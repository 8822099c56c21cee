"""The paper's figures 9 to 14, for its own method and for ours; figures 4 to 8 are `benchmarks.openset.figures`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from benchmarks.openset.cells import Cell
from benchmarks.openset.figures import INK, OTHERS, OURS_COLOUR, STYLE, mean_and_deviation, saved
from benchmarks.openset.methods import OURS
from benchmarks.openset.sets import FIVE, SETTINGS
from benchmarks.records import Record

METHODS: Mapping[str, str] = {OURS: OURS_COLOUR, "CD-OSR": INK, "CD-OSR class-wise": OTHERS[0]}
"""Methods of the figures, and their colours."""

TITLES = {"closed": "closed set", "medium": "open set, medium openness"}


def draw_all(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw every figure that the records have something for; return the files."""
    drawn: dict[str, Figure | None] = {}
    plain = [r for r in records if not r["options"]["decision_delay"]]
    with mpl.rc_context(STYLE):
        for number, name in enumerate(("LETTER", "USPS", "PENDIGITS", "COIL20", "YALEB")):
            drawn[f"figure_{9 + number}_{name}"] = share_figure(name, [r for r in plain if r["dataset"] == name])
        drawn["figure_14"] = epsilon_figure(records)
        return saved(drawn.items(), folder, 130)


def share_figure(name: str, records: Sequence[Record]) -> Figure | None:
    """Draw micro-F against the share of the test part that is decided together: boxes, and means with deviations."""
    medium = SETTINGS[name].n_unknown["medium"]
    found: dict[str, dict[float, list[float]]] = {}
    for record in records:
        if record["method"] in METHODS and record["n_unknown"] == medium:
            of = found.setdefault(record["method"], {})
            of.setdefault(record["options"]["test_share"], []).append(record["micro_f"])
    shares = sorted({share for of in found.values() for share in of})
    if len(shares) < 2:
        return None
    methods = [method for method in METHODS if len(found.get(method, {})) > 1]
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    boxes, bars = figure.subplots(1, 2, sharey=True)
    places = np.arange(len(shares))
    for number, method in enumerate(methods):
        shift = 0.25 * (number - (len(methods) - 1) / 2)
        there = [
            (place + shift, found[method][share]) for place, share in enumerate(shares) if share in found[method]
        ]
        at, values = [place for place, _ in there], [of for _, of in there]
        drawn = boxes.boxplot(values, positions=at, widths=0.2, patch_artist=True, showfliers=True,
                              flierprops={"ms": 3, "markeredgecolor": METHODS[method]},
                              medianprops={"color": METHODS[method], "lw": 1.6})  # fmt: skip
        for box in drawn["boxes"]:
            box.set(facecolor="white", edgecolor=METHODS[method])
        bars.errorbar(at, *mean_and_deviation(values), marker="o", ms=4, lw=1.4, capsize=3,
                      color=METHODS[method], label=method)  # fmt: skip
    for axes, title in ((boxes, f"(a) {name}, {medium} unknown classes"), (bars, "(b) mean, standard deviation")):
        axes.set(xlabel="share of the test part", title=title)
        axes.set_xticks(places, [f"{share:.0%}" for share in shares])
        axes.grid(visible=False, axis="x")
    boxes.set_ylabel("micro-F")
    figure.legend(*bars.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def epsilon_figure(records: Sequence[Record]) -> Figure | None:
    """Draw micro-F of the paper's method against epsilon, closed and at medium openness."""
    found: dict[tuple[str, str], dict[float, list[float]]] = {}
    for record in records:
        cell = Cell.from_record(record)
        if cell.method == "CD-OSR class-wise" and cell.dataset in FIVE and cell.test_share == 1.0:
            for epsilon, value in record["by_epsilon"].items():
                found.setdefault((cell.level, cell.dataset), {}).setdefault(float(epsilon), []).append(value)
    if not found:
        return None
    epsilons = sorted({epsilon for of in found.values() for epsilon in of})
    figure = Figure(figsize=(8.8, 3.4), layout="constrained")
    row = figure.subplots(1, 2, sharey=True)
    for axes, (level, title) in zip(row, TITLES.items(), strict=True):
        for number, name in enumerate(name for name in FIVE if (level, name) in found):
            of = found[level, name]
            at = np.array([place for place, e in enumerate(epsilons) if e in of]) + 0.04 * (number - 2)
            means = mean_and_deviation([of[e] for e in epsilons if e in of])
            axes.errorbar(at, *means, marker="osD^v"[number], ms=4, lw=1.3, capsize=2,
                          color=OTHERS[number], label=name)  # fmt: skip
        axes.set_xticks(range(len(epsilons)), [f"{epsilon:g}" for epsilon in epsilons])
        axes.set(xlabel="epsilon", title=f"CD-OSR class-wise: {title}")
        axes.grid(visible=False, axis="x")
    row[0].set_ylabel("micro-F")
    handles = row[1].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(FIVE), frameon=False, fontsize=8)
    return figure
