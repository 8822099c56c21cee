"""The data of the demonstration, other classes new: whether p_unknown means what it says, and how many are told.

Of the three that are new here *foliage* and *window* resemble each other, and *window* the known *cement*.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.trust.problems import figures_of_merit
from stream_osr import SubclassEmerged
from stream_osr_connectors.cli import demo

STREAMS = ("demo",)
KNOWN, NEW = ("brickface", "cement", "grass", "path"), ("sky", "foliage", "window")
BATCH = 32


def measure(stream: str, seed: int, length: int | None = None) -> dict[str, Any]:
    """Run the demonstration as its command does; the seed is of the split and of the recognizer."""
    training, segments = demo.split(seed, KNOWN, NEW)
    segments = segments[:length]
    model = demo.make_recognizer(seed=seed, n_jobs=1, batch_size=BATCH)
    begin = time.process_time()
    for segment in training:
        model.learn_one(segment.features, segment.label)
    report = model.freeze()
    middle = time.process_time()
    for seq, segment in enumerate(segments):
        model.learn_one(segment.features, key=seq)
    model.flush()
    decisions = sorted(model.drain(), key=lambda decision: decision.seq)
    seconds = time.process_time() - middle
    p_unknown = np.clip([decision.p_unknown for decision in decisions], 0.0, 1.0)
    truth = np.array([segment.label for segment in segments])
    summary = model.summary()
    return {
        "n": len(segments),
        **figures_of_merit([decision.label for decision in decisions], p_unknown, truth, KNOWN),
        "promised": report.known_recall,
        "number": model.new_classes().number,
        "delta": summary.delta,
        "announced": sum(isinstance(event, SubclassEmerged) for event in model.drain_events()),
        "train_seconds": middle - begin,
        "seconds": seconds,
    }
