"""What happened along the stream."""

from __future__ import annotations

from itertools import cycle, pairwise
from typing import Any

import altair as alt

from stream_osr.showing import counted
from stream_osr_connectors.page.report.charts.style import INK, KINDS, NEW, Spec, Values, finish, marks, tips
from stream_osr_connectors.page.report.timeline import Timeline

MARGIN = 92
"""Pixels left of each drawing, so that positions in the stream stand below each other."""
SIGNS = {"announced": ("triangle-up", "▲"), "doubled": ("circle", "●"), "forgotten": ("cross", "✚")}
OTHER_SIGNS = (
    ("square", "■"),
    ("diamond", "◆"),
    ("triangle-down", "▼"),
    ("triangle-left", "◀"),
    ("triangle-right", "▶"),
)
LINES = ["called unknown", "truly unknown"]


def arrivals(timeline: Timeline) -> Spec:
    """Draw the arrivals of each row as a band, the darker the more, with events on it."""
    cells = [
        {"row": row.name, "kind": "new" if row.new else "known", "n": int(n), "from": int(a), "to": int(b)}
        for row in timeline.rows
        for n, (a, b) in zip(row.arrivals, pairwise(timeline.edges), strict=True)
        if n
    ]
    order = [row.name for row in timeline.rows]
    y = alt.Y("row:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=_left(labelLimit=MARGIN - 8))
    title = "position in the stream (instances)"
    bands = marks(cells, "rect").encode(
        x=_along(timeline, title=title),
        x2="to:Q",
        y=y,
        color=alt.Color("kind:N", scale=KINDS),
        opacity=alt.Opacity("n:Q", scale=alt.Scale(type="sqrt", domainMin=0, range=[0.12, 1])),
        tooltip=tips({"row:N": "row", "n:Q": "arrivals", "from:Q": "from", "to:Q": "to before"}),
    )
    told: Values = [
        {"row": m.name, "seq": m.seq, "what": m.what, "size": "" if m.size is None else f"{m.size:,}"}
        for m in timeline.marks
    ]
    look = {"filled": True, "opacity": 1, "stroke": "var(--card)", "strokeWidth": 1.2, "color": INK}
    used = signs(timeline)
    events = marks(told, "point", "events", **look).encode(
        x=_along(timeline, "seq", title=title),
        y=y,
        shape=alt.Shape("what:N", scale=alt.Scale(domain=list(used), range=[s for s, _ in used.values()])),
        size=alt.condition("datum.what == 'announced'", alt.value(95), alt.value(45)),
        tooltip=tips({"row:N": "subclass", "what:N": "event", "seq:Q": "told at", "size:N": "instances"}),
    )
    layers = alt.layer(bands, *([events] if told else [])).resolve_scale(color="independent", shape="independent")
    described = f"Arrivals in {counted(len(order), 'row')} along the stream, with {counted(len(told), 'event')}"
    return finish(layers, described, 20 * len(order) + 36)


def signs(timeline: Timeline) -> dict[str, tuple[str, str]]:
    """Return the sign of each kind of event: its name in Vega, and a letter that looks like it."""
    found = {mark.what for mark in timeline.marks}
    others = dict(zip(sorted(found - set(SIGNS)), cycle(OTHER_SIGNS), strict=False))
    return {what: sign for what, sign in (SIGNS | others).items() if what in found}


def unknown_share(timeline: Timeline) -> Spec:
    """Draw the share of the decisions that are unknown along the stream, and the true share where it is known."""
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
    described = "Share of the decisions that are unknown, along the stream"
    if not timeline.drops:
        return finish(lines, described, 110)
    rules = marks(
        [{"seq": n} for n in timeline.drops], "rule", "drops", color=INK, strokeWidth=1.5, strokeDash=[6, 3]
    )
    drops = rules.encode(x=_along(timeline, "seq"), tooltip=tips({"seq:Q": "recall below the promise, told at"}))
    return finish(alt.layer(lines, drops), f"{described}, and where the recall of the known classes dropped", 110)


def estimates(timeline: Timeline) -> Spec:
    """Draw the paper's Delta along the stream."""
    begin, end = int(timeline.edges[0]), int(timeline.edges[-1])
    steps = [(begin, 0), *timeline.estimates]
    values = [{"from": seq, "n": n} for seq, n in [*steps, (end, steps[-1][1])]]
    most = max(1, *(n for _, n in steps))
    axis = _left(format="d", values=sorted({0, max(1, most // 2), most}))
    y = alt.Y("n:Q", title=None, scale=alt.Scale(domain=[0, most]), axis=axis)
    line = marks(values, "line", interpolate="step-after", strokeWidth=1.8, color=NEW, tooltip=None)
    return finish(line.encode(x=_along(timeline), y=y), "The paper's Delta, along the stream", 70)


def _along(timeline: Timeline, field: str = "from", *, title: str | None = None) -> alt.X:
    scale = alt.Scale(domain=[int(timeline.edges[0]), int(timeline.edges[-1])], nice=False)
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(format=",d", grid=False))


def _left(**more: Any) -> alt.Axis:
    return alt.Axis(minExtent=MARGIN, maxExtent=MARGIN, **more)
