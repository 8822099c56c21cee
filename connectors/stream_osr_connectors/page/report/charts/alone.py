"""Drawings that stand alone: with colours and a width of their own instead of the page's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import altair as alt

from stream_osr_connectors.page.report.charts.style import FONT, INK, Spec
from stream_osr_connectors.page.report.plain import plain

LIGHT = {
    "card": "#ffffff",
    "ink": "#1b2330",
    "soft": "#566173",
    "grid": "#e1e6ed",
    "known": "#2f6db5",
    "new": "#b54d08",
}
"""What the variables of the page are in its light form."""

_OF_THE_WHOLE = ("$schema", "config", "autosize", "datasets")
"""What a drawing within another cannot have."""


def alone(spec: Spec, width: int) -> Any:
    """Make a chart of a drawing of the page."""
    return _chart(_part(spec, width), [spec])


def together(drawings: Sequence[tuple[str, Spec]], width: int, columns: int) -> Any:
    """Make one chart of several drawings, each under its title, in so many columns."""
    parts = [{**_part(spec, width), "title": title} for title, spec in drawings]
    return _chart({"concat": parts, "columns": columns}, [spec for _, spec in drawings])


def _part(spec: Spec, width: int) -> Spec:
    return {name: its for name, its in spec.items() if name not in _OF_THE_WHOLE} | {"width": width}


def _chart(whole: Spec, drawn: Sequence[Spec]) -> Any:
    """Put data and looks of drawings around, with the legends that the page itself has."""
    config = {name: its for name, its in drawn[0]["config"].items() if name != "legend"}
    title = {"anchor": "start", "fontSize": 13, "color": INK, "font": FONT}
    looks = {**config, "background": "var(--card)", "padding": 10, "title": title}
    datasets = {name: values for spec in drawn for name, values in spec.get("datasets", {}).items()}
    return alt.Chart.from_dict(plain(_coloured({**whole, "datasets": datasets, "config": looks})))


def _coloured(value: Any) -> Any:
    """Put colours in the place of the page's variables.

    >>> _coloured({"color": "var(--new)", "size": [1, "var(--ink)"]})
    {'color': '#b54d08', 'size': [1, '#1b2330']}
    """
    if isinstance(value, dict):
        return {name: _coloured(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_coloured(item) for item in value]
    found = re.fullmatch(r"var\(--(\w+)\)", value) if isinstance(value, str) else None
    return LIGHT[found[1]] if found else value
