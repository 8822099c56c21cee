"""A run in pictures: one page that a browser shows without a network (extra `plot`).

``files``, ``decisions_table`` and ``events_section`` read; ``class_summary``, ``candidates``, ``timeline`` and
``axes`` work out what is shown; ``content`` puts it together; ``charts`` draws it; ``page`` writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from stream_osr.errors import MissingExtra
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr_connectors.page.report.candidates import Instances, in_python
from stream_osr_connectors.page.report.content import collect

__all__ = ["report_page"]


def report_page(
    model: OpenSetRecognizer | None = None,
    decisions: Iterable[Mapping[str, Any]] | None = None,
    events: Iterable[Mapping[str, Any]] = (),
    truth: Callable[[Any, int], str | None] | None = None,
    title: str = "What the stream held",
    notes: Sequence[str] = (),
    instances: Instances | None = None,
    command: Callable[[Sequence[int]], str] = in_python,
) -> str:
    """Show a model, or what it decided, or both, on one self-contained HTML page.

    Parameters
    ----------
    model
        A recognizer whose training has ended: gives the plane, the subclasses and the discovery table.
    decisions, events
        As `stream_osr.Decision.as_dict` and `stream_osr.Event.as_dict` make them: give the timeline.
    truth
        Gives the true label (as text), or ``None``, from the key of a decision and its number, from 0: then the page
        shows whether the probabilities are calibrated.
    title
        Heading of the page.
    notes
        Sentences about what was left out in reading, to stand on the page; looked at when all is read.
    instances
        Key (or ``None``: one for each decision, in their order) and features of each instance, to show what examples
        are like. Without them the page shows what the model remembers.
    command
        Says what names a candidate, given the identities of its subclasses.

    Returns
    -------
    str
        HTML.

    Raises
    ------
    MissingExtra
        If the extra ``plot`` is not installed.
    ConnectorError
        If a decision or an event is none, the events are of another model, or instances without keys are not as many
        as decisions.
    NotTrained
        If training of the model has not ended.
    """
    try:
        from stream_osr_connectors.page.report.page import render
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the report needs {error.name}; pip install 'stream-osr[plot]' brings it") from error
    return render(collect(model, decisions, events, truth, title, notes, instances, command))
