"""The page: one HTML file that needs nothing else.

Drawn by Vega-Lite, through Altair. Next to matplotlib's SVG it fits any width without shrinking its letters, and says
what is under the pointer; bokeh's canvas cannot follow the page's colours from light to dark; plotly is five times as
large. The libraries (0.9 MB) are in the page, which loads nothing and, by its own policy, could not; nor does it run
anything but them, or read code out of text: Vega's expressions are interpreted.

All text of the data leaves by :func:`page_text`: into HTML by way of Jinja, into drawings by way of :func:`_plain`.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import altair as alt
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stream_osr.evaluation.calibration import reliability_curve
from stream_osr.report.charts import plane, shifts, stream, truth
from stream_osr.report.content import Content
from stream_osr.report.timeline import subclass_name
from stream_osr.showing import printable

CARDS = 12
"""New subclasses that get a drawing of their own; the others get a line."""
LONGEST = 300
"""Characters of a text of the data."""
AXES = (("of the known classes", "known"), ("of known classes and new subclasses", "all"))


def render(content: Content) -> str:
    """Write the page."""
    specs: dict[str, Any] = {}
    for drawn, (_, name) in zip(content.planes, AXES, strict=False):
        specs[f"plane-{name}"] = plane.plane(drawn)
    if content.timeline is not None:
        specs["share"] = stream.unknown_share(content.timeline)
        specs["arrivals"] = stream.arrivals(content.timeline)
        if content.timeline.estimates:
            specs["estimates"] = stream.estimates(content.timeline)
    shown = [subclass for subclass in content.emerged if subclass.shifts or subclass.values]
    for subclass in shown[:CARDS]:
        if subclass.shifts:
            specs[f"shifts-{subclass.id}"] = shifts.shifts(subclass.shifts)
    if content.judged is not None:
        judged = content.told.judged
        p, unknown = content.told.p_unknown[judged], content.told.truly_unknown[judged]
        specs["calibration"] = truth.calibration(reliability_curve(p, unknown))
        specs["spread"] = truth.spread(p, unknown)
    style, draw = _template("page.css"), _template("page.js")
    page = _environment().get_template("page.html.j2")
    return page.render(
        content=content,
        specs=_plain(specs),
        cards=shown[:CARDS],
        rest=shown[CARDS:],
        axes=AXES,
        signs={} if content.timeline is None else stream.signs(content.timeline),
        name=subclass_name,
        style=Markup(style),
        scripts=[Markup(_libraries()), Markup(draw)],
        policy=_policy([style], [_libraries(), draw]),
        version=version("stream-osr"),
    )


def page_text(value: Any) -> Any:
    r"""Show a text of the data as text: what has no shape stands there escaped, as on a terminal.

    >>> page_text("red" + chr(0x202E)), page_text(3)
    ('red\\u202e', 3)
    """
    return printable(value, LONGEST) if isinstance(value, str) and not isinstance(value, Markup) else value


def _plain(value: Any) -> Any:
    """Make all text of a specification that of the page, and leave no number that JSON does not have."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return page_text(value)


def _policy(styles: Sequence[str], scripts: Sequence[str]) -> Markup:
    """Allow these styles and scripts in the page, by their hashes, and nothing else."""

    def hashes(texts: Sequence[str]) -> str:
        digests = [hashlib.sha256(text.encode()).digest() for text in texts]
        return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)

    return Markup(
        f"default-src 'none'; style-src {hashes(styles)}; script-src {hashes(scripts)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _template(name: str) -> str:
    return files("stream_osr.report").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _libraries() -> str:
    """Return Vega, Vega-Lite and vega-embed, of the version that Altair writes for."""
    major, minor, *_ = alt.SCHEMA_VERSION.removeprefix("v").split(".")
    return str(vl_convert.javascript_bundle("Object.assign(window, {vegaEmbed})", vl_version=f"{major}.{minor}"))


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("stream_osr.report", "templates"),
        autoescape=True,
        finalize=page_text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["percent"] = lambda share: "n/a" if share is None or share != share else f"{100 * share:.1f} %"
    made.filters["count"] = lambda number: f"{number:,}"
    made.filters["figure"] = lambda value: "n/a" if value != value else f"{value:.3f}"
    return made
