"""Categories beyond one density: wholes, parts, noise, cells, gaps, labels, concentrations."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from stream_osr.discovery.reconcile import Local, LocalSummary, restore
from stream_osr.model import background_components, categories, known, missing_features, responsibilities
from stream_osr.model import dish_statistics as library_dishes
from stream_osr.model.feature_space.mixed_whitening import fit_mixed
from stream_osr.model.feature_space.whitening import Whitening, whiten
from stream_osr.model.known import densities, log_densities
from stream_osr.model.marginal import _best_partition, statistics_of
from stream_osr.model.moves import hyperparameters
from stream_osr.model.noise import Background, gain, noise_model_of
from stream_osr.model.prior import Prior, homogeneous, make_prior, same_prior
from stream_osr.model.responsibilities import query_rows, view
from stream_osr.model.restaurants import StreamState
from stream_osr.model.sampler import Settings, open_stream, step
from stream_osr.model.student_t import CONJUGATE
from stream_osr.model.training import Training, summarize, train
from stream_osr.model.unassigned import _of_nothing, _Scene
from tests.model.problems import fill, make_base, random_rows

SIZES = (6, 9)


def two(seed: int = 0) -> tuple:
    """Two subclasses, of which base measure, and the rows of each."""
    rng = np.random.default_rng(seed)
    prior, oracle = make_base(2, "categories")
    blocks = [random_rows(rng, n, prior) for n in SIZES]
    return prior, oracle, blocks, fill(prior, blocks)


def test_odds_of_two_parts_against_one():
    """Rows that differ in their values alone."""
    prior, oracle = make_base(1, "categories")
    rows = np.array([[1.0, 5.0, 0.1 * n] for n in range(8)] + [[2.0, 6.0, 0.1 * n] for n in range(8)])
    spread = categories.spread_out(rows, 2)
    side, found = _best_partition(spread - spread.mean(axis=0), homogeneous(rows), 1.5, 3, prior, CONJUGATE)
    assert len({*side[:8]}) == len({*side[8:]}) == 1
    expected = math.log(1.5) + 2 * math.lgamma(8) - math.lgamma(16) - oracle.log_marginal(rows)
    expected += sum(oracle.log_marginal(rows[side == k]) for k in range(2))
    assert found == pytest.approx(expected, abs=1e-9)


def test_a_class_as_a_whole_without_one_of_its_instances():
    prior, oracle, blocks, _ = two()
    values = oracle.values(blocks[0])
    expected = [oracle.categories.log_predictive(x, [*values[:i], *values[i + 1 :]]) for i, x in enumerate(values)]
    np.testing.assert_allclose(background_components.log_values_left_out(blocks[0], prior), expected, atol=1e-9)


def test_noise_has_the_values_of_the_base_measure_each_by_itself():
    prior, oracle, blocks, dishes = two()
    numbers = prior._replace(first=np.zeros(0, np.int64), pseudo=np.zeros(0))
    noise = noise_model_of(Background(np.zeros(2), 9.0 * np.eye(2)))
    alone = fill(numbers, [block[:, 2:] for block in blocks])
    of_values = gain(dishes, 0, noise, prior, CONJUGATE) - gain(alone, 0, noise, numbers, CONJUGATE)
    values = oracle.values(blocks[0])
    apart = sum(oracle.categories.log_predictive(x, []) for x in values)
    assert of_values == pytest.approx(oracle.categories.log_marginal(values) - apart, abs=1e-9)
    each = ((prior, dishes), (numbers, alone))
    scenes = [_Scene(own, CONJUGATE, held, held, held, noise, 1.0) for own, held in each]
    rows = [homogeneous(blocks[0]), homogeneous(blocks[0][:, 2:])]
    both, without = (_of_nothing(block, scene, 1.0) for block, scene in zip(rows, scenes, strict=True))
    assert both - without == pytest.approx(apart, abs=1e-9)


def test_subclasses_of_several_recognizers_are_added_up():
    prior, _, blocks, dishes = two()
    names = [Local("in/0", "0", 0), Local("in/1", "0", 0)]
    said = [LocalSummary(name, statistics_of(dishes, np.array([k])), ()) for k, name in enumerate(names)]
    state = restore(said, dict.fromkeys(names, 0), {}, 1, prior)
    np.testing.assert_array_equal(state.sums[0].counts[0], categories.counts_of(np.vstack(blocks), prior))


class Trained(NamedTuple):
    """Two classes that differ in a category and, with it, in a number; the other number says nothing."""

    space: Whitening
    prior: Prior
    training: Training
    known: known.Known
    frozen: known.Densities
    state: StreamState


@pytest.fixture(scope="module")
def trained() -> Trained:
    rng, group = np.random.default_rng(3), np.arange(120) % 2
    X = np.column_stack([group, 9.0 * group + rng.normal(size=120), rng.normal(size=120)])
    space = fit_mixed(X, group, np.array([4, 0, 0]))
    rows, start = whiten(space, X), make_prior(2, nu=5.0, scale=0.8, beta=0.1)
    prior = categories.with_base(start, space.places, categories.base_of(rows, group, space.places), 1.0)
    training = train(rows, group, space, prior, rng, sweeps=8)
    summary = summarize(training, 0.01, True)[0]
    frozen = densities(summary)
    return Trained(space, prior, training, summary, frozen, open_stream(summary, frozen))


def test_concentrations_are_drawn_in_training(trained: Trained):
    """Without a grid for the Gaussian as well; a class has one value of two, so few instances are enough."""
    drawn = trained.training.prior
    assert not same_prior(drawn, trained.prior)
    assert drawn.pseudo[0] in hyperparameters.CONCENTRATION
    np.testing.assert_allclose(drawn.pseudo / drawn.pseudo[0], trained.prior.pseudo / trained.prior.pseudo[0])


def test_a_missing_number_is_drawn_given_the_values(trained: Trained):
    X = np.array([[0.0, np.nan, 0.1], [1.0, np.nan, 0.1]] * 20)
    shown = view(trained.known, trained.frozen, trained.state, shift=-40.0)
    rng = np.random.default_rng(0)
    rows = missing_features.complete_rows(
        shown, whiten(trained.space, X), missing_features.missing_of(trained.space, X), rng
    )
    drawn = trained.space.center[1] + rows[:, 1:] @ trained.space.backward[:, 1]
    assert np.abs(drawn.reshape(20, 2).mean(axis=0) - [0.0, 9.0]).max() < 1.5


def test_a_labelled_instance_leaves_the_trained_counts_alone(trained: Trained):
    before = trained.known.dishes.counts.copy()
    row = homogeneous(whiten(trained.space, np.array([[0.0, 0.2, 0.3]])))[0]
    after = known.learn_labelled(trained.known, row, 0, np.random.default_rng(0), 1000)
    np.testing.assert_array_equal(trained.known.dishes.counts, before)
    assert after.dishes.counts[:, 0].sum() == before[:, 0].sum() + 1


def test_densities_of_references_depend_on_values(trained: Trained):
    rng, X = np.random.default_rng(6), np.tile([np.nan, 20.0, -9.0], (30, 1))
    X[:, 0], X[:, 1:] = np.arange(30) % 2, X[:, 1:] + rng.normal(size=(30, 2))
    state, _ = step(trained.known, trained.frozen, trained.state, whiten(trained.space, X), rng, Settings())
    question, count = query_rows(whiten(trained.space, X), trained.known.prior), len(state.ids)
    assert count
    log_density, _, log_new = log_densities(trained.known, trained.frozen, question.rows)
    said = responsibilities.QueryDensities(log_density, log_new, np.full(30, -1), np.ones(30))
    found = np.log(responsibilities.weigh(state, question, said, trained.known.prior))
    seats = responsibilities.log_seats_of(state.franchise)
    for k in range(count):
        own = [library_dishes.log_predictive(state.dishes, k, row, trained.known.prior) for row in question.rows]
        expected = np.array(own) + seats[2 + k] - log_new - seats[-1]
        np.testing.assert_allclose(found[:, 2 + k] - found[:, -1], expected, atol=1e-9)
