"""Probabilities of being unknown against true labels."""

from __future__ import annotations

from itertools import pairwise

import altair as alt
import numpy as np
from numpy.typing import NDArray

from stream_osr.evaluation.calibration import ReliabilityCurve
from stream_osr_connectors.page.report.charts.style import KINDS, NEW, SOFT, Spec, Values, finish, marks, tips


def calibration(curve: ReliabilityCurve) -> Spec:
    """Draw the observed share of unknown against the predicted one, bin by bin."""
    values = [
        {"p": float(p), "observed": float(o), "n": int(n)}
        for n, p, o in zip(curve.size, curve.predicted, curve.observed, strict=True)
    ]
    unit, axis = alt.Scale(domain=[0, 1]), alt.Axis(format="%", tickCount=5)
    x = alt.X("p:Q", title="predicted probability of unknown", scale=unit, axis=axis)
    y = alt.Y("observed:Q", title="share that was unknown", scale=unit, axis=axis)
    corners: Values = [{"p": 0, "observed": 0}, {"p": 1, "observed": 1}]
    ideal = marks(corners, "line", strokeDash=[4, 3], color=SOFT, strokeWidth=1.2, tooltip=None).encode(x=x, y=y)
    line = marks(values, "line", color=NEW, strokeWidth=1.5).encode(x=x, y=y)
    told = tips({"p:Q": "predicted", "observed:Q": "was unknown", "n:Q": "instances"}, p=".1%", observed=".1%")
    points = marks(values, "circle", color=NEW, opacity=0.9, size=60).encode(x=x, y=y, tooltip=told)
    return finish(alt.layer(ideal, line, points), "Observed share of unknown against the predicted one", 300)


def spread(p_unknown: NDArray[np.float64], truly_unknown: NDArray[np.bool_]) -> Spec:
    """Draw how often each probability was given to instances of known and of unknown classes."""
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
        tooltip=tips({"kind:N": "truly", "n:Q": "instances", "low:Q": "from", "high:Q": "to"}, low=".0%", high=".0%"),
    )
    return finish(drawn, "Predicted probability of unknown, for known and for unknown classes", 300)
