"""What all drawings share.

Two hues mean one thing everywhere: blue is known, orange is new; the pair is told apart by colour-blind people, too.
Colours are CSS variables of the page, so that the drawings follow it from light to dark without being drawn again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import altair as alt

KNOWN, NEW, INK, SOFT, GRID = "var(--known)", "var(--new)", "var(--ink)", "var(--soft)", "var(--grid)"
KINDS = alt.Scale(domain=["known", "new"], range=[KNOWN, NEW])
FONT = "system-ui, sans-serif"

Spec: TypeAlias = dict[str, Any]
Values: TypeAlias = list[dict[str, Any]]


def finish(chart: alt.Chart | alt.LayerChart | alt.FacetChart, description: str, height: int) -> Spec:
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


def marks(values: Values, kind: Any, name: str | alt.UndefinedType = alt.Undefined, **style: Any) -> alt.Chart:
    """Draw values as marks of a kind; the values are put into the specification itself."""
    mark = alt.MarkDef(type=kind, aria=False, **style)  # the drawing is described, not each of its marks
    return alt.Chart(alt.InlineData(values=values), mark=mark, name=name)


def tips(titles: Mapping[str, str], **formats: str) -> list[alt.Tooltip]:
    """Say what stands under the pointer: fields and their titles; numbers by a format, or else as counts."""
    numbers = {field: formats.get(field[:-2], ",d") for field in titles if field.endswith(":Q")}
    return [alt.Tooltip(field, title=its, format=numbers.get(field, alt.Undefined)) for field, its in titles.items()]
