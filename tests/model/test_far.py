"""Instances ten thousand nats from everything: no underflow, and what is far in two directions stays apart."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.model import responsibilities, restaurants
from stream_osr.model import sampler as library
from stream_osr.model.feature_space import whitening
from stream_osr.model.known import Densities, Known, densities, log_class_densities, log_new
from stream_osr.model.prior import homogeneous
from stream_osr.model.sampler import Settings
from tests.model.immediate import immediate
from tests.model.problems import known_of, make_base

SIZE, NATS = 4000, 1e4


def make_known(nu: float, beta: float) -> Known:
    """Two known classes with so many instances, at -4 and 4 on the first of two axes, that their tails are thin."""
    rng = np.random.default_rng(0)
    prior, _ = make_base(2, nu=nu, psi=nu, beta=beta)
    blocks = [rng.normal([c, 0.0], size=(SIZE, 2)) for c in (-4.0, 4.0)]
    return known_of(prior, blocks, [0, 1], [30.0, 20.0])


def check_probabilities(probabilities: np.ndarray) -> None:
    assert np.isfinite(probabilities).all()
    assert (probabilities >= 0.0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)


def check_predictions(known: Known, frozen: Densities, state: restaurants.StreamState, rows: np.ndarray) -> None:
    """The visit of a guest who does not stay, and one pass over all terms with the same result."""
    predicted = immediate(known, frozen, state, rows)
    check_probabilities(predicted)
    unmoved = whitening.Whitening(np.zeros(2), np.zeros(2), np.eye(2), np.eye(2), np.zeros(2, bool), 0.0)
    glance = responsibilities.look(rows, responsibilities.view(known, frozen, state, unmoved))
    check_probabilities(glance)
    np.testing.assert_allclose(glance, predicted, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("window", [0, 64])
def test_far_from_everything_even_from_what_is_new(window):
    known = make_known(nu=4000.0, beta=1.0)
    frozen = densities(known)
    rng = np.random.default_rng(1)
    far = rng.normal(size=(12, 2)) + 4000.0 * np.array([[1.0, 0.0], [0.0, 1.0]])[np.arange(12) % 2]
    near = rng.normal([4.0, 0.0], size=(20, 2))
    assert log_class_densities(known, frozen, homogeneous(far))[0].max() < -NATS
    assert log_new(known, homogeneous(far)).max() < -NATS
    settings, state = Settings(window=window), library.open_stream(known, frozen)
    for number, rows in enumerate((near, far[:1], far, np.concatenate([near, far]))):
        check_predictions(known, frozen, state, rows)
        state, result = library.step(known, frozen, state, rows, np.random.default_rng(number), settings)
        check_probabilities(result.probabilities)
        check_predictions(known, frozen, state, rows)
        assert np.isfinite(state.dishes.log_det).all()
        assert np.isfinite(state.dishes.inverse).all()


@pytest.mark.parametrize("window", [0, 64])
def test_two_far_subclasses_stay_apart(window):
    known = make_known(nu=6.0, beta=1e-3)
    frozen = densities(known)
    rng = np.random.default_rng(2)
    near = rng.normal([-4.0, 0.0], size=(20, 2))
    right, up = rng.normal([4000.0, 0.0], size=(8, 2)), rng.normal([0.0, 4000.0], size=(8, 2))
    rows = np.concatenate([near, right, up])
    assert log_class_densities(known, frozen, homogeneous(rows[20:]))[0].max() < -NATS
    order = rng.permutation(len(rows))
    state = library.open_stream(known, frozen)
    for number in range(2):
        rng, how = np.random.default_rng(number), Settings(window=window)
        state, result = library.step(known, frozen, state, rows[order], rng, how)
        seats, probabilities = result.subclass[np.argsort(order)], result.probabilities[np.argsort(order)]
        check_probabilities(probabilities)
        check_predictions(known, frozen, state, rows)
        assert probabilities[:20, 0].min() > 0.9
        assert probabilities[20:, 2].min() > 1.0 - 1e-9
        assert set(seats[:20]) == {-1}
        assert [len(set(own.tolist()) - {-1}) for own in (seats[20:28], seats[28:], seats)] == [1, 1, 2]
        assert (seats[20:] >= 0).all()
