"""The charts of the report, as Vega-Lite specifications made with Altair.

Blue is known and orange is new, everywhere. Colour-blind people can distinguish the pair. Colours are CSS variables
of the page, so that charts change from light to dark without being drawn again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any, TypeAlias

import altair as alt
import numpy as np
from numpy.typing import NDArray

from stream_osr.evaluation.calibration import ReliabilityCurve
from stream_osr.printable_text import counted
from stream_osr_connectors.page.formatting import plain, subclass_name
from stream_osr_connectors.page.report.axes import Plane, Spot
from stream_osr_connectors.page.report.class_summary import FeatureShift
from stream_osr_connectors.page.report.timeline import Timeline

KNOWN, NEW, INK, SOFT, GRID = "var(--known)", "var(--new)", "var(--ink)", "var(--soft)", "var(--grid)"
KINDS = alt.Scale(domain=["known", "new"], range=[KNOWN, NEW])
FONT = "system-ui, sans-serif"

Spec: TypeAlias = dict[str, Any]
Values: TypeAlias = list[dict[str, Any]]


def finish(chart: alt.Chart | alt.LayerChart | alt.FacetChart, description: str, height: int) -> Spec:
    """Apply the width of the container and the style of the page to a chart."""
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


def marks(values: Values, kind: Any, name: str | alt.UndefinedType = alt.Undefined, **style: Any) -> alt.Chart:
    """Draw values as marks. The specification contains the values."""
    mark = alt.MarkDef(type=kind, aria=False, **style)  # the drawing is described, not each of its marks
    return alt.Chart(alt.InlineData(values=values), mark=mark, name=name)


def tips(titles: Mapping[str, str], **formats: str) -> list[alt.Tooltip]:
    """Return tooltips for fields with their titles. Numbers have a given format, or are counts."""
    numbers = {field: formats.get(field[:-2], ",d") for field in titles if field.endswith(":Q")}
    return [alt.Tooltip(field, title=its, format=numbers.get(field, alt.Undefined)) for field, its in titles.items()]


CROWD = 40
"""Number of subclasses above which the feature map draws them lighter."""
CHOSEN = "chosen == '' || datum.name == chosen"
"""Condition for a mark at full strength. The page sets the parameter."""


def plane(drawn: Plane) -> Spec:
    """Draw the feature map: subclasses as ellipses, instances as dots, and names."""
    corners = [
        {"i": number, "order": k, "x": round(float(x), 3), "y": round(float(y), 3)}
        for number, spot in enumerate(drawn.spots)
        for k, (x, y) in enumerate(spot.outline)
    ]
    dots = [
        {"x": round(float(x), 3), "y": round(float(y), 3), "kind": "new" if seat >= 0 else "known"}
        for (x, y), seat in zip(drawn.dots, drawn.seats, strict=True)
    ]
    at: dict[str, Any] = {"color": alt.Color("kind:N", scale=KINDS)}
    for kind, axis, which in ((alt.X, "x", "first"), (alt.Y, "y", "second")):
        scale = alt.Scale(domain=_limits([corner[axis] for corner in corners]), nice=False, clamp=False)
        title = f"{which} axis (standard deviations)"
        at[axis] = kind(f"{axis}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=7))
    points = marks(dots, "circle", size=9, opacity=0.35, clip=True, tooltip=None).encode(**at)
    new = sorted((spot for spot in drawn.spots if spot.label is None), key=lambda spot: -spot.size)
    described = f"{len(drawn.spots) - len(new)} known and {len(new)} new subclasses on two discriminant axes"
    mouse = "event.pointerType === 'mouse'"
    zoom = alt.selection_interval(
        name="zoom",
        bind="scales",
        zoom="wheel![event.ctrlKey || event.metaKey]",  # without them, and under a finger, the page scrolls
        translate=f"[pointerdown[{mouse}], window:pointerup] > window:pointermove!",
    )
    chosen = alt.param(name="chosen", value="")
    layers = alt.layer(points.add_params(zoom), _outlines(drawn, corners, at), _names(drawn, new, at))
    return finish(layers.add_params(chosen), described, 430)


def _outlines(drawn: Plane, corners: Values, at: dict[str, Any]) -> Any:
    facts = []
    for number, spot in enumerate(drawn.spots):
        kind, label = ("new", "none (new)") if spot.label is None else ("known", spot.label)
        facts.append({"i": number, "name": subclass_name(spot.id), "kind": kind, "class": label, "size": spot.size})
    crowded = len(facts) > CROWD
    style = {"strokeWidth": 1.0, "fillOpacity": 0.03} if crowded else {"strokeWidth": 1.4, "fillOpacity": 0.1}
    known = alt.LookupData(alt.InlineData(values=facts), "i", ["name", "kind", "class", "size"])
    lines = marks(corners, "line", interpolate="linear-closed", clip=True, **style).transform_lookup("i", known)
    return lines.encode(
        **at,
        detail="i:N",
        order="order:Q",
        fill=alt.Fill("kind:N", scale=KINDS),
        opacity=alt.when(f"!({CHOSEN} || datum.class == chosen)")
        .then(alt.value(0.08))
        .when("datum.kind == 'new'")
        .then(alt.value(1.0))
        .otherwise(alt.value(0.4 if crowded else 0.7)),
        tooltip=tips({"name:N": "subclass", "class:N": "known class", "size:Q": "instances"}),
    )


def _names(drawn: Plane, new: Sequence[Spot], at: dict[str, Any]) -> Any:
    names: Values = [
        {"name": name, "kind": "known", "told": "a known class", "x": float(x), "y": float(y)}
        for name, (x, y) in drawn.classes.items()
    ]
    for spot in new:
        x, y = spot.centre.tolist()
        reported = f"a new subclass of {counted(spot.size, 'instance', form=',')}"
        names.append({"name": subclass_name(spot.id), "kind": "new", "told": reported, "x": x, "y": y})
    texts = marks(names, "text", "names", fontSize=12, fontWeight="bold", limit=140)
    seen = alt.when(CHOSEN).then(alt.value(1.0)).otherwise(alt.value(0.0))
    return texts.encode(
        **at, text="name:N", opacity=seen, tooltip=[alt.Tooltip("name:N"), alt.Tooltip("told:N", title="is")]
    )


def _limits(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    room = 0.04 * (high - low) or 1.0
    return [low - room, high + room]


SHIFTS = 8
"""Most features of a subclass."""


def shifts(all_shifts: Sequence[FeatureShift]) -> Spec:
    """Draw the features with the largest shifts, the largest first."""
    listed = [s for s in all_shifts if math.isfinite(s.shift)][:SHIFTS]
    values = []
    for s in listed:
        told = f"{s.shift:+.1f}".replace("-", "\N{MINUS SIGN}")
        values.append({"feature": s.feature, "shift": s.shift, "mean": f"{s.mean:.4g}", "told": told})
    reach = 1.5 * max((abs(s.shift) for s in listed), default=0.0) or 1.0
    scale, labels = alt.Scale(domain=[-reach, reach], nice=False), alt.Axis(labelLimit=130, ticks=False, domain=False)
    bars = marks(values, "bar", color=NEW, height=11).encode(
        x=alt.X("shift:Q", title="shift (standard deviations)", scale=scale, axis=alt.Axis(tickCount=4)),
        y=alt.Y("feature:N", sort=[s.feature for s in listed], title=None, axis=labels),
        tooltip=[
            alt.Tooltip("feature:N"),
            *tips({"shift:Q": "shift, sd", "mean:N": "mean, its own units"}, shift="+.2f"),
        ],
    )
    style: dict[str, Any] = {"color": INK, "fontSize": 11, "aria": False}
    up = bars.mark_text(align="left", dx=4, **style).encode(text="told:N").transform_filter("datum.shift >= 0")
    down = bars.mark_text(align="right", dx=-4, **style).encode(text="told:N").transform_filter("datum.shift < 0")
    return finish(alt.layer(bars, up, down), "The features with the largest shifts", 19 * len(listed) + 44)


MARGIN = 92
"""Pixels on the left of each chart, so that positions in the stream align."""
SIGNS = {"announced": ("triangle-up", "▲"), "doubled": ("circle", "●"), "forgotten": ("cross", "✚")}
_SHAPES = ("square", "diamond", "triangle-down", "triangle-left", "triangle-right")
OTHER_SIGNS = tuple(zip(_SHAPES, "■◆▼◀▶", strict=True))
LINES = ["called unknown", "truly unknown"]


def arrivals(timeline: Timeline) -> Spec:
    """Draw the arrivals of each row as a band with its events. A darker colour means more arrivals."""
    texts = [
        {"row": row.name, "kind": "new" if row.new else "known", "n": int(n), "from": int(a), "to": int(b)}
        for row in timeline.rows
        for n, (a, b) in zip(row.arrivals, pairwise(timeline.edges), strict=True)
        if n
    ]
    order = [row.name for row in timeline.rows]
    y = alt.Y("row:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=_left(labelLimit=MARGIN - 8))
    title = "position in the stream (instances)"
    bands = marks(texts, "rect").encode(
        x=_along(timeline, title=title),
        x2="to:Q",
        y=y,
        color=alt.Color("kind:N", scale=KINDS),
        opacity=alt.Opacity("n:Q", scale=alt.Scale(type="sqrt", domainMin=0, range=[0.12, 1])),
        tooltip=tips({"row:N": "row", "n:Q": "arrivals", "from:Q": "from", "to:Q": "to before"}),
    )
    reported: Values = [
        {"row": m.name, "seq": m.seq, "what": m.what, "size": "" if m.size is None else f"{m.size:,}"}
        for m in timeline.marks
    ]
    look = {"filled": True, "opacity": 1, "stroke": "var(--card)", "strokeWidth": 1.2, "color": INK}
    used = signs(timeline)
    events = marks(reported, "point", "events", **look).encode(
        x=_along(timeline, "seq", title=title),
        y=y,
        shape=alt.Shape("what:N", scale=alt.Scale(domain=list(used), range=[s for s, _ in used.values()])),
        size=alt.condition("datum.what == 'announced'", alt.value(95), alt.value(45)),
        tooltip=tips({"row:N": "subclass", "what:N": "event", "seq:Q": "position", "size:N": "instances"}),
    )
    layers = alt.layer(bands, *([events] if reported else [])).resolve_scale(color="independent", shape="independent")
    described = f"Arrivals in {counted(len(order), 'row')} along the stream, with {counted(len(reported), 'event')}"
    return finish(layers, described, 20 * len(order) + 36)


def signs(timeline: Timeline) -> dict[str, tuple[str, str]]:
    """Return the sign of each kind of event: its name in Vega, and a similar letter."""
    found = {mark.what for mark in timeline.marks}
    others = dict(zip(sorted(found - set(SIGNS)), cycle(OTHER_SIGNS), strict=False))
    return {what: sign for what, sign in (SIGNS | others).items() if what in found}


def unknown_share(timeline: Timeline) -> Spec:
    """Draw the share of unknown decisions along the stream, and the true share if labels exist."""
    values: Values = []
    for k, ends in enumerate(pairwise(timeline.edges.tolist())):
        counts = [(timeline.unknown[k], timeline.total[k]), (timeline.truly_unknown[k], timeline.judged[k])]
        for line, (part, whole) in zip(LINES, counts, strict=True):
            for place in ends if whole else ():
                values.append({"from": place, "line": line, "share": float(part / whole), "order": len(values)})
    lines = marks(values, "line", strokeWidth=1.8, tooltip=None).encode(
        x=_along(timeline),
        y=alt.Y("share:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=_left(format="%", tickCount=3)),
        order="order:Q",
        color=alt.Color("line:N", scale=alt.Scale(domain=LINES, range=[NEW, INK])),
        strokeDash=alt.StrokeDash("line:N", scale=alt.Scale(domain=LINES, range=[[1, 0], [2, 3]])),
    )
    described = "Share of unknown decisions along the stream"
    if not timeline.drops:
        return finish(lines, described, 110)
    rules = marks(
        [{"seq": n} for n in timeline.drops], "rule", "drops", color=INK, strokeWidth=1.5, strokeDash=[6, 3]
    )
    drops = rules.encode(
        x=_along(timeline, "seq"), tooltip=tips({"seq:Q": "recall below the expected recall, position"})
    )
    return finish(alt.layer(lines, drops), f"{described}, with drops of the recall of known classes", 110)


def estimates(timeline: Timeline) -> Spec:
    """Draw the paper's Delta along the stream."""
    begin, end = int(timeline.edges[0]), int(timeline.edges[-1])
    steps = [(begin, 0), *timeline.estimates]
    values = [{"from": seq, "n": n} for seq, n in [*steps, (end, steps[-1][1])]]
    most = max(1, *(n for _, n in steps))
    axis = _left(format="d", values=sorted({0, max(1, most // 2), most}))
    y = alt.Y("n:Q", title=None, scale=alt.Scale(domain=[0, most]), axis=axis)
    line = marks(values, "line", interpolate="step-after", strokeWidth=1.8, color=NEW, tooltip=None)
    return finish(line.encode(x=_along(timeline), y=y), "The paper's Delta along the stream", 70)


def _along(timeline: Timeline, field: str = "from", *, title: str | None = None) -> alt.X:
    scale = alt.Scale(domain=[int(timeline.edges[0]), int(timeline.edges[-1])], nice=False)
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(format=",d", grid=False))


def _left(**more: Any) -> alt.Axis:
    return alt.Axis(minExtent=MARGIN, maxExtent=MARGIN, **more)


def calibration(curve: ReliabilityCurve) -> Spec:
    """Draw the observed share of unknown instances against the predicted share, by bin."""
    values = [
        {"p": float(p), "observed": float(o), "n": int(n)}
        for n, p, o in zip(curve.size, curve.predicted, curve.observed, strict=True)
    ]
    unit, axis = alt.Scale(domain=[0, 1]), alt.Axis(format="%", tickCount=5)
    x = alt.X("p:Q", title="predicted probability of unknown", scale=unit, axis=axis)
    y = alt.Y("observed:Q", title="observed share of unknown", scale=unit, axis=axis)
    corners: Values = [{"p": 0, "observed": 0}, {"p": 1, "observed": 1}]
    ideal = marks(corners, "line", strokeDash=[4, 3], color=SOFT, strokeWidth=1.2, tooltip=None).encode(x=x, y=y)
    line = marks(values, "line", color=NEW, strokeWidth=1.5).encode(x=x, y=y)
    reported = tips({"p:Q": "predicted", "observed:Q": "observed", "n:Q": "instances"}, p=".1%", observed=".1%")
    points = marks(values, "circle", color=NEW, opacity=0.9, size=60).encode(x=x, y=y, tooltip=reported)
    return finish(
        alt.layer(ideal, line, points), "Observed share of unknown instances against the predicted share", 300
    )


def spread(p_unknown: NDArray[np.float64], truly_unknown: NDArray[np.bool_]) -> Spec:
    """Draw the distribution of the probability of unknown, for known and for unknown classes."""
    edges = np.linspace(0.0, 1.0, 21)
    values: Values = []
    for kind, chosen in (("known", ~truly_unknown), ("new", truly_unknown)):
        counts = np.histogram(p_unknown[chosen], edges)[0]
        for n, (low, high) in zip(counts.tolist(), pairwise(edges.tolist()), strict=True):
            middle = (low + high) / 2  # the known stand in the left half of a bin, the others in its right one
            left, right = (low, middle) if kind == "known" else (middle, high)
            values.append({"kind": kind, "n": n, "low": low, "high": high, "from": left, "to": right})
    percent = alt.Axis(format="%", tickCount=5, grid=False)
    drawn = marks(values, "rect").encode(
        x=alt.X("from:Q", title="predicted probability of unknown", scale=alt.Scale(domain=[0, 1]), axis=percent),
        x2="to:Q",
        y=alt.Y(
            "n:Q", title="instances (square-root scale)", scale=alt.Scale(type="sqrt"), axis=alt.Axis(tickCount=5)
        ),
        y2=alt.Y2Datum(0),
        color=alt.Color("kind:N", scale=KINDS),
        tooltip=tips(
            {"kind:N": "true kind", "n:Q": "instances", "low:Q": "from", "high:Q": "to"}, low=".0%", high=".0%"
        ),
    )
    return finish(drawn, "Distribution of the probability of unknown, for known and for unknown classes", 300)


LIGHT = {
    "card": "#ffffff",
    "ink": "#1b2330",
    "soft": "#566173",
    "grid": "#e1e6ed",
    "known": "#2f6db5",
    "new": "#b54d08",
}
"""Values of the page's colour variables in the light theme."""

_OF_THE_WHOLE = ("$schema", "config", "autosize", "datasets")
"""Fields that a chart within another chart cannot have."""


def alone(spec: Spec, width: int) -> Any:
    """Make an Altair chart from a chart of the page."""
    return _chart(_part(spec, width), [spec])


def together(drawings: Sequence[tuple[str, Spec]], width: int, columns: int) -> Any:
    """Make one Altair chart from several charts with titles, in columns."""
    parts = [{**_part(spec, width), "title": title} for title, spec in drawings]
    return _chart({"concat": parts, "columns": columns}, [spec for _, spec in drawings])


def _part(spec: Spec, width: int) -> Spec:
    return {name: its for name, its in spec.items() if name not in _OF_THE_WHOLE} | {"width": width}


def _chart(whole: Spec, drawn: Sequence[Spec]) -> Any:
    """Add the data and style of charts to their combination."""
    config = {name: its for name, its in drawn[0]["config"].items() if name != "legend"}
    title = {"anchor": "start", "fontSize": 13, "color": INK, "font": FONT}
    looks = {**config, "background": "var(--card)", "padding": 10, "title": title}
    datasets = {name: values for spec in drawn for name, values in spec.get("datasets", {}).items()}
    return alt.Chart.from_dict(plain(_coloured({**whole, "datasets": datasets, "config": looks})))


def _coloured(value: Any) -> Any:
    """Replace the page's colour variables by colours.

    >>> _coloured({"color": "var(--new)", "size": [1, "var(--ink)"]})
    {'color': '#b54d08', 'size': [1, '#1b2330']}
    """
    if isinstance(value, dict):
        return {name: _coloured(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_coloured(item) for item in value]
    found = re.fullmatch(r"var\(--(\w+)\)", value) if isinstance(value, str) else None
    return LIGHT[found[1]] if found else value
