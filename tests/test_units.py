"""No result depends on units: on a column's scale or origin, on the order of columns, or on what is there twice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer

SEED = 5


class Table(NamedTuple):
    """Training rows with their labels, and the rows of a stream."""

    X: np.ndarray
    y: list[str]
    stream: np.ndarray


def table(kind: str) -> Table:
    """Six classes, the last two of them new: few features; many, with few instances; rare values; flags."""
    rng = np.random.default_rng(3)
    count, p = (60, 5) if kind in ("few", "flags") else (24, 40)
    latent = min(p, 6)
    group = np.repeat(np.arange(6), count)
    X = (3.0 * rng.normal(size=(6, latent))[group] + rng.normal(size=(len(group), latent))) @ rng.normal(
        size=(latent, p)
    )
    X += 0.3 * rng.normal(size=X.shape)
    if kind == "usual":
        X[:, 30:36] *= rng.random((len(X), 6)) < 0.04
        X[:1, 30:36] = 1.0  # nothing says what the unit of a feature is that was always zero
        X[group == 5, 31] += 2.0
        X[:, 36] = 4.0
    if kind == "flags":  # a flag, a one-hot block, a flag
        often = rng.random((6, 5))
        value = np.array([rng.choice(3, p=each / each.sum()) for each in often[group, :3]])
        flags = rng.random((len(X), 2)) < often[group, 3:]
        X = np.column_stack([X, 3.0 * flags[:, :1] - 1.0, np.eye(3)[value], flags[:, 1:]])
    training = rng.permutation(np.flatnonzero((group < 4) & (np.arange(len(group)) % count < 0.7 * count)))
    stream = rng.permutation(np.setdiff1d(np.arange(len(group)), training))
    return Table(X[training], [f"class {j}" for j in group[training]], X[stream])


def decided(case: Table, order: list[int] | None = None) -> tuple[list[str], np.ndarray]:
    """Labels and probabilities of the stream; the names of the columns say in which order they are."""
    model = OpenSetRecognizer(seed=SEED, batch_size=32)
    names = [f"{at:03d}" for at in (range(case.X.shape[1]) if order is None else order)]
    for row, label in zip(case.X.tolist(), case.y, strict=True):
        model.learn_one(dict(zip(names, row, strict=True)), label)
    model.freeze()
    for row in case.stream.tolist():
        model.learn_one(dict(zip(names, row, strict=True)))
    model.flush()
    found = list(model.drain())
    return [d.label for d in found], np.array([d.p_unknown for d in found])


def mapped(case: Table, change) -> Table:
    return case._replace(X=change(case.X), stream=change(case.stream))


def assert_same(case: Table, other: Table, order: list[int] | None = None, within: float = 1e-4) -> None:
    (labels, chances), (again, moved) = decided(case), decided(other, order)
    assert np.mean([a == b for a, b in zip(labels, again, strict=True)]) >= (0.999 if within < 1e-3 else 0.99)
    assert np.abs(chances - moved).max() <= within


KINDS = pytest.mark.parametrize("kind", ["few", "many", "usual", "flags"])


@KINDS
@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_scale_of_a_column(kind: str, factor: float) -> None:
    case = table(kind)
    for column in (0, case.X.shape[1] - 1, 31 % case.X.shape[1]):
        factors = np.ones(case.X.shape[1])
        factors[column] = factor
        assert_same(case, mapped(case, lambda X, factors=factors: X * factors))


@KINDS
def test_origin_of_a_column(kind: str) -> None:
    case = table(kind)
    for column in (0, 31 % case.X.shape[1]):
        shift = np.zeros(case.X.shape[1])
        shift[column] = 1e6 * case.X[:, column].std()
        assert_same(case, mapped(case, lambda X, shift=shift: X + shift))


@KINDS
def test_order_of_columns(kind: str) -> None:
    case = table(kind)
    order = np.random.default_rng(4).permutation(case.X.shape[1])
    other = mapped(case, lambda X: X[:, order])
    assert_same(case, other)


@KINDS
def test_column_that_is_there_twice(kind: str) -> None:
    case = table(kind)
    for column in (1, 31 % case.X.shape[1]):
        assert_same(case, mapped(case, lambda X, column=column: np.column_stack([X, X[:, column]])), within=0.01)
