"""The page: one HTML file that needs nothing else.

Drawn by Vega-Lite, through Altair. Next to matplotlib's SVG it fits any width without shrinking its letters, and says
what is under the pointer; bokeh's canvas cannot follow the page's colours from light to dark; plotly is five times as
large. The libraries (0.9 MB) are in the page, which loads nothing and, by its own policy, could not.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

import altair as alt
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined

from stream_osr.evaluation.calibration import reliability_curve
from stream_osr.report import charts
from stream_osr.report.content import Content
from stream_osr.report.timeline import subclass_name

CARDS = 12
"""New subclasses that get a drawing of their own; the others get a line."""
AXES = (("of the known classes", "known"), ("of known classes and new subclasses", "all"))


def render(content: Content) -> str:
    """Write the page."""
    specs: dict[str, Any] = {}
    for plane, (_, name) in zip(content.planes, AXES, strict=False):
        specs[f"plane-{name}"] = charts.plane(plane)
    if content.timeline is not None:
        specs["share"] = charts.unknown_share(content.timeline)
        specs["arrivals"] = charts.arrivals(content.timeline)
        if content.timeline.estimates:
            specs["estimates"] = charts.estimates(content.timeline)
    shown = [subclass for subclass in content.emerged if subclass.shifts]
    for subclass in shown[:CARDS]:
        specs[f"shifts-{subclass.id}"] = charts.shifts(subclass.shifts)
    if content.judged is not None and content.told is not None:
        judged = content.told.judged
        p, truth = content.told.p_unknown[judged], content.told.truly_unknown[judged]
        specs["calibration"] = charts.calibration(reliability_curve(p, truth))
        specs["spread"] = charts.spread(p, truth)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            content=content,
            specs=specs,
            cards=shown[:CARDS],
            rest=shown[CARDS:],
            axes=AXES,
            signs={} if content.timeline is None else charts.signs(content.timeline),
            name=subclass_name,
            libraries=_libraries(),
            version=version("stream-osr"),
        )
    )


@cache
def _libraries() -> str:
    """Return Vega, Vega-Lite and vega-embed, of the version that Altair writes for."""
    major, minor, *_ = alt.SCHEMA_VERSION.removeprefix("v").split(".")
    return str(vl_convert.javascript_bundle("Object.assign(window, {vegaEmbed})", vl_version=f"{major}.{minor}"))


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("stream_osr.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["percent"] = lambda share: "n/a" if share is None or share != share else f"{100 * share:.1f} %"
    made.filters["count"] = lambda number: f"{number:,}"
    made.filters["figure"] = lambda value: "n/a" if value != value else f"{value:.3f}"
    return made
