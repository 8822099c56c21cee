"""The records that archives hold, and what they are in memory.

What is written is said by ``records.table``. Where a record is in memory what it is in archives, field by field, its
type is all that is needed; else two functions turn one into the other.
"""

from __future__ import annotations

from typing import Any

from stream_osr import engine
from stream_osr.archive.columns import OF, TO
from stream_osr.archive.form import Kind
from stream_osr.archive.table import Row, literal, read_table
from stream_osr.decision import Decision
from stream_osr.discovery import drift, events, life, lives, rate, reservoir, summaries
from stream_osr.model import (
    aside,
    background,
    books,
    dishes,
    franchise,
    known,
    location,
    marginal,
    prior,
    restaurant,
    space,
    terms,
)
from stream_osr.trained import TrainedModel, TrainingReport
from stream_osr.trust import balance, odds, recall, references

FIRST, VERSION = 5, 6
"""The oldest format version that is read, and the one that is written: one more with every change that a release
before it would misread."""

_TYPES: dict[str, type[Any]] = {
    "Prior": prior.Prior,
    "Dishes": dishes.Dishes,
    "Franchise": franchise.Franchise,
    "Guests": franchise.Guests,
    "Location": location.Location,
    "Known": known.Known,
    "Densities": known.Densities,
    "Space": space.Space,
    "StreamState": restaurant.StreamState,
    "Terms": terms.Terms,
    "Statistics": marginal.Statistics,
    "Aside": aside.Aside,
    "Background": background.Background,
    "References": references.References,
    "TrainingReport": TrainingReport,
    "TrainedModel": TrainedModel,
    "Arrived": engine.Arrived,
    "Evidence": engine.Evidence,
    "Past": engine.Decided,
    "Waiting": engine.Waiting,
    "Chain": engine.Chain,
    "Guard": engine.Guard,
    "Books": balance.Books,
    "Shares": balance.Shares,
    "Called": recall.Called,
    "Following": engine.Following,
    "Telling": engine.Telling,
    "Odds": odds.Odds,
    "Drift": drift.Drift,
    "UnknownRate": rate.UnknownRate,
    "Signals": summaries.Signals,
    "ExpectedRecall": recall.ExpectedRecall,
    "Stream": engine.Stream,
    "Labelling": engine.Labelling,
    "Seat": books.Seat,
    "Promotion": engine.Promotion,
    "Muting": engine.Muting,
    "Tables": engine.Tables,
    "Moment": events.Moment,
    "Member": life.Member,
    "Reservoir": reservoir.Reservoir,
    "Subclass": life.Subclass,
    "Lifecycle": lives.Lifecycle,
    "Decision": Decision,
    "Explanation": events.Explanation,
    "Movement": events.Movement,
    "SubclassEmerged": events.SubclassEmerged,
    "SubclassGrew": events.SubclassGrew,
    "SubclassDormant": events.SubclassDormant,
    "SubclassRecurred": events.SubclassRecurred,
    "SubclassMuted": events.SubclassMuted,
    "SubclassPromoted": events.SubclassPromoted,
    "SubclassMerged": events.SubclassMerged,
    "SubclassSplit": events.SubclassSplit,
    "SubclassForgotten": events.SubclassForgotten,
    "NewClassesChanged": events.NewClassesChanged,
    "SubclassRefuted": events.SubclassRefuted,
    "RecallDropped": events.RecallDropped,
    "UnknownRateJumped": events.UnknownRateJumped,
    "EventsSummed": events.EventsSummed,
    "ClassDrifted": events.ClassDrifted,
    "NamingUndone": events.NamingUndone,
}

_NAMED: dict[str, Any] = {"conjugate": location.CONJUGATE, "nothing told": engine.Telling()}
"""Defaults that are records."""


class Entry(Kind):
    """A record of the table.

    Attributes
    ----------
    letters
        Of the sizes that others have to agree with.
    rules
        Of its fields.
    defaults
        What fields are that a file lacks, in memory.
    """

    def __init__(self, name: str, row: Row) -> None:
        since = {field: of.since for field, of in row.fields.items()}
        super().__init__(name, _TYPES[name], since, TO.get(name), OF.get(name))
        self.letters = row.letters
        self.rules = {field: of.rule for field, of in row.fields.items()}
        given = {field: of.default for field, of in row.fields.items() if of.default is not None}
        self.defaults = {field: _NAMED[text] if text in _NAMED else literal(text) for field, text in given.items()}


RECORDS = {name: Entry(name, row) for name, row in read_table(FIRST).items()}
BY_TYPE = {entry.type: entry for entry in RECORDS.values()}
EVENTS = [name for name, entry in RECORDS.items() if issubclass(entry.type, events.Event)]
