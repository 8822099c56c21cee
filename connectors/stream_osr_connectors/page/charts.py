"""The charts of :class:`stream_osr_connectors.page.plot.Figures`, as Vega-Lite specifications made with Altair.

Blue is known and orange is new, everywhere. Colour-blind people can distinguish the pair. Colours are those of the
live page in its light theme.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any, TypeAlias

import altair as alt
import numpy as np
from numpy.typing import NDArray

from stream_osr.evaluation.calibration import ReliabilityCurve
from stream_osr.printable_text import counted, printable
from stream_osr_connectors.summary.axes import Plane, Spot

LIGHT = {
    "card": "#ffffff",
    "ink": "#1b2330",
    "soft": "#566173",
    "grid": "#e1e6ed",
    "known": "#2f6db5",
    "new": "#c2540a",
}
"""Values of the page's colour variables in the light theme."""
CARD, INK, SOFT, GRID, KNOWN, NEW = LIGHT.values()
KINDS = alt.Scale(domain=["known", "new"], range=[KNOWN, NEW])
FONT = "system-ui, sans-serif"

LONGEST = 300
"""Longest text from data, in characters."""

Values: TypeAlias = list[dict[str, Any]]


def plain(value: Any) -> Any:
    r"""Escape all text of a specification, and replace numbers that JSON cannot represent by ``None``.

    >>> plain({"name": "red" + chr(0x202E), "sizes": (3, float("nan"))})
    {'name': 'red\\u202e', 'sizes': [3, None]}
    """
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return printable(value, LONGEST) if isinstance(value, str) else value


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


def plane(drawn: Plane) -> Any:
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
    layers = alt.layer(points.add_params(zoom), _outlines(drawn, corners, at), _names(drawn, new, at))
    return layers.properties(description=described, height=430)


def _outlines(drawn: Plane, corners: Values, at: dict[str, Any]) -> Any:
    facts = []
    for number, spot in enumerate(drawn.spots):
        kind, label = ("new", "none (new)") if spot.label is None else ("known", spot.label)
        facts.append({"i": number, "name": f"S{spot.id}", "kind": kind, "class": label, "size": spot.size})
    crowded = len(facts) > CROWD
    style = {"strokeWidth": 1.0, "fillOpacity": 0.03} if crowded else {"strokeWidth": 1.4, "fillOpacity": 0.1}
    known = alt.LookupData(alt.InlineData(values=facts), "i", ["name", "kind", "class", "size"])
    lines = marks(corners, "line", interpolate="linear-closed", clip=True, **style).transform_lookup("i", known)
    return lines.encode(
        **at,
        detail="i:N",
        order="order:Q",
        fill=alt.Fill("kind:N", scale=KINDS),
        opacity=alt.when("datum.kind == 'new'").then(alt.value(1.0)).otherwise(alt.value(0.4 if crowded else 0.7)),
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
        names.append({"name": f"S{spot.id}", "kind": "new", "told": reported, "x": x, "y": y})
    texts = marks(names, "text", "names", fontSize=12, fontWeight="bold", limit=140)
    return texts.encode(**at, text="name:N", tooltip=[alt.Tooltip("name:N"), alt.Tooltip("told:N", title="is")])


def _limits(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    room = 0.04 * (high - low) or 1.0
    return [low - room, high + room]


def shifts(differs: Sequence[Mapping[str, Any]]) -> Any:
    """Draw the features with the largest shifts, as an inbox card has them, the largest first."""
    values = []
    for one in differs:
        told = f"{one['deviations']:+.1f}".replace("-", "\N{MINUS SIGN}")
        mean = "" if one["here"] is None else f"{one['here']:.4g}"
        values.append({"feature": one["feature"], "shift": one["deviations"], "mean": mean, "told": told})
    reach = 1.5 * max((abs(one["deviations"]) for one in differs), default=0.0) or 1.0
    scale, labels = alt.Scale(domain=[-reach, reach], nice=False), alt.Axis(labelLimit=130, ticks=False, domain=False)
    bars = marks(values, "bar", color=NEW, height=11).encode(
        x=alt.X("shift:Q", title="shift (standard deviations)", scale=scale, axis=alt.Axis(tickCount=4)),
        y=alt.Y("feature:N", sort=[one["feature"] for one in differs], title=None, axis=labels),
        tooltip=[
            alt.Tooltip("feature:N"),
            *tips({"shift:Q": "shift, sd", "mean:N": "mean, its own units"}, shift="+.2f"),
        ],
    )
    style: dict[str, Any] = {"color": INK, "fontSize": 11, "aria": False}
    up = bars.mark_text(align="left", dx=4, **style).encode(text="told:N").transform_filter("datum.shift >= 0")
    down = bars.mark_text(align="right", dx=-4, **style).encode(text="told:N").transform_filter("datum.shift < 0")
    described = "The features with the largest shifts"
    return alt.layer(bars, up, down).properties(description=described, height=19 * len(differs) + 44)


MARGIN = 92
"""Pixels on the left of each chart, so that positions in the stream align."""
SIGNS = {"announced": "triangle-up", "doubled": "circle"}
OTHER_SIGNS = ("square", "diamond", "triangle-down", "triangle-left", "triangle-right", "cross")
LINES = ["called unknown", "truly unknown"]


def arrivals(timeline: Mapping[str, Any]) -> Any:
    """Draw the arrivals of each row as a band with its events. A darker colour means more arrivals.

    Parameters
    ----------
    timeline
        As :func:`stream_osr_connectors.summary.view_model.timeline` returns it.
    """
    new = {_row_name(id): (id, counts) for id, counts in timeline["subclasses"].items()}
    known = {f"class {label}" if label in new else label: counts for label, counts in timeline["classes"].items()}
    rows = [(name, "new", counts) for name, (_, counts) in new.items()]
    rows += [(name, "known", counts) for name, counts in known.items()]
    texts = [
        {"row": name, "kind": kind, "n": n, "from": a, "to": b}
        for name, kind, counts in rows
        for n, (a, b) in zip(counts, pairwise(timeline["edges"]), strict=True)
        if n
    ]
    order = [name for name, _, _ in rows]
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
    told = timeline["marks"]
    reported: Values = [
        {"row": name, "seq": seq, "what": what} for name, (id, _) in new.items() for seq, what in told.get(id, ())
    ]
    look = {"filled": True, "opacity": 1, "stroke": CARD, "strokeWidth": 1.2, "color": INK}
    used = _signs({mark["what"] for mark in reported})
    events = marks(reported, "point", "events", **look).encode(
        x=_along(timeline, "seq", title=title),
        y=y,
        shape=alt.Shape("what:N", scale=alt.Scale(domain=list(used), range=list(used.values()))),
        size=alt.condition("datum.what == 'announced'", alt.value(95), alt.value(45)),
        tooltip=tips({"row:N": "subclass", "what:N": "event", "seq:Q": "position"}),
    )
    layers = alt.layer(bands, *([events] if reported else [])).resolve_scale(color="independent", shape="independent")
    described = f"Arrivals in {counted(len(order), 'row')} along the stream, with {counted(len(reported), 'event')}"
    return layers.properties(description=described, height=20 * len(order) + 36)


def _row_name(id: str) -> str:
    return f"S{int(id)}" if id.isdecimal() else id


def _signs(found: Collection[str]) -> dict[str, str]:
    """Return the sign of each kind of event."""
    others = dict(zip(sorted({*found} - {*SIGNS}), cycle(OTHER_SIGNS), strict=False))
    return {what: sign for what, sign in (SIGNS | others).items() if what in found}


def unknown_share(timeline: Mapping[str, Any], drops: Sequence[int] = ()) -> Any:
    """Draw the share of unknown decisions along the stream, the true share if labels exist, and drops of recall."""
    values: Values = []
    for line, shares in zip(LINES, (timeline["unknown"], timeline["truly_unknown"]), strict=True):
        for share, ends in zip(shares, pairwise(timeline["edges"]), strict=False):
            for place in ends if share is not None else ():
                values.append({"from": place, "line": line, "share": share, "order": len(values)})
    lines = marks(values, "line", strokeWidth=1.8, tooltip=None).encode(
        x=_along(timeline),
        y=alt.Y("share:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=_left(format="%", tickCount=3)),
        order="order:Q",
        color=alt.Color("line:N", scale=alt.Scale(domain=LINES, range=[NEW, INK])),
        strokeDash=alt.StrokeDash("line:N", scale=alt.Scale(domain=LINES, range=[[1, 0], [2, 3]])),
    )
    described = "Share of unknown decisions along the stream"
    if not drops:
        return lines.properties(description=described, height=110)
    rules = marks([{"seq": n} for n in drops], "rule", "drops", color=INK, strokeWidth=1.5, strokeDash=[6, 3])
    fallen = rules.encode(
        x=_along(timeline, "seq"), tooltip=tips({"seq:Q": "recall below the expected recall, position"})
    )
    described = f"{described}, with drops of the recall of known classes"
    return alt.layer(lines, fallen).properties(description=described, height=110)


def _along(timeline: Mapping[str, Any], field: str = "from", *, title: str | None = None) -> alt.X:
    scale = alt.Scale(domain=[timeline["edges"][0], timeline["edges"][-1]], nice=False)
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(format=",d", grid=False))


def _left(**more: Any) -> alt.Axis:
    return alt.Axis(minExtent=MARGIN, maxExtent=MARGIN, **more)


def calibration(curve: ReliabilityCurve) -> Any:
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
    described = "Observed share of unknown instances against the predicted share"
    return alt.layer(ideal, line, points).properties(description=described, height=300)


def spread(p_unknown: NDArray[np.float64], truly_unknown: NDArray[np.bool_]) -> Any:
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
    described = "Distribution of the probability of unknown, for known and for unknown classes"
    return drawn.properties(description=described, height=300)


def alone(chart: Any, width: int) -> Any:
    """Apply a width and the style to a chart."""
    return _styled(chart.properties(width=width))


def together(drawings: Sequence[tuple[str, Any]], width: int, columns: int) -> Any:
    """Make one chart from several charts with titles, in columns."""
    parts = [chart.properties(width=width, title=title) for title, chart in drawings]
    return _styled(alt.concat(*parts, columns=columns))


def _styled(chart: Any) -> Any:
    axis = {"labelColor": SOFT, "titleColor": SOFT, "gridColor": GRID, "domainColor": GRID, "tickColor": GRID}
    styled = (
        chart.configure(background=CARD, font=FONT, padding=10)
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=12, titleFontSize=12, titleFontWeight="normal", labelLimit=150, **axis)
        .configure_title(anchor="start", fontSize=13, color=INK, font=FONT)
    )
    return alt.Chart.from_dict(plain(styled.to_dict()))
