"""The report of a run: one HTML page that works without a network (extra `plot`).

``files``, ``decisions_table`` and ``events_section`` read the input. ``class_summary``, ``candidates``, ``timeline``
and ``axes`` compute what the report shows. ``content`` assembles it, ``charts`` draws it, and ``page`` writes the
HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from stream_osr.errors import MissingExtra
from stream_osr.keyed import KeySummary
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr_connectors.page.report.candidates import Instances, in_python
from stream_osr_connectors.page.report.content import collect

__all__ = ["keys_page", "report_page"]


def keys_page(title: str, lines: Sequence[KeySummary], command: Callable[[str], str]) -> str:
    """Write a page with the table of the streams by key.

    Parameters
    ----------
    title
        Heading of the page.
    lines
        Lines of :meth:`stream_osr.Keyed.summary`.
    command
        A function that maps a key to the command that writes the report of this key.

    Raises
    ------
    MissingExtra
        If the extra ``plot`` is not installed.
    """
    page: str = _page_module().render_keys(title, lines, command)
    return page


def report_page(
    model: OpenSetRecognizer | None = None,
    decisions: Iterable[Mapping[str, Any]] | None = None,
    events: Iterable[Mapping[str, Any]] = (),
    truth: Callable[[Any, int], str | None] | None = None,
    title: str = "Stream report",
    notes: Sequence[str] = (),
    instances: Instances | None = None,
    command: Callable[[Sequence[int]], str] = in_python,
) -> str:
    """Write a self-contained HTML report of a model, its decisions, or both.

    Parameters
    ----------
    model
        A recognizer whose training has ended. It supplies the feature map, the subclasses and the discovery table.
    decisions, events
        Decisions and events as `stream_osr.Decision.as_dict` and `stream_osr.Event.as_dict` return them. They supply
        the timeline.
    truth
        A function that returns the true label (as text) or ``None``, given the key of a decision and its number (from
        0). With true labels the report shows accuracy and calibration.
    title
        Heading of the page.
    notes
        Sentences about skipped input, for the section "Skipped input". They are read after all other input.
    instances
        Pairs of key and features, to show the original values of examples. If all keys are ``None``, there must be
        one pair for each decision, in their order. Without this argument the report shows the values in the model's
        memory.
    command
        A function that maps the subclass ids of a candidate to the command that names it.

    Returns
    -------
    str
        HTML.

    Raises
    ------
    MissingExtra
        If the extra ``plot`` is not installed.
    ConnectorError
        If a decision or an event is invalid, the events belong to another model, or the number of instances without
        keys differs from the number of decisions.
    NotTrained
        If training of the model has not ended.
    """
    page: str = _page_module().render(collect(model, decisions, events, truth, title, notes, instances, command))
    return page


def _page_module() -> Any:
    try:
        return import_module("stream_osr_connectors.page.report.page")
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the report needs {error.name}: run pip install 'stream-osr[plot]'") from error
