"""Runs of the known classes: the prior from the neighbours, against the exact posterior of a hidden Markov model."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from stream_osr.model.class_runs import APART, HALF_LIFE, Neighbours, average_odds, follow_runs, persistence_of

SHARES = np.array([0.5, 0.3, 0.2])


def chain(n: int, stay: float, seed: int, classes: int = 3) -> np.ndarray:
    """Labels of a sticky Markov chain."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(classes, n, p=SHARES[:classes] / SHARES[:classes].sum())
    for i in range(1, n):
        if rng.random() < stay:
            labels[i] = labels[i - 1]
    return labels


def votes(labels: np.ndarray, seed: int, apart: float = 1.0) -> np.ndarray:
    """Probabilities of the classes by the density of one number, shape (n, J)."""
    x = np.random.default_rng(seed).normal(apart * labels)
    density = np.exp(-0.5 * (x[:, None] - apart * np.arange(3)) ** 2)
    return density / density.sum(axis=1, keepdims=True)


def exact(vote: np.ndarray, stay: float) -> np.ndarray:
    """Posterior probabilities by the sum over all sequences of classes, shape (n, J)."""
    out = np.zeros_like(vote)
    for sequence in product(range(3), repeat=len(vote)):
        weight = SHARES[sequence[0]] * vote[0, sequence[0]]
        for i in range(1, len(vote)):
            step = stay * (sequence[i] == sequence[i - 1]) + (1 - stay) * SHARES[sequence[i]]
            weight *= step * vote[i, sequence[i]]
        for i, j in enumerate(sequence):
            out[i, j] += weight
    return out / out.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("most", [0.0, 0.4])
def test_the_prior_and_the_density_give_the_exact_posterior(most: float) -> None:
    runs, _ = follow_runs(
        None, votes(chain(2000, 0.9, 0), 1, 4.0), SHARES, Neighbours(1.0, 1.0)
    )  # the stream allows for more
    runs = runs._replace(filtered=SHARES[None])  # an independent beginning
    vote = votes(chain(6, 0.9, 2), 3)
    _, prior = follow_runs(runs, vote, SHARES, Neighbours(most, 1.0))
    found = prior * vote
    np.testing.assert_allclose(found / found.sum(axis=1, keepdims=True), exact(vote, most), rtol=1e-9)


def test_batches_continue_the_filter() -> None:
    vote = votes(chain(64, 0.9, 2), 3)
    begun, _ = follow_runs(None, votes(chain(500, 0.95, 0), 1, 4.0), SHARES, Neighbours(0.8, 0.5))
    one, prior = follow_runs(begun, vote, SHARES, Neighbours(0.8, 0.5))
    part, _ = follow_runs(begun, vote[:40], SHARES, Neighbours(0.8, 0.5))
    two, later = follow_runs(part, vote[40:], SHARES, Neighbours(0.8, 0.5))
    np.testing.assert_allclose(two.filtered, one.filtered)
    np.testing.assert_allclose(later, prior[40:])


@pytest.mark.parametrize("stay", [0.0, 0.5, 0.9])
def test_the_stream_shows_the_persistence(stay: float) -> None:
    labels, runs = chain(4000, stay, 0), None
    vote = votes(labels, 1, apart=3.0)
    for at in range(0, len(vote), 100):
        runs, _ = follow_runs(runs, vote[at : at + 100], SHARES, Neighbours(1.0, 1.0))
    assert runs is not None
    assert runs.same / (runs.pairs + APART) == pytest.approx(stay, abs=0.1)
    assert runs.pairs == pytest.approx(HALF_LIFE / np.log(2), rel=0.15)
    assert persistence_of(labels, np.arange(len(labels))) == pytest.approx(stay, abs=0.05)


def test_sorted_training_labels_change_nothing_where_the_stream_has_no_runs() -> None:
    sorted_labels = np.sort(chain(900, 0.0, 0))
    most = persistence_of(sorted_labels, np.arange(900))
    assert most > 0.99
    vote = votes(chain(1000, 0.0, 2), 3)
    runs, _ = follow_runs(None, vote, SHARES, Neighbours(most, 1.0))
    _, prior = follow_runs(runs, vote, SHARES, Neighbours(most, 1.0))
    assert np.abs(prior - SHARES).max() < 0.1


def test_runs_recognise_more_and_an_instance_alone_does_not_overrule_them() -> None:
    labels = chain(4000, 0.95, 0)
    vote = votes(labels, 1, 1.5)
    alone = float(((vote * SHARES).argmax(axis=1) == labels).mean())
    _, prior = follow_runs(None, vote, SHARES, Neighbours(0.95, 1.0))
    _, tempered = follow_runs(None, vote, SHARES, Neighbours(0.95, 0.1))
    right = [float(((vote * each).argmax(axis=1) == labels).mean()) for each in (tempered, prior)]
    assert alone + 0.02 < right[0] < right[1] - 0.02


def test_waiting_instances_are_decided_with_what_was_known_before_them() -> None:
    vote, odds = votes(chain(300, 0.9, 0), 1, 3.0), np.exp(np.random.default_rng(2).normal(size=300))
    begun, _ = follow_runs(None, vote[:100], SHARES, Neighbours(0.5, 0.5, kept=31))
    begun, _ = average_odds(begun, odds[:100], 4.0, Neighbours(0.5, 0.5, kept=31))
    one, prior = follow_runs(begun, vote[100:], SHARES, Neighbours(0.5, 0.5))
    one, averaged = average_odds(one, odds[100:], 4.0, Neighbours(0.5, 0.5))
    part, _ = follow_runs(begun, vote[100:130], SHARES, Neighbours(0.5, 0.5, kept=31))
    part, _ = average_odds(part, odds[100:130], 4.0, Neighbours(0.5, 0.5, kept=31))
    two, later = follow_runs(part, vote[100:], SHARES, Neighbours(0.5, 0.5, waiting=30))
    two, means = average_odds(two, odds[100:], 4.0, Neighbours(0.5, 0.5, waiting=30))
    assert two.pairs == pytest.approx(one.pairs)
    np.testing.assert_allclose(later, prior, rtol=1e-6)
    np.testing.assert_allclose(means, averaged, rtol=1e-6)
    np.testing.assert_allclose((two.score, two.weight), (one.score, one.weight), rtol=1e-6)


def test_repeated_rows_say_nothing() -> None:
    vote, odds = votes(chain(40, 0.9, 0), 1, 3.0), np.exp(np.random.default_rng(2).normal(size=40))
    begun, _ = follow_runs(None, votes(chain(500, 0.95, 0), 1, 4.0), SHARES, Neighbours(0.8, 0.5))
    empty = np.arange(40) % 2 == 1
    other, far = np.where(empty[:, None], vote[::-1], vote), np.where(empty, 1e-3, odds)
    found = []
    for own, alone in ((vote, odds), (other, far)):
        runs, prior = follow_runs(begun, own, SHARES, Neighbours(0.8, 0.5, empty=empty))
        _, means = average_odds(runs, alone, 4.0, Neighbours(0.8, 0.5, empty=empty))
        found.append((prior, means[~empty]))
        np.testing.assert_allclose(means[empty], alone[empty])
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_odds_are_weighted_means_of_neighbours() -> None:
    runs, _ = follow_runs(None, votes(chain(2000, 0.95, 0), 1, apart=4.0), SHARES, Neighbours(1.0, 0.2))
    stay = min(0.9, runs.same / (runs.pairs + APART))
    fade = stay * 0.8 / 1.2
    log_odds = np.array([1.0, -2.0, 3.0, 30.0, -1.0])
    after, odds = average_odds(runs, np.exp(log_odds[:2]), 4.0, Neighbours(0.9, 0.2))
    _, later = average_odds(after, np.exp(log_odds[2:]), 4.0, Neighbours(0.9, 0.2))
    shared = np.clip(log_odds, -4.0, 4.0)
    for i, found in enumerate(np.log([*odds, *later])):
        seen = np.arange(2 if i < 2 else 5)  # a later batch does not change an earlier decision
        weight = fade ** np.abs(seen - i)
        assert found == pytest.approx(log_odds[i] - shared[i] + weight @ shared[seen] / weight.sum())


def test_far_instances_keep_their_own_evidence() -> None:
    runs, _ = follow_runs(None, votes(chain(2000, 0.98, 0), 1, apart=4.0), SHARES, Neighbours(0.98, 0.05))
    odds = np.full(101, np.exp(-3.0))
    odds[50] = np.exp(40.0)
    found = np.log(average_odds(runs, odds, 4.6, Neighbours(0.98, 0.05))[1])
    assert found[50] > 30.0
    assert np.delete(found, 50).max() < 0.0


def test_one_class_and_few_pairs() -> None:
    runs, prior = follow_runs(None, np.ones((1, 1)), np.ones(1), Neighbours(0.9, 0.5))
    assert prior.tolist() == [[1.0]]
    assert runs.pairs == 1.0
    assert persistence_of(np.zeros(100, int), np.arange(100)) == 0.0
    assert persistence_of(np.array([0, 1]), np.array([0, 1])) == 0.0
    more, prior = follow_runs(
        runs, np.full((3, 2), 0.5), np.array([0.9, 0.1]), Neighbours(0.9, 0.5)
    )  # a class has come
    assert more.filtered.shape == (1, 2)
    np.testing.assert_allclose(prior, [[0.9, 0.1]] * 3)
