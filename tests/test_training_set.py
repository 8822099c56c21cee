"""The training set remembers when each of its rows arrived."""

from __future__ import annotations

import copy
import pickle

import numpy as np
from scipy.stats import chi2

from stream_osr.instances.features import Features
from stream_osr.training.training_set import TrainingSet

CLASSES = ("left", "right", "rare")


def filled(n: int, capacity: int, seed: int = 0) -> tuple[TrainingSet, list[str]]:
    """A row of each position is that position; the labels of all rows, in the order of arrival."""
    labels = np.random.default_rng(seed).choice(CLASSES, size=n, p=[0.6, 0.35, 0.05]).tolist()
    training, features = TrainingSet(capacity, seed), Features(("at", "other"))
    for at, label in enumerate(labels):
        training.add(features, np.array([[at, 0.0]]), [label])
    return training, labels


def check(training: TrainingSet, labels: list[str]) -> list[int]:
    """Compare every position with its row and its class; the positions, as the rows of the matrix have them."""
    _, X, group, order = training.matrix()
    assert order.tolist() == X[:, 0].astype(int).tolist()
    assert [labels[at] for at in order] == [training.labels[j] for j in group]
    assert len(set(order.tolist())) == len(order) == len(training)
    return order.tolist()


def test_positions_are_those_of_arrival_and_go_with_their_rows_through_the_reservoir():
    assert sorted(check(*filled(200, 1000))) == list(range(200))
    training, labels = filled(3000, 50)
    order = check(training, labels)
    assert [len(rows) for rows in training.rows] == [50, 50, 50]
    assert np.std(order) > 600, "rows from all over the stream"
    assert sum(training.seen) == 3000


def test_positions_survive_a_state_and_both_go_on_alike():
    training, labels = filled(600, 50)
    twin = TrainingSet.from_state(pickle.loads(pickle.dumps(training.as_state())))
    assert check(twin, labels) == check(training, labels)
    for one in (training, twin):
        for at in range(600, 1200):
            one.add(Features(("at", "other")), np.array([[at, 0.0]]), ["left"])
    assert check(twin, labels + ["left"] * 600) == check(training, labels + ["left"] * 600)


def test_a_copy_goes_its_own_way():
    training, labels = filled(100, 50)
    twin = copy.copy(training)
    twin.add(Features(("at", "other")), np.array([[100, 0.0]]), ["left"])
    assert sorted(check(twin, [*labels, "left"]))[-1] == 100
    assert max(check(training, labels)) == 99
    training.add(Features(("at", "other")), np.array([[100, 0.0]]), ["rare"])
    assert max(check(training, [*labels, "rare"])) == 100


def test_each_row_is_as_likely_to_stay_whatever_the_blocks():
    stayed, features, X = np.zeros(600), Features(("at",)), np.arange(600.0)[:, None]
    for seed in range(300):
        whole, parts = TrainingSet(40, seed), TrainingSet(40, seed)
        whole.add(features, X, ["left"] * 600)
        for begin in range(0, 600, 97):
            parts.add(features, X[begin : begin + 97], ["left"] * len(X[begin : begin + 97]))
        arrived = [row.arrived for row in whole.rows[0]]
        assert arrived == [row.arrived for row in parts.rows[0]]
        stayed[arrived] += 1
    expected = 300 * 40 / 600
    assert chi2.sf(((stayed - expected) ** 2).sum() / (expected * (1 - 40 / 600)), 599) > 1e-3
    assert abs(stayed[:100].mean() - stayed[-100:].mean()) < 4 * np.sqrt(2 * expected / 100)
