"""Nothing is paid for it: the five sets, by the paper's protocol, as `benchmarks.openset` measures them."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.openset.cells import figures_of_merit
from benchmarks.openset.methods import Setup
from benchmarks.openset.methods.stream import Stream
from benchmarks.openset.sets import SETTINGS
from benchmarks.openset.sets import problem as lay_out
from benchmarks.paper.datasets import KNOWN_CLASSES

STREAMS = tuple(KNOWN_CLASSES)
BATCH = 64
MEASURES = ("micro_f", "accuracy", "known_recall", "unknown_recall", "auroc", "ece")


def measure(stream: str, seed: int, length: int | None = None) -> dict[str, Any]:
    """Train once; run the stream of each openness."""
    setting = SETTINGS[stream]
    method = Stream(Setup(setting.pca, seed, {}))
    given = lay_out(stream, 0, seed)
    begin = time.process_time()
    method.fit(given.X_train, given.group, given.known)
    record: dict[str, Any] = {"train_seconds": time.process_time() - begin, "seconds": 0.0}
    for level, n_unknown in setting.n_unknown.items():
        tested = lay_out(stream, n_unknown, seed)
        tested = tested._replace(
            X_test=tested.X_test[:length], truth=tested.truth[:length], labels=tested.labels[:length]
        )
        begin = time.process_time()
        outcome = method.decide(tested.X_test, BATCH, 0)
        record["seconds"] += time.process_time() - begin
        judged = figures_of_merit(tested, outcome)
        record |= {f"{level}_{name}": judged[name] for name in MEASURES}
    return record
