"""Categories with many values: the stream brings new ones, and the promised recall holds."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.model.feature_space.mixed_whitening import fit_mixed
from stream_osr.model.feature_space.whitening import whiten

CENTRES = {"idle": (0.0, 0.0), "running": (12.0, 4.0)}
Instances = list[tuple[dict[str, object], str]]


def addresses(rng: np.random.Generator, n: int, values: int, *, zipf: bool, apart: float) -> Instances:
    """Instances of two classes, as far apart as that, with addresses that say nothing of the class."""
    weight = 1.0 / np.arange(1, values + 1) if zipf else np.ones(values)
    out: Instances = []
    for label in ["idle", "running"] * (n // 2):
        flow, heat = rng.normal(np.multiply(apart, CENTRES[label])).round(3).tolist()
        address = f"10.0.{rng.choice(values, p=weight / weight.sum())}.1"
        out.append(({"flow": flow, "heat": heat, "ip": address}, label))
    return out


def run(training: Instances, stream: Instances, seed: int) -> tuple[float, float]:
    """Promised and real recall."""
    model = OpenSetRecognizer(chains=1, batch_size=50, seed=seed)
    for x, label in training:
        model.learn_one(x, label)
    promised = model.freeze().known_recall
    for x, label in stream:
        model.learn_one(x, key=label)
    model.flush()
    return promised, float(np.mean([decision.label == decision.key for decision in model.drain()]))


@pytest.mark.thorough
@pytest.mark.parametrize("zipf", [False, True], ids=["even", "zipf"])
@pytest.mark.parametrize("values", [20, 100, 300, 3000])
def test_the_promise_holds_beside_informative_numbers(values: int, *, zipf: bool) -> None:
    rng = np.random.default_rng([values, zipf])
    training, stream = (addresses(rng, n, values, zipf=zipf, apart=1.0) for n in (240, 300))
    promised, real = run(training, stream, 0)
    assert abs(promised - real) <= 0.03
    assert real > 0.97


@pytest.mark.thorough
@pytest.mark.parametrize("values", [300, 3000])
def test_the_promise_holds_beside_numbers_that_say_little(values: int) -> None:
    rng = np.random.default_rng(values)
    training, stream = (addresses(rng, n, values, zipf=False, apart=0.15) for n in (1200, 1000))
    promised, real = run(training, stream, 1)
    assert abs(promised - real) <= 0.05
    assert 0.6 < real < 0.95, "the classes overlap"


def test_a_value_that_says_the_class_is_still_used() -> None:
    rng = np.random.default_rng(0)
    training, stream = (
        [({"at": float(rng.normal()), "id": f"{label}{rng.integers(60)}"}, label) for label in ["a", "b"] * n]
        for n in (120, 150)
    )
    promised, real = run(training, stream, 0)
    assert abs(promised - real) <= 0.05
    assert real > 0.85


def test_a_value_of_one_fold_alone_is_one_that_training_did_not_have() -> None:
    model = OpenSetRecognizer(chains=1)
    rng = np.random.default_rng(0)
    for number in range(80):
        x = {"a": float(rng.normal()), "id": f"id{number}", "kind": "odd" if number == 5 else "even"}
        model.learn_one(x, "left")
    model.freeze()
    trained: TrainedModel = model.trained
    assert trained.references is not None
    first = np.cumsum(trained.whitening.places) - trained.whitening.places
    last = first + trained.whitening.places - 1
    ids, kinds = trained.references.rows[:, 0], trained.references.rows[:, 1]
    assert (ids == first[0]).all(), "each identifier is there once: as if it were missing"
    assert (kinds == last[1]).sum() == 1, "the category is closed: the only odd one is a new value"
    assert trained.whitening.open.tolist() == [0]


def test_a_new_value_of_an_open_category_is_missing_and_of_another_one_new() -> None:
    X = np.array([[0, 0], [1, 1], [2, 0], [7, 7], [np.nan, np.nan]], float)
    space = fit_mixed(X[:3], np.zeros(3, int), np.array([5, 4]), open_categories=np.array([0]))
    np.testing.assert_array_equal(whiten(space, X), [[1, 6], [2, 7], [3, 6], [0, 8], [0, 5]])
