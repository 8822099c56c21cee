"""Probabilities of being unknown against true labels."""

from __future__ import annotations

import altair as alt
import numpy as np
from numpy.typing import NDArray

from stream_osr.evaluation.calibration import ReliabilityCurve
from stream_osr.report.charts.style import KINDS, NEW, SOFT, Spec, Values, data, finish, tips


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
        alt.Chart(data([{"p": 0, "observed": 0}, {"p": 1, "observed": 1}]))
        .mark_line(strokeDash=[4, 3], color=SOFT, strokeWidth=1.2, aria=False, tooltip=None)
        .encode(x=x, y=y)
    )
    base = alt.Chart(data(values)).encode(x=x, y=y)
    line = base.mark_line(color=NEW, strokeWidth=1.5, aria=False)
    points = base.mark_circle(color=NEW, opacity=0.9, size=60, aria=False).encode(
        tooltip=tips({"p:Q": "predicted", "observed:Q": "was unknown", "n:Q": "instances"}, p=".1%", observed=".1%")
    )
    return finish(alt.layer(ideal, line, points), "Observed share of unknown against the predicted one", 300)


def spread(p_unknown: NDArray[np.float64], truly_unknown: NDArray[np.bool_]) -> Spec:
    """Draw how often each probability was given to instances of known and of unknown classes."""
    edges = np.linspace(0.0, 1.0, 21)
    values: Values = []
    for kind, chosen, side in (("known", ~truly_unknown, 0), ("new", truly_unknown, 1)):
        counts = np.histogram(p_unknown[chosen], edges)[0]
        for n, low, high in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
            middle = (low + high) / 2
            place = {"from": float(low if side == 0 else middle), "to": float(middle if side == 0 else high)}
            values.append({"kind": kind, "n": n, "low": float(low), "high": float(high), **place})
    chart = (
        alt.Chart(data(values))
        .mark_rect(aria=False)
        .encode(
            x=alt.X(
                "from:Q",
                title="predicted probability of unknown",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%", tickCount=5, grid=False),
            ),
            x2="to:Q",
            y=alt.Y(
                "n:Q", title="instances (square-root scale)", scale=alt.Scale(type="sqrt"), axis=alt.Axis(tickCount=5)
            ),
            y2=alt.Y2Datum(0),
            color=alt.Color("kind:N", scale=KINDS),
            tooltip=tips(
                {"kind:N": "truly", "n:Q": "instances", "low:Q": "from", "high:Q": "to"}, low=".0%", high=".0%"
            ),
        )
    )
    return finish(chart, "Predicted probability of unknown, for known and for unknown classes", 300)
