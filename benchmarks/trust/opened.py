"""Nothing is paid for it: streams with new classes of the five sets, the seventeen tables, and the demonstration.

The five sets are measured as by `benchmarks.openset`, by the paper's protocol, and of the seventeen tables half of
the classes are known (`benchmarks.tabular`). The demonstration has other new classes than its command: *foliage* and
*window* resemble each other, and *window* the known *cement*.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.deciding import scores
from benchmarks.openset.cells import BATCH, figures_of_merit
from benchmarks.openset.methods import Setup
from benchmarks.openset.methods.stream import Stream
from benchmarks.openset.sets import SETTINGS, problem
from benchmarks.tabular import divide
from benchmarks.trust.problems import Problem, follow, train
from stream_osr import SubclassEmerged
from stream_osr_connectors.cli import demo

MEASURES = ("micro_f", "accuracy", "known_recall", "unknown_recall", "auroc", "ece")
KNOWN, NEW = ("brickface", "cement", "grass", "path"), ("sky", "foliage", "window")
DEMO_BATCH = 32


def five(stream: str, seed: int, length: int | None = None) -> dict[str, Any]:
    """Train once on one of the five sets; run the stream of each openness."""
    setting = SETTINGS[stream]
    method = Stream(Setup(setting.pca, seed, {}))
    given = problem(stream, 0, seed)
    method.fit(given.X_train, given.group, given.known)
    record: dict[str, Any] = {"seconds": 0.0}
    for level, n_unknown in setting.n_unknown.items():
        tested = problem(stream, n_unknown, seed)
        tested = tested.only(np.arange(len(tested.truth))[:length])
        begin = time.process_time()
        outcome = method.decide(tested.X_test, BATCH, 0)
        record["seconds"] += time.process_time() - begin
        judged = figures_of_merit(tested, outcome)
        record |= {f"{level}_{name}": judged[name] for name in MEASURES}
    return record


def table(stream: str, seed: int, length: int | None = None) -> dict[str, Any]:
    """Run the test part of one of the seventeen tables as a stream."""
    given = Problem(*divide(stream, seed)[:4], {"batch_size": BATCH}).first(length)
    model, _ = train(given, seed)
    heard = follow(model, given.X, given.y)
    found = scores(given.y.tolist(), heard.label, heard.p_unknown, model.trained.labels)
    return {**found, "seconds": heard.seconds}


def demonstration(stream: str, seed: int, length: int | None = None) -> dict[str, Any]:
    """Run the demonstration as its command does; the seed is of the split and of the recognizer."""
    training, segments = demo.split(seed, KNOWN, NEW)
    segments = segments[:length]
    model = demo.make_recognizer(seed=seed, n_jobs=1, batch_size=DEMO_BATCH)
    for segment in training:
        model.learn_one(segment.features, segment.label)
    model.freeze()
    begin = time.process_time()
    for seq, segment in enumerate(segments):
        model.learn_one(segment.features, key=seq)
    model.flush()
    decisions = sorted(model.drain(), key=lambda decision: decision.seq)
    seconds = time.process_time() - begin
    p_unknown, truth = [decision.p_unknown for decision in decisions], [segment.label for segment in segments]
    return {
        **scores(truth, [decision.label for decision in decisions], p_unknown, KNOWN),
        "number": model.new_classes().number,
        "announced": sum(isinstance(event, SubclassEmerged) for event in model.drain_events()),
        "seconds": seconds,
    }
