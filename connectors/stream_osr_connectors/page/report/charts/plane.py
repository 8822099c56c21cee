"""Subclasses in the plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from stream_osr.showing import counted
from stream_osr_connectors.page.report.axes import Plane, Spot
from stream_osr_connectors.page.report.charts.style import KINDS, Spec, Values, finish, marks, tips
from stream_osr_connectors.page.report.timeline import subclass_name

CROWD = 40
"""Subclasses in a plane above which they are drawn more lightly."""
CHOSEN = "chosen == '' || datum.name == chosen"
"""Whether a mark is shown in full, by the parameter that the page sets."""


def plane(drawn: Plane) -> Spec:
    """Draw subclasses as ellipses, instances as dots and names where they belong."""
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
        told = f"a new subclass of {counted(spot.size, 'instance', form=',')}"
        names.append({"name": subclass_name(spot.id), "kind": "new", "told": told, "x": x, "y": y})
    texts = marks(names, "text", "names", fontSize=12, fontWeight="bold", limit=140)
    seen = alt.when(CHOSEN).then(alt.value(1.0)).otherwise(alt.value(0.0))
    return texts.encode(
        **at, text="name:N", opacity=seen, tooltip=[alt.Tooltip("name:N"), alt.Tooltip("told:N", title="is")]
    )


def _limits(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    room = 0.04 * (high - low) or 1.0
    return [low - room, high + room]
