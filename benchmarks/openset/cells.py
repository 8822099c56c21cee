"""What one cell of the experiment is, which cells an experiment has, and how cells are measured.

Cells that share data set, method, seed and epsilon share one training, and all comparators of a data set and seed
share theirs: they are a unit of work.
"""

from __future__ import annotations

import platform
import subprocess
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.openset.methods import UNKNOWN, Family, Outcome, kind_of, make
from stream_osr.evaluation import (
    KNOWN_CLASSES,
    PCA_DIMENSIONS,
    UNKNOWN_CLASSES,
    OpenSetReport,
    auroc,
    expected_calibration_error,
    load,
    openness,
    reliability_curve,
    split,
)

Level = Literal["closed", "medium", "high"]
LEVELS: tuple[Level, ...] = ("closed", "medium", "high")

MAX_TRAINING = 5000
"""Training instances kept of each class, for every method: the recognizer's own default. Only SHUTTLE has more."""


class Setting(NamedTuple):
    """How a data set is used.

    Attributes
    ----------
    n_known
        Number of known classes.
    n_unknown
        Number of unknown classes at each level of openness that the set is measured at.
    pca
        Principal components of the training part that every method works on, or None: the features as they are.
    known
        The known classes, where they are not drawn from the seed.
    """

    n_known: int
    n_unknown: dict[Level, int]
    pca: int | None = None
    known: tuple[int, ...] | None = None


SETTINGS: dict[str, Setting] = {
    **{
        name: Setting(
            n_known,
            {"closed": 0, "medium": UNKNOWN_CLASSES[name][0], "high": UNKNOWN_CLASSES[name][1]},
            PCA_DIMENSIONS.get(name),
        )
        for name, n_known in KNOWN_CLASSES.items()
    },
    "SATIMAGE": Setting(3, {"closed": 0, "high": 3}),
    "SHUTTLE": Setting(3, {"closed": 0, "high": 4}, known=(1, 4, 5)),  # its three most frequent classes
}


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
    """

    dataset: str
    n_unknown: int
    method: str
    batch_size: int | Literal["full"] | None
    seed: int
    decision_delay: int = 0
    epsilon: float | None = None

    def __str__(self) -> str:
        parts = [f"{self.dataset} with {self.n_unknown} unknown classes", self.method]
        if self.batch_size is not None:
            parts.append(f"batch {self.batch_size}")
        if self.decision_delay:
            parts.append(f"delay {self.decision_delay}")
        if self.epsilon is not None:
            parts.append(f"epsilon {self.epsilon:g}")
        return ", ".join([*parts, f"seed {self.seed}"])

    def as_record(self) -> dict[str, Any]:
        """Return the fields for the results file."""
        record = asdict(self)
        record["options"] = {name: record.pop(name) for name in ("decision_delay", "epsilon")}
        return record

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Cell:
        """Read the fields of a record."""
        return cls(
            **{name: record[name] for name in ("dataset", "n_unknown", "method", "batch_size", "seed")},
            **record["options"],
        )

    @property
    def level(self) -> str:
        """Name of the openness."""
        of = {n: level for level, n in SETTINGS[self.dataset].n_unknown.items()}
        return of.get(self.n_unknown, f"{self.n_unknown} unknown")

    @property
    def openness(self) -> float:
        """Openness of the problem, in [0, 1)."""
        n_known = SETTINGS[self.dataset].n_known
        return openness(n_known, n_known, n_known + self.n_unknown)


def plan(
    datasets: Iterable[str],
    levels: Iterable[Level],
    methods: Iterable[str],
    batch_sizes: Sequence[int | Literal["full"]],
    seeds: Iterable[int],
    delays: Iterable[int] = (0,),
    epsilons: Iterable[float | None] = (None,),
) -> list[Cell]:
    """List the cells of an experiment, each once.

    What a method has no use for is left out: comparators decide one by one; the paper's algorithm takes the whole
    test part as one batch; only ours can wait; a data set is measured at the levels that it has.
    """
    cells = {}
    for name, method, seed, epsilon, level, size, delay in product(
        datasets, methods, seeds, epsilons, levels, batch_sizes, delays
    ):
        kind = kind_of(method)
        if level in SETTINGS[name].n_unknown:
            cell = Cell(
                dataset=name,
                n_unknown=SETTINGS[name].n_unknown[level],
                method=method,
                batch_size={"stream": size, "cocluster": "full", "comparator": None}[kind],
                seed=seed,
                decision_delay=delay if kind == "stream" else 0,
                epsilon=None if kind == "comparator" else epsilon,
            )
            cells[cell] = None
    return list(cells)


def units(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Gather the cells that share one training part: of one method, or of all comparators."""

    def shared(cell: Cell) -> tuple[str, int, str, float]:
        kind = kind_of(cell.method)
        method = kind if kind == "comparator" else cell.method
        return cell.dataset, cell.seed, method, -1.0 if cell.epsilon is None else cell.epsilon

    gathered: dict[tuple[str, int, str, float], list[Cell]] = {}
    for cell in cells:
        gathered.setdefault(shared(cell), []).append(cell)
    return list(gathered.values())


class Problem(NamedTuple):
    """A training part and the test part of one openness.

    Attributes
    ----------
    X_train, group
        Training instances and class numbers, 0 to J - 1.
    X_test, truth
        Test instances and class numbers, ``UNKNOWN`` for unknown classes.
    labels
        Labels of the test instances in the data set.
    known
        Labels of the known classes, by number.
    """

    X_train: np.ndarray
    group: np.ndarray
    X_test: np.ndarray
    truth: np.ndarray
    labels: list[Any]
    known: tuple[Any, ...]


def problem(dataset: str, n_unknown: int, seed: int) -> Problem:
    """Lay out a problem; the training part depends on the seed alone."""
    setting = SETTINGS[dataset]
    data = load(dataset)
    part = split(data.X, data.y, setting.n_known, n_unknown, seed, known=setting.known)
    number = {label: j for j, label in enumerate(part.known)}
    group = np.array([number[label] for label in part.y_train.tolist()])
    kept = np.sort(np.concatenate([np.flatnonzero(group == j)[:MAX_TRAINING] for j in range(len(number))]))
    labels = part.y_test.tolist()
    truth = np.array([number.get(label, UNKNOWN) for label in labels])
    return Problem(part.X_train[kept], group[kept], part.X_test, truth, labels, tuple(part.known))


def measure(unit: Sequence[Cell]) -> Iterator[dict[str, Any]]:
    """Measure the cells of a unit, one record each; what goes wrong becomes a failed record, and the rest goes on."""
    by_method: dict[str, list[Cell]] = {}
    for cell in unit:
        by_method.setdefault(cell.method, []).append(cell)
    family = Family([name for name in by_method if kind_of(name) == "comparator"], unit[0].seed)
    with threadpool_limits(1):
        for cells in by_method.values():
            yield from _measure_method(cells, family)


def _measure_method(cells: Sequence[Cell], family: Family) -> Iterator[dict[str, Any]]:
    """Train once, decide for every cell."""
    first = cells[0]
    try:
        given = problem(first.dataset, 0, first.seed)
        method = make(first.method, SETTINGS[first.dataset].pca, first.seed, first.epsilon, family)
        method.fit(given.X_train, given.group, given.known)
    except Exception as error:
        yield from [_failed(cell, error) for cell in cells]
        return
    for cell in cells:
        try:
            tested = problem(cell.dataset, cell.n_unknown, cell.seed)
            size = len(tested.X_test) if cell.batch_size == "full" else cell.batch_size
            outcome = method.decide(tested.X_test, size, cell.decision_delay)
            record = {
                **cell.as_record(),
                "status": "done",
                **figures_of_merit(tested, outcome),
                "train_seconds": method.train_seconds,
                "us_per_instance": 1e6 * outcome.seconds / len(tested.X_test),
                "versions": versions(),
            }
        except Exception as error:
            record = _failed(cell, error)
        yield record


def figures_of_merit(tested: Problem, outcome: Outcome) -> dict[str, Any]:
    """Judge decisions, and scores where the method gives them."""
    report = OpenSetReport(range(len(tested.known)), UNKNOWN)
    report.update_many(tested.truth.tolist(), outcome.predicted.tolist())
    is_unknown = tested.truth == UNKNOWN
    record: dict[str, Any] = {
        "micro_f": report.micro_f,
        "accuracy": report.accuracy,
        "known_recall": report.known_accuracy,
        "unknown_recall": report.unknown_recall,
        "auroc": None if outcome.score is None else auroc(outcome.score, is_unknown),
        "ece": None,
        "n_train": len(tested.X_train),
        "n_test": len(tested.X_test),
        "counts": report.counts,
    }
    if outcome.score_is_probability and outcome.score is not None:
        # rounding of sums, not a claim: the checks of the measures are strict
        p_unknown = np.clip(outcome.score, 0.0, 1.0)
        record["ece"] = expected_calibration_error(p_unknown, is_unknown)
        record["reliability"] = reliability_curve(p_unknown, is_unknown)._asdict()
    if outcome.discovery is not None:
        record["discovery"] = {**outcome.discovery, "made_of": _made_of(outcome, tested.labels)}
    return record


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
    """Versions of everything that the figures depend on."""
    found = {"python": platform.python_version()}
    for name in ("stream-osr", "numpy", "scipy", "numba", "scikit-learn"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    try:
        command = ["git", "describe", "--always", "--dirty"]
        here = Path(__file__).parent
        git = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True, timeout=10)
        found["revision"] = git.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        pass  # not a checkout
    return found
