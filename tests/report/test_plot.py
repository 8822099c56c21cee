"""Figures from Python: those of the page, in colours of their own; text is text, and where nothing is it is said."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from importlib.resources import files
from typing import Any

import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.errors import ConnectorError, InvalidParameter, MissingExtra, NotTrained
from stream_osr_connectors.page.report import report_page
from tests.blobs import drained, fitted, learn_all
from tests.report.conftest import Run

PAGE = "stream_osr_connectors.page"


def drawn(chart: Any) -> str:
    """Draw a chart as Vega draws it; what it cannot draw is an error, or a warning in the picture."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(chart.to_dict()))


def labels_by_key(run: Run) -> dict[str, str]:
    return {decision["key"]: label for decision, label in zip(run.decisions, run.labels, strict=True)}


def names_of_new(run: Run) -> list[str]:
    return [f"S{event['subclass_id']}" for event in run.events if event["type"] == "SubclassEmerged"]


@pytest.fixture
def without() -> Any:
    """Figures without a model."""
    from stream_osr_connectors.page.plot import Figures

    return Figures()


def test_the_timeline_shows_arrivals_and_events(run: Run) -> None:
    picture = drawn(run.model.plot.timeline(run.decisions, run.events, labels_by_key(run)))
    assert names_of_new(run)
    for text in (*names_of_new(run), "plain", "announced", "called unknown", "truly unknown"):
        assert f">{text}<" in picture


@pytest.mark.thorough
def test_the_plane_shows_known_and_new_subclasses(run: Run) -> None:
    for axes in ("all", "known"):
        picture = drawn(run.model.plot.plane(axes))
        for text in (*names_of_new(run), "plain", "first axis (standard deviations)"):
            assert f">{text}<" in picture
    assert run.model.plot.plane().to_dict() != run.model.plot.plane("known").to_dict()


def test_what_emerged_shows_what_moved(run: Run) -> None:
    picture = drawn(run.model.plot.emerged())
    assert all(re.search(f">{name}: [0-9,]+ instances, nearest ", picture) for name in names_of_new(run))
    assert ">c.d[0]<" in picture


def test_calibration_needs_labels(run: Run) -> None:
    for labels in (labels_by_key(run), labels_by_key(run).get):
        assert ">predicted probability of unknown<" in drawn(run.model.plot.calibration(run.decisions, labels))


def test_records_may_be_those_that_were_drained() -> None:
    model = learn_all(fitted(batch_size=1, chains=1), [({"a": 90.0, "b": 0.0}, None)] * 20)
    decisions, events = drained(model)
    dicts = [d.as_dict() for d in decisions], [e.as_dict() for e in events]
    assert model.plot.timeline(decisions, events).to_dict() == model.plot.timeline(*dicts).to_dict()


def test_decisions_and_events_are_drawn_without_a_model(run: Run, without: Any) -> None:
    assert without.timeline(run.decisions, run.events).to_dict() == (
        run.model.plot.timeline(run.decisions, run.events).to_dict()
    )
    assert ">c.d[0]<" in drawn(without.emerged(run.events))
    with pytest.raises(InvalidParameter, match="nothing to draw"):
        without.plane()


@pytest.mark.thorough
def test_colours_are_those_of_the_page_in_its_light_form(run: Run) -> None:
    from stream_osr_connectors.page.charts import LIGHT

    style = files("stream_osr_connectors.page.live").joinpath("static", "page.css").read_text(encoding="utf-8")
    light = dict(re.findall(r"--(\w+): (#\w+);", style[: style.index("@media")]))
    assert {name: light[name] for name in LIGHT} == LIGHT
    plot = run.model.plot
    for chart in (plot.timeline(run.decisions, run.events), plot.plane(), plot.emerged()):
        assert "var(" not in json.dumps(chart.to_dict())


@pytest.mark.thorough
def test_text_of_the_data_is_text(run: Run, without: Any) -> None:
    evil = json.loads(json.dumps(run.decisions).replace('"plain"', '"red\\u202e"'))
    text = json.dumps(without.timeline(evil).to_dict(), ensure_ascii=False)
    assert "\u202e" not in text
    assert r"red\\u202e" in text
    for chart in (run.model.plot.plane(), run.model.plot.emerged(), run.model.plot.timeline(run.decisions)):
        assert "<script" not in drawn(chart)


def test_what_cannot_be_drawn_is_said(run: Run, without: Any) -> None:
    plot = run.model.plot
    for ask, why in (
        (lambda: plot.timeline([]), "nothing to draw without decisions"),
        (lambda: plot.plane("both"), "axes is 'both'"),
        (without.emerged, "no subclass"),
        (lambda: plot.calibration(run.decisions, {}), "no decision has a label"),
        (lambda: plot.calibration(run.decisions, ["a"]), "labels is a list. Give a mapping from the key"),
        (lambda: plot.timeline(["label"]), "decisions contains a str"),
    ):
        with pytest.raises(InvalidParameter, match=why):
            ask()
    with pytest.raises(NotTrained):
        OpenSetRecognizer().plot.plane()
    with pytest.raises(ConnectorError, match="the events are of model"):
        fitted(chains=1).plot.timeline(run.decisions, run.events)


def test_without_altair_the_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    dependent = ("altair", "jinja2", f"{PAGE}.charts", f"{PAGE}.report.frozen", f"{PAGE}.plot")
    for name in [each for each in sys.modules if each.startswith(dependent)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "altair", None)
    assert hasattr(run.model, "plot")  # who looks at a recognizer draws nothing
    assert dict(inspect.getmembers(run.model))["plot"] is not None
    with pytest.raises(MissingExtra, match=r"figures need altair: run pip install 'stream-osr\[plot\]'"):
        run.model.plot.plane()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtra, match=r"needs jinja2: run pip install 'stream-osr\[plot\]'"):
        report_page(events=run.events)
    monkeypatch.undo()
    importlib.import_module("stream_osr_connectors.page.plot")
