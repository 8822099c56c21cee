"""A million instances with 50 classes coming and going: memory, time, and whether the last fare as well as the first.

Made-up classes, a Gaussian each in 8 dimensions, 5 of them known. Each of 50 new ones comes for 5000 instances, a
twentieth of them its own, and comes once more 60 000 instances after it has gone; the next class begins 18 500
instances after it, so that there is one new class at a time, or none. One run with untouched defaults for each seed;
the known classes fill what is left.

Time is the processor's, of all threads, so that other processes do not show. Memory is the resident set of the
process (Linux), read after each 20 000 instances; what the measuring keeps is set aside before the stream begins.
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks import written
from benchmarks.discovery.gaussians import KNOWN, Gaussians, make
from benchmarks.discovery.streams import announced
from benchmarks.discovery.tables import Runs, Table, column, ever, finite
from stream_osr import OpenSetRecognizer, SubclassEmerged, SubclassRecurred, SubclassSplit
from stream_osr.discovery.event_base import Event

DATASETS, SEEDS = ("made-up Gaussians",), 1
SHARE = 0.05
CHUNK = 20_000
SETTLED = 200_000
"""From here on memory and time must not grow."""
ENDS = 10
"""Classes at the beginning and at the end that are compared."""
WAY = ("seen", "megabytes", "microseconds")
IN_NONE, OF_KNOWN = -1, -2
"""In place of an emerging subclass: unknown and in none, or called known."""


class Plan(NamedTuple):
    """When new classes come.

    Attributes
    ----------
    instances
        Length of the stream.
    classes
        Number of new classes.
    between
        Instances from the beginning of one class to that of the next.
    stay, gone
        Instances that a class stays, each of two times, and that it is gone.
    """

    instances: int = 1_000_000
    classes: int = 50
    between: int = 18_500
    stay: int = 5_000
    gone: int = 60_000

    def visits(self, k: int) -> tuple[int, int]:
        """Return where the k-th new class begins, and where it returns."""
        first = k * self.between
        return first, first + self.stay + self.gone


def truth(plan: Plan, rng: np.random.Generator) -> np.ndarray:
    """Return the class of each instance, shape (instances,); new ones follow the known ones."""
    y = rng.integers(KNOWN, size=plan.instances).astype(np.int16)
    for k in range(plan.classes):
        for begin in plan.visits(k):
            its_own = rng.random(plan.stay) < SHARE
            its_own[0] = True
            y[begin + np.flatnonzero(its_own)] = KNOWN + k
    return y


def resident() -> float:
    """Return the resident set of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


class Passed(NamedTuple):
    """What a run told.

    Attributes
    ----------
    seen, microseconds, megabytes
        After each chunk: instances, processor time (of all threads) an instance within the chunk, resident set.
    named
        Emerging subclass that the decision on each instance named, or ``IN_NONE``, ``OF_KNOWN``.
    events
        Announcements, splits and recurrences.
    """

    seen: list[int]
    microseconds: list[float]
    megabytes: list[float]
    named: np.ndarray
    events: list[Event]


def run(classes: Gaussians, y: np.ndarray, seed: int, chunk: int = CHUNK) -> Passed:
    """Run a stream with the defaults."""
    model = OpenSetRecognizer.from_trained(classes.trained, seed=seed)
    names = list(classes.trained.names)
    named = np.full(len(y), IN_NONE, np.int32)
    passed = Passed([], [], [], named, [])
    for begin in range(0, len(y), chunk):
        part = y[begin : begin + chunk]
        frame = pd.DataFrame(classes.draw(part, np.random.default_rng([seed, begin])), columns=names)
        start = time.process_time()
        model.learn_many(frame)
        if begin + chunk >= len(y):
            model.flush()
        for event in model.drain_events():
            if isinstance(event, SubclassEmerged | SubclassRecurred | SubclassSplit):
                passed.events.append(event)
        for decision in model.drain():
            if decision.label in classes.trained.labels:
                named[decision.seq] = OF_KNOWN
            elif decision.subclass_id is not None:
                named[decision.seq] = decision.subclass_id
        passed.seen.append(begin + len(part))
        passed.microseconds.append(1e6 * (time.process_time() - start) / len(part))
        passed.megabytes.append(resident())
    return passed


def fares(plan: Plan, passed: Passed, y: np.ndarray) -> Iterator[dict[str, Any]]:
    """Yield how each new class fared, in order.

    Yields
    ------
    Instances until it was announced, as in the setting `open`; share of its instances called unknown; purity of the
    subclasses that are of it (most of whose instances are); after its return the share of its instances in
    subclasses of its own that had been announced before, and what was announced of it then.
    """
    told = announced(passed.events)
    largest = max((*told, *passed.named.tolist(), 0)) + 1
    count = np.zeros((largest, KNOWN + plan.classes), np.int64)
    inside = passed.named >= 0
    np.add.at(count, (passed.named[inside], y[inside]), 1)
    early = np.zeros_like(count)
    last = np.full(largest, -1)
    last[list(told)] = list(told.values())
    inside &= np.arange(len(y)) <= last[passed.named]
    np.add.at(early, (passed.named[inside], y[inside]), 1)
    of = {number: int(early[number].argmax()) for number in told if early[number].any()}
    for k in range(plan.classes):
        label = KNOWN + k
        first, back = plan.visits(k)
        own = {number: told[number] for number, label_of in of.items() if label_of == label}
        places = np.flatnonzero(y == label)
        returned = passed.named[places[places >= back]]
        old = [number for number, seq in own.items() if seq < back]
        members = count[list(own)]
        yield {
            "class": k,
            "begins": first,
            "late": finite(float((places <= min(own.values())).sum()) if own else math.inf),
            "recall": float((passed.named[places] != OF_KNOWN).mean()),
            "purity": float(members[:, label].sum() / members.sum()) if own else None,
            "under old": float(np.isin(returned, old).mean()),
            "announced again": sum(seq >= back for seq in own.values()),
            "recurred": sum(
                isinstance(e, SubclassRecurred) and getattr(e, "subclass_id", None) in own for e in passed.events
            ),
        }


def false_alarms(passed: Passed, y: np.ndarray) -> int:
    """Count announced subclasses most of whose instances, over the whole run, are of a known class."""
    count = 0
    for event in passed.events:
        if isinstance(event, SubclassEmerged):
            found = y[passed.named == event.subclass_id]
            count += len(found) == 0 or int(np.bincount(found).argmax()) < KNOWN
    return count


def measure(dataset: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of a run."""
    plan = Plan()
    classes = make(plan.classes, seed)
    y = truth(plan, np.random.default_rng([seed, plan.instances]))
    passed = run(classes, y, seed)
    yield {
        **{name: getattr(passed, name) for name in WAY},
        "false": false_alarms(passed, y),
        "unknown among known": float((passed.named[y < KNOWN] != OF_KNOWN).mean()),
        "classes": list(fares(plan, passed, y)),
    }


def table(runs: Runs) -> str:
    """Return memory and time on the way, and how the first and the last classes fared, for each run."""
    parts = []
    for one in runs:
        way = [(n, f"{mb:.1f}", f"{us:.1f}") for n, mb, us in zip(*(one[name] for name in WAY), strict=True)]
        settled = [mb for n, mb in zip(one["seen"], one["megabytes"], strict=True) if n >= SETTLED]
        classes = one["classes"]
        groups = {f"first {ENDS}": classes[:ENDS], f"last {ENDS}": classes[-ENDS:], "all": classes}
        parts += [
            written.table(["instances", "MB", "us each"], way),
            f"memory from {SETTLED} on: largest / smallest {max(settled) / min(settled):.3f}",
            FARED([{"classes": name, **of} for name, found in groups.items() for of in found]),
            f"false alarms {one['false']}; known called unknown {one['unknown among known']:.4f}",
        ]
    return "\n\n".join(parts)


def known_mean(values: Sequence[float]) -> float:
    """Mean of finite figures."""
    return fmean(found) if (found := [value for value in values if math.isfinite(value)]) else math.nan


FIGURES = ("late", "recall", "purity", "under old", "announced again", "recurred")
FARED = Table({**{name: column(name, known_mean) for name in FIGURES}, "ever": column("late", ever)}, ("classes",))
