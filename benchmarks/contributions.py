"""Contributions of features to log-odds: python -m benchmarks.contributions [--write].

Five tables have categories. A tenth of the values of each row to explain is missing. The first figure is the share of
rows whose rest is at most 5 % of the log-odds of unknown. For the others, a number of a known instance is moved by
six standard deviations, and the table shows how often this feature is the first one of the explanation. Numbers
without effect in the model are moved only with ``--all-numbers``.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from benchmarks.deciding import decide
from benchmarks.order.tables import in_order
from benchmarks.tabular import Part, divide, frame
from benchmarks.written import ROOT, Write, table, tell
from stream_osr import OpenSetRecognizer

PAGE = ROOT / "docs" / "results" / "contributions.md"
TABLES = ("ANNEAL", "ELEC2", "HYPOTHYROID", "KRKOPT", "VOWEL", "TEXTURE", "VEHICLE", "WINE")
"""Tables with categories, then tables of numbers."""
MOVED = 6.0
"""Distance of a moved value, in standard deviations."""
ROWS = 200
"""Rows to explain, and moved rows of each kind, at most."""
GAPS = 0.1
SMALL = 0.05
"""Largest rest, as a share of the log-odds."""


def read(name: str, seed: int) -> Part:
    """Read a table as data frames. ELEC2 is in its original order, with the day of the week as a category."""
    if name != "ELEC2":
        part = divide(name, seed)
        return part._replace(X_train=frame(name, part.X_train), X_test=frame(name, part.X_test))
    case = in_order(name, "closed")
    training, stream = (
        pd.DataFrame(X).rename(columns="number {}".format).assign(day=[f"day {value:g}" for value in X[:, 1]])
        for X in (case.X_train, case.X)
    )
    known = tuple(np.unique(case.y_train).tolist())
    return Part(training.drop(columns="number 1"), case.y_train, stream.drop(columns="number 1"), case.y, known)


def with_gaps(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Leave out a tenth of the values."""
    return rows.astype(object).where(rng.random(rows.shape) >= GAPS, None)


def moved(data: Part, numbers: list[Any], *, within: bool, rng: np.random.Generator) -> list[tuple[Any, Any, Any]]:
    """Move one number of each of some known instances.

    ``within``: the standard deviations are those of the instance's class, otherwise those of all training instances.
    The result is the name of the feature, the instance, and the moved instance.
    """
    known = np.flatnonzero(np.isin(data.y_test, data.y_train))
    out = list[tuple[Any, Any, Any]]()
    for at in rng.permutation(known)[:ROWS].tolist():
        x = data.X_test.iloc[at].to_dict()
        name = numbers[rng.integers(len(numbers))]
        own = data.y_train == data.y_test[at] if within else np.ones(len(data.y_train), bool)
        deviation = float(data.X_train[name][own].std())
        if deviation > 0.0:
            out.append((name, x, {**x, name: x[name] + MOVED * deviation * rng.choice([-1.0, 1.0])}))
    return out


def measure(name: str, seed: int, *, all_numbers: bool = False) -> list[object]:
    """Measure one table; a row of cells. Optionally move numbers without effect in the model, too."""
    data, rng = read(name, seed), np.random.default_rng(seed)
    model = OpenSetRecognizer(seed=seed, batch_size=64)
    model.learn_many(data.X_train, data.y_train.tolist())
    decide(model, data.X_test)
    found = model.contributions_many(with_gaps(data.X_test.iloc[:ROWS], rng).to_dict("records"))
    rest = np.abs([each.unknown.rest for each in found])
    small = rest <= SMALL * np.abs([each.unknown.log_odds for each in found])
    complete = [each for row in model.contributions_many(data.X_test.iloc[:ROWS]) for each in row.unknown.features]
    effects = {
        each.name for each in complete if isinstance(each.value, float) and (all_numbers or each.contribution != 0.0)
    }
    numbers = sorted(effects, key=model.trained.names.index)
    categories = {each.name for each in complete if isinstance(each.value, str)}
    firsts = []
    for within in (True, False):
        rows = moved(data, numbers, within=within, rng=rng)
        before, after = (model.contributions_many([row[side] for row in rows], top=1) for side in (1, 2))
        firsts.append([a.unknown.features[0].name == row[0] for row, a in zip(rows, after, strict=True)])
        if within:
            became = [b.unknown.log_odds < 0.0 < a.unknown.log_odds for b, a in zip(before, after, strict=True)]
    reacts = [right for right, was in zip(firsts[0], became, strict=True) if was]
    shares = [f"{np.mean(each):.3f}" if each else "nan" for each in (*firsts, reacts)]
    rests = [f"{small.mean():.3f}", f"{rest.max():.0e}"]
    return [name, len(numbers), len(categories), *rests, *shares, f"{len(reacts)} of {len(firsts[0])}"]


def main(
    all_numbers: Annotated[
        bool, typer.Option("--all-numbers", help="Move numbers without effect in the model, too.")
    ] = False,
    write: Write = False,
) -> None:
    """Measure the tables."""
    lines = []
    for name in TABLES:
        lines.append(measure(name, 0, all_numbers=all_numbers))
        print(*lines[-1], flush=True)
    titles = ["table", "numbers", "categories", "small rest", "largest rest", "first, class", "first, all"]
    tell("contributions", table([*titles, "first, now unknown", "now unknown"], lines), write, PAGE)


if __name__ == "__main__":
    typer.run(main)
