"""Facts about a stream that only its model knows: recall, signals, candidates and the feature map."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from stream_osr import OpenSetRecognizer
from stream_osr.discovery.explain import explain, values_of
from stream_osr.discovery.signal_table import QUIET
from stream_osr_connectors.summary.axes import emerged_slots, planes
from stream_osr_connectors.summary.input_records import number_of

Z = 1.96
MOST_POINTS = 300
"""Most subclasses on the feature map."""


def model_view(model: OpenSetRecognizer) -> dict[str, Any]:
    """Return the facts of a model that decisions and events do not contain."""
    signals, found, stream = model.signals, model.new_classes(), model.value.stream
    expected, promised = signals.expected_recall, number_of(model.trained.report.known_recall)
    recall = None
    if expected is not None:
        recall = {"value": expected.recall, "low": expected.low, "high": expected.high, "promised": promised}
    facts: dict[str, Any] = {
        "recall": recall,
        "promised": {"recall": promised, "guarded": not model.trained.unguarded},
        "dependent": signals.dependent,
        "frame": signals.frame,
        "recalls": recalls(model),
        "signals": {
            name: getattr(signals, name) for name in ("novelty", "drift", "outliers", "data_quality", "odd_values")
        },
        "new_classes": None,
        "plane": _plane(model),
        "candidates": [[str(key) for key in candidate.subclasses] for candidate in found.candidates],
    }
    if stream is not None:
        ids, sizes = stream.state.ids.tolist(), stream.state.dishes.size.astype(int).tolist()
        facts["sizes"] = dict(zip(map(str, ids), sizes, strict=True))
        facts |= {**stream.counts._asdict(), "seen": int(stream.state.seen)}
        if facts["decided"]:
            facts["new_classes"] = {"number": found.number, "low": found.low, "high": found.high}
    return facts


def recalls(model: OpenSetRecognizer) -> dict[str, dict[str, float]]:
    """Return the recall of each known class on its reference instances, with a 95 % interval."""
    stream = model.value.stream
    called = None if stream is None else stream.called
    if stream is None or called is None:
        return {}
    out = {}
    for label, right, asked in zip(stream.labels, called.right.tolist(), called.total.tolist(), strict=False):
        if asked >= 1.0:
            low, high = interval(right / asked, asked)
            out[str(label)] = {"value": right / asked, "low": low, "high": high}
    return out


def interval(share: float, n: float) -> tuple[float, float]:
    """Wilson's interval of a share.

    >>> [round(end, 3) for end in interval(0.9, 100)]
    [0.826, 0.945]
    """
    centre = (share * n + 0.5 * Z**2) / (n + Z**2)
    half = Z / (n + Z**2) * math.sqrt(share * (1.0 - share) * n + 0.25 * Z**2)
    return max(0.0, centre - half), min(1.0, centre + half)


def _plane(model: OpenSetRecognizer) -> dict[str, Any] | None:
    stream = model.value.stream
    views = () if stream is None else planes(stream)
    if not views:
        return None
    points = []
    for spot in views[-1].spots:
        x, y = np.nan_to_num(spot.centre).tolist()
        kind = "emerging" if spot.label is None else "known"
        points.append({"id": str(spot.id), "x": x, "y": y, "n": spot.size, "kind": kind, "label": spot.label})
    return {"axes": None, "points": points[:MOST_POINTS]}


def emerged_events(model: OpenSetRecognizer) -> Iterator[dict[str, Any]]:
    """Describe the emerged subclasses of a model as events, for a stream whose events are not available."""
    trained, stream = model.value.running
    chain, dishes = stream.chains[0], stream.state.dishes
    told_of = set(stream.life.ids[stream.life.announced_unmuted].tolist())
    among = chain.known, chain.frozen, trained.whitening, trained.names, stream.labels, trained.categories
    for key, slot in emerged_slots(stream).items():
        first = stream.life.subclasses[key].first
        yield {
            "type": "SubclassEmerged" if key in told_of else f"Subclass{QUIET.capitalize()}",
            "seq": first.seq,
            "subclass_id": key,
            "size": int(dishes.size[slot]),
            "first_seen": first._asdict(),
            "explanation": explain(dishes, slot, *among)._asdict(),
        }


class RememberedInstances:
    """The latest instances of a stream, in the model's memory.

    Parameters
    ----------
    model
        A recognizer whose training has ended.
    """

    def __init__(self, model: OpenSetRecognizer) -> None:
        self._trained, stream = model.value.running
        self._past = stream.recent

    def find(self, seq: object) -> dict[str, Any] | None:
        """Return the features of the instance at a position. Missing values are imputed."""
        at = seq - self._past.seq if isinstance(seq, int) else -1
        if not 0 <= at < len(self._past.keys):
            return None
        trained = self._trained
        row = values_of(self._past.rows[at : at + 1], trained.whitening, trained.names, trained.categories)
        return {str(name): values[0] for name, values in row.items()}

    def decisions(self) -> Iterator[dict[str, Any]]:
        """Yield the instances as decisions, known or unknown."""
        past = self._past
        columns = past.keys.tolist(), past.p_unknown.tolist(), past.subclass[0].tolist()
        for seq, (key, p, subclass) in enumerate(zip(*columns, strict=True), start=past.seq):
            yield {
                "key": key,
                "seq": seq,
                "label": "unknown" if p >= 0.5 else "known",
                "probabilities": {"known": 1.0 - p, "unknown": p},
                "p_unknown": p,
                "subclass_id": subclass if p >= 0.5 and subclass >= 0 else None,
                "t": None,
            }
