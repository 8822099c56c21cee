"""Reference instances: which are kept, and their densities under models that have not seen them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr.errors import InvalidParameter
from stream_osr.model.feature_space import whitening
from stream_osr.model.feature_space.whitening import Whitening, fit_whitening, whiten
from stream_osr.model.known import N_RANKS, log_densities
from stream_osr.model.prior import homogeneous, make_prior
from stream_osr.model.training import Training, seat_by_groups, summarize, train
from stream_osr.parameters import Parameters
from stream_osr.trust import references as trust
from stream_osr.trust import unseen_densities
from tests.oracles import balance as oracle
from tests.oracles import niw

SMALL = Parameters(background_component=False, chains=2, training_sweeps=5)
FAST: dict[str, Any] = {"chains": 2, "training_sweeps": 5}


def problem(per_class: int, d: int = 2, n_classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Correlated features, classes a few standard deviations apart, one of them in two clumps."""
    rng = np.random.default_rng([seed, per_class, d])
    group = np.repeat(np.arange(n_classes), per_class)
    centre = 6.0 * rng.normal(size=(n_classes, d))
    X = centre[group] + rng.normal(size=(len(group), d))
    X[: per_class // 2, 0] += 8.0
    mix = rng.normal(size=(d, d)) + 2.0 * np.eye(d)
    return X @ mix + 100.0 * np.arange(d), group


def trained_on(
    X: np.ndarray, group: np.ndarray, seed: int = 0, broad: bool = False
) -> tuple[Whitening, Training, np.ndarray]:
    space = fit_whitening(X, group)
    rows = whiten(space, X)
    d = rows.shape[1]
    prior = make_prior(d, d + 3.0, 0.4, 0.2)
    training = train(rows, group, space, prior, np.random.default_rng(seed), sweeps=10)
    return space, training, summarize(training, SMALL.epsilon, broad)[1]


def learnt(X: np.ndarray, group: np.ndarray, **arguments: Any) -> OpenSetRecognizer:
    model = OpenSetRecognizer(**grouped(**{**FAST, **arguments}))
    model.learn_many(X, [f"c{j}" for j in group])
    model.freeze()
    return model


@pytest.mark.parametrize("d", [1, 3])
def test_unseen_densities_are_those_of_a_model_of_the_other_folds(d: int) -> None:
    X, group = problem(11, d)
    space, training, left_out = trained_on(X, group)
    dish = np.where(group == 0, np.arange(33) % 2, group + 1)
    rows = homogeneous(whiten(space, X))
    seating = seat_by_groups(rows, group, dish, training.prior, exclusive=True)
    seating.franchise.alpha[:] = 3.0
    training = training._replace(seating=seating)
    found = unseen_densities.unseen_densities(unseen_densities.TrainingRows(X, group), SMALL, [training], [left_out])[
        0
    ]
    prior = training.prior
    base = niw.Full(d, prior.psi * prior.spread, prior.nu, prior.beta)
    fold = unseen_densities._folds(group, SMALL.seed)
    whole = np.linalg.slogdet(space.forward)[1]  # densities are stated in the model's own coordinates
    for number in (0, 3, 9):
        held = fold == number
        expected = oracle.unseen(X, group, dish, held, base, 3.0, whitening.RIDGE) - whole
        np.testing.assert_allclose(found[held], expected, rtol=1e-6, atol=1e-6)


def test_the_only_instance_of_a_class_is_impossible_in_it_and_no_reference() -> None:
    X, group = problem(9)
    X, group = np.vstack([X, [[500.0, -300.0]]]), np.append(group, 3)
    space, training, left_out = trained_on(X, group)
    found = unseen_densities.unseen_densities(unseen_densities.TrainingRows(X, group), SMALL, [training], [left_out])[
        0
    ]
    assert np.isneginf(found[-1, 3])
    assert np.isfinite(found[np.arange(27), group[:27]]).all()
    references = trust.choose_references(whiten(space, X), group, [found], SMALL)
    assert sorted(set(references.group.tolist())) == [0, 1, 2]


def test_where_there_are_plenty_an_instance_alone_is_left_out_and_it_makes_no_difference() -> None:
    enough = int(unseen_densities.PLENTY) * 2
    X, group = problem(enough)
    _, training, left_out = trained_on(X, group, broad=True)
    assert (
        unseen_densities.unseen_densities(unseen_densities.TrainingRows(X, group), SMALL, [training], [left_out])[0]
        == left_out
    ).all()
    X, group = problem(enough // 3)
    _, training, left_out = trained_on(X, group, broad=True)
    parameters = SMALL.model_copy(update={"background_component": True})
    by_fold = unseen_densities.unseen_densities(
        unseen_densities.TrainingRows(X, group), parameters, [training], [left_out]
    )[0]
    assert (by_fold != left_out).any()
    own = np.arange(len(X)), group
    assert abs(np.median(by_fold[own] - left_out[own])) < 0.1


def test_references_are_as_likely_as_instances_that_were_never_seen() -> None:
    rng = np.random.default_rng(8)
    centre = 6.0 * rng.normal(size=(8, 10))
    group, others = np.repeat(np.arange(8), 5), np.repeat(np.arange(8), 200)
    model = learnt(centre[group] + rng.normal(size=(40, 10)), group, chains=4)
    trained = model.trained
    references = trained.references
    fresh = homogeneous(whiten(trained.whitening, centre[others] + rng.normal(size=(1600, 10))))
    for known, frozen, log_density in zip(trained.draws, trained.densities, references.log_density, strict=True):
        unseen = log_density[np.arange(40), references.group].mean()
        truth = log_densities(known, frozen, fresh)[0][np.arange(1600), others].mean()
        seen = log_densities(known, frozen, homogeneous(references.rows))[0][np.arange(40), references.group].mean()
        assert abs(unseen - truth) < 2.0
        assert seen > truth + 2.0, "with their own density in it they would look twice as good"


def test_a_sample_bounded_for_each_class() -> None:
    for n, sizes in ((1000, (5, 40, 700)), (30, (5, 40, 700)), (600, (300, 300, 300)), (1, (1, 2))):
        group = np.repeat(np.arange(len(sizes)), sizes)
        rows, log_density = np.random.default_rng(0).normal(size=(len(group), 2)), np.zeros((len(group), len(sizes)))
        references, again, other = (
            trust.choose_references(rows, group, [log_density], Parameters(references=n, seed=seed))
            for seed in (0, 0, 1)
        )
        most = max(trust.LEAST_OF_CLASS, -(-n // len(sizes)))
        assert np.bincount(references.group).tolist() == [min(size, most) for size in sizes]
        assert len(np.unique(references.rows, axis=0)) == len(references.rows), "none twice"
        np.testing.assert_array_equal(references.rows, again.rows)
        assert len(sizes) < 3 or not np.array_equal(references.rows, other.rows)


def test_half_are_of_the_least_usual_twentieth_and_weighted_they_stand_for_their_class() -> None:
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(2), [4000, 90])
    log_density = rng.normal(size=(4090, 2))
    references = trust.choose_references(log_density, group, [log_density], Parameters(references=400))
    weight, own = references.weight, references.group == 0
    assert (weight[~own] == 1.0).all(), "all of a class that is small"
    least = references.rows[own, 0] <= np.sort(log_density[:4000, 0])[199]
    assert least.sum() == 100
    np.testing.assert_allclose(weight[own], np.where(least, 0.1, 1.9))
    np.testing.assert_allclose(references.distinct(3), [200**2 / (100 * 0.1**2 + 100 * 1.9**2), 90, 0])
    error = np.average(references.rows[own], axis=0, weights=weight[own]) - log_density[:4000].mean(axis=0)
    assert np.abs(error).max() < 3.0 / np.sqrt(200)
    for start in range(0, len(own), 29):
        stretch = np.arange(start, start + 58) % len(own)
        assert abs(weight[stretch][own[stretch]].sum() - own[stretch].sum()) < 4.0
    few = trust.choose_references(log_density, group, [log_density], Parameters(references=8000))
    assert few.weight is None


def test_ranks_are_quantiles_of_the_densities_of_unseen_instances() -> None:
    X, group = problem(20)
    _, training, _ = trained_on(X, group)
    known = summarize(training, SMALL.epsilon)[0]
    log_density = np.random.default_rng(0).normal(size=(60, 3))
    log_density[5, 0] = -np.inf
    ranks = unseen_densities.with_ranks(known, group, log_density).ranks
    np.testing.assert_array_equal(ranks[0], known.ranks[0], "where one says nothing they stay")
    np.testing.assert_allclose(ranks[1], np.quantile(log_density[20:40, 1], np.linspace(0, 1, N_RANKS)))


@pytest.mark.parametrize("n_classes", [1, 3])
def test_a_single_instance_of_each_class_is_enough_to_run(n_classes: int) -> None:
    X = 50.0 * np.eye(3)[:n_classes]
    model = learnt(X, np.arange(n_classes))
    model.learn_many(X[np.arange(300) % n_classes])
    assert len(list(model.drain())) == 256
    assert model.expected_recall is None


def test_a_promise_takes_as_many_references_as_it_needs_and_is_refused_without() -> None:
    assert [trust.least_references(share) for share in (0.5, 0.2, 0.1, 0.01)] == [1, 4, 9, 99]
    X, group = problem(120)
    references = learnt(X, group, references=10, max_false_unknown=0.01).trained.references
    assert np.bincount(references.group).tolist() == [99, 99, 99]
    with pytest.raises(InvalidParameter, match=r"class 'c0' has 50 reference instances, where 99 are needed"):
        learnt(*problem(50), max_false_unknown=0.01)
    with pytest.raises(InvalidParameter, match="0 reference instances"):
        learnt(X, group, references=0, max_false_unknown=0.1)
