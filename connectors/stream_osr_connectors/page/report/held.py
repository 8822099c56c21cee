"""Whether the known classes held: what training promised, what references told, what turned out to be known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from stream_osr.discovery.summaries import Signals
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.trust.recall import ExpectedRecall
from stream_osr_connectors.page.records import reading, real, whole

MOST_CLASSES = 5
"""Classes of which the dependence is told."""


class Drop(NamedTuple):
    """The recall fell below the promise (``RecallDropped``): where this was told, what it was, what was promised."""

    seq: int
    recall: ExpectedRecall
    promised: float


class Refuted(NamedTuple):
    """An announced subclass is not new (``SubclassRefuted``): where this was told, its class, its known share."""

    seq: int
    subclass: int
    label: str
    known_share: float
    size: int


class Held(NamedTuple):
    """Whether the known classes held.

    Attributes
    ----------
    drops
        Times that the recall fell below the promise.
    refuted
        Subclasses that were announced and are not new.
    promised
        Recall that training promised, ``None`` without a model.
    expected
        Recall to be expected at the end, ``None`` without a model that has references and has seen the stream.
    below
        It is below the promise.
    guarded
        The model has references, or there is none to look at.
    dependent
        Whether instances depend on their neighbours at the end, and how much, in words; empty: they do not.
    """

    drops: tuple[Drop, ...]
    refuted: tuple[Refuted, ...]
    promised: float | None = None
    expected: ExpectedRecall | None = None
    below: bool = False
    guarded: bool = True
    dependent: str = ""


def how_it_held(model: OpenSetRecognizer | None, events: Iterable[Mapping[str, Any]]) -> Held:
    """Put together what a trained model and events (as `stream_osr.Event.as_dict` makes them) say of it.

    Raises
    ------
    ConnectorError
        If an event is none.
    """
    drops, refuted = [], []
    for number, event in enumerate(events):
        with reading(event, "event", number):
            if event["type"] == "RecallDropped":
                now = ExpectedRecall(*(real(event[name], name) for name in ExpectedRecall._fields))
                drops.append(Drop(whole(event["seq"], "seq"), now, real(event["promised"], "promised")))
            elif event["type"] == "SubclassRefuted":
                seq, key, size = (whole(event[name], name) for name in ("seq", "subclass_id", "size"))
                share = real(event["known_share"], "known_share")
                refuted.append(Refuted(seq, key, str(event["label"]), share, size))
    told = tuple(drops), tuple(refuted)
    if model is None:
        return Held(*told)
    report, signals = model.trained.report, model.signals
    guarded = not model.trained.unguarded
    dependent = _dependent(signals)
    return Held(*told, report.known_recall, signals.expected_recall, signals.recall_dropped, guarded, dependent)


def _dependent(signals: Signals) -> str:
    if not signals.dependent:
        return ""
    most = sorted(signals.dependence.items(), key=lambda item: -item[1])[:MOST_CLASSES]
    listed = ", ".join(f"{label} {value:.2f}" for label, value in most)
    return (
        f"Instances are treated as dependent on their neighbours since instance {signals.dependent_since}; mean "
        f"correlation of neighbours by class: {listed}."
    )
