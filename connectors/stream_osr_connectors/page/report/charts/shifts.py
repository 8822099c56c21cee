"""In which features a new subclass differs from what is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from stream_osr_connectors.page.report.charts.style import INK, NEW, Spec, finish, marks, tips
from stream_osr_connectors.page.report.emerged import Shift

SHIFTS = 8
"""Features shown of a subclass."""


def shifts(all_shifts: Sequence[Shift]) -> Spec:
    """Draw the features that moved most, the largest shift first."""
    shown = [s for s in all_shifts if math.isfinite(s.shift)][:SHIFTS]
    values = [
        {
            "feature": s.feature,
            "shift": s.shift,
            "mean": f"{s.mean:.4g}",
            "told": f"{s.shift:+.1f}".replace("-", "\N{MINUS SIGN}"),
        }
        for s in shown
    ]
    reach = 1.5 * max((abs(s.shift) for s in shown), default=0.0) or 1.0
    scale, labels = alt.Scale(domain=[-reach, reach], nice=False), alt.Axis(labelLimit=130, ticks=False, domain=False)
    bars = marks(values, "bar", color=NEW, height=11).encode(
        x=alt.X("shift:Q", title="shift (standard deviations)", scale=scale, axis=alt.Axis(tickCount=4)),
        y=alt.Y("feature:N", sort=[s.feature for s in shown], title=None, axis=labels),
        tooltip=[
            alt.Tooltip("feature:N"),
            *tips({"shift:Q": "shift, sd", "mean:N": "mean, its own units"}, shift="+.2f"),
        ],
    )
    style: dict[str, Any] = {"color": INK, "fontSize": 11, "aria": False}
    up = bars.mark_text(align="left", dx=4, **style).encode(text="told:N").transform_filter("datum.shift >= 0")
    down = bars.mark_text(align="right", dx=-4, **style).encode(text="told:N").transform_filter("datum.shift < 0")
    return finish(alt.layer(bars, up, down), "The features that moved most", 19 * len(shown) + 44)
