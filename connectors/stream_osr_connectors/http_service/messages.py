"""Bodies of requests and answers as types. The OpenAPI document is generated from them.

The title of a type names the schema in the document.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, get_type_hints

from pydantic import BaseModel, Field, create_model

from stream_osr import CandidateClass, Decision
from stream_osr.discovery.class_count import Estimate
from stream_osr.discovery.event_base import Event
from stream_osr.parameters import Label
from stream_osr.support import limits

from ..commands.command import MOST_ON_PAGE, Action, CommandReceipt
from .acceptor import Accepted
from .instances import MOST_INSTANCES

JSON, LINES, EVENTS = "application/json", "application/x-ndjson", "text/event-stream"
OTHER_TYPES = {
    LINES: f"1 to {MOST_INSTANCES} objects, one on each line.",
    EVENTS: "Server-sent events, one for each record.",
}
"""Description of the content of each media type besides JSON."""

Whole: TypeAlias = Annotated[int, Field(ge=limits.LEAST_WHOLE, le=limits.MOST_WHOLE)]
Key: TypeAlias = Annotated[str, Field(max_length=limits.MOST_KEY_BYTES)] | Whole
SentLabel: TypeAlias = Annotated[str, Field(max_length=limits.MOST_LABEL_BYTES)] | Whole | bool
SubclassId: TypeAlias = (
    Annotated[int, Field(ge=0, le=10**limits.MOST_DIGITS - 1)] | Annotated[str, Field(max_length=limits.MOST_DIGITS)]
)
Number: TypeAlias = float | bool | None
"""Value of a numeric feature."""
Category: TypeAlias = Annotated[str, Field(max_length=limits.MOST_CATEGORY_BYTES)] | Number
"""Value of a category."""


class ErrorMessage(BaseModel, title="Error", extra="forbid"):
    """Reason why a request was refused."""

    error: str


# Bodies of requests.


class Instance(BaseModel, extra="forbid"):
    """Instance with features of the model."""

    key: Key
    time: Annotated[float | str | None, Field(description="Seconds since 1970, or ISO 8601.")] = None
    features: dict[str, Any]
    label: Annotated[SentLabel | None, Field(description="True label, which the model learns.")] = None


class CommandBody(BaseModel, title="Frame"):
    """Command without further fields."""

    reason: Annotated[str, Field(max_length=limits.MOST_REASON_BYTES)] | None = None


class LabelBody(CommandBody, title="Label"):
    """Label of an instance."""

    key: Key
    label: SentLabel


class MuteBody(CommandBody, title="Mute"):
    """Id of a subclass, or ids of several."""

    subclass: SubclassId | Annotated[list[SubclassId], Field(min_length=1, max_length=MOST_ON_PAGE)]


class PromoteBody(MuteBody, title="Promote"):
    """Ids of subclasses, and the label of their class."""

    label: SentLabel


class UndoBody(CommandBody, title="Undo"):
    """Number of the command to undo, if only that one may be undone."""

    n: int | None = None


# Answers.


def _type(title: str, text: str, of: Any = None, *, closed: bool = False, **more: Any) -> Any:
    """Return a type with the fields of a class, and more fields as types or as pairs of type and default."""
    named = {**get_type_hints(of or object), **more}
    fields: dict[str, Any] = {name: its if isinstance(its, tuple) else (its, ...) for name, its in named.items()}
    return create_model(title, __doc__=text, __config__={"extra": "forbid" if closed else "ignore"}, **fields)


def _list_of(kind: Any) -> Any:
    return list[kind]


def _page(title: str, record: Any) -> Any:
    text = f"{title}, and the value of `after` for the next request."
    return _type(title, text, closed=True, **{title.lower(): list[record], "after": int})


FinalDecision = _type("Decision", "Final decision.", Decision, key=Key, odd_columns=(list[str], []))
SetAside = _type("SetAside", "Reason why an instance has no decision.", set_aside=str)
Immediate = _type(
    "Immediate", "Prediction from the state at the request.",
    label=Label, p_unknown=float, probabilities=dict[str, float],
)  # fmt: skip
AcceptedInstance = _type(
    "Accepted", "Accepted instance: its number in the journal, and its decisions.", Accepted,
    key=Key, immediate=Immediate | None, final=FinalDecision | SetAside | None,
)  # fmt: skip
EventRecord = _type("Event", "Event. The other fields depend on its type.", Event, type=str)
DecisionPage, EventPage = _page("Decisions", FinalDecision), _page("Events", EventRecord)
Candidate = _type("Candidate", "Candidate new class.", CandidateClass, name=str, nearest_class=Label)
Candidates = _type(
    "Candidates", "Candidates, the estimated number of new classes, and the line of a moved frame.", Estimate,
    candidates=_list_of(Candidate), frame=str,
)  # fmt: skip
HistoryEntry = _type(
    "Command", "Command of a person, with its result.",
    n=int, at=str, by=str | None, action=Action, subclasses=list[str], label=Label | None, what=str, outcome=str,
    reason=str | None, undone=bool, undoable=bool,
)  # fmt: skip
Commands = _type("Commands", "Change history, newest first.", commands=_list_of(HistoryEntry))
Receipt = _type("Receipt", "Number of a command in the history, and its status.", CommandReceipt)
