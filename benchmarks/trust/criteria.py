"""What is wanted, and whether it is met."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.trust.closed import SHORTEST
from benchmarks.trust.running import Record, Run
from benchmarks.trust.statistics import (
    Mean,
    Measure,
    Seeds,
    Streams,
    differences,
    gather,
    get,
    mean_of,
    over_seeds,
    paired,
    short,
)

ENOUGH_TRAINING = 1_000
"""From so many training instances on the live figure must be near the truth; with fewer its interval must hold it."""


class Criterion(NamedTuple):
    """What is wanted, what was found, and whether it is met."""

    wanted: str
    found: str
    met: bool


def lost(record: Record) -> float | None:
    """Known right in the last fifth, less what the frozen model gets right there."""
    return float(record["right_last"] - record["frozen"])


def beyond_promise(name: str) -> Measure:
    """Return what says how much more is called unknown than `promised` leaves room for: 1 less the recall."""

    def measure(record: Record) -> float | None:
        return None if record["promised"] is None else float(record[name] - (1.0 - record["promised"]))

    return measure


def promise_error(record: Record) -> float | None:
    """Promised recall, less what came."""
    return None if record["promised"] is None else float(record["promised"] - record["right"])


def absolute(measure: Measure) -> Measure:
    """Return what measures the size of a figure, whatever its sign."""

    def size(record: Record) -> float | None:
        value = measure(record)
        return None if value is None else abs(value)

    return size


class EachStream(NamedTuple):
    """What every closed stream must meet: the sign that stands for it, the text, and whether a stream does."""

    sign: str
    wanted: str
    measure: Measure
    met: Callable[[Mean], bool]
    worst: Callable[[Sequence[float]], int]


EACH = (
    EachStream(
        "a",
        "known-class accuracy in the last fifth: at least the frozen model's - 0.02 (within two standard errors)",
        lost,
        lambda mean: mean.most >= -0.02,
        lambda means: int(np.argmin(means)),
    ),
    EachStream(
        "b",
        "false unknown rate: at most 1 - expected recall + 0.02 (within two standard errors)",
        beyond_promise("unknown"),
        lambda mean: mean.least <= 0.02,
        lambda means: int(np.argmax(means)),
    ),
    EachStream(
        "c",
        "false unknown rate in the last fifth: at most 1 - expected recall + 0.02 (within two standard errors)",
        beyond_promise("unknown_last"),
        lambda mean: mean.least <= 0.02,
        lambda means: int(np.argmax(means)),
    ),
    EachStream(
        "d",
        "announced subclasses: at most 0.1 a stream (within two standard errors)",
        get("announced"),
        lambda mean: mean.least <= 0.1,
        lambda means: int(np.argmax(means)),
    ),
    EachStream(
        "e",
        "mean over seeds of abs(expected recall - recall): at most 0.08",
        absolute(promise_error),
        lambda mean: mean.mean <= 0.08,
        lambda means: int(np.argmax(means)),
    ),
)


def not_met(runs: Seeds) -> str:
    """Return the signs of what a closed stream does not meet; what could not be measured is left out."""
    found = [(each, over_seeds(runs, each.measure)) for each in EACH]
    return " ".join(each.sign for each, mean in found if mean.n and not each.met(mean))


def _of_each(each: EachStream, streams: Streams) -> Criterion:
    means = {name: over_seeds(runs, each.measure) for name, runs in streams.items()}
    there = {name: mean for name, mean in means.items() if mean.n}
    met = [name for name, mean in there.items() if each.met(mean)]
    found = f"{len(met)} of {len(there)} streams"
    if there:
        worst = list(there)[each.worst([mean.mean for mean in there.values()])]
        found += f"; worst {worst}: {there[worst]}"
    return Criterion(f"({each.sign}) {each.wanted}", found, len(met) == len(there))


class Told(NamedTuple):
    """The live figure at some moments, beside the truth; arrays of shape (n,), nan where it did not say.

    Attributes
    ----------
    right, unknown
        Shares of the window's decisions that are right, and that say unknown.
    recall, low, high, false_unknown
        What was told.
    """

    right: np.ndarray
    unknown: np.ndarray
    recall: np.ndarray
    low: np.ndarray
    high: np.ndarray
    false_unknown: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """What was told less the truth."""
        return self.recall - self.right

    @property
    def covered(self) -> np.ndarray:
        """Whether the truth is in the interval."""
        return (self.low <= self.right) & (self.right <= self.high)


def told(records: Iterable[Record]) -> Told:
    """Gather the windows, of at least so many decisions as judging takes, in which the live figure was told."""
    rows = [
        [right, unknown, *(np.nan if value is None else value for value in said)]
        for record in records
        for n, right, unknown, said in record["windows"]
        if n >= SHORTEST and said is not None and said[0] is not None
    ]
    return Told(*np.array(rows, float).reshape(-1, 6).T)


def _live(records: Sequence[Record]) -> Iterator[Criterion]:
    large = told(record for record in records if record["n_train"] >= ENOUGH_TRAINING)
    small = told(record for record in records if record["n_train"] < ENOUGH_TRAINING)
    if len(large.error):
        size = np.abs(large.error)
        mean, near = float(size.mean()), float((size <= 0.05).mean())
        where = f"{len(size)} windows, mean signed error {short(float(large.error.mean()))}"
        enough = f"{ENOUGH_TRAINING} training instances or more"
        yield Criterion(
            f"estimated recall, {enough}: mean error at most 0.02", f"{short(mean)}; {where}", mean <= 0.02
        )
        yield Criterion(
            f"estimated recall, {enough}: error at most 0.05 in 95 % of windows", short(near), near >= 0.95
        )
    if len(small.error):
        share, width = float(small.covered.mean()), float(np.nanmean(small.high - small.low))
        found = f"{short(share)} of {len(small.error)} windows; mean width {short(width)}"
        yield Criterion("estimated recall, fewer training instances: interval covers 90 %", found, share >= 0.90)


def _closed(now: Streams, before: Streams) -> Iterator[Criterion]:
    for each in EACH[:4]:
        yield _of_each(each, now)
    errors = [promise_error(record) for runs in now.values() for record in runs.values()]
    by_run = mean_of(None if error is None else abs(error) for error in errors)
    of_means = mean_of(abs(over_seeds(runs, promise_error).mean) for runs in now.values())
    found = f"{short(by_run.mean)} over runs; {short(of_means.mean)} over the streams' means"
    yield Criterion("mean over runs of abs(expected recall - recall): at most 0.03", found, by_run.mean <= 0.03)
    yield _of_each(EACH[4], now)
    yield from _live([record for runs in now.values() for record in runs.values()])
    if pairs := paired(now, before):
        both = [(now[name][seed], before[name][seed]) for name in pairs for seed in now[name] if seed in before[name]]
        ratio = sum(a["seconds"] for a, _ in both) / sum(b["seconds"] for _, b in both)
        wanted = "processor time of closed streams at most 1.1 of what it was"
        yield Criterion(wanted, f"{short(ratio)} over {len(both)} runs", ratio <= 1.1)


def _not_lower(
    wanted: str, now: Streams, before: Streams, measures: Sequence[str], most: float, strictly: bool = False
) -> Iterator[Criterion]:
    """Judge that the mean of paired differences is not lower (or is higher), and none lower by more than so much."""
    found = {
        f"{name} {measure}".replace(" micro_f", "").replace("_micro_f", ""): differences(
            now[name], before[name], get(measure)
        ).mean
        for name in paired(now, before)
        for measure in measures
    }
    if not found:
        return
    mean = float(np.mean(list(found.values())))
    worst = min(found, key=lambda name: found[name])
    verb = "higher" if strictly else "not lower"
    yield Criterion(f"{wanted}: mean {verb} than before", f"{mean:+.4f}", mean > 0 if strictly else mean >= 0)
    if most < np.inf:
        limit = short(most)
        said = f"worst {worst}: {found[worst]:+.4f}"
        yield Criterion(f"{wanted}: none lower by more than {limit}", said, found[worst] >= -most)


def _open(now: Streams, before: Streams) -> Iterator[Criterion]:
    yield from _not_lower("five sets, micro-F", now, before, ("medium_micro_f", "high_micro_f"), 0.004)
    yield from _not_lower("five sets, closed-set accuracy", now, before, ("closed_accuracy",), np.inf)


def _breadth(now: Streams, before: Streams) -> Iterator[Criterion]:
    yield from _not_lower("seventeen sets, micro-F", now, before, ("micro_f",), 0.02, strictly=True)
    found = {name: differences(now[name], before[name], get("ece")).mean for name in paired(now, before)}
    if found:
        mean, worst = float(np.mean(list(found.values()))), max(found, key=lambda name: found[name])
        yield Criterion("seventeen sets, calibration error: mean lower than before", f"{mean:+.4f}", mean < 0)
        said = f"worst {worst}: {found[worst]:+.4f}"
        yield Criterion("seventeen sets, calibration error: none higher by 0.02", said, found[worst] < 0.02)


def _overlap(now: Streams, before: Streams) -> Iterator[Criterion]:
    for measure, where in (("ece", "whole stream"), ("ece_late", "from 1000 instances after the new class began")):
        means = {name: over_seeds(runs, get(measure)) for name, runs in now.items()}
        means = {name: mean for name, mean in means.items() if mean.n}
        if means:
            worst = max(means, key=lambda name: means[name].mean)
            met = means[worst].mean <= 0.04
            wanted = f"overlap: calibration error at most 0.04 in each, {where}"
            yield Criterion(wanted, f"worst {worst}: {means[worst]}", met)


def _persistent(now: Streams, before: Streams) -> Iterator[Criterion]:
    for name, runs in now.items():
        most = max(record["drifted"] for record in runs.values())
        least = min(record["accuracy"] for record in runs.values())
        yield Criterion(f"{name}, a class that stays: at most one ClassDrifted", f"at most {most}", most <= 1)
        yield Criterion(
            f"{name}, a class that stays: accuracy at least 0.997", f"at least {least:.4f}", least >= 0.997
        )


def _demo(now: Streams, before: Streams) -> Iterator[Criterion]:
    for name, runs in now.items():
        ece = over_seeds(runs, get("ece"))
        numbers = [record["number"] for record in runs.values()]
        yield Criterion(f"{name}: calibration error at most 0.04", str(ece), ece.mean <= 0.04)
        said = ", ".join(str(number) for number in numbers)
        yield Criterion(f"{name}: three new classes", said, all(number == 3 for number in numbers))


OF_PART: dict[str, Callable[[Streams, Streams], Iterator[Criterion]]] = {
    "closed": _closed,
    "open": _open,
    "breadth": _breadth,
    "overlap": _overlap,
    "persistent": _persistent,
    "demo": _demo,
}


def criteria(records: Mapping[Run, Record], before: Mapping[Run, Record]) -> list[Criterion]:
    """Judge everything that was measured; comparisons where both files have the run."""
    return [
        criterion
        for part, judge in OF_PART.items()
        if (now := gather(records, part))
        for criterion in judge(now, gather(before, part))
    ]
