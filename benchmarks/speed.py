"""What a decision costs: python -m benchmarks.speed [--setting NAME] [--json FILE].

Microseconds an instance, one core, medians over repeated runs in one process, beside two yardsticks of the same run:
the "floor", the plain product ``X @ W`` with the stacked inverse Cholesky factors of the known subclasses and the
prior, and "plain", a compiled step without any of the algebra (:mod:`benchmarks.plain`).
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_info, threadpool_limits

from benchmarks.plain import plain_step
from stream_osr import OpenSetRecognizer
from stream_osr.config import Parameters, parameters
from stream_osr.evaluation import load, split
from stream_osr.features import Features
from stream_osr.model import step as sampler
from stream_osr.model.space import whiten
from stream_osr.trained import TrainedModel, train_model

REPEATS = 5
SEED = 0


class Setting(NamedTuple):
    """A stream: data set, known and unknown classes, principal components, micro-batch."""

    dataset: str
    n_known: int
    n_unknown: int
    pca: int | None
    batch: int


STEPS = {
    "LETTER-256": Setting("LETTER", 10, 16, None, 256),
    "LETTER-64": Setting("LETTER", 10, 16, None, 64),
    "USPS-256": Setting("USPS", 5, 5, 39, 256),
    "USPS-64": Setting("USPS", 5, 5, 39, 64),
}
OTHERS = ("defaults", "calls", "frame", "training", "start")


class Problem(NamedTuple):
    """A trained model, the rows of its stream (raw and whitened), and how both were made."""

    trained: TrainedModel
    raw: np.ndarray
    rows: np.ndarray
    parameters: Parameters


def problem(setting: Setting, **chosen: Any) -> Problem:
    """Train on the known classes; all rows of the test part, a USPS of both provider's parts, are the stream."""
    data = load(setting.dataset)
    part = split(data.X, data.y, setting.n_known, setting.n_unknown, SEED)
    number = {label: j for j, label in enumerate(part.known)}
    group = np.array([number[label] for label in part.y_train.tolist()])
    p = parameters(seed=SEED, pca_components=setting.pca, n_jobs=1, **chosen)
    trained = train_model(Features(range(data.X.shape[1])), part.X_train, group, tuple(part.known), p)
    raw = np.asarray(part.X_test, dtype=float)
    return Problem(trained, raw, whiten(trained.space, raw), p)


def median(run: Callable[[], float], repeats: int = REPEATS) -> float:
    """Median of repeated runs, the first (it may compile) left out."""
    run()
    return float(np.median([run() for _ in range(repeats)]))


def floor(given: Problem, batch: int) -> Callable[[], float]:
    """Time the product with the stacked inverse Cholesky factors, microseconds an instance."""
    known, d = given.trained.known, given.rows.shape[1]
    factors = []
    for matrix in known.dishes.matrix:
        scatter = matrix[:d, :d] - np.outer(matrix[:d, d], matrix[:d, d]) / matrix[d, d]
        factors.append(np.linalg.inv(np.linalg.cholesky(scatter)))
    stacked = np.ascontiguousarray(np.vstack([*factors, np.eye(d) / np.sqrt(known.prior.psi)]).T)
    rows = given.rows

    def run() -> float:
        begin = time.perf_counter()
        for at in range(0, len(rows), batch):
            rows[at : at + batch] @ stacked
        return 1e6 * (time.perf_counter() - begin) / len(rows)

    return run


def step(given: Problem, batch: int) -> Callable[[], float]:
    """Time the library's step."""
    trained, rows, p = given.trained, given.rows, given.parameters
    known, frozen = trained.known, trained.densities[0]
    settings = sampler.Settings(p.sweeps, p.window, p.half_life)

    def run() -> float:
        state = sampler.open_stream(known, frozen)
        begin = time.perf_counter()
        for number, at in enumerate(range(0, len(rows), batch)):
            rng = np.random.default_rng([SEED, number])
            state, _ = sampler.step(known, frozen, state, rows[at : at + batch], rng, settings)
        return 1e6 * (time.perf_counter() - begin) / len(rows)

    return run


def plain(given: Problem, batch: int) -> Callable[[], float]:
    """Time the plain step, on the first 4000 instances."""
    rows = given.rows[:4000]
    known, frozen = given.trained.known, given.trained.densities[0]
    settings = sampler.Settings(given.parameters.sweeps, 0, given.parameters.half_life)

    def run() -> float:
        state = sampler.open_stream(known, frozen)
        begin = time.perf_counter()
        for number, at in enumerate(range(0, len(rows), batch)):
            rng = np.random.default_rng([SEED, number])
            state, _ = plain_step(known, frozen, state, rows[at : at + batch], rng, settings)
        return 1e6 * (time.perf_counter() - begin) / len(rows)

    return run


def measure_step(name: str) -> dict[str, Any]:
    """Floor, plain step and the library's step of one setting, in turn."""
    setting = STEPS[name]
    given = problem(setting, chains=1, window=0)
    timings = {"floor": floor(given, setting.batch), "step": step(given, setting.batch)}
    runs: dict[str, list[float]] = {key: [] for key in timings}
    for number in range(REPEATS + 1):
        for key, run in timings.items():
            value = run()
            if number:
                runs[key].append(value)
    found = {key: float(np.median(values)) for key, values in runs.items()}
    found["plain"] = median(plain(given, setting.batch), 1)
    return {
        "setting": name,
        "subclasses": len(given.trained.known.ids),
        "floor_us": found["floor"],
        "plain_us": found["plain"],
        "step_us": found["step"],
        "floors": found["step"] / found["floor"],
        "times_plain": found["plain"] / found["step"],
    }


def measure_defaults() -> list[dict[str, Any]]:
    """Time the step with the default window, one chain."""
    out = []
    for name, setting in STEPS.items():
        given = problem(setting, chains=1)
        us = median(step(given, setting.batch), 2)
        out.append({"setting": f"{name}, window 256, one chain", "step_us": us})
    return out


def recognizer(given: Problem, **arguments: Any) -> OpenSetRecognizer:
    """Make a recognizer over the trained model of a problem."""
    return OpenSetRecognizer.from_trained(given.trained, seed=SEED, n_jobs=1, **arguments)


def percentile(calls: list[Callable[[], Any]], share: float = 50.0) -> float:
    """Percentile of the microseconds that a call takes."""
    took = []
    for call in calls:
        begin = time.perf_counter_ns()
        call()
        took.append(time.perf_counter_ns() - begin)
    return float(np.percentile(took, share)) / 1e3


def measure_calls() -> list[dict[str, Any]]:
    """`predict_one` (probabilities) and `learn_one` of an unlabelled instance, through the class, LETTER."""
    given = problem(STEPS["LETTER-64"], chains=1, window=0)
    model = recognizer(given, chains=1, window=0)
    dicts = [dict(enumerate(row)) for row in given.raw[:6000].tolist()]
    for x in dicts[:3000]:
        model.learn_one(x)
    model.predict_proba_one(dicts[0])
    slots = len(given.trained.known.ids) + len(model.value.stream.state.ids) if model.value.stream else 0
    ask = [lambda x=x: model.predict_proba_one(x) for x in dicts[3000:]]
    full = recognizer(given)
    full.predict_proba_one(dicts[0])
    learn = recognizer(given, chains=1, batch_size=10**6)
    return [
        {"setting": f"predict_proba_one, {slots} subclasses, one chain: p50", "us": percentile(ask)},
        {
            "setting": "predict_proba_one, defaults, fresh stream: p50",
            "us": percentile([lambda x=x: full.predict_proba_one(x) for x in dicts[3000:]]),
        },
        {
            "setting": "learn_one, buffering alone: p50",
            "us": percentile([lambda x=x: learn.learn_one(x) for x in dicts]),
        },
    ]


def measure_frame() -> list[dict[str, Any]]:
    """`learn_many` of a frame of 100 000 rows against the bare step on the same rows."""
    setting = STEPS["LETTER-256"]
    given = problem(setting, chains=1, window=0)
    many = np.resize(given.raw, (100_000, given.raw.shape[1]))
    frame = pd.DataFrame(many, columns=list(range(many.shape[1])))
    bare = median(step(given._replace(rows=whiten(given.trained.space, many)), setting.batch), 1)

    def run() -> float:
        model = recognizer(given, chains=1, window=0, batch_size=setting.batch)
        begin = time.perf_counter()
        model.learn_many(frame)
        return 1e6 * (time.perf_counter() - begin) / len(many)

    us = median(run, 1)
    return [{"setting": "learn_many, 100 000 rows", "us": us, "bare_us": bare, "ratio": us / bare}]


def measure_training() -> list[dict[str, Any]]:
    """Training on LETTER's ten known classes with the defaults, one thread."""

    def run() -> float:
        begin = time.perf_counter()
        problem(STEPS["LETTER-64"])
        return time.perf_counter() - begin

    return [{"setting": "training, LETTER, defaults", "seconds": median(run, 2)}]


START = """
import time; begin = time.perf_counter()
import numpy as np
from stream_osr import OpenSetRecognizer
model = OpenSetRecognizer.load({path!r})
for i in range(64):
    model.learn_one(dict(enumerate(np.random.default_rng(i).normal(7, 2, 16).tolist())))
list(model.drain())
print(time.perf_counter() - begin)
"""


def measure_start(folder: Path) -> list[dict[str, Any]]:
    """Time a new process: import, load, first batch; compiled before."""
    path = folder / "speed.osr"
    recognizer(problem(STEPS["LETTER-64"])).save(path)

    def run() -> float:
        code = START.format(path=str(path))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return float(done.stdout)

    return [{"setting": "import, load and first batch, warm cache", "seconds": median(run, 3)}]


def machine() -> dict[str, Any]:
    """Say what it ran on."""
    blas = [
        f"{each['internal_api']} {each['version']}, {each['num_threads']} thread(s)" for each in threadpool_info()
    ]
    return {
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "blas": blas,
    }


def measure(setting: str) -> list[dict[str, Any]]:
    """Measure one setting, or all; nothing if there is none of that name."""
    found: list[dict[str, Any]] = [measure_step(name) for name in STEPS if setting in (name, "all")]
    rest = {
        "defaults": measure_defaults,
        "calls": measure_calls,
        "frame": measure_frame,
        "training": measure_training,
    }
    for name, run in rest.items():
        if setting in (name, "all"):
            found += run()
    if setting in ("start", "all"):
        with tempfile.TemporaryDirectory() as folder:
            found += measure_start(Path(folder))
    return found


def main(
    setting: Annotated[str, typer.Option(help=f"One of {', '.join((*STEPS, *OTHERS))}, or all.")] = "all",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure and print."""
    console = Console()
    with threadpool_limits(1):
        found, ran_on = measure(setting), machine()
    if not found:
        raise typer.BadParameter(f"no setting {setting!r}; expected one of {', '.join((*STEPS, *OTHERS))}, or all")
    console.print(ran_on)
    for part in (True, False):
        chosen = [each for each in found if ("floors" in each) == part]
        if not chosen:
            continue
        columns = list(dict.fromkeys(key for each in chosen for key in each))
        table = Table(*columns)
        for each in chosen:
            values = [each.get(column, "") for column in columns]
            table.add_row(*(f"{v:.2f}" if isinstance(v, float) else str(v) for v in values))
        console.print(table)
    if json_file is not None:
        json_file.write_text(json.dumps({"machine": ran_on, "figures": found}, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
