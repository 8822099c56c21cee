"""What is wanted, and whether it is met."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.records import Record
from benchmarks.trust.closed import SHORTEST
from benchmarks.trust.running import Run
from benchmarks.trust.statistics import Mean, Seeds, Streams, differences, gather, mean_of, over_seeds, paired, short

ENOUGH_TRAINING = 1_000
"""From so many training instances on the live figure must be near the truth; with fewer its interval must hold it."""


class Criterion(NamedTuple):
    """What is wanted, what was found, and whether it is met."""

    wanted: str
    found: str
    met: bool


class Limit(NamedTuple):
    """What every closed stream must meet.

    Attributes
    ----------
    sign
        Stands for it.
    figure
        Its mean over the seeds must not be worse than a limit.
    worse
        1 if more is worse, -1 if less is.
    limit
        Of the figure times `worse`.
    errors
        Standard errors by which the mean may be beyond: two or none.
    text
        What is wanted.
    """

    sign: str
    figure: str
    worse: int
    limit: float
    errors: int
    text: str

    @property
    def wanted(self) -> str:
        """The text, with the errors."""
        return f"({self.sign}) {self.text}{' (within two standard errors)' if self.errors else ''}"

    def met(self, mean: Mean) -> bool:
        """Whether a stream meets it."""
        return self.worse * mean.mean - self.errors * mean.error <= self.limit


EACH = (
    Limit("a", "lost", -1, 0.02, 2, "known-class accuracy in the last fifth: at least the frozen model's - 0.02"),
    Limit("b", "beyond", 1, 0.02, 2, "false unknown rate: at most 1 - expected recall + 0.02"),
    Limit("c", "beyond_last", 1, 0.02, 2, "false unknown rate in the last fifth: at most 1 - expected recall + 0.02"),
    Limit("d", "announced", 1, 0.1, 2, "announced subclasses: at most 0.1 a stream"),
    Limit("e", "off_by", 1, 0.08, 0, "mean over seeds of abs(expected recall - recall): at most 0.08"),
)


def not_met(runs: Seeds) -> str:
    """Return the signs of what a closed stream does not meet; what could not be measured is left out."""
    found = [(each, over_seeds(runs, each.figure)) for each in EACH]
    return " ".join(each.sign for each, mean in found if mean.n and not each.met(mean))


def _of_each(each: Limit, streams: Streams) -> Criterion:
    means = {name: mean for name, runs in streams.items() if (mean := over_seeds(runs, each.figure)).n}
    met = sum(map(each.met, means.values()))
    found = f"{met} of {len(means)} streams"
    if means:
        worst = max(means, key=lambda name: each.worse * means[name].mean)
        found += f"; worst {worst}: {means[worst]}"
    return Criterion(each.wanted, found, met == len(means))


class Told(NamedTuple):
    """The live figure at some moments: its error, whether its interval covers the truth, the interval's width."""

    error: np.ndarray
    covered: np.ndarray
    width: np.ndarray


def told(records: Iterable[Record]) -> Told:
    """Gather the windows, of at least so many decisions as judging takes, in which the live figure was told."""
    rows = [
        [right, *said[:3]]
        for record in records
        for n, right, _, said in record["windows"]
        if n >= SHORTEST and said is not None and said[0] is not None
    ]
    right, recall, low, high = np.array(rows, float).reshape(-1, 4).T
    return Told(recall - right, (low <= right) & (right <= high), high - low)


def _live(records: Sequence[Record]) -> Iterator[Criterion]:
    large = told(record for record in records if record["n_train"] >= ENOUGH_TRAINING)
    small = told(record for record in records if record["n_train"] < ENOUGH_TRAINING)
    if len(large.error):
        size, enough = np.abs(large.error), f"estimated recall, {ENOUGH_TRAINING} training instances or more"
        mean, near = float(size.mean()), float((size <= 0.05).mean())
        where = f"{len(size)} windows, mean signed error {short(float(large.error.mean()))}"
        yield Criterion(f"{enough}: mean error at most 0.02", f"{short(mean)}; {where}", mean <= 0.02)
        yield Criterion(f"{enough}: error at most 0.05 in 95 % of windows", short(near), near >= 0.95)
    if len(small.error):
        share, width = float(small.covered.mean()), float(np.nanmean(small.width))
        found = f"{short(share)} of {len(small.error)} windows; mean width {short(width)}"
        yield Criterion("estimated recall, fewer training instances: interval covers 90 %", found, share >= 0.90)


def _closed(now: Streams, before: Streams) -> Iterator[Criterion]:
    for each in EACH[:4]:
        yield _of_each(each, now)
    by_run = mean_of(record.get("off_by") for runs in now.values() for record in runs.values())
    of_means = mean_of(abs(over_seeds(runs, "off").mean) for runs in now.values())
    found = f"{short(by_run.mean)} over runs; {short(of_means.mean)} over the streams' means"
    yield Criterion("mean over runs of abs(expected recall - recall): at most 0.03", found, by_run.mean <= 0.03)
    yield _of_each(EACH[4], now)
    yield from _live([record for runs in now.values() for record in runs.values()])
    if pairs := paired(now, before):
        both = [(now[name][seed], before[name][seed]) for name in pairs for seed in now[name] if seed in before[name]]
        ratio = sum(a["seconds"] for a, _ in both) / sum(b["seconds"] for _, b in both)
        wanted = "processor time of closed streams at most 1.1 of what it was"
        yield Criterion(wanted, f"{short(ratio)} over {len(both)} runs", ratio <= 1.1)


def _not_worse(
    wanted: str,
    now: Streams,
    before: Streams,
    figures: Sequence[str],
    most: float | None = None,
    *,
    worse: int = -1,
    strictly: bool = False,
) -> Iterator[Criterion]:
    """Judge that the mean of paired differences is not worse (or is better), and none worse by more than a limit.

    ``worse``: 1 if more is worse, -1 if less is.
    """
    pairs = itertools.product(paired(now, before), figures)
    means = {(name, figure): differences(now[name], before[name], figure).mean for name, figure in pairs}
    if means:
        mean, worst = float(np.mean(list(means.values()))), max(means, key=lambda pair: worse * means[pair])
        bad, good = ("lower", "higher") if worse < 0 else ("higher", "lower")
        verb, met = (good, worse * mean < 0) if strictly else (f"not {bad}", worse * mean <= 0)
        yield Criterion(f"{wanted}: mean {verb} than before", f"{mean:+.4f}", met)
        if most is not None:
            stream = " ".join(worst[: len(figures)]).removesuffix("_micro_f")
            text = f"{wanted}: none {bad} by more than {short(most)}"
            yield Criterion(text, f"worst {stream}: {means[worst]:+.4f}", worse * means[worst] <= most)


def _open(now: Streams, before: Streams) -> Iterator[Criterion]:
    yield from _not_worse("five sets, micro-F", now, before, ("medium_micro_f", "high_micro_f"), 0.004)
    yield from _not_worse("five sets, closed-set accuracy", now, before, ("closed_accuracy",))


def _breadth(now: Streams, before: Streams) -> Iterator[Criterion]:
    yield from _not_worse("seventeen sets, micro-F", now, before, ("micro_f",), 0.02, strictly=True)
    calibration = "seventeen sets, calibration error"
    yield from _not_worse(calibration, now, before, ("ece",), 0.02, worse=1, strictly=True)


def _overlap(now: Streams, before: Streams) -> Iterator[Criterion]:
    for measure, where in (("ece", "whole stream"), ("ece_late", "from 1000 instances after the new class began")):
        means = {name: mean for name, runs in now.items() if (mean := over_seeds(runs, measure)).n}
        if means:
            worst = max(means, key=lambda name: means[name].mean)
            wanted = f"overlap: calibration error at most 0.04 in each, {where}"
            yield Criterion(wanted, f"worst {worst}: {means[worst]}", means[worst].mean <= 0.04)


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
        ece = over_seeds(runs, "ece")
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
