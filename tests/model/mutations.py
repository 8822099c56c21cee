"""Break the library on purpose, one change at a time, and see which tests notice.

``python -m tests.model.mutations`` runs tests on a copy of the sources for every mutation below and prints the table
of ``benchmarks/results/mutations.md`` (a minute for each change in ``model``: what depends on it is compiled anew;
run the tests once before). Names of mutations as arguments select some of them; a run ends after three failures. A
mutation whose place in the sources has changed is reported as such.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
COPIED = ["stream_osr", "connectors", "benchmarks", "tests", "pyproject.toml"]
STATISTICAL = ("exact_posterior", "joint_distribution")
JUDGES = {
    "training/coordinates.py": ("model/test_filling",),
    "training/dependent.py": ("model/test_runs",),
    "training/members.py": ("test_alarms", "model/test_modes"),
    "model/class_runs.py": ("model/test_class_runs",),
    "model/background_components.py": ("broad", "categories_together", "truths"),
    "model/gaussian.py": ("gaussian", "dishes", "known"),
    "model/feature_space/imputation.py": ("model/test_filling",),
    "model/modes.py": ("model/test_modes",),
    "model/student_t.py": ("categories", "known", "broad"),
    "model/marginal.py": ("marginal", "categories_together"),
    "model/noise.py": ("categories_together", "strangers"),
    "model/unassigned.py": ("categories_together", "strangers"),
    "model/responsibilities.py": ("test_kinds", "categories_together"),
    "model/missing_features.py": ("completing", "categories_together"),
    "model/transfer.py": ("test_kinds",),
    "model/feature_space/whitening.py": ("categories", "flags", "space", "scatter"),
    "model/feature_space/bounded_scatter.py": ("scatter",),
    "model/feature_space/mixed_whitening.py": ("categories", "flags"),
    "model/feature_space/binary_features.py": ("flags",),
    "model/moves/hyperparameters.py": ("base_measure", "categories", "truths", "concentration", *STATISTICAL),
    "discovery/event_base.py": ("test_kinds",),
    "discovery/explain.py": ("test_kinds",),
    "discovery/reconcile.py": ("discovery/test_reconcile", "categories_together"),
    "model/dish_statistics.py": ("gaussian", "dishes", "known", "categories"),
    "model/categories.py": ("gaussian", "dishes", "categories", "categories_together"),
    "model/restaurants.py": ("franchise", "seating", "exact_posterior", "stream", "counts"),
    "model/moves/seating.py": ("seating", "likelihood", "stream", *STATISTICAL),
    "model/moves/predictive_cache.py": ("likelihood", "stream"),
    "model/moves/sweeps.py": ("stream", *STATISTICAL),
    "model/moves/splitting.py": ("splitting", *STATISTICAL),
    "model/known.py": ("known", "training", "categories_together", "broad", "truths"),
    "model/sampler.py": ("stream", "truths"),
    "model/edit.py": ("counts",),
    "model/training.py": ("training", "categories_together", "base_measure", "truths"),
    "trust/balance.py": ("test_balance", "test_guard", "test_trust"),
    "trust/known_shares.py": ("test_balance", "test_guard", "test_trust"),
    "trust/false_unknown_bound.py": ("test_conformal",),
    "stream/reference_check.py": ("test_guard", "test_trust"),
    "stream/subclass_owners.py": ("test_guard", "test_trust"),
    "stream/chain.py": ("test_guard", "test_trust"),
    "trust/unseen_densities.py": ("test_references", "test_groups", "test_order", "test_trust"),
    "trust/recall.py": ("test_groups", "test_recall"),
    "training/trained.py": ("test_references", "test_trust"),
    "model/dependence.py": ("dependence", "test_order"),
    "model/offset_fit.py": ("shared_offset",),
    "model/offset_sums.py": ("shared_offset",),
    "model/class_places.py": ("shared_offset",),
    "model/shared_offset.py": ("shared_offset",),
    "trust/density_levels.py": ("test_typical",),
    "stream/frame.py": ("test_frame",),
    "stream/subclass_changes.py": ("test_frame",),
    "stream/arrival_order.py": ("test_order",),
    "stream/odd_columns.py": ("test_odd_columns",),
}
"""The test modules that run for a change in each source."""
ENOUGH = 3
"""So many failures end a run."""


class Mutation(NamedTuple):
    """In ``file`` (in ``stream_osr``) ``old`` becomes ``new``."""

    name: str
    file: str
    old: str
    new: str


TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
"""Of each source: what stands in one place, and what becomes of it."""

MUTATIONS = [Mutation(name, file, **change) for file, own in TABLE.items() for name, change in own.items()]


def run(mutation: Mutation, root: Path) -> list[str]:
    """Names of the test functions that fail on a copy with the mutation."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy = Path(folder) / "copy"
        for name in COPIED:
            source = root / name
            if source.is_dir():
                # what is compiled and cannot reach the change as well
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("results"))
            else:
                shutil.copy(source, copy / name)
        path = copy / "stream_osr" / mutation.file
        text = path.read_text()
        if text.count(mutation.old) != 1:
            return [f"NOT APPLIED: found {text.count(mutation.old)} times in {mutation.file}"]
        path.write_text(text.replace(mutation.old, mutation.new))
        environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
        judges = [judge(name) for name in JUDGES[mutation.file]]
        command = [sys.executable, "-m", "pytest", *judges, "-q", f"--maxfail={ENOUGH}", "-p", "no:cacheprovider"]
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=3600
        )
        failed = re.findall(r"^(?:FAILED|ERROR) tests/(?:\w+/)?(\w+)\.py::(\w+)", done.stdout, re.MULTILINE)
        if not failed and done.returncode:
            return [f"pytest ended with {done.returncode}: {done.stdout[-300:]}"]
        return sorted({f"{module}::{test}" for module, test in failed})


def judge(name: str) -> str:
    return f"tests/{name}.py" if "test_" in name else f"tests/model/test_{name}.py"


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", help="mutations to run (default: all)")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--root", type=Path, default=ROOT, help="sources to mutate")
    options = parser.parse_args(arguments)
    chosen = [m for m in MUTATIONS if not options.names or m.name in options.names]
    survivors = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutation, caught in zip(chosen, pool.map(lambda m: run(m, options.root), chosen), strict=True):
            survivors += not caught or caught[0].startswith("NOT APPLIED")
            sys.stdout.write(f"| {mutation.name} | {mutation.file} | {', '.join(caught) or 'SURVIVED'} |\n")
            sys.stdout.flush()
    return survivors


if __name__ == "__main__":
    sys.exit(main())
