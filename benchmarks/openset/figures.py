"""Figures of the results: openness, and reliability. Drawn from the results file alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.isotonic import isotonic_regression

from benchmarks.openset.cells import Cell
from benchmarks.openset.methods import ENTRIES, GROUPS, OURS
from benchmarks.openset.sets import LEVELS, SETTINGS
from benchmarks.openset.tables import Row
from benchmarks.records import Record

INK = "#1a1a1a"
OURS_COLOUR = "#d55e00"
OTHERS = ("#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#8c6d00", "#6a51a3", "#7f7f7f")
"""Okabe and Ito's palette, which the colour-blind can tell apart; its yellow darkened to be read on white."""
DASHES = ((0, ()), (0, (5, 2)), (0, (1.5, 1.5)))
NAMES = ["0", "0.5", "1"]
"""Ticks of shares."""
MARKERS = "osD^vPX<>*hd"

PLAIN = {"decision_delay": 0, "test_share": 1.0}
LEFT_OUT = {*GROUPS["stream"], *GROUPS["baselines"]} - {OURS}
"""Ablations and baselines, whose lines would lie over those of the methods."""

STYLE = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.0,
    "axes.edgecolor": "#666666",
    "axes.labelcolor": INK,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
}


def draw_all(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw every figure that the records have something for; return the files."""
    plain = [r for r in records if r["options"] == PLAIN]
    drawn: list[tuple[str, Figure | None]] = []
    with mpl.rc_context(STYLE):
        for name in SETTINGS:
            of_set = [r for r in plain if r["dataset"] == name and r["method"] not in LEFT_OUT]
            drawn.append((f"openness_{name}", openness_figure(name, of_set)))
        ours = [r for r in plain if r["method"] == OURS]
        drawn.append(("reliability", reliability_figure(ours)))
        return saved(drawn, folder, 150)


def saved(drawn: Iterable[tuple[str, Figure | None]], folder: Path, dpi: int) -> list[Path]:
    """Save the figures that there are by their names; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {folder / f"{stem}.png": figure for stem, figure in drawn if figure is not None}
    for path, figure in paths.items():
        figure.savefig(path, dpi=dpi)
    return list(paths)


def openness_figure(name: str, records: Sequence[Record]) -> Figure | None:
    """Draw micro-F against openness, a line a method (the paper's figures 4 to 8)."""
    lines: dict[Row, dict[float, list[float]]] = {}
    for record in records:
        cell = Cell.from_record(record)
        lines.setdefault(Row.of(cell), {}).setdefault(100 * cell.openness, []).append(record["micro_f"])
    lines = {row: points for row, points in lines.items() if len(points) > 1}
    if not lines:
        return None
    rows = sorted(lines, key=lambda row: row.order)
    ends = {row: float(np.mean(lines[row][max(lines[row])])) for row in rows}
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    span = max(x for points in lines.values() for x in points)
    others = [row for row in rows if row.method != OURS]
    for row in reversed(rows):  # ours on top
        x = np.array(sorted(lines[row]))
        offset = 0.0 if row.method == OURS else 0.004 * span * (others.index(row) - len(others) / 2)
        mean, deviation = mean_and_deviation([lines[row][value] for value in x])
        axes.errorbar(x + offset, mean, deviation, capsize=2, elinewidth=0.8, **_look(row, others))
    axes.set(xlabel="openness, %", ylabel="micro-F", title=f"{name}: micro-F against openness")
    levels = {x for points in lines.values() for x in points}
    axes.set_xticks(sorted(levels), [f"{x:.1f}" for x in sorted(levels)])
    axes.set_xlim(-0.03 * span, 1.03 * span)
    low = min(float(np.mean(v)) for points in lines.values() for v in points.values())
    axes.set_ylim(max(0.0, min(0.9, low - 0.06)), 1.008)
    _label_ends(axes, [(ends[row], str(row), _look(row, others)["color"], row.method == OURS) for row in rows])
    _note_seeds(figure, [len(v) for points in lines.values() for v in points.values()])
    return figure


def reliability_figure(records: Sequence[Record]) -> Figure | None:
    """Draw predicted probability of being unknown against observed share, a panel a data set, batches of 64."""
    found: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        cell = Cell.from_record(record)
        if "reliability" in record and cell.n_unknown:
            found.setdefault(cell.dataset, {}).setdefault(cell.level, []).append(record)
    if not found:
        return None
    names = [name for name in SETTINGS if name in found]
    wide = min(4, len(names))
    tall = -(-len(names) // wide)
    figure = Figure(figsize=(2.35 * wide + 0.4, 2.75 * tall + 0.3), layout="constrained")
    grid = figure.subplots(tall, wide, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.set_visible(False)
    colours = {"medium": OTHERS[0], "high": OURS_COLOUR}
    for axes, name in zip(grid.flat, names, strict=False):
        axes.plot([0, 1], [0, 1], color="#999999", lw=0.8, ls=(0, (4, 3)), zorder=1)
        lines = [level for level in LEVELS if level in found[name]]
        for number, level in enumerate(reversed(lines)):
            of_level = found[name][level]
            predicted, observed = _pooled([record["reliability"] for record in of_level])
            look = {"color": colours[level], "marker": {"medium": "s", "high": "o"}[level]}
            axes.plot(predicted, observed, lw=1.2, ms=3.8, **look)
            error = np.mean([record["ece"] for record in of_level])
            text = f"{level} openness: ECE {error:.3f}"
            axes.text(0.98, 0.04 + 0.09 * number, text, transform=axes.transAxes, ha="right", fontsize=7.5,
                      color=look["color"])  # fmt: skip
        ticks = {"xticks": [0, 0.5, 1], "yticks": [0, 0.5, 1], "xticklabels": NAMES, "yticklabels": NAMES}
        axes.set(title=name, xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", **ticks)
        axes.tick_params(labelbottom=True)
    figure.supxlabel("predicted probability of being unknown", fontsize=9)
    figure.supylabel("share that is unknown", fontsize=9)
    return figure


def _pooled(curves: Sequence[dict[str, list[float]]], n_bins: int = 15) -> tuple[np.ndarray, np.ndarray]:
    """Gather the bins of several seeds into bins of about equal mass again."""
    size, predicted, observed = (
        np.concatenate([np.asarray(curve[part], float) for curve in curves])
        for part in ("size", "predicted", "observed")
    )
    order = np.argsort(predicted, kind="stable")
    size, predicted, observed = size[order], predicted[order], observed[order]
    place = ((np.cumsum(size) - size / 2) / size.sum() * n_bins).astype(int)
    mass = np.bincount(place, size)
    there = mass > 0
    return (
        np.bincount(place, size * predicted)[there] / mass[there],
        np.bincount(place, size * observed)[there] / mass[there],
    )


def _look(row: Row, others: Sequence[Row]) -> dict[str, Any]:
    """Choose colour, dash and marker of a method: ours thick and in a colour of its own."""
    if row.method == OURS:
        return {"color": OURS_COLOUR, "ls": DASHES[0], "lw": 2.6, "marker": "o", "ms": 6, "zorder": 10}
    at = others.index(row)
    colour = INK if row.method in GROUPS["cocluster"] else OTHERS[at % len(OTHERS)]
    dash = DASHES[(at // len(OTHERS)) % len(DASHES)] if ENTRIES[row.method].kind == "each" else DASHES[2]
    marker = MARKERS[1 + at % (len(MARKERS) - 1)]
    return {"color": colour, "ls": dash, "lw": 1.1, "marker": marker, "ms": 4, "zorder": 3}


def _label_ends(axes: Axes, labels: Iterable[tuple[float, str, str, bool]]) -> None:
    """Name the lines at their right ends, apart enough to be read, each with a hair to its line."""
    ordered = sorted(labels, key=lambda label: label[0])
    low, high = axes.get_ylim()
    gap = 0.047 * (high - low) * 4.6 / axes.figure.get_figheight()
    wanted = np.array([y for y, *_ in ordered])
    places = _apart(wanted, gap, low, high)
    right = axes.get_xlim()[1]
    span = right - axes.get_xlim()[0]
    for (y, text, colour, ours), place in zip(ordered, places, strict=True):
        hair = {"arrowstyle": "-", "color": colour, "lw": 0.5, "alpha": 0.6, "shrinkA": 0, "shrinkB": 0}
        font = {"fontsize": 8.5, "fontweight": "bold" if ours else "normal", "color": colour, "va": "center"}
        ends = {"xy": (right - 0.02 * span, y), "xytext": (right + 0.045 * span, place), "annotation_clip": False}
        axes.annotate(text, **ends, **font, arrowprops={**hair, "relpos": (0, 0.5)})


def _apart(wanted: np.ndarray, gap: float, low: float, high: float) -> np.ndarray:
    """Move sorted places as little as possible so that neighbours are a gap apart."""
    steps = gap * np.arange(len(wanted))
    return np.clip(isotonic_regression(wanted - steps), low, high - steps[-1]) + steps


def mean_and_deviation(values: Sequence[Sequence[float]]) -> tuple[np.ndarray, np.ndarray]:
    """Mean of each sequence, and its standard deviation (0 of a single value)."""
    deviations = [np.std(v, ddof=1) if len(v) > 1 else 0.0 for v in values]
    return np.array([np.mean(v) for v in values]), np.array(deviations)


def _note_seeds(figure: Figure, counts: Sequence[int]) -> None:
    n = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    text = f"{n} seed{'s' if max(counts) > 1 else ''}; bars: standard deviation"
    engine = figure.get_layout_engine()
    if engine is not None:
        strip = 0.16 / figure.get_figheight()  # kept free at the bottom
        engine.set(rect=(0, strip, 1, 1 - strip))
    figure.text(0.995, 0.005, text, ha="right", va="bottom", fontsize=7, color="#777777")
