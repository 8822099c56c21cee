"""What happens before the golden archives are written, and how a test continues them: by public functions alone.

The instances are drawn here once, when an archive is made; how they go on is written beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from stream_osr import OpenSetRecognizer, SubclassEmerged
from stream_osr.config import grouped
from stream_osr_connectors.base import Record
from stream_osr_connectors.files import MemorySink, MemorySource
from stream_osr_connectors.files.checkpoint import Checkpoint
from stream_osr_connectors.files.file_run import Sinks
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.partition import Partition, step
from stream_osr_connectors.kafka.wire.boundaries import Boundary
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder
from stream_osr_connectors.kafka.wire.messages import Message
from tests.file_runs import run

CENTRES = {
    "left": (0.0, 0.0),
    "right": (10.0, 0.0),
    "below": (4.0, -12.0),
    "named": (4.0, 14.0),
    "noise": (22.0, 12.0),
    "asleep": (-16.0, 10.0),
    "late": (-12.0, -14.0),
}
TRAINED = ("left", "right", "below")
KINDS = {
    "left": ("tcp", 0.1),
    "right": ("udp", 0.9),
    "below": ("tcp", 0.5),
    "named": ("icmp", 0.9),
    "asleep": ("udp", 0.1),
}
"""What the text of each class mostly is, and how often its flag is set; of the others it is a text never seen."""
NAMES = ("a", "b", "kind", "on")
"""Of the features."""
Row = Sequence[Any]
ARGUMENTS: dict[str, Any] = {
    "batch_size": 16,
    "chains": 4,
    "window": 24,
    "half_life": 20.0,
    "decision_delay": 12,
    "label_horizon": 60,
    "references": 30,
    "max_subclasses": 2,
    "follow_drift": True,
    "seed": 11,
}
PLACE = Place("in", 3)


def drawn(n: int, seed: int, names: Sequence[str]) -> list[tuple[str, list[Any]]]:
    """Classes and rows of ``n`` instances of some classes, in random order, rounded so that text holds them."""
    rng = np.random.default_rng([19, seed])
    return [
        (str(name), [*rng.normal(CENTRES[name]).round(3).tolist(), *_values(str(name), rng)])
        for name in rng.choice(names, n)
    ]


def _values(name: str, rng: np.random.Generator) -> tuple[str | None, float]:
    """Text, one in ten missing, and a flag."""
    usual, often = KINDS.get(name, ("sctp", 0.5))
    kind = str(rng.choice([usual, "tcp", "udp"], p=[0.8, 0.1, 0.1]))
    return None if rng.random() < 0.1 else kind, float(rng.random() < often)


def instance(row: Row) -> dict[str, Any]:
    """A row as it is handed over."""
    return dict(zip(NAMES, row, strict=True))


def decoder() -> JsonDecoder:
    """What reads rows as a service gets them."""
    return JsonDecoder(JsonFields(label="y", features=NAMES), 1000)


def results(model: OpenSetRecognizer) -> dict[str, list[Any]]:
    """Everything that waits to be drained, in the form that the golden files have."""
    decisions = [
        [d.key, d.label, d.first_label, d.subclass_id, d.nearest_class, d.seq, list(d.probabilities.values())]
        for d in model.drain()
    ]
    return {"decisions": decisions, "events": [[type(e).__name__, e.seq] for e in model.drain_events()]}


def feed(model: OpenSetRecognizer, rows: Iterable[Row], first: int) -> None:
    """Let the model decide rows; their keys are numbered from ``first`` on."""
    for number, row in enumerate(rows, start=first):
        model.learn_one(instance(row), t=float(number), key=f"k{number}")


def train(model: OpenSetRecognizer, n: int) -> None:
    """Hand over labelled instances of three classes."""
    for name, row in drawn(n, 0, TRAINED):
        model.learn_one(instance(row), name)


def trained(n: int = 120, **arguments: Any) -> OpenSetRecognizer:
    """A recognizer whose training has ended."""
    model = OpenSetRecognizer(**grouped(**{**ARGUMENTS, **arguments}))
    train(model, n)
    model.freeze()
    return model


def mid_stream(**arguments: Any) -> OpenSetRecognizer:
    """A recognizer with buffered instances, waiting decisions, late labels, a name, a mute and a dormant subclass."""
    model, at = trained(**arguments), 0
    for seed, n, names in (
        (1, 60, (*TRAINED, "asleep")),
        (2, 60, (*TRAINED, "noise")),
        (3, 90, (*TRAINED, "named", "noise")),
    ):
        feed(model, [row for _, row in drawn(n, seed, names)], at)
        at += n
    events = list(model.drain_events())
    emerged = {e.subclass_id: e.explanation.mean for e in events if isinstance(e, SubclassEmerged)}

    def near(name: str) -> list[int]:
        centre = CENTRES[name]
        return [key for key, mean in emerged.items() if abs(mean["a"] - centre[0]) + abs(mean["b"] - centre[1]) < 4.0]

    model.promote(near("named")[:1], "named")
    model.mute(near("noise")[:1])
    model.learn_label(f"k{at - 20}", "right")
    model.learn_one({"a": 0.5, "b": 0.25}, "left")
    feed(model, [row for _, row in drawn(50, 4, (*TRAINED, "named", "noise", "late"))], at)
    list(model.drain())
    at += 50
    feed(model, [row for _, row in drawn(21, 5, (*TRAINED, "late"))], at)
    model.learn_label(f"k{at - 30}", "late")
    model.learn_label(f"k{at + 20}", "left")
    model.learn_one({"a": -12.5, "b": -13.75}, "late")
    return model


def go_on(model: OpenSetRecognizer, rows: Sequence[Row]) -> dict[str, Any]:
    """Let a loaded recognizer decide rows, take labels and undo; return the results."""
    out = {"before": results(model)}
    feed(model, rows[: len(rows) // 2], 1000)
    model.learn_label("k1003", "left")
    feed(model, rows[len(rows) // 2 :], 1000 + len(rows) // 2)
    model.flush()
    while True:
        try:
            model.undo()
        except Exception as error:
            out["undone"] = type(error).__name__
            break
    out["after"] = results(model)
    out["predicted"] = [list(model.predict_proba_one({"a": a, "b": b}).values()) for a, b in CENTRES.values()]
    out["summary"] = model.summary().text(subclasses=True)
    return out


def go_on_training(model: OpenSetRecognizer, rows: Sequence[Row]) -> dict[str, Any]:
    """Let a recognizer in training learn some more, freeze it and go on."""
    for row in rows[:20]:
        model.learn_one(instance(row), "above" if row[1] > 6 else "left")
    model.freeze()
    return {"labels": list(model.trained.labels), **go_on(model, rows[20:])}


def source(rows: Sequence[Row]) -> MemorySource:
    """Rows as records, one of them unusable."""
    return MemorySource(
        [
            Record({**instance(row), "b": row[1] if at != 20 else "much"}, key=at, time=float(at))
            for at, row in enumerate(rows)
        ]
    )


def go_on_with_files(checkpoint: Checkpoint, rows: Sequence[Row]) -> dict[str, Any]:
    """Go on with the loop that wrote a checkpoint, to the end of its source."""
    decisions, events, errors = MemorySink(), MemorySink(), MemorySink()
    origin = source(rows)
    origin.seek(checkpoint.source)
    totals = run(checkpoint.model, origin, Sinks(decisions, events, errors), started=checkpoint)
    return {
        "position": checkpoint.source,
        "sinks": list(checkpoint.sinks),
        "totals": dict(sorted(totals.items())),
        "decisions": [
            [d["key"], d["label"], d["subclass_id"], list(d["probabilities"].values())] for d in decisions.records
        ],
        "events": [event["type"] for event in events.records],
    }


def messages(rows: Sequence[Row], begin: int) -> list[Message]:
    """Rows as a service gets them."""
    return [
        Message(*PLACE, at, 1000 * at, b"k%d" % at, json.dumps(instance(row)).encode(), [("h", b"\xff\x00")])
        for at, row in enumerate(rows, start=begin)
    ]


def ask(model: OpenSetRecognizer, emerged: Sequence[int]) -> None:
    """Name what has emerged first, and label an instance that was decided."""
    model.promote(emerged[:1], "named")
    model.learn_label("k70", "left")


def go_on_serving(partition: Partition, rows: Sequence[Row], begin: int) -> dict[str, Any]:
    """Let a partition take two micro-batches more."""
    out: dict[str, Any] = {"decisions": [], "events": []}
    decode = decoder()
    for at in (0, len(rows) // 2):
        batch = messages(rows[at : at + len(rows) // 2], begin + at)
        partition, outcome = step(partition, PLACE, batch, (), Boundary(batch[-1].offset + 1), decode)
        out["decisions"] += [
            [o.offset, (o.key or b"").decode(), d.label, d.subclass_id, list(d.probabilities.values())]
            for o, d, *_ in outcome.decisions
        ]
        out["events"] += [[type(event).__name__, event.seq] for event in outcome.events]
    out["waiting"] = [[o.offset, o.timestamp, (o.key or b"").decode("latin-1")] for o in partition.waiting]
    return out
