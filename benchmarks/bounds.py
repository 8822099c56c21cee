"""What bounds cost, and how far ordinary streams are from them.

python -m benchmarks.bounds classes   # time and memory of max_classes, all of them opened by labels
python -m benchmarks.bounds events    # the most events in 1000 instances where all new classes come at once
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterable

import numpy as np

from benchmarks.discovery.opened import stream
from benchmarks.discovery.streams import FIVE, listen, prepare, recognizer
from stream_osr import Event, Limits, OpenSetRecognizer, SubclassEmerged

NAMES = "abcd"


def megabytes() -> int:
    """Return the largest resident set so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def classes(count: int = 1000) -> None:
    """Train on four classes, and open the others by a label each; then decide two micro-batches of 256."""
    rng = np.random.default_rng(0)
    model = OpenSetRecognizer(seed=1, limits=Limits(max_classes=count))
    for label in range(4):
        for row in rng.normal(6 * label, 1, size=(60, 4)).tolist():
            model.learn_one(dict(zip(NAMES, row, strict=True)), f"known {label}")
    model.freeze()
    batch = [dict(zip(NAMES, row, strict=True)) for row in rng.normal(size=(256, 4)).tolist()]
    for x in batch:
        model.learn_one(x)
    before, begun = megabytes(), time.perf_counter()
    for number in range(count - 4):
        model.learn_one(dict(zip(NAMES, rng.normal(0, 20, size=4).tolist(), strict=True)), f"class {number}")
    model.flush()
    opened = time.perf_counter()
    for _ in range(2):
        list(model.drain())
        decided = time.perf_counter()
        for x in batch:
            model.learn_one(x)
    now = time.perf_counter()
    print(
        f"{count} classes: {opened - begun:.1f} s to open them, then {1e6 * (now - decided) / len(batch):.0f} us an "
        f"instance; {megabytes() - before} MB above {before} MB at most"
    )


def most(events: Iterable[Event], within: int = 1000) -> int:
    """Return the most events in so many instances."""
    seqs = [event.seq for event in events]
    return max((int(np.searchsorted(seqs, seq + within)) - at for at, seq in enumerate(seqs)), default=0)


def events() -> None:
    """Run the five data sets at their highest openness."""
    for dataset in FIVE:
        given = prepare(dataset, 0)
        heard = listen(recognizer(given, 0, batch_size=64), *stream(given, 0))
        print(f"{dataset}: {most(heard.events)} events, {most(heard.emerged)} {SubclassEmerged.__name__}", flush=True)


if __name__ == "__main__":
    {"classes": classes, "events": events}[sys.argv[1]]()
