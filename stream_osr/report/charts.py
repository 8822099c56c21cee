"""The drawings, as Vega-Lite specifications made with Altair.

Two hues mean one thing everywhere: blue is known, orange is new; the pair is told apart by colour-blind people, too.
Colours are CSS variables of the page, so that the drawings follow it from light to dark without being drawn again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import altair as alt

from stream_osr.evaluation.calibration import ReliabilityCurve
from stream_osr.report.axes import Plane
from stream_osr.report.emerged import Shift
from stream_osr.report.timeline import Timeline, subclass_name

KNOWN, NEW, INK, SOFT, GRID = "var(--known)", "var(--new)", "var(--ink)", "var(--soft)", "var(--grid)"
KINDS = alt.Scale(domain=["known", "new"], range=[KNOWN, NEW])
FONT = "system-ui, sans-serif"
MARGIN = 92
"""Pixels left of the drawings along the stream, so that their positions stand below each other."""
LINES = ["called unknown", "truly unknown"]
SHIFTS = 8
"""Features shown of a subclass."""

Spec: TypeAlias = dict[str, Any]
Values: TypeAlias = list[dict[str, Any]]


def _finish(chart: alt.Chart | alt.LayerChart, description: str, height: int) -> Spec:
    """Give a drawing the width of its place and the looks of the page."""
    axis = {"labelColor": SOFT, "titleColor": SOFT, "gridColor": GRID, "domainColor": GRID, "tickColor": GRID}
    out: Spec = (
        chart.properties(width="container", height=height, description=description)
        .properties(autosize=alt.AutoSizeParams(type="fit-x", contains="padding"))
        .configure(background="transparent", font=FONT, padding=4)
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=12, titleFontSize=12, titleFontWeight="normal", labelLimit=150, **axis)
        .configure_legend(disable=True)
        .to_dict()
    )
    return out


def _data(values: Values) -> alt.InlineData:
    return alt.InlineData(values=values)


def plane(drawn: Plane) -> Spec:
    """Draw subclasses as ellipses, instances as dots and names where they belong."""
    facts = [
        {
            "i": number,
            "name": subclass_name(spot.id),
            "kind": "known" if spot.label is not None else "new",
            "class": spot.label if spot.label is not None else "none: it is new",
            "size": spot.size,
        }
        for number, spot in enumerate(drawn.spots)
    ]
    corners = [
        {"i": number, "order": k, "x": round(float(x), 3), "y": round(float(y), 3)}
        for number, spot in enumerate(drawn.spots)
        for k, (x, y) in enumerate(spot.outline)
    ]
    names: Values = [
        {"name": name, "kind": "known", "x": float(x), "y": float(y)} for name, (x, y) in drawn.classes.items()
    ]
    new = sorted((spot for spot in drawn.spots if spot.label is None), key=lambda spot: -spot.size)
    names += [
        {"name": subclass_name(s.id), "kind": "new", "x": float(s.centre[0]), "y": float(s.centre[1])} for s in new
    ]
    dots = [
        {"x": round(float(x), 3), "y": round(float(y), 3), "kind": "new" if is_new else "known"}
        for (x, y), is_new in zip(drawn.dots, drawn.dots_new, strict=True)
    ]
    limits = [_limits([corner[axis] for corner in corners]) for axis in "xy"]
    x = alt.X("x:Q", title="first axis (standard deviations)", scale=alt.Scale(domain=limits[0], nice=False, clamp=False), axis=_plain_axis())
    y = alt.Y("y:Q", title="second axis (standard deviations)", scale=alt.Scale(domain=limits[1], nice=False, clamp=False), axis=_plain_axis())
    colour = alt.Color("kind:N", scale=KINDS)
    points = (
        alt.Chart(_data(dots))
        .mark_circle(size=9, opacity=0.35, aria=False, clip=True, tooltip=None)
        .encode(x=x, y=y, color=colour)
    )
    outlines = (
        alt.Chart(_data(corners))
        .transform_lookup("i", alt.LookupData(_data(facts), "i", ["name", "kind", "class", "size"]))
        .mark_line(interpolate="linear-closed", strokeWidth=1.3, fillOpacity=0.1, aria=False, clip=True)
        .encode(
            x=x,
            y=y,
            detail="i:N",
            order="order:Q",
            color=colour,
            fill=alt.Fill("kind:N", scale=KINDS),
            opacity=alt.condition("datum.kind == 'new'", alt.value(1.0), alt.value(0.55)),
            tooltip=[
                alt.Tooltip("name:N", title="subclass"),
                alt.Tooltip("class:N", title="known class"),
                alt.Tooltip("size:Q", title="instances", format=",d"),
            ],
        )
    )
    text = (
        alt.Chart(_data(names), name="names")
        .mark_text(fontSize=12, fontWeight="bold", aria=False, limit=140)
        .encode(x=x, y=y, text="name:N", color=colour)
    )
    described = f"{len(facts) - len(new)} known and {len(new)} new subclasses on two discriminant axes"
    return _finish(alt.layer(points, outlines, text), described, 430)


def _plain_axis() -> alt.Axis:
    return alt.Axis(tickCount=7)


def _limits(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    room = 0.04 * (high - low) or 1.0
    return [low - room, high + room]


def _along(timeline: Timeline, field: str = "from", *, title: str | None = None) -> alt.X:
    ends = [int(timeline.edges[0]), int(timeline.edges[-1])]
    return alt.X(f"{field}:Q", title=title, scale=alt.Scale(domain=ends, nice=False), axis=alt.Axis(format=",d", grid=False))


def arrivals(timeline: Timeline) -> Spec:
    """Draw the arrivals of each row as a band, the darker the more, with events on it."""
    cells = [
        {"row": row.name, "kind": "new" if row.new else "known", "n": int(n), "from": int(a), "to": int(b)}
        for row in timeline.rows
        for n, a, b in zip(row.arrivals, timeline.edges[:-1], timeline.edges[1:], strict=True)
        if n
    ]
    order = [row.name for row in timeline.rows]
    y = alt.Y("row:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=_left(labelLimit=MARGIN - 8))
    bands = (
        alt.Chart(_data(cells))
        .mark_rect(aria=False)
        .encode(
            x=_along(timeline, title="position in the stream (instances)"),
            x2="to:Q",
            y=y,
            color=alt.Color("kind:N", scale=KINDS),
            opacity=alt.Opacity("n:Q", scale=alt.Scale(type="sqrt", domainMin=0, range=[0.12, 1])),
            tooltip=[
                alt.Tooltip("row:N", title="row"),
                alt.Tooltip("n:Q", title="arrivals", format=",d"),
                alt.Tooltip("from:Q", title="from", format=",d"),
                alt.Tooltip("to:Q", title="to before", format=",d"),
            ],
        )
    )
    events = [
        {"row": m.name, "seq": m.seq, "what": m.what, "size": "" if m.size is None else f"{m.size:,}"}
        for m in timeline.marks
    ]
    shapes = alt.Scale(domain=["emerged", "doubled", "forgotten"], range=["triangle-up", "circle", "cross"])
    marks = (
        alt.Chart(_data(events), name="events")
        .mark_point(filled=True, opacity=1, stroke="var(--card)", strokeWidth=1.2, color=INK, aria=False)
        .encode(
            x=_along(timeline, "seq", title="position in the stream (instances)"),
            y=y,
            shape=alt.Shape("what:N", scale=shapes),
            size=alt.condition("datum.what == 'emerged'", alt.value(95), alt.value(45)),
            tooltip=[
                alt.Tooltip("row:N", title="subclass"),
                alt.Tooltip("what:N", title="event"),
                alt.Tooltip("seq:Q", title="told at", format=",d"),
                alt.Tooltip("size:N", title="instances"),
            ],
        )
    )
    described = f"Arrivals in {len(order)} rows along the stream, with {len(events)} events"
    layers = [bands, marks] if events else [bands]
    return _finish(alt.layer(*layers).resolve_scale(color="independent", shape="independent"), described, 20 * len(order) + 36)


def _left(**more: Any) -> alt.Axis:
    return alt.Axis(minExtent=MARGIN, maxExtent=MARGIN, **more)


def unknown_share(timeline: Timeline) -> Spec:
    """Draw the share of the decisions that are unknown along the stream, and the true share where it is known."""
    values: Values = []
    spans = zip(timeline.edges[:-1], timeline.edges[1:], strict=True)
    for k, (a, b) in enumerate(spans):
        counts = [(timeline.unknown[k], timeline.total[k]), (timeline.truly_unknown[k], timeline.judged[k])]
        values += [
            {"from": int(a), "to": int(b), "line": line, "share": float(part / whole)}
            for line, (part, whole) in zip(LINES, counts, strict=True)
            if whole
        ]
    y = alt.Y("share:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=_left(format="%", tickCount=3))
    chart = (
        alt.Chart(_data(values))
        .mark_line(interpolate="step-after", strokeWidth=1.8, aria=False)
        .encode(
            x=_along(timeline),
            y=y,
            color=alt.Color("line:N", scale=alt.Scale(domain=LINES, range=[NEW, INK])),
            strokeDash=alt.StrokeDash("line:N", scale=alt.Scale(domain=LINES, range=[[1, 0], [2, 3]])),
            tooltip=[
                alt.Tooltip("line:N", title="share"),
                alt.Tooltip("share:Q", format=".1%"),
                alt.Tooltip("from:Q", format=",d"),
            ],
        )
    )
    return _finish(chart, "Share of the decisions that are unknown, along the stream", 110)


def estimates(timeline: Timeline) -> Spec:
    """Draw the estimated number of new classes along the stream."""
    begin, end = int(timeline.edges[0]), int(timeline.edges[-1])
    steps = [(begin, 0), *timeline.estimates]
    values = [{"from": seq, "n": n} for seq, n in [*steps, (end, steps[-1][1])]]
    most = max(n for _, n in steps)
    y = alt.Y(
        "n:Q",
        title=None,
        scale=alt.Scale(domain=[0, max(most, 1)]),
        axis=_left(format="d", values=sorted({0, max(1, most // 2), max(most, 1)})),
    )
    chart = (
        alt.Chart(_data(values))
        .mark_line(interpolate="step-after", strokeWidth=1.8, color=NEW, aria=False)
        .encode(x=_along(timeline), y=y, tooltip=[alt.Tooltip("from:Q", format=",d"), alt.Tooltip("n:Q", title="estimate")])
    )
    return _finish(chart, "Estimated number of new classes, along the stream", 70)


def shifts(all_shifts: Sequence[Shift]) -> Spec:
    """Draw the features that moved most, the largest shift first."""
    shown = [s for s in all_shifts if math.isfinite(s.shift)][:SHIFTS]
    values = [{"feature": s.feature, "shift": s.shift, "mean": f"{s.mean:.4g}", "told": f"{s.shift:+.1f}".replace("-", "\N{MINUS SIGN}")} for s in shown]
    reach = 1.5 * max((abs(s.shift) for s in shown), default=0.0) or 1.0
    y = alt.Y("feature:N", sort=[s.feature for s in shown], title=None, axis=alt.Axis(labelLimit=130, ticks=False, domain=False))
    x = alt.X(
        "shift:Q",
        title="shift (standard deviations)",
        scale=alt.Scale(domain=[-reach, reach], nice=False),
        axis=alt.Axis(tickCount=4),
    )
    base = alt.Chart(_data(values)).encode(
        x=x,
        y=y,
        tooltip=[
            alt.Tooltip("feature:N"),
            alt.Tooltip("shift:Q", title="shift, sd", format="+.2f"),
            alt.Tooltip("mean:N", title="mean, its own units"),
        ],
    )
    bars = base.mark_bar(color=NEW, height=11, aria=False)
    style: dict[str, Any] = {"color": INK, "fontSize": 11, "aria": False}
    up = base.mark_text(align="left", dx=4, **style).encode(text="told:N").transform_filter("datum.shift >= 0")
    down = base.mark_text(align="right", dx=-4, **style).encode(text="told:N").transform_filter("datum.shift < 0")
    return _finish(alt.layer(bars, up, down), "The features that moved most", 19 * len(shown) + 44)


def calibration(curve: ReliabilityCurve) -> Spec:
    """Draw the observed share of unknown against the predicted one, bin by bin."""
    values = [
        {"p": float(p), "observed": float(o), "n": int(n)}
        for n, p, o in zip(curve.size, curve.predicted, curve.observed, strict=True)
    ]
    unit = alt.Scale(domain=[0, 1])
    x = alt.X("p:Q", title="predicted probability of unknown", scale=unit, axis=alt.Axis(format="%", tickCount=5))
    y = alt.Y("observed:Q", title="share that was unknown", scale=unit, axis=alt.Axis(format="%", tickCount=5))
    ideal = (
        alt.Chart(_data([{"p": 0, "observed": 0}, {"p": 1, "observed": 1}]))
        .mark_line(strokeDash=[4, 3], color=SOFT, strokeWidth=1.2, aria=False, tooltip=None)
        .encode(x=x, y=y)
    )
    base = alt.Chart(_data(values)).encode(x=x, y=y)
    line = base.mark_line(color=NEW, strokeWidth=1.5, aria=False)
    points = base.mark_circle(color=NEW, opacity=0.9, size=60, aria=False).encode(
        tooltip=[
            alt.Tooltip("p:Q", title="predicted", format=".1%"),
            alt.Tooltip("observed:Q", title="was unknown", format=".1%"),
            alt.Tooltip("n:Q", title="instances", format=",d"),
        ]
    )
    return _finish(alt.layer(ideal, line, points), "Observed share of unknown against the predicted one", 300)
