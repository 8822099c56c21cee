"""Figures of a stream as Altair charts (extra ``plot``), such as ``model.plot.plane()``.

A notebook displays a chart. ``chart.save("figure.svg")`` (or .png, .html) writes it to a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Literal, TypeAlias

import numpy as np

from stream_osr.decision import Decision
from stream_osr.discovery.event_base import Event
from stream_osr.errors import InvalidParameter
from stream_osr.evaluation.calibration import reliability_curve
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.support.extras import needing
from stream_osr_connectors.page.live.watcher import Watcher
from stream_osr_connectors.page.report.content import watching
from stream_osr_connectors.page.report.records_feed import RecordsFeed
from stream_osr_connectors.summary.axes import planes

__all__ = ["Figures"]

Records: TypeAlias = Iterable[Decision | Event | Mapping[str, Any]]
Labels: TypeAlias = Mapping[Any, Any] | Callable[[Any], Any]
WIDTH = 640
"""Width of a figure in pixels. Figures side by side have half of this width."""
DRAWN = 12
"""Most subclasses that :meth:`Figures.emerged` draws."""


class Figures:
    """Figures of a recognizer, its decisions and its events (:attr:`stream_osr.OpenSetRecognizer.plot`).

    Parameters
    ----------
    model
        A recognizer whose training has ended. With ``None``, only :meth:`timeline`, :meth:`calibration` and
        :meth:`emerged` work, from decisions and events.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_osr import OpenSetRecognizer
    >>> rng = np.random.default_rng(0)
    >>> model = OpenSetRecognizer(batch_size=64, seed=7)
    >>> for a, b in rng.normal(size=(200, 2)):
    ...     model.learn_one({"a": a, "b": b}, "left")
    ...     model.learn_one({"a": a + 20, "b": b}, "right")
    >>> for a, b in rng.normal([15, 20], size=(64, 2)):
    ...     model.learn_one({"a": a, "b": b})
    >>> decisions, events = list(model.drain()), list(model.drain_events())
    >>> chart = model.plot.timeline(decisions, events)  # chart.save("timeline.svg") writes it
    >>> chart.to_dict()["concat"][1]["title"]
    'arrivals'
    """

    def __init__(self, model: OpenSetRecognizer | None = None) -> None:
        self._model = model

    def timeline(self, decisions: Records, events: Records = (), labels: Labels | None = None) -> Any:
        """Draw the timeline: the share of unknown instances, and arrivals by subclass and class with events.

        Parameters
        ----------
        decisions, events
            Decisions and events from :meth:`stream_osr.OpenSetRecognizer.drain` and ``drain_events``, or from the
            files of a run.
        labels
            A dict or function that maps the key of a decision to its true label, or to ``None``. With labels the
            figure also shows the share of truly unknown instances.
        """
        with self._watching(decisions, events, labels) as (watcher, feed):
            timeline = watcher.refresh()["timeline"]
        if not timeline["times"]:
            raise InvalidParameter("there is nothing to draw without decisions: give those from drain()")
        drops = [event["seq"] for event in feed.events if event["type"] == "RecallDropped"]
        charts = _charts()
        parts = [("called unknown", charts.unknown_share(timeline, drops)), ("arrivals", charts.arrivals(timeline))]
        return charts.together(parts, WIDTH, columns=1)

    def plane(self, axes: Literal["all", "known"] = "all") -> Any:
        """Draw the feature map: subclasses as ellipses on the two axes that separate the classes best.

        Parameters
        ----------
        axes
            Classes that the axes separate: ``"all"`` for known and new classes, ``"known"`` for known classes.
        """
        if axes not in ("all", "known"):
            raise InvalidParameter(f"axes is {axes!r}, expected 'all' or 'known'")
        found = () if self._model is None else planes(self._model.value.running[1])
        if not found:
            raise InvalidParameter("there is nothing to draw: a plane needs a model with two numeric features")
        chosen = found[-1] if axes == "all" else found[0]
        charts = _charts()
        return charts.alone(charts.plane(chosen), WIDTH)

    def emerged(self, events: Records = ()) -> Any:
        """Draw the features of the largest emerged subclasses that differ most from the nearest known subclass.

        Parameters
        ----------
        events
            Events, as for :meth:`timeline`. With a model they are needed only for subclasses that it no longer has.
        """
        with self._watching((), events) as (watcher, _):
            watcher.refresh()
            found = [each for each in watcher.state.every_subclass() if any(map(_is_numeric, each.like["differs"]))]
        if not found:
            raise InvalidParameter("there is nothing to draw: no subclass with numeric features has emerged")
        charts = _charts()
        parts = [
            (
                f"S{each.key}: {each.size:,} instances, nearest {each.like['nearest_class']}",
                charts.shifts([feature for feature in each.like["differs"] if _is_numeric(feature)]),
            )
            for each in sorted(found, key=lambda each: (-each.size, each.key))[:DRAWN]
        ]
        return charts.together(parts, WIDTH // 2, columns=2)

    def calibration(self, decisions: Records, labels: Labels) -> Any:
        """Draw the probability of unknown against true labels.

        Parameters
        ----------
        decisions, labels
            As for :meth:`timeline`.
        """
        with self._watching(decisions, (), labels) as (watcher, _):
            watcher.refresh()
            truth = watcher.state.truth
        if not truth.new:
            raise InvalidParameter(
                "there is nothing to draw: no decision has a label. Give labels by the keys of decisions"
            )
        charts = _charts()
        p, unknown = np.array(truth.p_unknown), np.array(truth.new, bool)
        parts = [
            ("observed against predicted", charts.calibration(reliability_curve(p, unknown))),
            ("predicted, for known and new classes", charts.spread(p, unknown)),
        ]
        return charts.together(parts, WIDTH // 2, columns=2)

    def _watching(
        self, decisions: Records, events: Records, labels: Labels | None = None
    ) -> AbstractContextManager[tuple[Watcher, RecordsFeed]]:
        true_label = None if labels is None else _truth(labels)
        return watching(self._model, _records(decisions, "decisions"), _records(events, "events"), true_label)


def _is_numeric(difference: Mapping[str, Any]) -> bool:
    return difference["deviations"] is not None


def _charts() -> Any:
    """Import Altair only when a chart is drawn."""
    with needing("figures need {}: run pip install 'stream-osr[plot]'"):
        return import_module("stream_osr_connectors.page.charts")


def _truth(labels: Labels) -> Callable[[Any, int], str | None]:
    if not isinstance(labels, Mapping) and not callable(labels):
        raise InvalidParameter(
            f"labels is a {type(labels).__name__}. Give a mapping from the key of a decision to its label "
            "(dict(zip(keys, labels))), or a function"
        )
    look = labels.get if isinstance(labels, Mapping) else labels

    def true_label(key: Any, number: int) -> str | None:
        label = look(key)
        return None if label is None else str(label)

    return true_label


def _records(records: Records, name: str) -> list[Mapping[str, Any]]:
    out = [each.as_dict() if isinstance(each, Decision | Event) else each for each in records]
    wrong = [each for each in out if not isinstance(each, Mapping)]
    if wrong:
        found = type(wrong[0]).__name__
        raise InvalidParameter(f"{name} contains a {found}, expected what drain() and drain_events() yield")
    return out
