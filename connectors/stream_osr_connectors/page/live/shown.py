"""The summary in the form of the page: bounded, whatever the length of the stream."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stream_osr.discovery.new_classes import name_of
from stream_osr_connectors.page.live.bins import MOST
from stream_osr_connectors.page.live.candidates import gather, sizes_in, status_of
from stream_osr_connectors.page.live.held import Held, Subclass
from stream_osr_connectors.page.live.plane import plane
from stream_osr_connectors.page.live.state import State

MOST_ROWS = 40
"""Rows of the time line, classes and subclasses each."""
MOST_CARDS = 200
"""Candidates in the inbox."""
MOST_KNOWN = 200
"""Known classes."""
LONGEST = 400
"""Characters of a text of the data."""


def text(value: object) -> str:
    """Cut a text of the data to what a page can show."""
    whole = str(value)
    return whole if len(whole) <= LONGEST else whole[: LONGEST - 1] + "…"


def timeline(state: State) -> dict[str, Any]:
    """Arrivals along the stream."""
    length = len(state.bins.times)
    sizes = [state.bins.width] * length
    if length:
        sizes[-1] = state.bins.n - (length - 1) * state.bins.width
    classes = [held for held in state.classes.values() if held.n]
    subclasses = [held for held in state.every_subclass() if held.n]
    return {
        "edges": state.bins.edges(),
        "times": state.bins.times,
        "classes": _rows(classes, length),
        "subclasses": _rows(subclasses, length),
        "unknown": [
            round(count / size, 4) for count, size in zip(state.unknown_row.tolist()[:length], sizes, strict=True)
        ],
    }


def _rows(held: Iterable[Held], length: int) -> dict[str, list[int]]:
    by_size = sorted(held, key=lambda one: -one.n)
    out = {text(one.id): one.row.tolist()[:length] for one in by_size[:MOST_ROWS]}
    rest = by_size[MOST_ROWS:]
    if rest:
        out["others"] = [sum(counts) for counts in zip(*(one.row for one in rest), strict=True)][:length]
    return out


def card(
    some: Sequence[Subclass], sizes: Sequence[int], decided: int, length: int, status: str, label: str | None
) -> dict[str, Any]:
    """Say what the inbox says of a candidate, given its subclasses, the largest first."""
    like = next((held.like for held in some if held.like["nearest_class"] is not None), some[0].like)
    first = min(some, key=lambda held: math.inf if held.since is None else held.since)
    last = max(some, key=lambda held: -1 if held.last is None else held.last)
    ids = [held.id for held in some]
    return {
        "id": ids[0],
        "ids": ids,
        "name": name_of([held.key for held in some]) if all(map(str.isdecimal, ids)) else ", ".join(ids),
        "subclasses": [{"id": id, "size": size} for id, size in zip(ids, sizes, strict=True)],
        "size": sum(sizes),
        "share": round(sum(sizes) / max(decided, 1), 6),
        "recent": sum(held.recent for held in some),
        "nearest_class": None if like["nearest_class"] is None else text(like["nearest_class"]),
        "distance": like["distance"],
        "differs": [{**each, "feature": text(each["feature"])} for each in like["differs"]],
        "since": first.since,
        "since_t": first.since_t,
        "last": last.last,
        "last_t": last.last_t,
        "status": status,
        "label": None if label is None else text(label),
        "growth": [sum(counts) for counts in zip(*(held.row.tolist()[:length] for held in some), strict=True)],
        "examples": {"core": [], "boundary": [], "known": []},
    }


def inbox(
    state: State, inside: Mapping[str, Any], named: Mapping[str, tuple[str, str | None]]
) -> list[dict[str, Any]]:
    """Candidates in the order of `OpenSetRecognizer.new_classes`, then what people have named or muted.

    Parameters
    ----------
    state, inside
        What is known.
    named
        Status and label of subclasses of which people have said something.
    """
    length = min(len(state.bins.times), MOST)
    size_of = sizes_in(state, inside)

    def made(some: Sequence[Subclass], status: str, label: str | None) -> dict[str, Any]:
        return card(some, [size_of(held) for held in some], state.decided, length, status, label)

    groups, settled = gather(state, inside, named)
    cards = [made(some, status_of(some), None) for some in groups[:MOST_CARDS]]
    return [*cards, *(made([held], status, label) for held, status, label in settled[: MOST_CARDS - len(cards)])]


def known(state: State, recalls: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Known classes."""
    names = dict.fromkeys([*state.labels, *state.classes])
    rows: list[dict[str, Any]] = []
    for name in names:
        n = state.classes[name].n if name in state.classes else 0
        share = round(n / max(state.decided, 1), 6)
        rows.append({"label": text(name), "n": n, "share": share, "recall": recalls.get(name)})
    rows.sort(key=lambda row: row["n"], reverse=True)
    return rows[:MOST_KNOWN]


def notes(state: State, others: Iterable[str]) -> list[str]:
    """Say what could not be read, counted."""
    out = []
    for kind, count in state.unusable.items():
        are = f"1 line is no {kind} and was" if count == 1 else f"{count} lines are no {kind}s and were"
        out.append(f"{are} passed over; the first: {text(state.why[kind])}")
    if state.forgotten:
        out.append(f"{state.forgotten} classes or subclasses are not shown: there are too many.")
    return [*out, *(text(each) for each in others)]


def shown(
    state: State,
    stream: Mapping[str, Any],
    inside: Mapping[str, Any],
    named: Mapping[str, tuple[str, str | None]],
    others: Iterable[str],
) -> dict[str, Any]:
    """Put everything together.

    Parameters
    ----------
    state
        What is known.
    stream
        What the feed says of itself.
    inside
        What a checkpoint or the service's metrics tell: ``recall``, ``recalls`` of classes, ``dependent``,
        ``signals``, ``new_classes``, ``plane``, ``candidates``, ``decided``, ``seen``.
    named
        As for :func:`inbox`.
    others
        Sentences for the notes.
    """
    recent = state.recent
    signals = inside.get("signals")
    if signals is None and state.signals:
        signals = {"novelty": 0, "drift": 0, **state.signals, "outliers": None, "data_quality": None}
    return {
        "stream": {"decided": state.decided, "first_t": state.first_t, "last_t": state.last_t, **stream},
        "known": known(state, inside.get("recalls") or {}),
        "recall": inside.get("recall") or state.recall,
        "dependent": inside.get("dependent", state.dependent),
        "unknown": {
            "n": state.unknown,
            "rate": round(state.unknown / max(state.decided, 1), 6),
            "recent_rate": round(state.recent_unknown / max(recent, 1), 6),
        },
        "signals": signals,
        "new_classes": inside.get("new_classes"),
        "timeline": timeline(state),
        "plane": inside.get("plane") or plane(state, named),
        "inbox": inbox(state, inside, named),
        "notes": notes(state, others),
    }
