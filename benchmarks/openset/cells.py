"""What one cell of the experiment is, which cells an experiment has, and how cells are measured.

Cells that share data set, method, seed and epsilon share one training, and methods that share work are measured
together: they are a unit of work.
"""

from __future__ import annotations

import os
import platform
import subprocess
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.openset.methods import ENTRIES, UNKNOWN, Outcome, Setup
from benchmarks.openset.sets import SETTINGS, Problem, problem
from benchmarks.written import commit, git
from stream_osr.evaluation import (
    OpenSetReport,
    auroc,
    expected_calibration_error,
    fpr_at_recall,
    openness,
    oscr,
    reliability_curve,
)

DISCOVERY = ("USPS", "PENDIGITS")
"""The data sets whose discovery tables the paper prints."""

OPTIONS = ("decision_delay", "epsilon", "test_share")


@dataclass(frozen=True)
class Cell:
    """One measurement.

    Attributes
    ----------
    dataset, n_unknown, seed
        What is recognised: data set, number of unknown classes in its test part, seed of the split and the method.
    method
        One of `methods.names`.
    batch_size
        Instances decided together, "full" for the whole test part; None for methods that decide one by one.
    decision_delay
        Instances that a decision may wait for.
    epsilon
        Share of its class below which a known subclass is dropped; None: the method's default.
    test_share
        Of the test part, a random choice.
    """

    dataset: str
    n_unknown: int | None
    method: str
    batch_size: int | Literal["full"] | None
    seed: int
    decision_delay: int = 0
    epsilon: float | None = None
    test_share: float = 1.0

    def __str__(self) -> str:
        unknown = "all" if self.n_unknown is None else self.n_unknown
        parts = [f"{self.dataset} with {unknown} unknown classes", self.method]
        if self.batch_size is not None:
            parts.append(f"batch {self.batch_size}")
        if self.decision_delay:
            parts.append(f"delay {self.decision_delay}")
        if self.epsilon is not None:
            parts.append(f"epsilon {self.epsilon:g}")
        if self.test_share != 1.0:
            parts.append(f"{self.test_share:.0%} of the test part")
        return ", ".join([*parts, f"seed {self.seed}"])

    def as_record(self) -> dict[str, Any]:
        """Return the fields for the results file."""
        record = asdict(self)
        record["options"] = {name: record.pop(name) for name in OPTIONS}
        return record

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Cell:
        """Read the fields of a record."""
        return cls(
            **{name: record[name] for name in ("dataset", "n_unknown", "method", "batch_size", "seed")},
            **record["options"],
        )

    @property
    def is_discovery(self) -> bool:
        """Whether the record says which subclasses were found: many numbers, for tables 1 and 2 alone."""
        return self.dataset in DISCOVERY and self.level == "high"

    @property
    def level(self) -> str:
        """Name of the openness."""
        of = {n: level for level, n in SETTINGS[self.dataset].n_unknown.items()}
        return of.get(self.n_unknown, f"{self.n_unknown} unknown")

    @property
    def openness(self) -> float:
        """Openness of the problem, in [0, 1); nan where the classes depend on the table."""
        n_known = SETTINGS[self.dataset].n_known
        if n_known is None or self.n_unknown is None:
            return float("nan")
        return openness(n_known, n_known, n_known + self.n_unknown)


def plan(
    datasets: Iterable[str],
    levels: Iterable[str],
    methods: Iterable[str],
    batch_sizes: Sequence[int | Literal["full"]],
    seeds: Iterable[int],
    delays: Iterable[int] = (0,),
    epsilons: Iterable[float | None] = (None,),
    shares: Iterable[float] = (1.0,),
) -> list[Cell]:
    """List the cells of an experiment, each once, seed by seed; ``"curve"`` is the level of all numbers of a curve.

    What a method has no use for is left out: one that decides each instance by itself has no batches; the paper's
    takes the whole test part as one; only some can wait; a data set is measured at the levels that it has. Shares of
    the test part other than 1 are the paper's figures 9 to 13: of methods that decide together, at medium openness.
    """
    cells = {}
    for seed, name, method, epsilon, level, size, delay, share in product(
        seeds, datasets, methods, epsilons, levels, batch_sizes, delays, shares
    ):
        entry, setting = ENTRIES[method], SETTINGS[name]
        named = {str(known): n for known, n in setting.n_unknown.items()}
        if share != 1.0 and (entry.kind == "each" or "medium" not in named):
            continue
        for n_unknown in setting.curve if level == "curve" else (named[level],) if level in named else ():
            if share != 1.0 and n_unknown != named["medium"]:
                continue
            cell = Cell(
                dataset=name,
                n_unknown=n_unknown,
                method=method,
                batch_size={"in order": size, "whole": "full", "each": None}[entry.kind],  # type: ignore[arg-type]
                seed=seed,
                decision_delay=delay if entry.waits else 0,
                epsilon=epsilon if entry.prunes else None,
                test_share=share,
            )
            cells[cell] = None
    return list(cells)


def units(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Gather the cells that share one training part: of one method, or of methods that are measured together."""

    def shared(cell: Cell) -> tuple[str, int, str, float]:
        together = ENTRIES[cell.method].together or cell.method
        return cell.dataset, cell.seed, together, -1.0 if cell.epsilon is None else cell.epsilon

    gathered: dict[tuple[str, int, str, float], list[Cell]] = {}
    for cell in cells:
        gathered.setdefault(shared(cell), []).append(cell)
    return list(gathered.values())


def measure(unit: Sequence[Cell]) -> Iterator[dict[str, Any]]:
    """Measure the cells of a unit, one record each; what goes wrong becomes a failed record, and the rest goes on."""
    by_method: dict[str, list[Cell]] = {}
    for cell in unit:
        by_method.setdefault(cell.method, []).append(cell)
    shared: dict[str, Any] = {"names": tuple(by_method)}
    with threadpool_limits(1):
        for cells in by_method.values():
            yield from _measure_method(cells, shared)


def _measure_method(cells: Sequence[Cell], shared: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Train once, decide for every cell; what decides instances alone does so once, at the highest openness."""
    first = cells[0]
    entry = ENTRIES[first.method]
    try:
        whole = problem(first.dataset, None, first.seed)
        method = entry.make(Setup(SETTINGS[first.dataset].pca, first.seed, first.epsilon, shared))
        method.fit(whole.X_train, whole.group, whole.known)
        once = method.decide(whole.X_test, None, 0) if entry.kind == "each" else None
    except Exception as error:
        yield from [_failed(cell, error) for cell in cells]
        return
    for cell in cells:
        try:
            tested = problem(cell.dataset, cell.n_unknown, cell.seed, cell.test_share)
            if once is None:
                size = len(tested.X_test) if cell.batch_size == "full" else cell.batch_size
                if entry.asks:
                    method.answers = answers(tested)
                outcome = method.decide(tested.X_test, size, cell.decision_delay)
                per_instance = outcome.seconds / len(tested.X_test)
            else:
                tested, outcome = _part(whole, once, cell)
                per_instance = once.seconds / len(whole.X_test)
            merit = figures_of_merit(tested, outcome)
            if not cell.is_discovery:
                merit.pop("discovery", None)
            record = {
                **cell.as_record(),
                "status": "done",
                **merit,
                "chosen": method.chosen,
                "train_seconds": method.train_seconds,
                "us_per_instance": 1e6 * per_instance,
                "versions": versions(),
            }
        except Exception as error:
            record = _failed(cell, error)
        yield record


def _part(whole: Problem, outcome: Outcome, cell: Cell) -> tuple[Problem, Outcome]:
    """Leave out the unknown classes that a cell has not; of methods that decide each instance by itself."""
    if cell.test_share != 1.0:
        raise ValueError(f"{cell.method} decides each instance by itself: a share of the test part tells nothing new")
    rows = whole.among(cell.n_unknown)
    score, closest = (None if each is None else each[rows] for each in (outcome.score, outcome.closest))
    return whole.only(rows), outcome._replace(predicted=outcome.predicted[rows], score=score, closest=closest)


def answers(tested: Problem) -> np.ndarray:
    """Class numbers of the test part, those of unknown classes beyond the known ones."""
    number = {label: j for j, label in enumerate(tested.known + tested.unknown)}
    return np.array([number[label] for label in tested.labels])


def figures_of_merit(tested: Problem, outcome: Outcome) -> dict[str, Any]:
    """Judge decisions, and scores where the method gives them."""
    report = _counted(tested, outcome.predicted)
    is_unknown = tested.truth == UNKNOWN
    record: dict[str, Any] = {
        "micro_f": report.micro_f,
        "accuracy": report.accuracy,
        "known_recall": report.known_accuracy,
        "unknown_recall": report.unknown_recall,
        "auroc": None,
        "fpr95": None,
        "oscr": None,
        "ece": None,
        "n_train": len(tested.X_train),
        "n_test": len(tested.X_test),
        "counts": report.counts,
    }
    if outcome.score is not None:
        record |= {"auroc": auroc(outcome.score, is_unknown), "fpr95": fpr_at_recall(outcome.score, is_unknown)}
        if outcome.closest is not None:
            record["oscr"] = oscr(outcome.score, is_unknown, outcome.closest == tested.truth)
        if outcome.score_is_probability:
            # rounding of sums, not a claim: the checks of the measures are strict
            p_unknown = np.clip(outcome.score, 0.0, 1.0)
            record["ece"] = expected_calibration_error(p_unknown, is_unknown)
            record["reliability"] = reliability_curve(p_unknown, is_unknown)._asdict()
    if outcome.discovery is not None:
        record["discovery"] = {**outcome.discovery, "made_of": _made_of(outcome, tested.labels)}
    if outcome.by_epsilon is not None:
        record["by_epsilon"] = {f"{e:g}": _counted(tested, of).micro_f for e, of in outcome.by_epsilon.items()}
    return record


def _counted(tested: Problem, predicted: np.ndarray) -> OpenSetReport:
    report = OpenSetReport(range(len(tested.known)), UNKNOWN)
    report.update_many(tested.truth.tolist(), predicted.tolist())
    return report


def _made_of(outcome: Outcome, labels: Sequence[Any]) -> dict[int, tuple[Any, float]]:
    """Most frequent true label, and its share, of the instances decided into each emerging subclass."""
    assert outcome.subclass is not None
    members: dict[int, Counter[Any]] = {}
    for key, label, predicted in zip(outcome.subclass.tolist(), labels, outcome.predicted.tolist(), strict=True):
        if predicted == UNKNOWN and key >= 0:
            members.setdefault(key, Counter())[label] += 1
    tops = {key: counter.most_common(1)[0] for key, counter in members.items()}
    return {key: (label, n / members[key].total()) for key, (label, n) in sorted(tops.items())}


def _failed(cell: Cell, error: Exception) -> dict[str, Any]:
    where = "".join(traceback.format_tb(error.__traceback__)[-2:])
    return {
        **cell.as_record(),
        "status": "failed",
        "error": f"{type(error).__name__}: {error}",
        "where": where.replace(str(Path(__file__).parents[2]), "."),
        "versions": versions(),
    }


@cache
def versions() -> dict[str, str]:
    """Versions of everything that the figures depend on: packages, machine, revision, and the library's own tree."""
    found = {"python": platform.python_version(), "machine": f"{platform.machine()}, {os.cpu_count()} cores"}
    for name in ("stream-osr", "numpy", "scipy", "numba", "scikit-learn"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    with suppress(OSError, subprocess.SubprocessError):  # not a checkout
        found |= {"revision": commit(), "library": git("rev-parse", "--short=12", "HEAD:stream_osr")}
    return found
