"""The state of the page, with a bounded size for any length of the stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from stream_osr.discovery.new_classes import name_of
from stream_osr.discovery.signal_table import EVENT_TABLE
from stream_osr_connectors.summary.class_summary import MOST_BINS, ClassSummary, SubclassSummary
from stream_osr_connectors.summary.input_records import number_of
from stream_osr_connectors.summary.state import State
from stream_osr_connectors.summary.truth import accuracy

LONGEST = 400
"""Most characters of a text of the data on a page."""
SETTLED = [kind.status for kind in EVENT_TABLE.values() if kind.settled]


def cut(value: object, most: int = LONGEST) -> str:
    """Shorten a text of the data for a page.

    >>> cut("longer", 5)
    'long…'
    """
    text = str(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def group_candidates(
    state: State, view: Mapping[str, Any], named: Mapping[str, tuple[str, str | None]]
) -> tuple[Sequence[Sequence[SubclassSummary]], Sequence[tuple[SubclassSummary, str, str | None]]]:
    """Group subclasses into candidates, and list settled subclasses with status and label.

    The model determines the subclasses of a candidate and the order of candidates, the largest first. Without a model
    each subclass is a candidate. A subclass that was announced after the checkpoint, or whose name was undone, is a
    separate candidate.

    Parameters
    ----------
    state
        Summary of decisions and events.
    view
        Facts of the checkpoint's model: ``candidates`` as names of subclasses, ``sizes`` of subclasses, and the
        numbers of instances that it had ``decided`` and ``seen``.
    named
        Status and label of subclasses with commands of people.
    """
    settled, waiting = [], dict[str, SubclassSummary]()
    for summary in state.every_subclass():
        status, label = named.get(summary.id, (summary.status, summary.label))
        if status in SETTLED:
            settled.append((summary, status, label))
        elif status != "gone":
            waiting[summary.id] = summary
    settled.sort(key=lambda one: (SETTLED.index(one[1]), -one[0].recent, -one[0].n))
    groups, grouped = [], set[str]()
    for ids in view.get("candidates") or ():
        grouped |= {*ids}
        if not waiting.keys().isdisjoint(ids):
            those = [waiting.get(id) or _found(state, id) for id in ids]
            # including subclasses that have not been announced
            groups.append([summary for summary in those if summary.id in waiting or not summary.announced])
    behind = all(track.seq + 1 < view.get("decided", 0) for track in state.tracks)
    no_model = "candidates" not in view
    alone = [
        summary
        for id, summary in waiting.items()
        if id not in grouped and (no_model or behind or summary.told_at >= view.get("seen", 0) or id in named)
    ]
    alone.sort(key=lambda summary: (-max(summary.size, summary.n), summary.key))
    return [*groups, *([summary] for summary in alone)], settled


def _found(state: State, id: str) -> SubclassSummary:
    """Find a subclass without an announcement. It may be in no decision, as instances change their subclass."""
    found = state.find(id)
    return found if isinstance(found, SubclassSummary) else SubclassSummary(id, int(id), 0)


def sizes_in(state: State, view: Mapping[str, Any]) -> Callable[[SubclassSummary], int]:
    """Return a function for the size of a subclass: from the model, until decisions are newer than the checkpoint."""
    sizes, decided = view.get("sizes") or {}, view.get("decided", 0)
    at_rest = all(track.seq + 1 <= decided for track in state.tracks)

    def size(summary: SubclassSummary) -> int:
        own, known = max(summary.size, summary.n), sizes.get(summary.id)
        return own if known is None else int(known) if at_rest else max(int(known), own)

    return size


def status_of(some: Sequence[SubclassSummary]) -> str:
    """Return the status of a candidate. It is dormant only if all its subclasses are."""
    found = {summary.status for summary in some}
    return "recurred" if "recurred" in found else "dormant" if found == {"dormant"} else "emerging"


MOST_POINTS = 300


def events_plane(state: State, named: Mapping[str, tuple[str, str | None]]) -> dict[str, Any]:
    """Compute a feature map of subclasses and their nearest known subclasses from events.

    Parameters
    ----------
    state
        Summary of the stream.
    named
        Status and label of subclasses with commands of people.
    """
    there = [summary for summary in state.every_subclass() if summary.mean is not None and summary.status != "gone"]
    there = sorted(there, key=lambda summary: -summary.n)[:MOST_POINTS]
    names = sorted({name for summary in there for name in summary.mean or ()})
    if len(names) < 2 or not there:
        return {"axes": None, "points": []}
    spread = np.array([_middle([(summary.scale or {}).get(name) for summary in there]) for name in names])
    own = np.array([[(summary.mean or {}).get(name, np.nan) for name in names] for summary in there]) / spread
    near = np.array([[(summary.known_mean or {}).get(name, np.nan) for name in names] for summary in there]) / spread
    both = np.concatenate([own, near])
    both = np.nan_to_num(both - np.nanmean(np.where(np.isfinite(both), both, np.nan), axis=0), posinf=0.0, neginf=0.0)
    _, _, axes = np.linalg.svd(np.clip(both, -1e6, 1e6), full_matrices=False)
    if len(axes) < 2:
        axes = np.concatenate([axes, np.zeros((2 - len(axes), len(names)))])
    places = both @ axes[:2].T
    points = []
    for summary, (x, y) in zip(there, places[: len(there)].tolist(), strict=True):
        status, label = named.get(summary.id, (summary.status, summary.label))
        kind = "known" if status == "named" else "emerging"
        points.append({"id": summary.id, "x": x, "y": y, "n": summary.n, "kind": kind, "label": label})
    seen = set()
    for summary, (x, y) in zip(there, places[len(there) :].tolist(), strict=True):
        label = summary.like["nearest_class"]
        if label in state.classes and (label, round(x, 3), round(y, 3)) not in seen:
            seen.add((label, round(x, 3), round(y, 3)))
            n = state.classes[label].n
            points.append({"id": f"class:{label}", "x": x, "y": y, "n": n, "kind": "known", "label": label})
    return {"axes": None, "points": points}


def _middle(values: list[float | None]) -> float:
    there = [value for value in values if value is not None and np.isfinite(value) and value > 0]
    return float(np.median(there)) if there else 1.0


MOST_ROWS = 40
"""Most rows of the timeline, for classes and for subclasses."""
MOST_CARDS = 200
"""Most candidates in the inbox."""
MOST_KNOWN = 200
"""Known classes."""
MOST_TRUTHS = 5
"""Most true classes of a candidate."""


def timeline(state: State) -> dict[str, Any]:
    """Return the arrivals along the stream."""
    length = len(state.bins.times)
    sizes = [state.bins.width] * length
    if length:
        sizes[-1] = state.bins.n - (length - 1) * state.bins.width
    classes = [summary for summary in state.classes.values() if summary.n]
    subclasses = [summary for summary in state.every_subclass() if summary.n]
    judged = state.truth.row.tolist()[:length] if state.truth.new else []
    return {
        "edges": state.bins.edges(),
        "times": state.bins.times,
        "classes": _rows(classes, length),
        "subclasses": _rows(subclasses, length),
        "marks": {cut(one.id): one.marks for one in subclasses if one.marks},
        "unknown": _shares(state.unknown_row, sizes),
        "truly_unknown": _shares(state.truth.new_row, judged),
    }


def _shares(counts: Iterable[int], sizes: Iterable[int]) -> list[float | None]:
    return [round(count / size, 4) if size else None for count, size in zip(counts, sizes, strict=False)]


def _rows(summary: Iterable[ClassSummary], length: int) -> dict[str, list[int]]:
    by_size = sorted(summary, key=lambda one: -one.n)
    out = {cut(one.id): one.row.tolist()[:length] for one in by_size[:MOST_ROWS]}
    rest = by_size[MOST_ROWS:]
    if rest:
        out["others"] = [sum(counts) for counts in zip(*(one.row for one in rest), strict=True)][:length]
    return out


def card(
    some: Sequence[SubclassSummary], sizes: Sequence[int], state: State, status: str, label: str | None
) -> dict[str, Any]:
    """Return the inbox card of a candidate, given its subclasses, the largest first, and their sizes."""
    length = min(len(state.bins.times), MOST_BINS)
    truth = state.truth.held_by(key for summary in some for key in (summary.key, *summary.also))
    like = next((summary.like for summary in some if summary.like["nearest_class"] is not None), some[0].like)
    first = min(some, key=lambda summary: math.inf if summary.since is None else summary.since)
    last = max(some, key=lambda summary: -1 if summary.last is None else summary.last)
    ids = [summary.id for summary in some]
    return {
        "id": ids[0],
        "ids": ids,
        "name": name_of([summary.key for summary in some]) if all(map(str.isdecimal, ids)) else ", ".join(ids),
        "subclasses": [{"id": id, "size": size} for id, size in zip(ids, sizes, strict=True)],
        "size": sum(sizes),
        "share": round(sum(sizes) / max(state.decided, 1), 6),
        "recent": sum(summary.recent for summary in some),
        "nearest_class": None if like["nearest_class"] is None else cut(like["nearest_class"]),
        "distance": like["distance"],
        "differs": [{**each, "feature": cut(each["feature"])} for each in like["differs"]],
        "since": first.since,
        "since_t": first.since_t,
        "last": last.last,
        "last_t": last.last_t,
        "status": status,
        "label": None if label is None else cut(label),
        "growth": [sum(counts) for counts in zip(*(summary.row.tolist()[:length] for summary in some), strict=True)],
        "truth": truth.most_common(MOST_TRUTHS),
        "examples": {"core": [], "boundary": [], "known": []},
    }


def inbox(state: State, view: Mapping[str, Any], named: Mapping[str, tuple[str, str | None]]) -> list[dict[str, Any]]:
    """Return candidates in the order of `OpenSetRecognizer.new_classes`, then settled subclasses.

    Parameters
    ----------
    state, view
        Summary of the stream.
    named
        Status and label of subclasses with commands of people.
    """
    size_of = sizes_in(state, view)
    groups, settled = group_candidates(state, view, named)
    cards: list[tuple[Sequence[SubclassSummary], str, str | None]] = []
    cards += [(some, status_of(some), None) for some in groups]
    cards += [([summary], status, label) for summary, status, label in settled]
    return [
        card(some, [size_of(summary) for summary in some], state, status, label)
        for some, status, label in cards[:MOST_CARDS]
    ]


def known_classes(state: State, recalls: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Known classes."""
    names = dict.fromkeys([*state.labels, *state.classes])
    rows: list[dict[str, Any]] = []
    for name in names:
        n = state.classes[name].n if name in state.classes else 0
        share = round(n / max(state.decided, 1), 6)
        rows.append({"label": cut(name), "n": n, "share": share, "recall": recalls.get(name)})
    rows.sort(key=lambda row: row["n"], reverse=True)
    return rows[:MOST_KNOWN]


def notes(state: State, others: Iterable[str]) -> list[str]:
    """Describe the skipped input with counts."""
    out = []
    for kind, count in state.unusable.items():
        are = f"1 line is no {kind} and was" if count == 1 else f"{count} lines are no {kind}s and were"
        out.append(f"{are} skipped. First reason: {cut(state.why[kind])}")
    if state.forgotten:
        out.append(f"{state.forgotten} classes or subclasses are not shown because there are too many.")
    return [*out, *(cut(each) for each in others)]


def view_model(
    state: State,
    stream: Mapping[str, Any],
    view: Mapping[str, Any],
    named: Mapping[str, tuple[str, str | None]],
    others: Iterable[str],
) -> dict[str, Any]:
    """Assemble the state of the page.

    Parameters
    ----------
    state
        Summary of the stream.
    stream
        Facts about the feed.
    view
        Facts from a checkpoint or from the service's metrics: ``recall``, ``recalls`` of classes, ``dependent``,
        ``frame``, ``signals``, ``new_classes``, ``promised`` recall, ``plane``, ``candidates``, ``decided``,
        ``seen``, ``keys``.
    named
        As for :func:`inbox`.
    others
        Sentences for the notes.
    """
    signals = view.get("signals")
    if signals is None and (state.signals["novelty"] or state.signals["drift"]):
        counts = {name: state.signals[name] for name in ("novelty", "drift")}
        signals = {**counts, "outliers": None, "data_quality": None}
    return {
        "stream": {"decided": state.decided, "first_t": state.first_t, "last_t": state.last_t, **stream},
        "known": known_classes(state, view.get("recalls") or {}),
        "recall": view.get("recall") or state.recall,
        "dependent": view.get("dependent", state.dependent),
        "frame": state.frame if view.get("frame") is None else view["frame"],
        "unknown": {
            "n": state.unknown,
            "rate": round(state.counts.unknown_share, 6),
            "recent_rate": round(state.recent_counts.unknown_share, 6),
        },
        "signals": signals,
        "new_classes": view.get("new_classes"),
        "delta": state.delta,
        "promised": view.get("promised"),
        "accuracy": accuracy(state.truth, state.labels, state.other),
        "events": {"n": state.others, "latest": [each._asdict() for each in reversed(state.other_events)]},
        "timeline": timeline(state),
        "plane": view.get("plane") or events_plane(state, named),
        "inbox": inbox(state, view, named),
        "keys": view.get("keys"),
        "notes": notes(state, others),
    }


def why(decision: Mapping[str, Any]) -> str:
    """Return an explanation of a decision in words.

    Examples
    --------
    >>> grouped = {"label": "unknown", "probabilities": {"red": 0.01, "unknown": 0.99}, "p_unknown": 0.99}
    >>> why({**grouped, "subclass_id": 3, "nearest_class": "red", "distance": 12.0, "density_rank": 0.2})
    'It is unknown with probability 0.99, in subclass 3. The nearest known class is red, 12.0 standard deviations \
away. 20.0 % of the instances of that class in training are as unusual.'
    """
    label, near = str(decision.get("label")), str(decision.get("nearest_class"))
    names = list(decision.get("probabilities") or ())
    unknown = bool(names) and label == str(names[-1])
    p = number_of(decision.get("p_unknown" if unknown else "probability"))
    seat = decision.get("subclass_id")
    out = f"It is {'unknown' if unknown else label}" + ("" if p is None else f" with probability {p:.2f}")
    if unknown:
        out += ", in no subclass yet" if seat is None else f", in subclass {seat}"
    distance, rank = number_of(decision.get("distance")), number_of(decision.get("density_rank"))
    off = "" if distance is None else f", {distance:.1f} standard deviations away"
    if near == label:
        out += f". From the centre of the class it is{off.lstrip(',')}" if off else ""
    else:
        out += f". The nearest known class is {near}{off}"
    if rank is not None:
        share = "No instance" if rank < 0.0005 else f"{100 * rank:.1f} % of the instances"
        out += f". {share} of that class in training {'is' if rank < 0.0005 else 'are'} as unusual"
    first = decision.get("first_label")
    if first is not None and str(first) != label:
        out += f". The first label was {first}"
    return out + "."
