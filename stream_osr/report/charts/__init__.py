"""The drawings, as Vega-Lite specifications made with Altair."""

from stream_osr.report.charts.plane import plane
from stream_osr.report.charts.shifts import shifts
from stream_osr.report.charts.stream import arrivals, estimates, signs, unknown_share
from stream_osr.report.charts.truth import calibration, spread

__all__ = ["arrivals", "calibration", "estimates", "plane", "shifts", "signs", "spread", "unknown_share"]
