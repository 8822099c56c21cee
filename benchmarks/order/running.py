"""Measuring a case: the frozen model beside the stream, what was announced, and the live figure beside the truth."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

import numpy as np

from benchmarks.order.case import Case
from benchmarks.records import Record
from stream_osr import OpenSetRecognizer
from stream_osr.evaluation import OpenSetReport, auroc

UNKNOWN = "unknown"
CHUNK = 1000
"""Instances of one call."""


def figures(y: np.ndarray, labels: np.ndarray, known: np.ndarray) -> dict[str, float]:
    """Count decisions: share of the known that is right and that is called unknown, and so on."""
    report = OpenSetReport(known.tolist(), UNKNOWN)
    report.update_many(y.tolist(), labels.tolist())
    return {
        "right": report.known_accuracy,
        "false_unknown": report.f_new,
        "micro_f": report.micro_f,
        "unknown_recall": report.unknown_recall,
    }


def announcements(events: list[Any]) -> tuple[int, int]:
    """Count subclasses that were announced, and those of them that were not refuted afterwards."""
    announced: set[int] = set()
    standing: set[int] = set()
    for event in events:
        name = type(event).__name__
        if name == "SubclassRefuted":
            standing.discard(event.subclass_id)
        elif name in ("SubclassEmerged", "EventsSummed"):
            own = event.emerged if name == "EventsSummed" else [event.subclass_id]
            announced.update(own)
            standing.update(own)
    return len(announced), len(standing)


def names_column(event: Any, column: str) -> bool:
    """Say whether an event other than one about a subclass or a class names a column."""
    if hasattr(event, "explanation") or hasattr(event, "movement"):  # those name features that merely differ
        return False
    return f'"{column}"' in json.dumps(event.as_dict(), default=str)


def covers(interval: tuple[float, float] | None, truth: float) -> bool:
    """Say whether there is an interval that contains a figure."""
    return interval is not None and interval[0] <= truth <= interval[1]


def measure(case: Case, seed: int, baselines: bool = False) -> Record:
    """Train, freeze, predict the stream with the frozen model, then stream it; defaults but for the seed.

    With `baselines`, the record contains the figures of :mod:`benchmarks.order.baselines`.
    """
    names, (training, stream) = case.names, case.frames
    known, n = np.unique(case.y_train), len(case.y)
    model = OpenSetRecognizer(seed=seed, unknown=UNKNOWN)
    group = None if case.group is None else case.group.tolist()
    model.learn_many(training, case.y_train.tolist(), group=group)
    report = model.freeze()
    frozen = np.asarray(model.predict_many(stream), dtype=str)
    probabilities = model.predict_proba_many(stream)
    for at in range(0, n, CHUNK):
        model.learn_many(stream[at : at + CHUNK])
    model.flush()
    decisions = sorted(model.drain(), key=lambda decision: decision.seq)
    events = list(model.drain_events())
    assert len(decisions) == n
    labels = np.array([decision.label for decision in decisions], dtype=str)
    novelty = np.array([decision.p_unknown for decision in decisions])
    live, last = model.expected_recall, np.arange(n) >= 0.8 * n
    decided, final = figures(case.y, labels, known), figures(case.y[last], labels[last], known)
    dropped = [event.seq for event in events if type(event).__name__ == "RecallDropped"]
    moves = [event for event in events if type(event).__name__ == "FrameMoved"]
    announced, standing = announcements(events)
    digest = hashlib.sha256("\n".join(labels.tolist()).encode() + novelty.tobytes()).hexdigest()[:16]
    record: Record = {
        "training": len(case.y_train),
        "stream": n,
        "known": len(known),
        "new": len(np.unique(case.y[case.new])),
        **{f"frozen_{name}": value for name, value in figures(case.y, frozen, known).items()},
        "frozen_auroc": auroc(probabilities[UNKNOWN], case.new),
        **decided,
        "auroc": auroc(novelty, case.new),
        "last_four_fifths": figures(case.y[n // 5 :], labels[n // 5 :], known)["right"],
        "last_fifth": final["right"],
        "class_right": {own: float(np.mean(labels[case.y == own] == own)) for own in known if own in case.y},
        "announced": announced,
        "standing": standing,
        "grouped": group is not None,
        "promised": report.known_recall,
        "promised_covers": covers(report.recall_interval, decided["right"]),
        "live": None if live is None else live.recall,
        "live_low": None if live is None else live.low,
        "live_high": None if live is None else live.high,
        "live_off": None if live is None else abs(live.recall - final["right"]),
        "live_covers": live is not None and covers((live.low, live.high), final["right"]),
        "moved_expected": [names[at] for at in case.moved],
        "moved_named": sorted({column for event in moves for column in event.columns}),
        "moved_seq": moves[0].seq if moves else None,
        "recall_dropped": dropped[0] if dropped else None,
        "events": dict(Counter(type(event).__name__ for event in events)),
        "digest": digest,
    }
    if baselines:
        from benchmarks.order.baselines import calibrated, forest

        beside = {
            "forest": forest(training, case.y_train, stream, UNKNOWN, seed),
            "calibrated": calibrated(training, case.y_train, probabilities, UNKNOWN, seed),
        }
        for method, own in beside.items():
            record |= {f"{method}_{name}": value for name, value in figures(case.y, own, known).items()}
    if case.fault is not None:
        record["fault"] = case.fault
    if case.column is not None:
        named = [event.seq for event in events if names_column(event, names[case.column])]
        record["column_named"] = named[0] if named else None
    return {name: None if isinstance(value, float) and np.isnan(value) else value for name, value in record.items()}
