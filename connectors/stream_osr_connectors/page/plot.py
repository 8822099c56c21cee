"""The figures of the report from Python, as Altair charts (extra ``plot``): ``model.plot.plane()``, say.

A notebook shows a chart as it is; ``chart.save("figure.svg")`` (or .png, .html) writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, Literal, TypeAlias

from stream_osr.decision import Decision
from stream_osr.discovery.events import Event
from stream_osr.errors import InvalidParameter, MissingExtra
from stream_osr.evaluation.calibration import reliability_curve
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr_connectors.page.formatting import subclass_name
from stream_osr_connectors.page.report.content import Content, collect

__all__ = ["Figures"]

Records: TypeAlias = Iterable[Decision | Event | Mapping[str, Any]]
Labels: TypeAlias = Mapping[Any, Any] | Callable[[Any], Any]
WIDTH = 640
"""Pixels of a figure; of those that stand side by side half."""
DRAWN = 12
"""Subclasses that :meth:`Figures.emerged` draws."""


class Figures:
    """Figures of a recognizer, and of what it has told: :attr:`stream_osr.OpenSetRecognizer.plot`.

    Parameters
    ----------
    model
        A recognizer whose training has ended; ``None``: of decisions and events alone (:meth:`timeline`,
        :meth:`calibration`, :meth:`emerged`).

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
        """Draw what came when: the share called unknown, and arrivals in each subclass and class, with the events.

        Parameters
        ----------
        decisions, events
            As :meth:`stream_osr.OpenSetRecognizer.drain` and its ``drain_events`` yield them, or as a run
            has written them.
        labels
            True label by the key of a decision, as far as it is known (else ``None``), a dict or a function: then the
            share that was truly unknown is drawn, too.
        """
        timeline = self._collect(decisions, events, labels).timeline
        if timeline is None:
            raise InvalidParameter("there is nothing to draw: there are no decisions; give those that were drained")
        charts = _charts()
        parts = [("called unknown", charts.unknown_share(timeline)), ("arrivals", charts.arrivals(timeline))]
        return charts.together(parts, WIDTH, columns=1)

    def plane(self, axes: Literal["all", "known"] = "all") -> Any:
        """Draw subclasses as ellipses on the two axes on which classes lie furthest apart.

        Parameters
        ----------
        axes
            Classes that the axes part: ``"all"``, known and new ones, or ``"known"``: the known ones alone.
        """
        if axes not in ("all", "known"):
            raise InvalidParameter(f"axes is {axes!r}; expected 'all' or 'known'")
        planes = self._collect().planes
        if not planes:
            raise InvalidParameter("there is nothing to draw: a plane needs a model with two numeric features")
        chosen = planes[-1] if axes == "all" else planes[0]
        charts = _charts()
        return charts.alone(charts.plane(chosen), WIDTH)

    def emerged(self, events: Records = ()) -> Any:
        """Draw of the largest subclasses that have emerged which features moved most from the nearest known one.

        Parameters
        ----------
        events
            As for :meth:`timeline`; with a model they are needed for subclasses alone that it no longer has.
        """
        found = [each for each in self._collect(events=events).emerged if each.shifts][:DRAWN]
        if not found:
            raise InvalidParameter("there is nothing to draw: no subclass with numeric features has emerged")
        charts = _charts()
        parts = [
            (f"{subclass_name(each.id)}: {each.size:,} instances, nearest {each.nearest}", charts.shifts(each.shifts))
            for each in found
        ]
        return charts.together(parts, WIDTH // 2, columns=2)

    def calibration(self, decisions: Records, labels: Labels) -> Any:
        """Draw probabilities of being unknown against true labels.

        Parameters
        ----------
        decisions, labels
            As for :meth:`timeline`.
        """
        decided = self._collect(decisions, labels=labels).table
        judged = decided.judged
        if not judged.any():
            raise InvalidParameter(
                "there is nothing to draw: no decision has a label; give them by the keys of decisions"
            )
        charts = _charts()
        p, unknown = decided.p_unknown[judged], decided.truly_unknown[judged]
        parts = [
            ("observed against predicted", charts.calibration(reliability_curve(p, unknown))),
            ("predicted, for known and new classes", charts.spread(p, unknown)),
        ]
        return charts.together(parts, WIDTH // 2, columns=2)

    def _collect(self, decisions: Records = (), events: Records = (), labels: Labels | None = None) -> Content:
        true_label = None if labels is None else _truth(labels)
        return collect(self._model, _records(decisions, "decisions"), _records(events, "events"), true_label)


def _charts() -> Any:
    """Import what draws when there is something to draw: nobody else needs Altair."""
    try:
        return import_module("stream_osr_connectors.page.report.charts")
    except ModuleNotFoundError as error:
        raise MissingExtra(f"figures need {error.name}; pip install 'stream-osr[plot]' brings it") from error


def _truth(labels: Labels) -> Callable[[Any, int], str | None]:
    if not isinstance(labels, Mapping) and not callable(labels):
        raise InvalidParameter(
            f"labels is a {type(labels).__name__}; give a mapping from the key of a decision to its label "
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
        raise InvalidParameter(f"{name} has a {found} in it; expected what drain() and drain_events() yield")
    return out
