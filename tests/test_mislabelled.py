"""Training instances that look mislabelled: found among true errors, and no part of what is promised."""

from __future__ import annotations

import numpy as np

from stream_osr import OpenSetRecognizer
from stream_osr.trust.mislabelled import LEAST, mislabelled
from tests.blobs import ended


def densities(apart: float, n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Log densities under three classes on a line, and the class that each instance is of."""
    rng, true = np.random.default_rng(seed), np.arange(n) % 3
    x = apart * true + rng.normal(size=n)
    return -0.5 * (x[:, None] - apart * np.arange(3)) ** 2, true


def test_classes_that_overlap_are_no_wrong_labels() -> None:
    for apart in (0.5, 1.0, 2.0, 3.0):
        log_density, true = densities(apart)
        assert not mislabelled([log_density], true).any(), apart


def test_most_of_the_wrong_labels_are_found_and_hardly_any_other() -> None:
    log_density, true = densities(4.0)
    wrong = np.arange(600) % 10 == 0
    found = mislabelled([log_density, log_density], np.where(wrong, (true + 1) % 3, true))
    assert found[wrong].mean() > 0.6
    assert found[~wrong].sum() <= 2


def test_a_few_are_no_more_than_accidents_and_an_only_instance_is_none() -> None:
    log_density, true = densities(6.0)
    group = true.copy()
    group[: LEAST - 1] = (true[: LEAST - 1] + 1) % 3
    assert not mislabelled([log_density], group).any()
    log_density[:100, 0] = -np.inf
    assert not mislabelled([log_density], true).any()
    assert not mislabelled([log_density[:, :1]], np.zeros(600, int)).any()


def test_the_promise_and_the_live_figure_are_of_right_labels() -> None:
    rng = np.random.default_rng(4)
    true, stream = rng.integers(5, size=500), rng.integers(5, size=1500)
    centres = 2.5 * rng.normal(size=(5, 8))
    group = np.where(rng.random(500) < 0.1, (true + rng.integers(1, 5, size=500)) % 5, true)
    rows = [centres[of] + rng.normal(size=(len(of), 8)) for of in (true, stream)]
    model = OpenSetRecognizer(chains=2)
    model.learn_many(rows[0], group)
    report = model.freeze()
    assert 20 <= report.mislabelled <= (group != true).sum() + 2
    assert f"{report.mislabelled} instances look mislabelled" in str(report)
    assert report.references == 500 - report.mislabelled
    model.learn_many(rows[1])
    right = np.mean(np.array([d.label for d in ended(model)]) == stream)
    assert abs(report.known_recall - right) < 0.06
    assert abs(model.expected_recall.recall - right) < 0.06
