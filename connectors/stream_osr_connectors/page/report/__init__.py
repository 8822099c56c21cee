"""The report of a run: the live page frozen into one HTML file that works without a network (extra `plot`).

``files`` reads the input, and ``records_feed`` gives it to the watcher of the live page. ``content`` collects the
state of the page with the instances that it can show, and ``frozen`` writes the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from stream_osr.keyed import KeySummary
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.support.extras import needing
from stream_osr_connectors.summary.naming import naming_in_python

if TYPE_CHECKING:
    from stream_osr_connectors.page.live.file_commands import Acts
    from stream_osr_connectors.page.report.records_feed import Instances

__all__ = ["keys_page", "report_page"]


def keys_page(title: str, lines: Sequence[KeySummary], command: Callable[[str], str]) -> str:
    """Write a page with the table of the streams by key.

    Parameters
    ----------
    title
        Title of the page.
    lines
        Lines of :meth:`stream_osr.Keyed.summary`.
    command
        A function that maps a key to the command that writes the report of this key.

    Raises
    ------
    MissingExtra
        If the extra ``plot`` is not installed.
    """
    content, frozen = _modules()
    page: str = frozen.frozen_page(title, *content.collect_keys(title, lines, command))
    return page


def report_page(
    model: OpenSetRecognizer | None = None,
    decisions: Iterable[Mapping[str, Any]] | None = None,
    events: Iterable[Mapping[str, Any]] = (),
    truth: Callable[[Any, int], str | None] | None = None,
    title: str = "Stream report",
    notes: Sequence[str] = (),
    instances: Instances | None = None,
    command: Callable[[Sequence[int | str]], str] = naming_in_python,
    acts: Acts | None = None,
) -> str:
    """Write a self-contained HTML report of a model, its decisions, or both.

    Parameters
    ----------
    model
        A recognizer whose training has ended. It supplies the candidates, the feature map and the recall.
    decisions, events
        Decisions and events as `stream_osr.Decision.as_dict` and `stream_osr.Event.as_dict` return them. They supply
        the timeline and the instances.
    truth
        A function that returns the true label (as text) or ``None``, given the key of a decision and its number (from
        0). With true labels the report shows accuracy and calibration.
    title
        Title of the page.
    notes
        Sentences about skipped input, for the section "Skipped input". They are read after all other input.
    instances
        Pairs of key and features, to show the original values of examples. If all keys are ``None``, there must be
        one pair for each decision, in their order. Without this argument the report shows the values in the model's
        memory.
    command
        A function that maps the subclass ids of a candidate to the command that names it.
    acts
        Commands of people to the checkpoint of the run, for the change history. They also supply ``command``.

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
    content, frozen = _modules()
    given = content.collect(model, decisions, events, truth, title, notes, instances, command, acts)
    page: str = frozen.frozen_page(title, *given)
    return page


def _modules() -> tuple[Any, Any]:
    package = "stream_osr_connectors.page.report"
    with needing("the report needs {}: run pip install 'stream-osr[plot]'"):
        return import_module(f"{package}.content"), import_module(f"{package}.frozen")
