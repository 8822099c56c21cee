"""No result depends on the scale or origin of a column, the order of columns, or a column that occurs twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from tests.blobs import ended

pytestmark = pytest.mark.thorough

KINDS = ("few", "many", "usual", "flags", "texts", "gaps", "skewed")


class Table(NamedTuple):
    """Training rows with their labels, and the rows of a stream; the texts beside each, if there are any."""

    X: np.ndarray
    y: list[str]
    stream: np.ndarray
    texts: np.ndarray
    stream_texts: np.ndarray


def table(kind: str) -> Table:
    """Six classes, the last two new: few features, or many with few instances; what else there is, ``kind`` says."""
    rng = np.random.default_rng(3)
    count, p = (24, 40) if kind in ("many", "usual") else (60, 5)
    latent = min(p, 6)
    group = np.repeat(np.arange(6), count)
    X = 3.0 * rng.normal(size=(6, latent))[group] + rng.normal(size=(len(group), latent))
    X = X @ rng.normal(size=(latent, p))
    X += 0.3 * rng.normal(size=X.shape)
    if kind == "usual":
        X[:, 30:36] *= rng.random((len(X), 6)) < 0.04
        X[:1, 30:36] = 1.0  # nothing says what the unit of a feature is that was always zero
        X[group == 5, 31] += 2.0
        X[:, 36] = 4.0
    if kind == "skewed":
        X[:, 1], X[:, 3] = np.exp(X[:, 1] / 4.0), -np.exp(X[:, 3] / 5.0)
    if kind == "flags":  # a flag, a one-hot block, a flag
        often = rng.random((6, 5))
        value = np.array([rng.choice(3, p=each / each.sum()) for each in often[group, :3]])
        flags = rng.random((len(X), 2)) < often[group, 3:]
        X = np.column_stack([X, 3.0 * flags[:, :1] - 1.0, np.eye(3)[value], flags[:, 1:]])
    texts = np.empty((len(X), 0), object)
    if kind in ("texts", "gaps"):
        often = rng.dirichlet([0.4] * 4, size=(6, 2))
        texts = np.array([[f"v{rng.choice(4, p=own)}" for own in often[j]] for j in group], object)
    if kind == "gaps":
        X[rng.random(X.shape) < 0.1] = np.nan
        texts[rng.random(texts.shape) < 0.1] = None
    training = rng.permutation(np.flatnonzero((group < 4) & (np.arange(len(group)) % count < 0.7 * count)))
    stream = rng.permutation(np.setdiff1d(np.arange(len(group)), training))
    y = [f"class {j}" for j in group[training]]
    return Table(X[training], y, X[stream], texts[training], texts[stream])


def decided(case: Table, order: list[int] | None = None) -> tuple[list[str], np.ndarray]:
    """Labels and probabilities of the stream; the names of the columns say in which order they are."""
    model = OpenSetRecognizer(seed=5, batch_size=32)
    width = case.X.shape[1] + case.texts.shape[1]
    names = [f"{at:03d}" for at in (range(width) if order is None else order)]
    for row, texts, label in zip(case.X.tolist(), case.texts.tolist(), case.y, strict=True):
        model.learn_one(dict(zip(names, [*row, *texts], strict=True)), label)
    model.freeze()
    for row, texts in zip(case.stream.tolist(), case.stream_texts.tolist(), strict=True):
        model.learn_one(dict(zip(names, [*row, *texts], strict=True)))
    found = ended(model)
    return [d.label for d in found], np.array([d.p_unknown for d in found])


def mapped(case: Table, change: Callable[[np.ndarray], np.ndarray]) -> Table:
    return case._replace(X=change(case.X), stream=change(case.stream))


@cache
def unchanged(kind: str) -> tuple[list[str], np.ndarray]:
    return decided(table(kind))


def same_labels(kind: str, labels: list[str]) -> float:
    return float(np.mean([a == b for a, b in zip(unchanged(kind)[0], labels, strict=True)]))


def assert_same(kind: str, other: Table, order: list[int] | None = None, within: float = 1e-4) -> None:
    labels, moved = decided(other, order)
    assert same_labels(kind, labels) >= (0.999 if within < 1e-3 else 0.99)
    assert np.abs(unchanged(kind)[1] - moved).max() <= within


@pytest.mark.parametrize("kind", KINDS)
def test_scale_and_origin_of_a_column(kind: str) -> None:
    case = table(kind)
    width = case.X.shape[1]
    columns, factor, shift = [0, 31 % width, width - 1], np.ones(width), np.zeros(width)
    for factor[columns] in ([1e-9, 1e9, 1e9], [1e9, 1e-9, 1e-9]):
        assert_same(kind, mapped(case, lambda X: X * factor))
    shift[columns[:2]] = 1e6 * np.nanstd(case.X[:, columns[:2]], axis=0)
    assert_same(kind, mapped(case, lambda X: X + shift))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "gaps"])
def test_order_of_columns_and_a_column_that_is_there_twice(kind: str) -> None:
    case = table(kind)
    order = np.random.default_rng(4).permutation(case.X.shape[1])
    assert_same(kind, mapped(case, lambda X: X[:, order]))
    for column in (1, 31 % case.X.shape[1]):
        assert_same(kind, mapped(case, lambda X, column=column: np.column_stack([X, X[:, column]])), within=0.01)


def test_order_of_texts_and_numbers() -> None:
    """Texts before the numbers, and in another order."""
    case = table("texts")
    other = case._replace(texts=case.texts[:, ::-1], stream_texts=case.stream_texts[:, ::-1])
    assert_same("texts", other, [*range(5, 10), 1, 0])


def test_with_gaps_another_order_is_another_draw() -> None:
    """Missing values are drawn in the order of the columns: probabilities change as much as by another seed."""
    case = table("gaps")
    for change in (lambda X: X[:, [3, 0, 4, 1, 2]], lambda X: np.column_stack([X, X[:, 1]])):
        labels, moved = decided(mapped(case, change))
        assert same_labels("gaps", labels) >= 0.98
        assert np.abs(unchanged("gaps")[1] - moved).mean() <= 0.01


def test_text_that_is_there_twice_changes_no_label() -> None:
    """It counts twice, and probabilities are surer: two columns of text may be the same by chance."""
    case = table("texts")
    twice = [np.column_stack([own, own[:, :1]]) for own in (case.texts, case.stream_texts)]
    assert same_labels("texts", decided(case._replace(texts=twice[0], stream_texts=twice[1]))[0]) >= 0.99
