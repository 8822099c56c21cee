"""The records that archives hold, and what they are in memory.

What is written is said by ``records.table``. Where a record is in memory what it is in archives, field by field, its
type is all that is needed; else two functions turn one into the other.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from stream_osr import decision, engine, trained
from stream_osr.archive.columns import OF, TO
from stream_osr.archive.form import Kind
from stream_osr.archive.table import Row, literal, read_table
from stream_osr.discovery import drift, events, life, lives, rate, reservoir, summaries
from stream_osr.model import (
    background,
    between,
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
from stream_osr.trust import balance, odds, recall, references

FIRST, VERSION = 5, 6
"""The oldest format version that is read, and the one that is written: one more with every change that a release
before it would misread."""

_WHERE: tuple[tuple[ModuleType, str], ...] = (
    (prior, "Prior"),
    (dishes, "Dishes"),
    (franchise, "Franchise Guests"),
    (known, "Known Densities"),
    (location, "Location"),
    (space, "Space"),
    (restaurant, "StreamState"),
    (terms, "Terms"),
    (marginal, "Statistics"),
    (between, "Aside"),
    (books, "Seat"),
    (background, "Background"),
    (references, "References"),
    (trained, "TrainingReport TrainedModel"),
    (engine, "Arrived Evidence Waiting Chain Guard Following Telling Stream"),
    (engine, "Labelling Promotion Muting Tables"),
    (balance, "Books Shares"),
    (recall, "Called ExpectedRecall"),
    (odds, "Odds"),
    (drift, "Drift"),
    (rate, "UnknownRate"),
    (summaries, "Signals"),
    (life, "Member Subclass"),
    (lives, "Lifecycle"),
    (reservoir, "Reservoir"),
    (decision, "Decision"),
    (events, "Moment Explanation Movement SubclassEmerged SubclassGrew SubclassDormant SubclassRecurred"),
    (events, "SubclassMuted SubclassPromoted SubclassMerged SubclassSplit SubclassForgotten SubclassRefuted"),
    (events, "NewClassesChanged RecallDropped UnknownRateJumped EventsSummed ClassDrifted NamingUndone"),
)
TYPES: dict[str, type[Any]] = {name: getattr(module, name) for module, names in _WHERE for name in names.split()}
TYPES["Past"] = engine.Decided
"""What each record is in memory; one that has another name there than in archives is entered by itself."""

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
        super().__init__(name, TYPES[name], since, TO.get(name), OF.get(name))
        self.letters = row.letters
        self.rules = {field: of.rule for field, of in row.fields.items()}
        given = {field: of.default for field, of in row.fields.items() if of.default is not None}
        self.defaults = {field: _NAMED[text] if text in _NAMED else literal(text) for field, text in given.items()}


RECORDS = {name: Entry(name, row) for name, row in read_table(FIRST).items()}
BY_TYPE = {entry.type: entry for entry in RECORDS.values()}
EVENTS = [name for name, entry in RECORDS.items() if issubclass(entry.type, events.Event)]
