"""What one cell of the experiment is, which cells an experiment has, how they are measured, and what is on file.

Cells that share data set, method and seed share one training, and methods that share work are measured
together: they are a unit of work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.openset.methods import ENTRIES, UNKNOWN, Outcome, Setup
from benchmarks.openset.sets import SETTINGS, Problem, problem
from benchmarks.records import Record, failure, lines, versions
from stream_osr import evaluation

DISCOVERY = ("USPS", "PENDIGITS")
"""The data sets whose discovery tables the paper prints."""

BATCH = 64
"""Instances that methods in order decide together."""

OPTIONS = ("decision_delay", "test_share")


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
    test_share
        Of the test part, a random choice.
    """

    dataset: str
    n_unknown: int
    method: str
    batch_size: int | Literal["full"] | None
    seed: int
    decision_delay: int = 0
    test_share: float = 1.0

    def __str__(self) -> str:
        return f"{self.dataset} with {self.n_unknown} unknown classes, {self.method}, seed {self.seed}"

    def as_record(self) -> Record:
        """Return the fields for the results file."""
        record = asdict(self)
        record["options"] = {name: record.pop(name) for name in OPTIONS}
        return record

    @classmethod
    def from_record(cls, record: Record) -> Cell:
        """Read the fields of a record."""
        return cls(
            **{name: record[name] for name in ("dataset", "n_unknown", "method", "batch_size", "seed")},
            **{name: record["options"][name] for name in OPTIONS},
        )

    @property
    def level(self) -> str:
        """Name of the openness."""
        of: dict[int, str] = {n: level for level, n in SETTINGS[self.dataset].n_unknown.items()}
        return of.get(self.n_unknown, f"{self.n_unknown} unknown")

    @property
    def openness(self) -> float:
        """Openness of the problem, in [0, 1)."""
        n_known = SETTINGS[self.dataset].n_known
        return evaluation.openness(n_known, n_known, n_known + self.n_unknown)


def read(path: Path) -> dict[Cell, Record]:
    """Read the latest record of every cell; a line that is not whole counts as not there."""
    found: dict[Cell, Record] = {}
    for record in lines(path):
        record["options"].pop("epsilon", None)  # an option of earlier records, which all have the default
        found[Cell.from_record(record)] = record
    return found


def done(records: Iterable[Record]) -> list[Record]:
    """Leave out the failed."""
    return [record for record in records if record["status"] == "done"]


def plan(
    datasets: Iterable[str],
    levels: Iterable[str],
    methods: Iterable[str],
    seeds: Iterable[int],
    delays: Iterable[int] = (0,),
    shares: Iterable[float] = (1.0,),
) -> list[Cell]:
    """List the cells of an experiment, each once, seed by seed; ``"curve"`` is the level of all numbers of a curve.

    What a method has no use for is left out: one that decides each instance by itself has no batches; the paper's
    takes the whole test part as one; only some can wait; a data set is measured at the levels that it has. Shares of
    the test part other than 1 are the paper's figures 9 to 13: of methods that decide together, at medium openness.
    """
    cells = {}
    for seed, name, method, level, delay, share in product(seeds, datasets, methods, levels, delays, shares):
        entry, setting = ENTRIES[method], SETTINGS[name]
        named = {str(known): n for known, n in setting.n_unknown.items()}
        if share != 1.0 and (entry.kind == "each" or "medium" not in named):
            continue
        for n_unknown in setting.curve if level == "curve" else (named[level],) if level in named else ():
            if share == 1.0 or n_unknown == named["medium"]:
                size: Any = {"in order": BATCH, "whole": "full", "each": None}[entry.kind]
                cells[Cell(name, n_unknown, method, size, seed, delay if entry.waits else 0, share)] = None
    return list(cells)


def units(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Gather the cells that share one training part: of one method, or of methods that are measured together."""
    gathered: dict[tuple[str, int, str], list[Cell]] = {}
    for cell in cells:
        gathered.setdefault((cell.dataset, cell.seed, ENTRIES[cell.method].together or cell.method), []).append(cell)
    return list(gathered.values())


def measure(unit: Sequence[Cell]) -> Iterator[Record]:
    """Measure the cells of a unit, one record each; what goes wrong becomes a failed record, and the rest goes on."""
    by_method: dict[str, list[Cell]] = {}
    for cell in unit:
        by_method.setdefault(cell.method, []).append(cell)
    shared: dict[str, Any] = {"names": tuple(by_method)}
    with threadpool_limits(1):
        for cells in by_method.values():
            yield from _measure_method(cells, shared)


def _measure_method(cells: Sequence[Cell], shared: dict[str, Any]) -> Iterator[Record]:
    """Train once, decide for every cell; what decides instances alone does so once, at the highest openness."""
    first = cells[0]
    entry = ENTRIES[first.method]
    try:
        whole = problem(first.dataset, None, first.seed)
        method = entry.make(Setup(SETTINGS[first.dataset].pca, first.seed, shared))
        method.fit(whole.X_train, whole.group, whole.known)
        once = method.decide(whole.X_test, None, 0) if entry.kind == "each" else None
    except Exception as error:
        yield from [{**cell.as_record(), **failure(error), "versions": versions()} for cell in cells]
        return
    for cell in cells:
        try:
            if once is None:
                tested = problem(cell.dataset, cell.n_unknown, cell.seed, cell.test_share)
                size = len(tested.X_test) if cell.batch_size == "full" else cell.batch_size
                if entry.asks:
                    number = {label: j for j, label in enumerate(tested.known + tested.unknown)}
                    method.answers = np.array([number[label] for label in tested.labels])
                outcome = method.decide(tested.X_test, size, cell.decision_delay)
                per_instance = outcome.seconds / len(tested.X_test)
            else:
                rows = whole.among(cell.n_unknown)
                tested, outcome = whole.only(rows), once.only(rows)
                per_instance = once.seconds / len(whole.X_test)
            merit = figures_of_merit(tested, outcome)
            if cell.dataset not in DISCOVERY or cell.level != "high":  # many numbers, for tables 1 and 2 alone
                merit.pop("discovery", None)
            told = {"chosen": method.chosen, "train_seconds": method.train_seconds}
            found = {"status": "done", **merit, **told, "us_per_instance": 1e6 * per_instance}
        except Exception as error:
            found = failure(error)
        yield {**cell.as_record(), **found, "versions": versions()}


def figures_of_merit(tested: Problem, outcome: Outcome) -> Record:
    """Judge decisions, and scores where the method gives them."""
    report = _counted(tested, outcome.predicted)
    is_unknown = tested.truth == UNKNOWN
    record: Record = {
        "micro_f": report.micro_f,
        "accuracy": report.accuracy,
        "known_recall": report.known_accuracy,
        "unknown_recall": report.unknown_recall,
        **dict.fromkeys(("auroc", "fpr95", "oscr", "ece")),
        "n_train": len(tested.X_train),
        "n_test": len(tested.X_test),
        "counts": report.counts,
    }
    if outcome.score is not None:
        record |= {
            "auroc": evaluation.auroc(outcome.score, is_unknown),
            "fpr95": evaluation.fpr_at_recall(outcome.score, is_unknown),
        }
        if outcome.closest is not None:
            record["oscr"] = evaluation.oscr(outcome.score, is_unknown, outcome.closest == tested.truth)
        if outcome.score_is_probability:
            # rounding of sums, not a claim: the checks of the measures are strict
            p_unknown = np.clip(outcome.score, 0.0, 1.0)
            record["ece"] = evaluation.expected_calibration_error(p_unknown, is_unknown)
            record["reliability"] = evaluation.reliability_curve(p_unknown, is_unknown)._asdict()
    if outcome.discovery is not None:
        record["discovery"] = {**outcome.discovery, "made_of": _made_of(outcome, tested.labels)}
    if outcome.by_epsilon is not None:
        record["by_epsilon"] = {f"{e:g}": _counted(tested, of).micro_f for e, of in outcome.by_epsilon.items()}
    return record


def _counted(tested: Problem, predicted: np.ndarray) -> evaluation.OpenSetReport:
    report = evaluation.OpenSetReport(range(len(tested.known)), UNKNOWN)
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
